//! Bad days: connections that end, a server that is killed, rows that others lock, and tables of other versions.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Answer, ErrorKind, Inspect, Key, Leases, Notifier, Records, Released, Renewal, Step, Swap, Swapped};
use bandog_sync::Client;
use bandog_testkit::{MariaDbServer, eventually_async};
use mysql_async::prelude::Queryable;
use tokio::sync::Notify;

use crate::claims::expect_swaps_beside_locked_rows;
use crate::support::{SERVER, SOON, TTL, claim, lock_waits, open, release, renew, take, try_take, url};

// Promise: MY3
#[tokio::test]
async fn holds_survive_the_end_of_all_connections() {
    let database = SERVER.new_database();
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    let mut fences = take(&store, &ours).await;
    // Only a connection that is opened again raises the epoch, so the one for renewals must be open.
    renew(&store, &ours).await.unwrap();
    let first_epoch = *store.profile().epoch.borrow();
    SERVER.end_sessions(&database);
    let renewed = eventually_async(SOON, async || renew(&store, &ours).await).await;
    assert_eq!(renewed, Renewal::Extended { valid_for: TTL });
    eventually_async(SOON, async || *store.profile().epoch.borrow() > first_epoch).await;
    assert_eq!(release(&store, &ours).await, Answer::Released(Released::Freed { others: Some(0) }));
    let mut next = take(&store, &claim("k")).await;
    assert!(next.take() > fences.take());
}

// Promise: MY3
#[tokio::test]
async fn a_waiter_is_served_after_the_end_of_all_connections() {
    let database = SERVER.new_database();
    let over = || Client::options().over(open(&url(&SERVER, &database))).unwrap();
    let (holder, waiter) = (over(), over());
    let guard = holder.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(async move { waiter.mutex("k").lock().await });
    let key = Key::new("k").unwrap();
    let observer = open(&url(&SERVER, &database));
    let wanted = "select count(*) from bandog_lease where wanted";
    eventually_async(SOON, async || SERVER.sql(&database, wanted) == "1").await;
    SERVER.end_sessions(&database);
    assert!(eventually_async(SOON, async || observer.show(&key).await).await.is_held());
    guard.release().await.unwrap();
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

// Promise: MY4, RS6
#[tokio::test]
async fn holds_survive_a_server_that_is_killed() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    let (store, ours) = (open(&url(&server, &database)), claim("k"));
    let mut fences = take(&store, &ours).await;
    let record = Swap::new(ours.key.clone(), None, "text");
    assert!(matches!(store.swap(&[record]).await.unwrap().each[0], Ok(Swapped::Done(_))));
    server.kill();
    let refused = renew(&store, &ours).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    server.restart();
    let renewed = eventually_async(SOON, async || renew(&store, &ours).await).await;
    assert_eq!(renewed, Renewal::Extended { valid_for: TTL });
    let theirs = claim("k");
    let busy = eventually_async(SOON, async || try_take(&store, &theirs).await).await;
    assert!(busy.is_none(), "the lock was granted twice");
    let reading = eventually_async(SOON, async || store.read(std::slice::from_ref(&ours.key), &[]).await).await;
    assert_eq!(reading.records[0].clone().unwrap().unwrap().value, "text");
    release(&store, &ours).await;
    assert!(take(&store, &theirs).await.take() > fences.take());
}

// Promise: MY8
#[tokio::test]
async fn a_row_that_another_transaction_locks_delays_no_other_lock() {
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    let (stuck, free) = (claim("stuck"), claim("free"));
    take(&store, &stuck).await;
    release(&store, &stuck).await;
    let mut raw = raw(&database).await;
    raw.query_drop("start transaction; select * from bandog_lease where name = 'stuck' for update").await.unwrap();
    let steps = [Step::Claim(stuck.clone()), Step::Claim(free.clone())];
    let answers: Vec<_> = store.apply(&steps).await.into_iter().map(Result::unwrap).collect();
    let is_granted = |answer: &Answer| matches!(answer, Answer::Claimed(bandog_core::Verdict::Granted { .. }));
    assert!(!is_granted(&answers[0]) && is_granted(&answers[1]), "{answers:?}");
    release(&store, &free).await;
    let reader = |name| bandog_core::Claim { kind: bandog_core::Kind::Read, ..claim(name) };
    assert!(try_take(&store, &reader("stuck")).await.unwrap().is_none());
    take(&store, &reader("free")).await;
    raw.query_drop("rollback").await.unwrap();
    take(&store, &stuck).await;
}

