//! Bad days: connections that end, a server that is killed, rows that others lock, and tables of other versions.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{
    Answer, Claim, ErrorKind, Inspect, Key, Kind, Leases, Notifier, Records, Released, Renewal, Step, Swap, Swapped,
    Verdict,
};
use bandog_sync::Client;
use bandog_testkit::{PostgresServer, eventually_async};
use tokio::sync::Notify;

use crate::claims::expect_swaps_beside_locked_rows;
use crate::support::{SERVER, SOON, TTL, claim, open, raw, release, renew, take, try_take, url};

// Promise: PG3
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

// Promise: PG3, PG7
#[tokio::test]
async fn a_waiter_is_served_after_the_end_of_all_connections() {
    let database = SERVER.new_database();
    let over = || Client::options().over(open(&url(&SERVER, &database))).unwrap();
    let (holder, waiter) = (over(), over());
    let guard = holder.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(async move { waiter.mutex("k").lock().await });
    let key = Key::new("k").unwrap();
    let observer = open(&url(&SERVER, &database));
    let wanted = "select count(*) from bandog.bandog_lease where wanted";
    eventually_async(SOON, async || SERVER.sql(&database, wanted) == "1").await;
    SERVER.end_sessions(&database);
    assert!(eventually_async(SOON, async || observer.show(&key).await).await.is_held());
    guard.release().await.unwrap();
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

// Promise: PG4, RS5
#[tokio::test]
async fn holds_survive_a_server_that_is_killed() {
    let server = PostgresServer::start();
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

// Promise: PG8
#[tokio::test]
async fn a_row_that_another_transaction_locks_delays_no_other_lock() {
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    let (stuck, free) = (claim("stuck"), claim("free"));
    take(&store, &stuck).await;
    release(&store, &stuck).await;
    let raw = raw(&SERVER, &database).await;
    raw.batch_execute("begin; select from bandog.bandog_lease where name = 'stuck' for update").await.unwrap();
    let steps = [Step::Claim(stuck.clone()), Step::Claim(free.clone())];
    let answers: Vec<_> = store.apply(&steps).await.into_iter().map(Result::unwrap).collect();
    let is_granted = |answer: &Answer| matches!(answer, Answer::Claimed(bandog_core::Verdict::Granted { .. }));
    assert!(!is_granted(&answers[0]) && is_granted(&answers[1]), "{answers:?}");
    release(&store, &free).await;
    let reader = |name| bandog_core::Claim { kind: bandog_core::Kind::Read, ..claim(name) };
    assert!(try_take(&store, &reader("stuck")).await.unwrap().is_none());
    take(&store, &reader("free")).await;
    raw.batch_execute("rollback").await.unwrap();
    take(&store, &stuck).await;
}

/// A step for the lock `k` is decided while another transaction changes the row, so its decision depends on that change.
// Promise: PG9
#[tokio::test]
async fn a_single_claim_or_release_does_not_overtake_a_transaction_that_grants_the_lock() {
    for is_held in [false, true] {
        let database = SERVER.new_database();
        let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
        take(&store, &ours).await;
        if !is_held {
            release(&store, &ours).await;
        }
        let raw = raw(&SERVER, &database).await;
        let theirs = claim("k").id;
        let grant = format!(
            "begin; update bandog.bandog_lease
            set owner = '{theirs}', expires = clock_timestamp() + interval '1 hour' where name = 'k'"
        );
        raw.batch_execute(&grant).await.unwrap();
        let steps = [if is_held { Step::Release(ours) } else { Step::Claim(ours) }];
        let is_waiting = async || {
            let waiting = "select from pg_locks where not granted and transactionid = pg_current_xact_id()::xid";
            (!raw.query(waiting, &[]).await.unwrap().is_empty()).then_some(())
        };
        let mut asking = std::pin::pin!(store.apply(&steps));
        // A step that does not skip the row waits for the other transaction, and then changes the row.
        let answered = tokio::select! {
            answers = &mut asking => Some(answers),
            () = eventually_async(SOON, is_waiting) => None,
        };
        raw.batch_execute("commit").await.unwrap();
        let answer = match answered {
            Some(mut answers) => answers.remove(0),
            None => asking.await.remove(0),
        };
        match answer {
            Ok(Answer::Claimed(Verdict::Busy { .. }) | Answer::Released(Released::NotHeld)) => {}
            Err(error) if is_held => assert!(!error.maybe_applied(), "{error}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(SERVER.sql(&database, "select owner from bandog.bandog_lease where name = 'k'"), theirs.to_string());
    }
}

/// The answers for the other locks are there, although the row of one lock stays locked.
// Promise: PG8
#[tokio::test]
async fn a_row_that_stays_locked_delays_no_other_renewal_or_release() {
    for kind in [Kind::Mutex, Kind::Fair] {
        let database = SERVER.new_database();
        let store = open(&url(&SERVER, &database));
        let [stuck, free] = ["stuck", "free"].map(|name| Claim { kind, ..claim(name) });
        take(&store, &stuck).await;
        take(&store, &free).await;
        let raw = raw(&SERVER, &database).await;
        raw.batch_execute("begin; select from bandog.bandog_lease where name = 'stuck' for update").await.unwrap();
        let is_locked = |error: &bandog_core::Error| {
            let words = error.to_string().contains("has locked the row");
            words && error.kind() == ErrorKind::Unavailable && !error.maybe_applied()
        };
        let renewed = store.renew(&[stuck.clone(), free.clone()]).await;
        assert_eq!(renewed[1].clone().unwrap(), Renewal::Extended { valid_for: TTL }, "{kind:?}");
        assert!(is_locked(renewed[0].as_ref().unwrap_err()), "{kind:?}: {renewed:?}");
        let released = store.apply(&[Step::Release(stuck.clone()), Step::Release(free.clone())]).await;
        assert_eq!(released[1].clone().unwrap(), Answer::Released(Released::Freed { others: Some(0) }), "{kind:?}");
        assert!(is_locked(released[0].as_ref().unwrap_err()), "{kind:?}: {released:?}");
        raw.batch_execute("rollback").await.unwrap();
        assert_eq!(renew(&store, &stuck).await.unwrap(), Renewal::Extended { valid_for: TTL }, "{kind:?}");
        assert_eq!(release(&store, &stuck).await, Answer::Released(Released::Freed { others: Some(0) }), "{kind:?}");
    }
}

/// Swaps of several calls share a transaction, unless a row in it stays locked.
#[tokio::test]
async fn records_that_stay_locked_delay_no_swap_of_the_same_time() {
    let database = SERVER.new_database();
    let lock = async || {
        let raw = raw(&SERVER, &database).await;
        raw.batch_execute("begin; select from bandog.bandog_record where name like 'stuck%' for update").await.unwrap();
        raw
    };
    let unlock = async |raw: tokio_postgres::Client| raw.batch_execute("rollback").await.unwrap();
    expect_swaps_beside_locked_rows(&open(&url(&SERVER, &database)), lock, unlock).await;
}

/// Subscribers, records and the registry share a connection. None of them waits for a row of a lease.
// Promise: PG8
#[tokio::test]
async fn a_waiter_for_a_row_that_stays_locked_delays_no_record() {
    let database = SERVER.new_database();
    let (store, stuck) = (open(&url(&SERVER, &database)), claim("stuck"));
    take(&store, &stuck).await;
    release(&store, &stuck).await;
    // The connection is there.
    store.swap(&[Swap::new(Key::new("first").unwrap(), None, "text")]).await.unwrap();
    let raw = raw(&SERVER, &database).await;
    raw.batch_execute("begin; select from bandog.bandog_lease where name = 'stuck' for update").await.unwrap();
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
    raw.batch_execute("rollback").await.unwrap();
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

/// A transaction of a user keeps the row of the fence, and the lease is held. Then a waiter need not poll for the end of
/// the transaction.
#[tokio::test]
async fn a_claim_of_a_held_lock_is_busy_for_its_lease_while_its_fence_is_kept() {
    for kind in [Kind::Mutex, Kind::Fair, Kind::Write] {
        let database = SERVER.new_database();
        let store = open(&url(&SERVER, &database));
        let [ours, theirs] = [claim("k"), claim("k")].map(|claim| Claim { kind, joins: true, ..claim });
        take(&store, &ours).await;
        let raw = raw(&SERVER, &database).await;
        raw.batch_execute("begin; select from bandog.bandog_fence for share").await.unwrap();
        let busy_for = async || match store.apply(&[Step::Claim(theirs.clone())]).await.remove(0).unwrap() {
            Answer::Claimed(Verdict::Busy { retry_after, .. }) => retry_after,
            answer => panic!("{answer:?}"),
        };
        assert!(busy_for().await > Duration::from_secs(1), "{kind:?}");
        release(&store, &ours).await;
        assert!(busy_for().await < Duration::from_secs(1), "{kind:?}: the end of the transaction is not notified");
        raw.batch_execute("rollback").await.unwrap();
        take(&store, &theirs).await;
    }
}

// Promise: PG10
#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let database = SERVER.new_database();
    take(&open(&url(&SERVER, &database)), &claim("k")).await;
    SERVER.sql(&database, "update bandog.bandog_meta set value = '2' where name = 'version'");
    let error = try_take(&open(&url(&SERVER, &database)), &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
}

// Promise: PG5, PG28
#[tokio::test]
async fn tables_that_were_dropped_are_created_again() {
    let database = SERVER.new_database();
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    take(&store, &ours).await;
    SERVER.sql(&database, "drop schema bandog cascade");
    let other = claim("other");
    let granted = eventually_async(SOON, async || try_take(&store, &other).await).await;
    assert!(granted.is_some());
    assert_eq!(eventually_async(SOON, async || renew(&store, &ours).await).await, Renewal::Gone);
}

// Promise: PG1
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
