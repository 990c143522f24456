//! Holds that were written under another boot id, or with another wall clock.

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, Fences, Inspect, Key, Kind, Leases, Member, Released, Renewal, Step, Verdict,
};
use rusqlite::Connection;

use crate::{Sqlite, SqliteOptions, host::Host};

/// An hour in nanoseconds.
const HOUR: i64 = 3_600_000_000_000;
const TTL: Duration = Duration::from_millis(300);

/// A handle on a machine with this boot id. `shift` is added to the time of the boot clock, in nanoseconds.
fn machine(path: &Path, boot: &str, shift: i64) -> Sqlite {
    Sqlite::on(Host::other(boot, shift, SystemTime::now), SqliteOptions::at(path)).unwrap()
}

/// A claim of the lock `k` by a new client.
fn claim() -> Claim {
    let id = ClaimId { client: ClientId::random(), number: 1 };
    Claim::new(Key::new("k").unwrap(), id, Kind::Mutex, TTL)
}

async fn try_take(store: &Sqlite, claim: &Claim) -> Verdict {
    match store.apply(&[Step::Claim(claim.clone())]).await.remove(0).unwrap() {
        Answer::Claimed(verdict) => verdict,
        Answer::Released(_) => panic!("a release was answered"),
    }
}

/// Claims the lock once. None if the lock is held.
async fn take(store: &Sqlite, claim: &Claim) -> Option<Fences> {
    match try_take(store, claim).await {
        Verdict::Granted { fences, .. } => Some(fences),
        Verdict::Busy { .. } => None,
    }
}

/// Repeats a claim until it is granted.
async fn take_eventually(store: &Sqlite, claim: &Claim) -> Fences {
    let start = Instant::now();
    loop {
        if let Some(fences) = take(store, claim).await {
            return fences;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "never granted");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

// Promise: SQ4
#[tokio::test]
async fn a_hold_of_another_boot_is_held_for_one_ttl_after_its_first_sighting() {
    for shift in [-HOUR, 0, HOUR] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks.db");
        let old = take(&machine(&path, "before", shift), &claim()).await.unwrap().last();
        let after = machine(&path, "after", 0);
        let first_seen = Instant::now();
        assert_eq!(try_take(&after, &claim()).await, Verdict::Busy { retry_after: TTL, ahead: None });
        let new = take_eventually(&after, &claim()).await.last();
        assert!(
            first_seen.elapsed() >= TTL,
            "granted after {:?} with the clock moved by {shift}",
            first_seen.elapsed()
        );
        assert!(new > old);
        let left = "select count(*) from sighting";
        let left: u32 = Connection::open(&path).unwrap().query_row(left, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "the sighting of an expired hold was not deleted");
    }
}

// Promise: SQ4
#[tokio::test]
async fn a_process_completes_the_observation_that_another_process_of_its_boot_began() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locks.db");
    take(&machine(&path, "before", HOUR), &claim()).await.unwrap();
    let start = Instant::now();
    // Each attempt uses a new handle, like repeated runs of a command that does not wait for the lock.
    while take(&machine(&path, "after", 0), &claim()).await.is_none() {
        assert!(start.elapsed() < Duration::from_secs(20), "never granted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() >= TTL);
}

#[tokio::test]
async fn two_boots_can_observe_the_same_hold_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locks.db");
    take(&machine(&path, "before", HOUR), &claim()).await.unwrap();
    let (one, two, start) = (machine(&path, "one", 0), machine(&path, "two", -HOUR), Instant::now());
    let (a, b) = (claim(), claim());
    while take(&one, &a).await.is_none() && take(&two, &b).await.is_none() {
        assert!(start.elapsed() < Duration::from_secs(20), "never granted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() >= TTL);
}

#[tokio::test]
async fn a_renewal_by_another_boot_restarts_the_observation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locks.db");
    let (before, after, ours) = (machine(&path, "container", HOUR), machine(&path, "host", 0), claim());
    take(&before, &ours).await.unwrap();
    let start = Instant::now();
    while start.elapsed() < TTL * 3 {
        assert_eq!(
            before.renew(std::slice::from_ref(&ours)).await.remove(0).unwrap(),
            Renewal::Extended { valid_for: TTL }
        );
        assert!(take(&after, &claim()).await.is_none(), "the lock was granted although its hold is renewed");
        tokio::time::sleep(TTL / 10).await;
    }
    let renewed = Instant::now();
    before.renew(std::slice::from_ref(&ours)).await.remove(0).unwrap();
    take_eventually(&after, &claim()).await;
    assert!(renewed.elapsed() >= TTL);
    assert_eq!(before.renew(&[ours]).await.remove(0).unwrap(), Renewal::Gone);
}

#[tokio::test]
async fn a_release_by_another_boot_frees_the_lock_immediately() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locks.db");
    let (container, host, ours) = (machine(&path, "container", HOUR), machine(&path, "host", 0), claim());
    take(&container, &ours).await.unwrap();
    assert!(take(&host, &claim()).await.is_none());
    let freed = container.apply(&[Step::Release(ours)]).await.remove(0).unwrap();
    assert_eq!(freed, Answer::Released(Released::Freed { others: Some(0) }));
    assert!(take(&host, &claim()).await.is_some());
}

#[tokio::test]
async fn queries_show_holds_of_another_boot_and_write_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locks.db");
    let ours = claim();
    take(&machine(&path, "before", -HOUR), &ours).await.unwrap();
    let after = machine(&path, "after", 0);
    for _ in 0..2 {
        let row = after.show(&ours.key).await.unwrap();
        assert_eq!((row.owner(), row.holders[0].ttl), (Some(ours.id.to_string().as_str()), Some(TTL)));
    }
    assert_eq!(try_take(&after, &claim()).await, Verdict::Busy { retry_after: TTL, ahead: None });
}

