//! Read-write locks.

use std::time::Duration;

use super::{for_pairs, java_and_bandog};
use crate::{
    neighbour::{Neighbour, PendingAnswer, SOON},
    objects::{Lock, LockKind},
    rig::{Pair, blocked, settle},
};

for_pairs! {
    readers_hold_the_lock_together_and_keep_a_writer_out: java_alone both_versions java_and_bandog old_java_and_bandog;
    a_writer_keeps_everybody_out_and_its_release_wakes_all_readers:
        java_alone both_versions java_and_bandog old_java_and_bandog;
    a_writer_that_became_a_reader_lets_readers_in_and_keeps_writers_out:
        java_alone java_and_bandog old_java_and_bandog;
}

fn readers_hold_the_lock_together_and_keep_a_writer_out(pair: &Pair) {
    for (one, two) in pair.both_ways() {
        settle(&pair.server);
        let readers = [read(one, "a"), read(one, "b"), read(two, "a")];
        readers.iter().for_each(Lock::lock);
        let writer = write(two, "writer");
        assert!(!writer.try_lock());
        let pending = waits(pair, &writer);
        for reader in &readers {
            assert!(pending.answered().is_none());
            reader.unlock();
        }
        assert_eq!(pending.answer(SOON), "held");
        assert!(!readers[0].try_lock());
        writer.unlock();
    }
}

fn a_writer_keeps_everybody_out_and_its_release_wakes_all_readers(pair: &Pair) {
    for (one, two) in pair.both_ways() {
        settle(&pair.server);
        let writer = write(one, "writer");
        writer.lock();
        assert!(!read(two, "a").try_lock());
        assert!(!write(two, "a").try_lock());
        let readers = [waits(pair, &read(one, "b")), waits(pair, &read(two, "b"))];
        assert!(readers.iter().all(|reader| reader.answered().is_none()));
        writer.unlock();
        for reader in readers {
            assert_eq!(reader.answer(SOON), "held");
        }
        read(one, "b").unlock();
        read(two, "b").unlock();
    }
}

fn a_writer_that_became_a_reader_lets_readers_in_and_keeps_writers_out(pair: &Pair) {
    for (one, two) in pair.both_ways() {
        let (writer, reader) = (write(one, "a"), read(one, "a"));
        writer.lock();
        writer.downgrade();
        assert!(!write(two, "a").try_lock());
        assert!(read(two, "a").try_lock());
        reader.unlock();
        assert!(!write(one, "b").try_lock());
        read(two, "a").unlock();
        assert!(write(one, "b").try_lock());
        write(one, "b").unlock();
    }
}

/// Our downgrade publishes the message of a writer's release. Java's downgrade publishes nothing, so our reader finds it
/// by its poll, within a second.
#[test]
fn a_writer_that_became_a_reader_wakes_readers_that_wait() {
    let pair = java_and_bandog();
    for (one, two) in pair.both_ways() {
        settle(&pair.server);
        let writer = write(one, "a");
        writer.lock();
        let reader = waits(&pair, &read(two, "b"));
        // If the writer of Java did not sleep yet, it could take the notification that is meant for the reader of Java.
        let other_writer = two.lock(LockKind::Write, "writer", "orders").waits_for(Duration::from_secs(3));
        other_writer.wait_for_sleep();
        writer.downgrade();
        assert_eq!(reader.answer(SOON), "held");
        assert_eq!(other_writer.answer(SOON), "busy");
        read(one, "a").unlock();
        read(two, "b").unlock();
    }
}

/// Begins to wait, and returns when the thread waits for a message.
fn waits(pair: &Pair, lock: &Lock) -> PendingAnswer {
    let pending = blocked(&pair.server, || lock.waits());
    pending.wait_for_sleep();
    pending
}

fn read(neighbour: &Neighbour, thread: &str) -> Lock {
    neighbour.lock(LockKind::Read, thread, "orders")
}

fn write(neighbour: &Neighbour, thread: &str) -> Lock {
    neighbour.lock(LockKind::Write, thread, "orders")
}
