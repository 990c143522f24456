//! The clock of the server is set back and forward: functions in the schema of the tables take the place of the functions of
//! PostgreSQL, because the schema is the first one in the search path of a session.

use std::time::Duration;

use bandog_core::{Answer, Claim, Key, Kind, Leases, Records, Step, Swap, Swapped, Verdict, Version};
use bandog_sql::Sql;
use bandog_sync::Client;
use bandog_testkit::eventually_async;

use super::SERVER;
use crate::suite::{SOON, claim, full, open, take, try_take};

const HOUR: Duration = Duration::from_secs(3600);
/// Short enough that a test sees many renewals.
const SHORT: Duration = Duration::from_secs(3);

/// A database whose time can be changed.
struct Clock {
    database: String,
}

impl Clock {
    async fn new() -> Self {
        let database = SERVER.new_database();
        full::create(&SERVER.url(&database)).await;
        SERVER.sql(
            &database,
            "create table public.clock (shift interval not null, fixed timestamptz);
             insert into public.clock values ('0', null);
             grant select on public.clock to locks;
             create function bandog.clock_timestamp() returns timestamptz language sql volatile as
                 'select coalesce(fixed, pg_catalog.clock_timestamp() + shift) from public.clock';
             create function bandog.now() returns timestamptz language sql stable as
                 'select coalesce(fixed, pg_catalog.now() + shift) from public.clock'",
        );
        Self { database }
    }

    fn store(&self) -> Sql {
        open(&SERVER.url(&self.database))
    }

    fn client(&self) -> Client {
        Client::options().watchdog(SHORT).over(self.store()).unwrap()
    }

    /// Changes the time from now on.
    fn set(&self, change: &str) {
        self.sql(&format!("update public.clock set {change}"));
    }

    fn sql(&self, statement: &str) -> String {
        SERVER.sql(&self.database, statement)
    }

    /// Waits until the lease of the lock `k` has this property.
    async fn expect_lease(&self, property: &str) {
        let query = format!("select {property} from bandog.bandog_lease where name = 'k'");
        eventually_async(SOON, async || self.sql(&query) == "t").await;
    }
}

/// Writes a record, and returns its new version.
async fn write(store: &Sql, from: Option<Version>) -> Version {
    let swap = Swap::new(Key::new("record").unwrap(), from, "text");
    match store.swap(&[swap]).await.unwrap().each.remove(0) {
        Ok(Swapped::Done(Some(version))) => version,
        other => panic!("{other:?}"),
    }
}

// Promise: PG32
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_ends_no_hold_and_grants_no_lock_twice() {
    let clock = Clock::new().await;
    let (client, other, waiter, store) = (clock.client(), clock.client(), clock.client(), clock.store());
    let guard = client.mutex("k").lock().await.unwrap();
    let first = write(&store, None).await;
    let waiting = tokio::spawn(async move { waiter.mutex("k").lock().await });
    clock.expect_lease("wanted").await;

    let end = clock.sql("select expires from bandog.bandog_lease where name = 'k'");
    clock.set("shift = '-1 hour'");
    // Several renewals read the new time. None of them shortens the lease.
    tokio::time::sleep(SHORT * 2).await;
    clock.expect_lease(&format!("expires >= timestamptz '{end}'")).await;
    assert!(!guard.is_lost());
    assert!(!waiting.is_finished(), "the lock was granted twice");
    assert!(other.mutex("k").try_lock().await.unwrap().is_none(), "the lock was granted twice");
    assert!(write(&store, Some(first)).await > first);

    let fence = guard.fence();
    guard.release().await.unwrap();
    let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    next.release().await.unwrap();
}

/// The lease of a holder that does not renew it.
// Promise: PG32
#[tokio::test]
async fn the_lease_of_a_dead_holder_lasts_until_a_clock_that_was_set_back_reaches_its_end() {
    for kind in [Kind::Mutex, Kind::Fair, Kind::Write, Kind::Read] {
        let clock = Clock::new().await;
        let store = clock.store();
        let (ours, theirs) = (Claim { kind, ..claim("k") }, Claim { kind: exclusive(kind), ..claim("k") });
        let mut fences = take(&store, &ours).await;
        clock.set("shift = '-1 hour'");
        let Ok(Answer::Claimed(Verdict::Busy { retry_after, .. })) =
            store.apply(&[Step::Claim(theirs.clone())]).await.remove(0)
        else {
            panic!("{kind:?}: the lock was granted twice")
        };
        assert!(retry_after > HOUR || !matches!(kind, Kind::Mutex), "{kind:?}: {retry_after:?}");

        let end = clock.sql("select expires from bandog.bandog_lease where name = 'k'");
        clock.set(&format!("fixed = timestamptz '{end}' - interval '2 ms'"));
        assert!(try_take(&store, &theirs).await.unwrap().is_none(), "{kind:?}: the lease has expired early");
        clock.set(&format!("fixed = timestamptz '{end}' + interval '2 ms'"));
        let mut again = try_take(&store, &theirs).await.unwrap().expect("the lease has expired");
        assert!(again.take() > fences.take(), "{kind:?}");
    }
}

/// A kind whose holder excludes all holders of this kind.
fn exclusive(kind: Kind) -> Kind {
    if kind == Kind::Read { Kind::Write } else { kind }
}

/// That the lock is granted twice is documented. The fences order the two holders, and the first one is notified.
// Promise: PG33
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_forward_ends_a_hold_and_its_holder_notices() {
    let clock = Clock::new().await;
    let (client, other, store) = (clock.client(), clock.client(), clock.store());
    let guard = client.mutex("k").lock().await.unwrap();
    let first = write(&store, None).await;

    clock.set("shift = '1 hour'");
    let next = tokio::time::timeout(SOON, other.mutex("k").lock()).await.unwrap().unwrap();
    assert!(next.fence() > guard.fence(), "{} after {}", next.fence(), guard.fence());
    tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert!(guard.release().await.is_err());
    let second = write(&store, Some(first)).await;
    assert!(second > first);

    // The right time is now behind the fences and the versions.
    clock.set("shift = '0'");
    tokio::time::sleep(SHORT * 2).await;
    clock.expect_lease("expires > pg_catalog.now() + interval '50 minutes'").await;
    let fence = next.fence();
    next.release().await.unwrap();
    let last = client.mutex("k").lock().await.unwrap();
    assert!(last.fence() > fence, "{} after {fence}", last.fence());
    last.release().await.unwrap();
    assert!(write(&store, Some(second)).await > second);
}