// Promise: SQ5
#[tokio::test]
async fn a_wall_clock_that_jumps_frees_no_lock_and_lowers_no_fence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locks.db");
    let at = |wall| Sqlite::on(Host::other("same", 0, wall), SqliteOptions::at(&path)).unwrap();
    let future = at(|| SystemTime::now() + Duration::from_secs(1_000_000));
    let (now, past, ours) = (at(SystemTime::now), at(|| SystemTime::UNIX_EPOCH), claim());
    let mut last = take(&future, &ours).await.unwrap().last();
    for store in [&now, &past, &future] {
        assert!(take(store, &claim()).await.is_none(), "a jump of the wall clock freed the lock");
    }
    future.apply(&[Step::Release(ours)]).await;
    for store in [&now, &past, &future, &past] {
        let (ours, before) = (claim(), last);
        last = take(store, &ours).await.unwrap().last();
        assert!(last > before, "{last} after {before}");
        store.apply(&[Step::Release(ours)]).await;
    }
}

#[tokio::test]
async fn a_member_of_another_boot_expires_by_the_wall_clock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locks.db");
    let at = |boot, shift, wall| Sqlite::on(Host::other(boot, shift, wall), SqliteOptions::at(&path)).unwrap();
    let member = Member {
        id: ClientId::random(),
        host: "kennel".into(),
        pid: 7,
        program: "feeder".into(),
        since: SystemTime::UNIX_EPOCH,
        prefix: String::new(),
        waits: Vec::new(),
        blocked: bandog_core::BlockedCalls::default(),
    };
    let before = at("before", HOUR, SystemTime::now);
    before.register(&member, Duration::from_secs(60)).await.unwrap();
    let after = at("after", 0, SystemTime::now);
    assert_eq!(after.members().await.unwrap(), std::slice::from_ref(&member));
    let late = at("after", 0, || SystemTime::now() + Duration::from_secs(61));
    assert_eq!(late.members().await.unwrap(), []);
    let early = at("after", 0, || SystemTime::now() - Duration::from_secs(61));
    assert_eq!(early.members().await.unwrap(), [], "the member is still listed after the clock was set back");
    let same = at("before", HOUR, || SystemTime::now() + Duration::from_secs(61));
    assert_eq!(
        same.members().await.unwrap(),
        std::slice::from_ref(&member),
        "the wall clock changed the expiry of a member of the same boot"
    );
    let past = at("before", -HOUR, SystemTime::now);
    assert_eq!(past.members().await.unwrap(), [member], "the member is lost on a machine restored to an earlier state");
}