/// A transaction of a user that checks a lock keeps the row of its fence.
#[tokio::test]
async fn a_transaction_that_checks_a_lock_delays_no_other_claim_of_a_batch() {
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    let claims: Vec<_> = (0..20).map(|number| claim(&format!("name {number}"))).collect();
    let batch = |step: fn(bandog_core::Claim) -> Step| claims.iter().cloned().map(step).collect::<Vec<_>>();
    let fences = async || {
        let answers = store.apply(&batch(Step::Claim)).await.into_iter().map(Result::unwrap);
        let fence = |answer| match answer {
            Answer::Claimed(bandog_core::Verdict::Granted { fences, .. }) => Some(fences.last()),
            Answer::Claimed(bandog_core::Verdict::Busy { .. }) | Answer::Released(_) => None,
        };
        answers.map(fence).collect::<Vec<_>>()
    };
    let first = fences().await;
    let freed = |answer: &bandog_core::Result<Answer>| {
        matches!(answer, Ok(Answer::Released(Released::Freed { others: Some(0) })))
    };
    assert!(store.apply(&batch(Step::Release)).await.iter().all(freed));
    let mut raw = raw(&database).await;
    let check = "start transaction; select * from bandog_fence where name = 'name 7' lock in share mode";
    raw.query_drop(check).await.unwrap();
    let second = fences().await;
    for (number, (first, second)) in first.iter().zip(&second).enumerate() {
        assert!(first.is_some(), "name {number} was not granted at first");
        assert_eq!(second.is_none(), number == 7, "name {number}");
        assert!(second.is_none() || second > first, "the fence of name {number} does not rise");
    }
    raw.query_drop("rollback").await.unwrap();
    assert!(take(&store, &claims[7]).await.last() > first[7].unwrap());
    assert!(store.apply(&batch(Step::Release)).await.iter().all(freed));
}

/// A statement of MariaDB has 64 names at most, and one ttl.
#[tokio::test]
async fn a_call_can_have_more_claims_than_a_statement() {
    let store = open(&url(&SERVER, &SERVER.new_database()));
    let ttl = |number: u32| TTL + Duration::from_secs(u64::from(number % 2));
    let new = |number| bandog_core::Claim { ttl: ttl(number), ..claim(&format!("name {number}")) };
    let claims: Vec<_> = (0..150).map(new).collect();
    for _ in 0..2 {
        let steps: Vec<_> = claims.iter().cloned().map(Step::Claim).collect();
        for (claim, answer) in claims.iter().zip(store.apply(&steps).await) {
            let Answer::Claimed(bandog_core::Verdict::Granted { valid_for, .. }) = answer.unwrap() else {
                panic!("{} is busy", claim.key);
            };
            assert_eq!(valid_for, claim.ttl);
        }
        let steps: Vec<_> = claims.iter().cloned().map(Step::Release).collect();
        for (claim, answer) in claims.iter().zip(store.apply(&steps).await) {
            assert_eq!(answer.unwrap(), Answer::Released(Released::Freed { others: Some(0) }), "{}", claim.key);
        }
    }
}

/// Two statements for releases, and one for claims that is refused after a half of its work.
#[tokio::test]
async fn a_claim_that_is_refused_undoes_no_release_of_its_call_and_leaves_nothing() {
    // With 65 releases, the last one is a statement of one name.
    for count in [65, 70] {
        let database = SERVER.new_database();
        let store = open(&url(&SERVER, &database));
        let held: Vec<_> = (0..count).map(|number| claim(&format!("held {number}"))).collect();
        for held in &held {
            take(&store, held).await;
        }
        let (checked, free) = (claim("checked"), claim("free"));
        let mut fences = Vec::new();
        for claim in [&checked, &free] {
            fences.push(take(&store, claim).await.last());
            release(&store, claim).await;
        }
        let mut raw = raw(&database).await;
        let check = "start transaction; select * from bandog_fence where name = 'checked' lock in share mode";
        raw.query_drop(check).await.unwrap();
        let (checked, free) = (claim("checked"), claim("free"));
        let releases = held.iter().cloned().map(Step::Release);
        let steps: Vec<_> = releases.chain([Step::Claim(checked.clone()), Step::Claim(free.clone())]).collect();
        let answers: Vec<_> = store.apply(&steps).await.into_iter().map(Result::unwrap).collect();
        let (claimed, released) =
            answers.split_last_chunk::<2>().map(|(released, claimed)| (claimed, released)).unwrap();
        assert!(released.iter().all(|answer| *answer == Answer::Released(Released::Freed { others: Some(0) })));
        let Answer::Claimed(bandog_core::Verdict::Granted { fences: granted, .. }) = &claimed[1] else {
            panic!("{claimed:?}");
        };
        assert!(granted.last() > fences[1], "the fence does not rise");
        assert!(matches!(claimed[0], Answer::Claimed(bandog_core::Verdict::Busy { .. })), "{claimed:?}");
        raw.query_drop("rollback").await.unwrap();
        for held in &held {
            take(&store, &claim(held.key.as_str())).await;
        }
        assert!(take(&store, &claim("checked")).await.last() > fences[0], "the fence does not rise");
    }
}

