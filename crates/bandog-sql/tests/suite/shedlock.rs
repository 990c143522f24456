//! The statements of ShedLock with the time of the database, written by hand, beside the mutexes of the layout `shedlock`.

use std::{sync::Arc, time::Duration};

use bandog_core::{Answer, ErrorKind, Inspect, Leases, Pattern, Released, Renewal, Row, Step, Verdict};
use bandog_sql::Sql;
use bandog_sync::Client;
use bandog_testkit::SqlServer;
use tokio::task::spawn_blocking;

use super::{Database, Place, claim, open, release, renew, take, try_take};

/// The statements of ShedLock in a database.
pub(crate) struct Words {
    /// The types that the times of the table usually have.
    pub(crate) times: &'static [&'static str],
    /// The present time, as ShedLock's statements have it.
    pub(crate) now: &'static str,
    /// The same plus 30 seconds.
    pub(crate) later: &'static str,
    /// The clauses after a statement, with which it returns 1 if it has changed a row.
    pub(crate) changed: &'static str,
    /// The words with which an insertion leaves a row that exists as it is: before and after.
    pub(crate) ignore: [&'static str; 2],
}

/// The other side: a client of the database that executes ShedLock's statements.
#[derive(Clone)]
pub(crate) struct ShedLock<D: Database> {
    pub(crate) place: Arc<Place<'static, D>>,
    pub(crate) url: String,
}

impl<D: Database> ShedLock<D> {
    /// A database with the table, whose times have this type.
    pub(crate) fn new(times: &str) -> Self {
        Self::on(D::shared(), times)
    }

    /// The same on another server.
    pub(crate) fn on(server: &'static SqlServer<D>, times: &str) -> Self {
        let place = Place::on(server);
        server.sql(&place.database, &D::shedlock_table(times));
        Self { url: format!("{}?layout=shedlock", place.url()), place: Arc::new(place) }
    }

    pub(crate) fn store(&self) -> Sql {
        open(&self.url)
    }

    pub(crate) fn run(&self, statements: &str) -> String {
        self.place.server.sql(&self.place.database, statements)
    }

    fn changes(&self, statement: &str) -> bool {
        self.run(&format!("{statement}{}", D::SHEDLOCK.changed)).lines().next() == Some("1")
    }

    /// The first lock of a name in a Java process: an insertion, and then an update.
    pub(crate) fn take(&self, name: &str, by: &str) -> bool {
        let Words { now, later, ignore: [before, after], .. } = D::SHEDLOCK;
        let columns = "shedlock (name, lock_until, locked_at, locked_by)";
        let values = format!("'{name}', {later}, {now}, '{by}'");
        self.changes(&format!("insert {before} into {columns} values ({values}) {after}")) || self.take_again(name, by)
    }

    /// Each later lock of a name.
    pub(crate) fn take_again(&self, name: &str, by: &str) -> bool {
        let Words { now, later, .. } = D::SHEDLOCK;
        let set = format!("lock_until = {later}, locked_at = {now}, locked_by = '{by}'");
        self.changes(&format!("update shedlock set {set} where name = '{name}' and lock_until <= {now}"))
    }

    pub(crate) fn extend(&self, name: &str, by: &str) -> bool {
        let Words { now, later, .. } = D::SHEDLOCK;
        let held = format!("name = '{name}' and locked_by = '{by}' and lock_until > {now}");
        self.changes(&format!("update shedlock set lock_until = {later} where {held}"))
    }

    pub(crate) fn unlock(&self, name: &str, by: &str) -> bool {
        let now = D::SHEDLOCK.now;
        self.changes(&format!("update shedlock set lock_until = {now} where name = '{name}' and locked_by = '{by}'"))
    }
}

pub(crate) async fn shedlock_and_ours_exclude_each_other<D: Database>() {
    for times in D::SHEDLOCK.times {
        both_sides_exclude_each_other(&ShedLock::<D>::new(times)).await;
    }
}

pub(crate) async fn operators_see_and_evict_holds_of_shedlock<D: Database>() {
    operators_see_both_sides(&ShedLock::<D>::new(D::SHEDLOCK.times[0])).await;
}

pub(crate) async fn a_row_of_shedlock_that_another_transaction_locks_delays_no_other_lock<D: Database>() {
    let java = ShedLock::<D>::new(D::SHEDLOCK.times[0]);
    let (store, stuck, free) = (java.store(), claim("stuck"), claim("free"));
    take(&store, &stuck).await;
    release(&store, &stuck).await;
    let mut hand = java.place.hand().await;
    hand.execute("begin; select name from shedlock where name = 'stuck' for update").await;
    let answers = store.apply(&[Step::Claim(stuck.clone()), Step::Claim(free.clone())]).await;
    let is_granted: Vec<_> =
        answers.into_iter().map(|answer| matches!(answer.unwrap(), Answer::Claimed(Verdict::Granted { .. }))).collect();
    assert_eq!(is_granted, [false, true]);
    hand.execute("rollback").await;
    take(&store, &stuck).await;
}

