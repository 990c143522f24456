//! `RReadWriteLock`.

use std::time::Instant;

use bandog_testkit::eventually;

use super::{CONTENDED, CONTENDED_TTL, THREADS, TIMES, locks};
use crate::{
    counter_file::Counter,
    java::{Java, PendingAnswer, SOON, Version},
    rig::{JavaPair, read_write_channel, subscribers},
    theirs::{Lock, LockKind},
};

#[test]
fn readers_hold_the_lock_together_and_keep_a_writer_out() {
    readers_share(&JavaPair::start(Version::Current));
}

#[test]
fn readers_of_both_versions_hold_the_lock_together_and_keep_a_writer_out() {
    readers_share(&JavaPair::start(Version::Old));
}

fn readers_share(pair: &JavaPair) {
    let readers = [read(&pair.one, "a"), read(&pair.one, "b"), read(&pair.two, "a")];
    readers.iter().for_each(Lock::lock);
    let writer = write(&pair.two, "writer");
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

#[test]
fn a_writer_keeps_everybody_out_and_its_release_wakes_all_readers() {
    writer_excludes(&JavaPair::start(Version::Current));
}

#[test]
fn a_writer_keeps_everybody_of_both_versions_out_and_its_release_wakes_all_readers() {
    writer_excludes(&JavaPair::start(Version::Old));
}

fn writer_excludes(pair: &JavaPair) {
    let writer = write(&pair.one, "writer");
    writer.lock();
    assert!(!read(&pair.two, "a").try_lock());
    assert!(!write(&pair.two, "a").try_lock());
    let readers = [waits(pair, &read(&pair.one, "b")), waits(pair, &read(&pair.two, "b"))];
    assert!(readers.iter().all(|reader| reader.answered().is_none()));
    writer.unlock();
    for reader in readers {
        assert_eq!(reader.answer(SOON), "held");
    }
}

#[test]
fn a_writer_that_became_a_reader_lets_readers_in_and_keeps_writers_out() {
    let pair = JavaPair::start(Version::Current);
    let (writer, reader) = (write(&pair.one, "a"), read(&pair.one, "a"));
    writer.lock();
    reader.lock();
    writer.unlock();
    assert!(!write(&pair.two, "a").try_lock());
    assert!(read(&pair.two, "a").try_lock());
    reader.unlock();
    assert!(!write(&pair.one, "b").try_lock());
    read(&pair.two, "a").unlock();
    assert!(write(&pair.one, "b").try_lock());
}

/// Number of additions of all writers, and of checks of all readers.
const ALL: u64 = 2 * THREADS as u64 * TIMES;

#[test]
fn no_addition_is_lost_and_no_reader_sees_one() {
    let (counter, answers) = read_and_write(Version::Current, |_| "orders".into());
    answers.expect("no reader saw an addition");
    assert_eq!(counter.read().0, ALL);
}

#[test]
fn no_addition_is_lost_and_no_reader_sees_one_between_the_versions() {
    let (counter, answers) = read_and_write(Version::Old, |_| "orders".into());
    answers.expect("no reader saw an addition");
    assert_eq!(counter.read().0, ALL);
}

/// Checks that the other tests can fail: if each thread has a lock of its own, additions must be lost, and readers must
/// see additions.
#[test]
fn with_different_names_additions_are_lost_and_readers_see_additions() {
    let (counter, answers) = read_and_write(Version::Current, |thread| format!("orders {thread}"));
    let counted = counter.read().0;
    println!("with different names {} of {ALL} additions were lost", ALL - counted);
    assert!(counted < ALL);
    let seen = answers.expect_err("a reader sees an addition");
    assert!(seen.contains("the counter changed"), "{seen}");
}

/// Lets the threads of both JVMs add to a counter, and as many threads check that nothing is added while they read.
/// Returns the first error of a thread.
fn read_and_write(second: Version, name_of: impl Fn(usize) -> String) -> (Counter, Result<(), String>) {
    let pair = JavaPair::start_with(second, CONTENDED_TTL);
    let counter = Counter::new();
    let start = Instant::now();
    let writers = locks(&pair, LockKind::Write, THREADS, &name_of);
    // The locks of the readers have other numbers than the locks of the writers.
    let readers = locks(&pair, LockKind::Read, THREADS, |reader| name_of(2 * THREADS + reader));
    let writing = writers.iter().map(|lock| lock.counts(counter.path(), TIMES));
    let turns: Vec<_> = writing.chain(readers.iter().map(|lock| lock.checks(counter.path(), TIMES))).collect();
    let answers: Vec<String> = turns.into_iter().map(|turn| turn.answer(CONTENDED)).collect();
    println!("{ALL} additions and {ALL} checks in {:.1} s", start.elapsed().as_secs_f64());
    let failed = answers.into_iter().find(|answer| *answer != TIMES.to_string());
    (counter, failed.map_or(Ok(()), Err))
}

/// Begins to wait, and returns when the thread's JVM has subscribed.
fn waits(pair: &JavaPair, lock: &Lock) -> PendingAnswer {
    let channel = read_write_channel("orders");
    let before = subscribers(&pair.server, &channel);
    let pending = lock.waits();
    eventually(SOON, || subscribers(&pair.server, &channel) > before);
    pending
}

fn read(java: &Java, thread: &str) -> Lock {
    java.lock(LockKind::Read, thread, "orders")
}

fn write(java: &Java, thread: &str) -> Lock {
    java.lock(LockKind::Write, thread, "orders")
}