/// A connection to a database, for statements by hand.
async fn raw(database: &str) -> mysql_async::Conn {
    let opts = mysql_async::OptsBuilder::default();
    let opts = opts.ip_or_hostname("127.0.0.1").tcp_port(SERVER.port()).user(Some("locks")).pass(Some("PASSWORD"));
    mysql_async::Conn::new(opts.db_name(Some(database))).await.unwrap()
}

/// The answers for the other locks are there, although the row of one lock stays locked.
// Promise: MY8
#[tokio::test]
async fn a_row_that_stays_locked_delays_no_other_renewal_or_release() {
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    let (stuck, free) = (claim("stuck"), claim("free"));
    take(&store, &stuck).await;
    take(&store, &free).await;
    let mut raw = raw(&database).await;
    raw.query_drop("start transaction; select * from bandog_lease where name = 'stuck' for update").await.unwrap();
    let is_locked = |error: &bandog_core::Error| {
        let words = error.to_string().contains("has locked the row");
        words && error.kind() == ErrorKind::Unavailable && !error.maybe_applied()
    };
    let renewed = store.renew(&[stuck.clone(), free.clone()]).await;
    assert_eq!(renewed[1].clone().unwrap(), Renewal::Extended { valid_for: TTL });
    assert!(is_locked(renewed[0].as_ref().unwrap_err()), "{renewed:?}");
    let released = store.apply(&[Step::Release(stuck.clone()), Step::Release(free.clone())]).await;
    assert_eq!(released[1].clone().unwrap(), Answer::Released(Released::Freed { others: Some(0) }));
    assert!(is_locked(released[0].as_ref().unwrap_err()), "{released:?}");
    raw.query_drop("rollback").await.unwrap();
    assert_eq!(renew(&store, &stuck).await.unwrap(), Renewal::Extended { valid_for: TTL });
    release(&store, &stuck).await;
}

/// Swaps of several calls share a transaction, unless a row in it stays locked.
#[tokio::test]
async fn records_that_stay_locked_delay_no_swap_of_the_same_time() {
    let database = SERVER.new_database();
    let lock = async || {
        let mut raw = raw(&database).await;
        raw.query_drop("start transaction; select * from bandog_record where name like 'stuck%' for update")
            .await
            .unwrap();
        raw
    };
    let unlock = async |mut raw: mysql_async::Conn| raw.query_drop("rollback").await.unwrap();
    expect_swaps_beside_locked_rows(&open(&url(&SERVER, &database)), lock, unlock).await;
}

