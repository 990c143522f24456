//! Readers and writers of both sides.

use bandog_testkit::eventually;

use crate::{
    curator::{BOTH_WAYS, LONG, ORDERS, Place, SESSION, SHORT, nodes, sorted, wait_for_nodes},
    neighbour::{Neighbour, Program, SOON},
    objects::{Lock, LockKind},
};

fn locks(place: &Place, kind: LockKind) -> [Lock; 2] {
    [0, 1].map(|index: usize| place.neighbours[index].lock(kind, &format!("{kind:?}"), "orders"))
}

// Promise: Z11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_both_sides_hold_the_lock_together_and_a_writer_waits_for_both() {
    let place = Place::of_both(SESSION);
    let client = place.client().await;
    let (readers, writers) = (locks(&place, LockKind::Read), locks(&place, LockKind::Write));
    for [one, other] in BOTH_WAYS {
        readers.iter().for_each(Lock::lock);
        assert!(!writers[one].try_lock());
        let waiting = writers[one].waits();
        wait_for_nodes(&client, 3).await;
        // A new reader waits behind the writer.
        let again = readers_again(&place, other);
        // Readers of one client of bandog share its hold for some milliseconds.
        eventually(SOON, || {
            let is_refused = !again.try_lock();
            if !is_refused {
                again.unlock();
            }
            is_refused
        });
        readers[one].unlock();
        wait_for_nodes(&client, 2).await;
        assert_eq!(waiting.answered(), None);
        readers[other].unlock();
        assert_eq!(waiting.answer(SOON), "held");
        assert!(!readers[other].try_lock() && !writers[other].try_lock());
        let waiting = readers[other].waits();
        wait_for_nodes(&client, 2).await;
        writers[one].unlock();
        assert_eq!(waiting.answer(SOON), "held");
        readers[other].unlock();
    }
}

/// A reader on another thread, so that it is a claim of its own in Curator.
fn readers_again(place: &Place, index: usize) -> Lock {
    place.neighbours[index].lock(LockKind::Read, "again", "orders")
}

// Promise: Z11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_either_side_that_becomes_a_reader_keeps_its_place() {
    let place = Place::of_both(SESSION);
    let client = place.client().await;
    for [one, other] in BOTH_WAYS {
        // The thread of the writer is the thread of the reader, too.
        let writer = place.neighbours[one].lock(LockKind::Write, "a", "orders");
        let reader = place.neighbours[one].lock(LockKind::Read, "a", "orders");
        let next = locks(&place, LockKind::Write)[other].clone();
        writer.lock();
        let waiting = next.waits();
        wait_for_nodes(&client, 2).await;
        let number = sorted(nodes(&client).await)[0][48..].to_owned();
        writer.downgrade();
        let first = sorted(nodes(&client).await)[0].clone();
        assert_eq!(first.split("__READ__").nth(1), Some(&number[..]), "{first}");
        assert_eq!(waiting.answered(), None, "a reader has the lock");
        reader.unlock();
        assert_eq!(waiting.answer(SOON), "held");
        next.unlock();
        client.delete(ORDERS, None).await.expect("the folder is empty");
    }
}

// Promise: Z11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_gets_the_lock_when_readers_of_both_sides_have_died() {
    let place = Place::of_both(SHORT);
    let client = place.client().await;
    let readers = locks(&place, LockKind::Read);
    readers.iter().for_each(Lock::lock);
    place.neighbours.iter().for_each(Neighbour::kill);
    let next = Neighbour::start(Program::BandogZooKeeper, &super::url(&place.server), SESSION);
    let waiting = next.lock(LockKind::Write, "a", "orders").waits();
    assert_eq!(waiting.answer(LONG), "held");
    wait_for_nodes(&client, 1).await;
}
