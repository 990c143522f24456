//! Helper functions of the tests with every database: claims.

pub(crate) mod connections;
pub(crate) mod full;
pub(crate) mod held;
pub(crate) mod polls;
pub(crate) mod queues;
pub(crate) mod shedlock;
pub(crate) mod tables;
pub(crate) mod terminal;

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, Fences, Key, Kind, Leases, Pattern, Records, Renewal, Result, Step, Swap,
    Swapped, Verdict,
};
use bandog_sql::{Sql, SqlOptions};

pub(crate) const TTL: Duration = Duration::from_secs(60);
/// Timeout for expected events. A test reaches it only if it fails.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A backend. Its timeout is long, because the machine might be busy with other tests.
pub(crate) fn open(url: &str) -> Sql {
    Sql::new(SqlOptions::from_url(url).unwrap().timeout(Duration::from_secs(10))).unwrap()
}

/// A claim by a new client.
pub(crate) fn claim(key: &str) -> Claim {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let id = ClaimId { client: ClientId::random(), number: NUMBER.fetch_add(1, Ordering::Relaxed) };
    let (key, fences) = (Key::new(key).unwrap(), NonZeroU32::new(4).unwrap());
    Claim { fences, ..Claim::new(key, id, Kind::Mutex, TTL) }
}

/// Claims. Returns the fences if the claim was granted.
pub(crate) async fn try_take(store: &Sql, claim: &Claim) -> Result<Option<Fences>> {
    match store.apply(&[Step::Claim(claim.clone())]).await.remove(0)? {
        Answer::Claimed(Verdict::Granted { fences, .. }) => Ok(Some(fences)),
        Answer::Claimed(Verdict::Busy { .. }) => Ok(None),
        Answer::Released(_) => panic!("a release was answered"),
    }
}

/// Claims a free lock.
pub(crate) async fn take(store: &Sql, claim: &Claim) -> Fences {
    try_take(store, claim).await.unwrap().expect("the lock was not free")
}

pub(crate) async fn renew(store: &Sql, claim: &Claim) -> Result<Renewal> {
    store.renew(std::slice::from_ref(claim)).await.remove(0)
}

/// Releases until the release is answered.
pub(crate) async fn release(store: &Sql, claim: &Claim) -> Answer {
    let ask = async || store.apply(&[Step::Release(claim.clone())]).await.remove(0);
    bandog_testkit::eventually_async(SOON, ask).await
}

/// Checks the names of records that patterns find.
pub(crate) async fn expect_names_by_their_beginning(store: &Sql) {
    let (last, long) = (format!("a/{}", char::MAX), format!("a/{}", "x".repeat(1022)));
    let all = ["A/1", "a", "a*1", "a/", "a/1", "a/2", "a0", "b/1", &last, &long];
    for name in all {
        let swapped = store.swap(&[Swap::new(Key::new(name).unwrap(), None, "text")]).await.unwrap();
        assert!(swapped.each[0].is_ok(), "{swapped:?}");
    }
    for (pattern, expected) in [
        (Pattern::all(), &all[..]),
        (Pattern::new("a/*"), &["a/", "a/1", "a/2", &last, &long]),
        (Pattern::new("a/?"), &["a/1", "a/2", &last]),
        (Pattern::new("a\\*?"), &["a*1"]),
        (Pattern::new("*/1"), &["A/1", "a/1", "b/1"]),
    ] {
        let mut found = store.names(&pattern).await.unwrap();
        let mut expected: Vec<_> = expected.iter().map(|name| Key::new(name).unwrap()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{}", pattern.as_str());
    }
}

/// Swaps records of several calls at once, while a raw session has locked the rows of the records `stuck` and `stuck, too`.
/// `lock` locks the rows, and `unlock` ends the session's transaction.
pub(crate) async fn expect_swaps_beside_locked_rows<T>(
    store: &Sql,
    lock: impl AsyncFnOnce() -> T,
    unlock: impl AsyncFnOnce(T),
) {
    let keys: Vec<_> = ["a", "stuck", "b", "stuck, too", "c"].iter().map(|name| Key::new(*name).unwrap()).collect();
    let created: Vec<_> = keys.iter().map(|key| Swap::new(key.clone(), None, "old")).collect();
    let created = store.swap(&created).await.unwrap();
    let raw = lock().await;
    // No task runs before this one waits, so the calls are in the lane's queue together.
    let mut calls = Vec::new();
    for (key, created) in keys.iter().zip(created.each) {
        let Ok(Swapped::Done(version)) = created else { panic!("{created:?}") };
        let swaps = [Swap::new(key.clone(), version, "new"), Swap::new(key.clone(), version, "newer")];
        let store = store.clone();
        calls.push(tokio::spawn(async move { store.swap(&swaps).await }));
    }
    let stuck = [calls.remove(3), calls.remove(1)];
    let check = |swaps: Result<bandog_core::Swaps>| {
        let each = swaps.unwrap().each;
        assert!(matches!(each[..], [Ok(Swapped::Done(Some(_))), Ok(Swapped::Differs(Some(_)))]), "{each:?}");
    };
    for call in calls {
        check(tokio::time::timeout(SOON, call).await.expect("a call waits for the row of another one").unwrap());
    }
    assert!(stuck.iter().all(|call| !call.is_finished()));
    unlock(raw).await;
    for call in stuck {
        check(tokio::time::timeout(SOON, call).await.unwrap().unwrap());
    }
    let reading = store.read(&keys, &[]).await.unwrap();
    for record in reading.records {
        assert_eq!(&*record.unwrap().unwrap().value, "new");
    }
}
