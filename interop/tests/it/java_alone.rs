//! Java on both sides. These tests show that the tests with both languages would notice a defect, and what they may
//! expect of Redisson.

use std::time::{Duration, Instant};

use crate::{
    counter_file::Counter,
    java::Version,
    rig::JavaPair,
    theirs::{Lock, LockKind},
};

mod fair;
mod latch;
mod read_write;
mod semaphores;

/// Number of threads of each JVM in the contended tests.
const THREADS: usize = 4;
/// Number of turns of each thread in the contended tests.
const TIMES: u64 = 250;
/// Timeout of the contended tests, which is reached only if the test fails.
const CONTENDED: Duration = Duration::from_secs(120);
/// The ttl in the contended tests. With a ttl of 30 s, a contended run of Redisson alone once took 29 s longer than
/// usual, as if all waiters had missed a message and slept until the ttl had passed.
const CONTENDED_TTL: Duration = Duration::from_secs(10);

/// Adds to one counter from this number of threads of each JVM, under locks of this kind. `name_of` gives the name of
/// a thread's lock. Returns the number of additions that were lost.
fn lost_additions(kind: LockKind, second: Version, threads: usize, name_of: impl Fn(usize) -> String) -> u64 {
    let pair = JavaPair::start_with(second, CONTENDED_TTL);
    let counter = Counter::new();
    let start = Instant::now();
    let locks = locks(&pair, kind, threads, name_of);
    let counting: Vec<_> = locks.iter().map(|lock| lock.counts(counter.path(), TIMES)).collect();
    for pending in counting {
        assert_eq!(pending.answer(CONTENDED), TIMES.to_string());
    }
    let all = locks.len() as u64 * TIMES;
    let lost = all - counter.read().0;
    println!("{lost} of {all} additions were lost, in {:.1} s", start.elapsed().as_secs_f64());
    lost
}

/// The locks of this number of threads of each JVM.
fn locks(pair: &JavaPair, kind: LockKind, threads: usize, name_of: impl Fn(usize) -> String) -> Vec<Lock> {
    let java = |number| if number % 2 == 0 { &pair.one } else { &pair.two };
    let lock = |number| java(number).lock(kind, &format!("{kind:?} {number}"), &name_of(number));
    (0..2 * threads).map(lock).collect()
}