/// Subscribers, records and the registry share a connection. None of them waits for a row of a lease.
// Promise: MY8
#[tokio::test]
async fn a_waiter_for_a_row_that_stays_locked_delays_no_record() {
    let database = SERVER.new_database();
    let (store, stuck) = (open(&url(&SERVER, &database)), claim("stuck"));
    take(&store, &stuck).await;
    release(&store, &stuck).await;
    // The connection is there.
    store.swap(&[Swap::new(Key::new("first").unwrap(), None, "text")]).await.unwrap();
    let mut raw = raw(&database).await;
    raw.query_drop("start transaction; select * from bandog_lease where name = 'stuck' for update").await.unwrap();
    let client = Client::options().over(store.clone()).unwrap();
    let waiting = tokio::spawn(async move { client.mutex("stuck").lock().await });
    let start = Instant::now();
    let subscription = store.subscribe(&stuck, Notifier::new(|| {})).await.unwrap();
    for number in 0..5 {
        let swap = Swap::new(Key::new(format!("record {number}")).unwrap(), None, "text");
        let swapped = store.swap(&[swap]).await.unwrap().each.remove(0);
        assert!(matches!(swapped, Ok(Swapped::Done(_))), "{swapped:?}");
    }
    // A statement that waits for the row ends after the timeout of locks, which is a second, and is repeated.
    assert!(start.elapsed() < Duration::from_secs(1), "the records have waited for {:?}", start.elapsed());
    assert!(!waiting.is_finished());
    drop(subscription);
    raw.query_drop("rollback").await.unwrap();
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

// Promise: MY14
#[tokio::test]
async fn deadlocks_are_repeated_inside() {
    let database = SERVER.new_database();
    let mut raw = raw(&database).await;
    let store = open(&url(&SERVER, &database));
    let keys = ["one", "two"].map(|name| Key::new(name).unwrap());
    let created = store.swap(&keys.clone().map(|key| Swap::new(key, None, "old"))).await.unwrap();
    let versions = created.each.into_iter().map(|swapped| match swapped.unwrap() {
        Swapped::Done(version) => version,
        other => panic!("{other:?}"),
    });
    let swaps: Vec<_> = keys.into_iter().zip(versions).map(|(key, version)| Swap::new(key, version, "new")).collect();
    raw.query_drop("start transaction; select * from bandog_record where name = 'two' for update").await.unwrap();
    let swapping = tokio::spawn({
        let store = store.clone();
        async move { store.swap(&swaps).await }
    });
    eventually_async(SOON, async || !lock_waits(&database).is_empty()).await;
    // This closes the circle. The server ends the transaction of the store or this one.
    let ended = raw.query_drop("select * from bandog_record where name = 'one' for update").await;
    if ended.is_ok() {
        raw.query_drop("rollback").await.unwrap();
    }
    for swapped in swapping.await.unwrap().unwrap().each {
        assert!(matches!(swapped, Ok(Swapped::Done(_))), "{swapped:?}");
    }
}

// Promise: MY15
#[tokio::test]
async fn a_server_that_becomes_read_only_is_unavailable() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    let (store, ours) = (open(&url(&server, &database)), claim("k"));
    take(&store, &ours).await;
    server.sql("mysql", "set global read_only = 1");
    let refused =
        |error: &bandog_core::Error| error.kind() == ErrorKind::Unavailable && error.to_string().contains("read-only");
    let error = renew(&store, &ours).await.unwrap_err();
    assert!(refused(&error), "{error}");
    let error = open(&url(&server, &database)).ping().await.unwrap_err();
    assert!(refused(&error), "{error}");
    server.sql("mysql", "set global read_only = 0");
    let renewed = eventually_async(SOON, async || renew(&store, &ours).await).await;
    assert_eq!(renewed, Renewal::Extended { valid_for: TTL });
}

// Promise: MY10
#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let database = SERVER.new_database();
    take(&open(&url(&SERVER, &database)), &claim("k")).await;
    SERVER.sql(&database, "update bandog_meta set value = '2' where name = 'version'");
    let error = try_take(&open(&url(&SERVER, &database)), &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
}

// Promise: MY5
#[tokio::test]
async fn tables_that_were_dropped_are_created_again() {
    let database = SERVER.new_database();
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    take(&store, &ours).await;
    SERVER.sql(&database, "drop table bandog_lease, bandog_fence, bandog_meta");
    let other = claim("other");
    let granted = eventually_async(SOON, async || try_take(&store, &other).await).await;
    assert!(granted.is_some());
    assert_eq!(eventually_async(SOON, async || renew(&store, &ours).await).await, Renewal::Gone);
}

// Promise: MY1
#[tokio::test]
async fn a_subscriber_is_notified_by_another_process() {
    let database = SERVER.new_database();
    let (one, two) = (open(&url(&SERVER, &database)), open(&url(&SERVER, &database)));
    let (ours, theirs) = (claim("k"), claim("k"));
    take(&one, &ours).await;
    let woken = Arc::new(Notify::new());
    let notifier = Notifier::new({
        let woken = woken.clone();
        move || woken.notify_one()
    });
    let subscription = two.subscribe(&theirs, notifier).await.unwrap();
    release(&one, &ours).await;
    tokio::time::timeout(SOON, woken.notified()).await.unwrap();
    drop(subscription);
}