/// Neither side takes, releases or extends a hold of the other side.
pub(crate) async fn both_sides_exclude_each_other<D: Database>(java: &ShedLock<D>) {
    let (store, ours) = (java.store(), claim("job"));
    let mut fences = Vec::new();
    for round in 0..2 {
        // Theirs first.
        assert!(java.take("job", "vm"), "round {round}");
        assert!(try_take(&store, &ours).await.unwrap().is_none());
        assert_eq!(renew(&store, &ours).await.unwrap(), Renewal::Gone);
        release(&store, &ours).await;
        assert!(java.extend("job", "vm"), "a refused claim has freed the lock");
        assert!(java.unlock("job", "vm"));
        // Ours.
        fences.push(take(&store, &ours).await.take().unwrap());
        let holder = java.run("select locked_by from shedlock where name = 'job'");
        assert_eq!(holder, ours.id.to_string());
        assert!(!java.take("job", "vm") && !java.take_again("job", "vm") && !java.extend("job", "vm"));
        assert!(!java.unlock("job", "vm"));
        let granted = java.run("select locked_at from shedlock");
        assert!(matches!(renew(&store, &ours).await.unwrap(), Renewal::Extended { .. }));
        assert_eq!(java.run("select locked_at from shedlock"), granted, "a renewal has changed locked_at");
        // The number of Java clients that wait is not known.
        assert_eq!(release(&store, &ours).await, Answer::Released(Released::Freed { others: None }));
        assert!(java.take_again("job", "vm"), "the row was deleted, or is not free after a release");
        assert!(java.unlock("job", "vm"));
        assert_eq!(java.run("select count(*) from shedlock"), "1");
    }
    assert!(fences[1] > fences[0]);
    // A name that only we have used.
    let new = claim("new");
    take(&store, &new).await;
    assert!(!java.take("new", "vm"));
    release(&store, &new).await;
    assert!(java.take("new", "vm"));
}

/// A release or a renewal of a claim whose answer was lost can be the first request for a name. Only one of the two tables
/// has a row then.
pub(crate) async fn a_release_as_the_first_call_for_a_lock_of_shedlock_is_answered<D: Database>() {
    let java = ShedLock::<D>::new(D::SHEDLOCK.times[0]);
    let (store, theirs, deleted) = (java.store(), claim("theirs"), claim("deleted"));
    take(&store, &deleted).await;
    java.run("delete from shedlock where name = 'deleted'");
    assert!(java.take("theirs", "vm"));
    for ours in [theirs, deleted] {
        let answer = store.apply(&[Step::Release(ours.clone())]).await.remove(0).unwrap();
        assert_eq!(answer, Answer::Released(Released::NotHeld), "{}", ours.key);
        assert_eq!(renew(&store, &ours).await.unwrap(), Renewal::Gone, "{}", ours.key);
    }
    assert!(java.extend("theirs", "vm"), "the release has ended a hold of ShedLock");
}

/// Operators see and evict the holds of both sides.
pub(crate) async fn operators_see_both_sides<D: Database>(java: &ShedLock<D>) {
    let (store, ours) = (java.store(), claim("ours"));
    take(&store, &ours).await;
    assert!(java.take("theirs", "vm"));
    let mut rows = store.list(&Pattern::all()).await.unwrap();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    let owners: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.owner().unwrap())).collect();
    assert_eq!(owners, [("ours", ours.id.to_string().as_str()), ("theirs", "vm")]);
    let theirs = claim("theirs").key;
    let row = store.show(&theirs).await.unwrap();
    assert_eq!((row.owner(), row.fence()), (Some("vm"), None));
    assert!(row.holder().unwrap().ttl.unwrap() > Duration::from_secs(20));
    let evicted = store.evict(&theirs).await.unwrap().unwrap();
    assert_eq!(evicted.owner(), Some("vm"));
    assert!(!java.extend("theirs", "vm"));
    assert_eq!(store.show(&theirs).await.unwrap(), Row::free(&theirs));
    assert_eq!(store.evict(&claim("unknown").key).await.unwrap(), None);
    assert_eq!(java.run("select count(*) from shedlock where name = 'unknown'"), "0", "an eviction has made a row");
    // The row stays, because Java processes remember that it exists.
    assert!(store.forget(&theirs).await.unwrap());
    assert!(java.take_again("theirs", "vm"));
    assert!(!store.forget(&theirs).await.unwrap());
}

/// Names that the column cannot have are refused, and never cut.
pub(crate) async fn names_that_are_too_long_for_shedlock_are_refused<D: Database>() {
    let java = ShedLock::<D>::new(D::SHEDLOCK.times[0]);
    let store = java.store();
    let fits = "x".repeat(64);
    take(&store, &claim(&fits)).await;
    let error = try_take(&store, &claim(&format!("{fits}y"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert!(error.to_string().contains("64"), "{error}");
    assert!(!store.show(&claim(&format!("{fits}y")).key).await.unwrap().is_held());
    assert_eq!(java.run("select count(*) from shedlock"), "1");
}

/// Both sides increase a counter under the lock, in two steps.
pub(crate) async fn a_counter_under_a_contended_lock_of_shedlock_is_exact<D: Database>() {
    const ROUNDS: u32 = 5;
    let java = ShedLock::<D>::new(D::SHEDLOCK.times[0]);
    java.run("create table counter (n int not null); insert into counter values (0)");
    let increase = |java: &ShedLock<D>| {
        let n: u32 = java.run("select n from counter").parse().unwrap();
        java.run(&format!("update counter set n = {}", n + 1));
    };
    let mut tasks = Vec::new();
    for number in 0..2 {
        let theirs = java.clone();
        tasks.push(spawn_blocking(move || {
            let by = format!("vm{number}");
            for _ in 0..ROUNDS {
                while !theirs.take("counter", &by) {}
                increase(&theirs);
                assert!(theirs.unlock("counter", &by));
            }
        }));
        let java = java.clone();
        tasks.push(tokio::spawn(async move {
            let client = Client::options().over(java.store()).unwrap();
            for _ in 0..ROUNDS {
                let guard = client.mutex("counter").lock().await.unwrap();
                let java = java.clone();
                spawn_blocking(move || increase(&java)).await.unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(java.run("select n from counter"), (4 * ROUNDS).to_string());
}
