//! Bad days: connections that end, a server that is killed, rows that others lock, and tables of other versions.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{
    Answer, Claim, ErrorKind, Inspect, Key, Kind, Leases, Notifier, Records, Released, Renewal, Step, Swap, Swapped,
    Swaps, Verdict,
};
use bandog_sync::Client;
use bandog_testkit::{SqlServer, eventually_async};
use tokio::sync::Notify;

use super::{Database, Place, SOON, TTL, claim, release, renew, take, try_take};

pub(crate) async fn holds_survive_the_end_of_all_connections<D: Database>() {
    let place = Place::<D>::new();
    let (store, ours) = (place.store(), claim("k"));
    let mut fences = take(&store, &ours).await;
    // Only a connection that is opened again raises the epoch, so the one for renewals must be open.
    renew(&store, &ours).await.unwrap();
    let first_epoch = *store.profile().epoch.borrow();
    place.end_sessions();
    let renewed = eventually_async(SOON, async || renew(&store, &ours).await).await;
    assert_eq!(renewed, Renewal::Extended { valid_for: TTL });
    eventually_async(SOON, async || *store.profile().epoch.borrow() > first_epoch).await;
    assert_eq!(release(&store, &ours).await, Answer::Released(Released::Freed { others: Some(0) }));
    let mut next = take(&store, &claim("k")).await;
    assert!(next.take() > fences.take());
}

