//! Read-write locks: readers share a claim, writers do not starve, and an upgrade is refused.

use bandog_conformance::wrap::{Counting, Delayed, Fate, Lossy};
use bandog_core::{ErrorKind, Inspect};
use bandog_sync::{Client, WriteGuard};
use futures_util::future::join_all;
use tokio::{
    task::{JoinHandle, yield_now},
    time,
};

use crate::kit::{client, held, key, kind, memory, ms, paused, soon};

async fn writing(client: &Client) -> JoinHandle<bandog_core::Result<WriteGuard>> {
    let lock = client.rwlock("catalogue");
    let writing = tokio::spawn(async move { lock.write().await });
    yield_now().await;
    writing
}

#[tokio::test(start_paused = true)]
async fn readers_exclude_writers_and_not_each_other() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let (one, two) = (ours.rwlock("catalogue").read().await.unwrap(), theirs.rwlock("catalogue").read().await.unwrap());
    assert!(ours.rwlock("catalogue").try_write().await.unwrap().is_none());
    one.release().await.unwrap();
    assert!(ours.rwlock("catalogue").try_write().await.unwrap().is_none());
    two.release().await.unwrap();
    let writer = ours.rwlock("catalogue").try_write().await.unwrap().unwrap();
    for client in [&ours, &theirs] {
        assert!(client.rwlock("catalogue").try_read().await.unwrap().is_none());
        assert!(client.rwlock("catalogue").try_write().await.unwrap().is_none());
    }
    writer.release().await.unwrap();
    assert_eq!(held(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn readers_of_one_client_share_one_claim() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let lock = client.rwlock("catalogue");
    let first = lock.read().await.unwrap();
    let before = store.calls();
    let mut guards = join_all((0..63).map(|_| lock.read())).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(store.calls(), before, "a reader needed a request");
    assert!(guards.iter().all(|guard| guard.fence() == first.fence()));
    let lost = guards[0].lost();
    drop(guards.remove(0));
    drop(first);
    assert!(time::timeout(ms(60_000), lost).await.is_err(), "a released reader was reported as lost");
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    let before = store.releases();
    drop(guards);
    client.idle().await;
    assert_eq!(store.releases() - before, 1);
}

/// The readers of one client must not keep the writers of another client out forever.
// Promise: K5
#[tokio::test(start_paused = true)]
async fn a_writer_elsewhere_does_not_starve() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    for offset in 0..8 {
        let lock = theirs.rwlock("catalogue");
        tokio::spawn(async move {
            time::sleep(ms(offset)).await;
            loop {
                let guard = lock.read().await.unwrap();
                time::sleep(ms(10)).await;
                drop(guard);
            }
        });
    }
    time::sleep(ms(100)).await;
    let writer = time::timeout(ms(1000), ours.rwlock("catalogue").write()).await.unwrap().unwrap();
    writer.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_writer_of_the_same_client_does_not_starve() {
    let client = client(memory());
    for offset in 0..8 {
        let lock = client.rwlock("catalogue");
        tokio::spawn(async move {
            time::sleep(ms(offset)).await;
            loop {
                let guard = lock.read().await.unwrap();
                time::sleep(ms(10)).await;
                drop(guard);
            }
        });
    }
    time::sleep(ms(100)).await;
    let writer = time::timeout(ms(1000), client.rwlock("catalogue").write()).await.unwrap().unwrap();
    writer.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_local_writer_closes_the_open_hold() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let lock = client.rwlock("catalogue");
    let reader = lock.read().await.unwrap();
    let writer = writing(&client).await;
    client.idle().await;
    assert!(lock.try_read().await.unwrap().is_none(), "a reader passed a waiting writer");
    reader.release().await.unwrap();
    let writer = soon(writer).await.unwrap().unwrap();
    writer.release().await.unwrap();
    assert!(lock.try_read().await.unwrap().is_some());
}

/// The end of one reader's turn, by its `max_hold`, must not end the turns of the other readers of the same hold.
// Promise: K15
#[tokio::test(start_paused = true)]
async fn one_reader_at_its_max_hold_is_lost_alone() {
    let store = memory();
    let client = client(store.clone());
    let lock = client.rwlock("catalogue").max_hold(ms(1000));
    let early = lock.read().await.unwrap();
    time::sleep(ms(10)).await;
    let late = lock.read().await.unwrap();
    assert_eq!(early.fence(), late.fence(), "the readers share one hold");
    early.lost().await;
    assert!(early.is_lost() && !late.is_lost());
    late.release().await.unwrap();
    assert_eq!(kind(early.release().await), Some(ErrorKind::Lost));
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

// Promise: K6
#[tokio::test(start_paused = true)]
async fn an_upgrade_is_refused_and_the_other_direction_is_reentry() {
    let client = client(memory());
    let owner = client.owner();
    let lock = client.rwlock("catalogue").by(&owner);
    let reader = lock.read().await.unwrap();
    assert_eq!(kind(lock.write().await), Some(ErrorKind::Misused));
    assert_eq!(kind(lock.try_write().await), Some(ErrorKind::Misused));
    let again = lock.read().await.unwrap();
    drop(reader);
    assert_eq!(kind(lock.write().await), Some(ErrorKind::Misused), "the owner still reads");
    drop(again);
    let writer = lock.write().await.unwrap();
    let reader = lock.read().await.unwrap();
    assert_eq!(reader.fence(), writer.fence());
    drop(writer);
    assert!(client.rwlock("catalogue").try_read().await.unwrap().is_none(), "the turn of the writer still lasts");
    reader.release().await.unwrap();
    assert!(client.rwlock("catalogue").try_read().await.unwrap().is_some());
}

/// Two calls of one owner get the hold of readers in the same moment. The owner must not forget one of the turns.
#[tokio::test(start_paused = true)]
async fn reads_of_one_owner_in_the_same_moment_share_a_turn() {
    let store = memory();
    let client = client(Delayed::new(store.clone(), 1, ms(5), ms(5)));
    let owner = client.owner();
    let lock = client.rwlock("catalogue").by(&owner);
    let (one, two) = tokio::join!(lock.read(), lock.read());
    let (one, two) = (one.unwrap(), two.unwrap());
    drop(two);
    assert_eq!(kind(lock.try_write().await), Some(ErrorKind::Misused));
    drop(one);
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_nothing_behind() {
    for cancel_at in 0..120 {
        let store = memory();
        let theirs = client(store.clone());
        let reader = theirs.rwlock("catalogue").read().await.unwrap();
        let ours = client(Delayed::new(store.clone(), cancel_at, ms(30), ms(30)));
        drop(time::timeout(ms(cancel_at), ours.rwlock("catalogue").write()).await);
        drop(time::timeout(ms(cancel_at), ours.rwlock("catalogue").read()).await);
        ours.idle().await;
        assert!(theirs.rwlock("catalogue").try_read().await.unwrap().is_some(), "dropped after {cancel_at} ms");
        drop(reader);
        theirs.idle().await;
        assert_eq!(held(&store).await, [""; 0], "dropped after {cancel_at} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_used_as_one_family_at_a_time() {
    let client = client(memory());
    let guard = client.mutex("orders").lock().await.unwrap();
    assert_eq!(kind(client.rwlock("orders").read().await), Some(ErrorKind::Denied));
    assert_eq!(kind(client.semaphore("orders", 2).acquire().await), Some(ErrorKind::Denied));
    assert!(client.mutex("orders").fair().try_lock().await.unwrap().is_none());
    drop(guard);
}

// Promise: K6
#[tokio::test(start_paused = true)]
async fn a_downgrade_lets_waiting_readers_in_and_keeps_writers_out() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let writer = ours.rwlock("catalogue").write().await.unwrap();
    let lost = writer.lost();
    let (local, remote) = (ours.rwlock("catalogue"), theirs.rwlock("catalogue"));
    let local = tokio::spawn(async move { local.read().await });
    let remote = tokio::spawn(async move { remote.read().await });
    yield_now().await;
    theirs.idle().await;
    let before = writer.fence();
    let reader = writer.downgrade().await.unwrap();
    assert!(reader.fence() > before);
    let (local, remote) = (soon(local).await.unwrap().unwrap(), soon(remote).await.unwrap().unwrap());
    assert_eq!(local.fence(), reader.fence(), "local readers share the new hold");
    assert!(theirs.rwlock("catalogue").try_write().await.unwrap().is_none());
    assert!(time::timeout(ms(60_000), lost).await.is_err(), "the writer was reported as lost");
    assert!(!reader.is_lost());
    drop((local, remote));
    reader.release().await.unwrap();
    ours.idle().await;
    theirs.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

// Promise: K16
#[tokio::test(start_paused = true)]
async fn a_downgrade_without_an_answer_is_repeated() {
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Refused, Fate::Late(ms(500))] {
        let store = memory();
        let wire = Lossy::new(store.clone());
        let (ours, theirs) = (client(wire.clone()), client(store.clone()));
        let writer = ours.rwlock("catalogue").write().await.unwrap();
        wire.next([fate]);
        let reader = soon(writer.downgrade()).await.unwrap();
        assert!(theirs.rwlock("catalogue").try_write().await.unwrap().is_none());
        let other = theirs.rwlock("catalogue").try_read().await.unwrap();
        assert!(other.is_some(), "{fate:?}");
        drop(other);
        reader.release().await.unwrap();
        soon(ours.idle()).await;
        theirs.idle().await;
        assert_eq!(held(&store).await, [""; 0], "{fate:?}");
    }
}

/// The first request of the writer had no answer, so its claim is released once more later. While the downgrade is
/// repeated, that must not free the lock.
// Promise: K6
#[tokio::test(start_paused = true)]
async fn a_downgrade_of_an_unsure_writer_keeps_writers_out() {
    for lost in 0..40 {
        let store = memory();
        let wire = Lossy::new(store.clone());
        let (ours, theirs) = (client(wire.clone()), client(store.clone()));
        wire.next([Fate::ReplyLost]);
        let writer = ours.rwlock("catalogue").write().await.unwrap();
        let other = writing(&theirs).await;
        wire.next(vec![Fate::RequestLost; lost]);
        let reader = soon(writer.downgrade()).await.unwrap_or_else(|error| panic!("{lost} lost requests: {error}"));
        assert!(!other.is_finished(), "{lost} lost requests: a writer beside the reader");
        reader.release().await.unwrap();
        soon(other).await.unwrap().unwrap().release().await.unwrap();
        soon(ours.idle()).await;
        theirs.idle().await;
        assert_eq!(held(&store).await, [""; 0], "{lost} lost requests");
    }
}

/// The first request of the writer is applied after its claim has become a reader, and after the reader has released.
#[tokio::test(start_paused = true)]
async fn a_late_request_of_a_writer_that_became_a_reader_keeps_no_lock() {
    for late in [100, 1000, 2000] {
        let store = memory();
        let wire = Lossy::new(store.clone());
        let ours = client(wire.clone());
        wire.next([Fate::Late(ms(late))]);
        let reader = ours.rwlock("catalogue").write().await.unwrap().downgrade().await.unwrap();
        reader.release().await.unwrap();
        assert_eq!(held(&store).await, [""; 0]);
        time::advance(ms(late)).await;
        yield_now().await;
        assert_eq!(held(&store).await, ["catalogue"], "the late request was not applied");
        soon(ours.idle()).await;
        assert_eq!(held(&store).await, [""; 0], "{late} ms late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_downgrade_releases_the_lock() {
    for cancel_at in 0..60 {
        let store = memory();
        let ours = client(Delayed::new(store.clone(), cancel_at, ms(20), ms(20)));
        let writer = ours.rwlock("catalogue").write().await.unwrap();
        drop(time::timeout(ms(cancel_at), writer.downgrade()).await);
        ours.idle().await;
        assert_eq!(held(&store).await, [""; 0], "dropped after {cancel_at} ms");
    }
}

// Promise: K16
#[tokio::test(start_paused = true)]
async fn a_downgrade_of_a_lost_lock_is_an_error() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let ours = paused().watchdog(ms(3000)).over(wire.clone()).unwrap();
    let writer = ours.rwlock("catalogue").write().await.unwrap();
    let lost = writer.lost();
    wire.always(Fate::RequestLost);
    assert_eq!(kind(soon(writer.downgrade()).await), Some(ErrorKind::Lost));
    soon(lost).await;
    let theirs = client(store.clone());
    drop(soon(theirs.rwlock("catalogue").write()).await.unwrap());
    wire.heal();
    soon(ours.idle()).await;
    theirs.idle().await;
    assert_eq!(held(&store).await, [""; 0]);

    let writer = ours.rwlock("catalogue").write().await.unwrap();
    store.evict(&key("catalogue")).await.unwrap();
    let next = theirs.rwlock("catalogue").try_write().await.unwrap().unwrap();
    assert_eq!(kind(soon(writer.downgrade()).await), Some(ErrorKind::Lost));
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_owner_downgrades_only_its_last_guard() {
    let client = client(memory());
    let owner = client.owner();
    let lock = client.rwlock("catalogue").by(&owner);
    let (outer, inner) = (lock.write().await.unwrap(), lock.write().await.unwrap());
    assert_eq!(kind(inner.downgrade().await), Some(ErrorKind::Misused));
    let reader = outer.downgrade().await.unwrap();
    assert_eq!(kind(lock.try_write().await), Some(ErrorKind::Misused), "the owner is a reader now");
    let again = lock.try_read().await.unwrap().unwrap();
    assert_eq!(again.fence(), reader.fence());
    drop((again, reader));
    drop(lock.write().await.unwrap());
}

/// The hold of readers is lost while it is open. The next reader must not share it.
// Promise: K15
#[tokio::test(start_paused = true)]
async fn a_lost_hold_is_not_shared() {
    let client = client(memory());
    let lock = client.rwlock("catalogue");
    let reader = lock.read().await.unwrap();
    client.evict("catalogue").await.unwrap();
    soon(reader.lost()).await;
    let next = lock.read().await.unwrap();
    assert!(next.fence() > reader.fence());
    assert!(!next.is_lost());
}

/// The request of a downgrade is lost, and then the caller drops its future. Both claims must be released.
#[tokio::test(start_paused = true)]
async fn a_dropped_downgrade_without_an_answer_releases_both_claims() {
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Refused, Fate::Late(ms(500))] {
        let store = memory();
        let wire = Lossy::new(store.clone());
        let ours = client(wire.clone());
        let writer = ours.rwlock("catalogue").write().await.unwrap();
        wire.next([fate]);
        let downgrading = tokio::spawn(writer.downgrade());
        yield_now().await;
        downgrading.abort();
        assert!(downgrading.await.is_err());
        soon(ours.idle()).await;
        assert_eq!(held(&store).await, [""; 0], "{fate:?}");
    }
}
