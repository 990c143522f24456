//! Two processes of each side use one lock at the same time.

use std::time::Instant;

use crate::{
    counter_file::CounterFile,
    curator::{LONG, Place, SESSION},
    neighbour::Program,
    objects::LockKind,
};

/// Number of threads of each process.
const THREADS: usize = 2;
/// Number of turns of each thread.
const TIMES: u64 = 100;

const MIXED: &[Program] = &[Program::Curator, Program::Curator, Program::BandogZooKeeper, Program::BandogZooKeeper];

// Promise: Z5
#[test]
fn mutexes_of_curator_and_bandog_lose_no_addition() {
    assert_eq!(lost_additions(LockKind::Plain, TIMES, |_| "orders".into()), 0);
}

/// Checks that the other tests can fail: if each thread has a lock of its own, additions must be lost.
#[test]
fn with_different_names_additions_are_lost() {
    assert!(lost_additions(LockKind::Plain, TIMES, |thread| format!("orders{thread}")) > 0);
}

// Promise: Z11
#[test]
fn writers_of_curator_and_bandog_lose_no_addition_and_no_reader_sees_one() {
    let place = Place::start(SESSION, MIXED);
    let counter = CounterFile::new();
    let start = Instant::now();
    let lock = |number: usize, kind| {
        place.neighbours[number % MIXED.len()].lock(kind, &format!("{kind:?} {number}"), "orders")
    };
    let locks: Vec<_> =
        (0..MIXED.len()).flat_map(|number| [lock(number, LockKind::Write), lock(number, LockKind::Read)]).collect();
    let turns: Vec<_> = locks
        .chunks(2)
        .flat_map(|pair| [pair[0].counts(counter.path(), TIMES), pair[1].checks(counter.path(), TIMES)])
        .collect();
    for turn in turns {
        assert_eq!(turn.answer(LONG), TIMES.to_string());
    }
    let all = MIXED.len() as u64 * TIMES;
    println!("{} of {all} additions were lost, in {:.1} s", all - counter.count(), start.elapsed().as_secs_f64());
    assert_eq!(counter.count(), all);
}

/// Adds to one counter from several threads of each neighbour. Returns the number of additions that were lost.
pub(super) fn lost_additions(kind: LockKind, times: u64, name_of: impl Fn(usize) -> String) -> u64 {
    let place = Place::start(SESSION, MIXED);
    let counter = CounterFile::new();
    let start = Instant::now();
    let locks: Vec<_> = (0..MIXED.len() * THREADS)
        .map(|number| {
            let neighbour = &place.neighbours[number % MIXED.len()];
            neighbour.lock(kind, &number.to_string(), &name_of(number))
        })
        .collect();
    let counting: Vec<_> = locks.iter().map(|lock| lock.counts(counter.path(), times)).collect();
    for pending in counting {
        assert_eq!(pending.answer(LONG), times.to_string());
    }
    let all = locks.len() as u64 * times;
    let lost = all - counter.count();
    println!("{lost} of {all} additions were lost, in {:.1} s", start.elapsed().as_secs_f64());
    lost
}