pub(crate) async fn a_waiter_is_served_after_the_end_of_all_connections<D: Database>() {
    let place = Place::<D>::new();
    let (holder, waiter) = (place.client(), place.client());
    let guard = holder.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(async move { waiter.mutex("k").lock().await });
    let key = Key::new("k").unwrap();
    let observer = place.store();
    let wanted = "select count(*) from bandog_lease where wanted";
    eventually_async(SOON, async || place.sql(wanted) == "1").await;
    place.end_sessions();
    assert!(eventually_async(SOON, async || observer.show(&key).await).await.is_held());
    guard.release().await.unwrap();
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

pub(crate) async fn holds_survive_a_server_that_is_killed<D: Database>() {
    let server = SqlServer::<D>::start();
    let (store, ours) = (Place::on(&server).store(), claim("k"));
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

pub(crate) async fn a_row_that_another_transaction_locks_delays_no_other_lock<D: Database>() {
    let place = Place::<D>::new();
    let store = place.store();
    let (stuck, free) = (claim("stuck"), claim("free"));
    take(&store, &stuck).await;
    release(&store, &stuck).await;
    let mut hand = place.hand().await;
    hand.execute("begin; select name from bandog_lease where name = 'stuck' for update").await;
    let steps = [Step::Claim(stuck.clone()), Step::Claim(free.clone())];
    let answers: Vec<_> = store.apply(&steps).await.into_iter().map(Result::unwrap).collect();
    let is_granted = |answer: &Answer| matches!(answer, Answer::Claimed(Verdict::Granted { .. }));
    assert!(!is_granted(&answers[0]) && is_granted(&answers[1]), "{answers:?}");
    release(&store, &free).await;
    let reader = |name| Claim { kind: Kind::Read, ..claim(name) };
    assert!(try_take(&store, &reader("stuck")).await.unwrap().is_none());
    take(&store, &reader("free")).await;
    hand.execute("rollback").await;
    take(&store, &stuck).await;
}

/// The answers for the other locks are there, although the row of one lock stays locked.
pub(crate) async fn a_row_that_stays_locked_delays_no_other_renewal_or_release<D: Database>() {
    for kind in [Kind::Mutex, Kind::Fair] {
        let place = Place::<D>::new();
        let store = place.store();
        let [stuck, free] = ["stuck", "free"].map(|name| Claim { kind, ..claim(name) });
        take(&store, &stuck).await;
        take(&store, &free).await;
        let mut hand = place.hand().await;
        hand.execute("begin; select name from bandog_lease where name = 'stuck' for update").await;
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
        hand.execute("rollback").await;
        assert_eq!(renew(&store, &stuck).await.unwrap(), Renewal::Extended { valid_for: TTL }, "{kind:?}");
        assert_eq!(release(&store, &stuck).await, Answer::Released(Released::Freed { others: Some(0) }), "{kind:?}");
    }
}

/// Swaps of several calls share a transaction, unless a row in it stays locked.
pub(crate) async fn records_that_stay_locked_delay_no_swap_of_the_same_time<D: Database>() {
    let place = Place::<D>::new();
    let store = place.store();
    let keys: Vec<_> = ["a", "stuck", "b", "stuck, too", "c"].iter().map(|name| Key::new(*name).unwrap()).collect();
    let created: Vec<_> = keys.iter().map(|key| Swap::new(key.clone(), None, "old")).collect();
    let created = store.swap(&created).await.unwrap();
    let mut hand = place.hand().await;
    hand.execute("begin; select name from bandog_record where name like 'stuck%' for update").await;
    // No task runs before this one waits, so the calls are in the lane's queue together.
    let mut calls = Vec::new();
    for (key, created) in keys.iter().zip(created.each) {
        let Ok(Swapped::Done(version)) = created else { panic!("{created:?}") };
        let swaps = [Swap::new(key.clone(), version, "new"), Swap::new(key.clone(), version, "newer")];
        let store = store.clone();
        calls.push(tokio::spawn(async move { store.swap(&swaps).await }));
    }
    let stuck = [calls.remove(3), calls.remove(1)];
    let check = |swaps: bandog_core::Result<Swaps>| {
        let each = swaps.unwrap().each;
        assert!(matches!(each[..], [Ok(Swapped::Done(Some(_))), Ok(Swapped::Differs(Some(_)))]), "{each:?}");
    };
    for call in calls {
        check(tokio::time::timeout(SOON, call).await.expect("a call waits for the row of another one").unwrap());
    }
    assert!(stuck.iter().all(|call| !call.is_finished()));
    hand.execute("rollback").await;
    for call in stuck {
        check(tokio::time::timeout(SOON, call).await.unwrap().unwrap());
    }
    let reading = store.read(&keys, &[]).await.unwrap();
    for record in reading.records {
        assert_eq!(&*record.unwrap().unwrap().value, "new");
    }
}

/// Subscribers, records and the registry share a connection. None of them waits for a row of a lease.
pub(crate) async fn a_waiter_for_a_row_that_stays_locked_delays_no_record<D: Database>() {
    let place = Place::<D>::new();
    let (store, stuck) = (place.store(), claim("stuck"));
    take(&store, &stuck).await;
    release(&store, &stuck).await;
    // The connection is there.
    store.swap(&[Swap::new(Key::new("first").unwrap(), None, "text")]).await.unwrap();
    let mut hand = place.hand().await;
    hand.execute("begin; select name from bandog_lease where name = 'stuck' for update").await;
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
    hand.execute("rollback").await;
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

pub(crate) async fn tables_of_a_newer_version_are_refused<D: Database>() {
    let place = Place::<D>::new();
    take(&place.store(), &claim("k")).await;
    place.sql("update bandog_meta set value = '2' where name = 'version'");
    let error = try_take(&place.store(), &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
}

pub(crate) async fn tables_that_were_dropped_are_created_again<D: Database>() {
    let place = Place::<D>::new();
    let (store, ours) = (place.store(), claim("k"));
    take(&store, &ours).await;
    place.sql(D::DROP_TABLES);
    let other = claim("other");
    let granted = eventually_async(SOON, async || try_take(&store, &other).await).await;
    assert!(granted.is_some());
    assert_eq!(eventually_async(SOON, async || renew(&store, &ours).await).await, Renewal::Gone);
}

pub(crate) async fn a_subscriber_is_notified_by_another_process<D: Database>() {
    let place = Place::<D>::new();
    let (one, two) = (place.store(), place.store());
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
