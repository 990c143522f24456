//! Locks as strings (`?layout=setnx`), shared with rslock and redsync. Both poll, and neither publishes anything.

use std::time::{Duration, Instant};

use crate::{
    counter_file::CounterFile,
    neighbour::{Neighbour, PendingAnswer, Program, SOON},
    objects::{Lock, LockKind},
    redsync,
    stage::Actors,
};

/// The ttl. The other libraries do not renew their locks.
const TTL: Duration = Duration::from_secs(10);
/// The ttl in tests of killed holders.
const SHORT: Duration = Duration::from_secs(3);
/// Timeout that is reached only if the test fails.
const LONG: Duration = Duration::from_secs(120);
/// Number of additions of each process of bandog.
const OUR_TIMES: u64 = 1500;

/// Number of additions of each process of another library, so that all libraries need similar times. rslock polls after
/// up to 200 ms, and redsync here after 5 ms.
fn times_of(library: Program) -> u64 {
    if library == Program::Rslock { 40 } else { 600 }
}

/// Declares a test with each of the other libraries for each function.
macro_rules! for_libraries {
    ($($test:ident;)+) => {$(
        mod $test {
            use crate::neighbour::Program;

            #[test]
            fn rslock() {
                super::$test(Program::Rslock);
            }

            #[test]
            fn redsync() {
                if crate::redsync::program().is_some() {
                    super::$test(Program::Redsync);
                }
            }
        }
    )+};
}

for_libraries! {
    a_lock_of_one_library_is_busy_for_the_other;
    a_release_lets_the_waiter_in;
    a_lock_of_a_killed_process_goes_to_the_other_after_the_ttl;
    two_processes_of_each_library_lose_no_addition;
}

/// A lock of each library, in both orders.
fn both_ways(actors: &Actors, thread: &str) -> [(Lock, Lock); 2] {
    let [ours, theirs] = [0, 1].map(|number: usize| lock(&actors.neighbours[number], thread, "orders"));
    [(ours.clone(), theirs.clone()), (theirs, ours)]
}

fn lock(neighbour: &Neighbour, thread: &str, name: &str) -> Lock {
    neighbour.lock(LockKind::Plain, thread, name)
}

fn a_lock_of_one_library_is_busy_for_the_other(library: Program) {
    let actors = Actors::start(TTL, &[Program::BandogSetnx, library]);
    for (holder, other) in both_ways(&actors, "a") {
        holder.lock();
        assert_eq!(actors.server.cmd(&["TYPE", "orders"]).text(), "string");
        let left = actors.server.pttl("orders");
        assert!(left > 0 && left <= 10_000, "{left}");
        let value = actors.server.cmd(&["GET", "orders"]);
        assert!(!other.try_lock());
        assert_eq!(actors.server.cmd(&["GET", "orders"]), value, "a refused attempt changed the lock");
        holder.unlock();
        assert_eq!(actors.server.pttl("orders"), -2);
        assert!(other.try_lock());
        assert!(!holder.try_lock());
        other.unlock();
    }
}

fn a_release_lets_the_waiter_in(library: Program) {
    let actors = Actors::start(TTL, &[Program::BandogSetnx, library]);
    let [others, _] = both_ways(&actors, "b");
    for ((holder, waiter), other) in both_ways(&actors, "a").into_iter().zip([others.1, others.0]) {
        holder.lock();
        let waiting = waiter.waits();
        // This call takes longer than the first attempt of the waiter.
        assert!(!other.try_lock());
        assert!(waiting.answered().is_none());
        holder.unlock();
        let start = Instant::now();
        assert_eq!(waiting.answer(SOON), "held");
        println!(
            "{library:?}: the waiter got the lock {:.0} ms after the release",
            start.elapsed().as_secs_f64() * 1e3
        );
        waiter.unlock();
    }
}

fn a_lock_of_a_killed_process_goes_to_the_other_after_the_ttl(library: Program) {
    for (holder, waiter) in [(Program::BandogSetnx, library), (library, Program::BandogSetnx)] {
        let actors = Actors::start(SHORT, &[holder, waiter]);
        let [killed, other] = [0, 1].map(|number: usize| lock(&actors.neighbours[number], "a", "orders"));
        killed.lock();
        let waiting = other.waits();
        actors.neighbours[0].kill();
        let (start, left) = (Instant::now(), actors.server.pttl("orders"));
        assert_eq!(waiting.answer(SOON), "held");
        let waited = i64::try_from(start.elapsed().as_millis()).expect("a short time");
        println!("{waiter:?} got the lock {waited} ms after {holder:?} was killed with {left} ms left");
        assert!(waited + 50 >= left, "granted after {waited} ms although {left} ms were left");
    }
}

fn two_processes_of_each_library_lose_no_addition(library: Program) {
    assert_eq!(lost_additions(library, times_of(library), |_| "orders".into()), 0);
}

/// Checks that the test above can fail: if each process uses another name, additions must be lost.
#[test]
fn with_different_names_additions_are_lost() {
    let libraries = [Some(Program::Rslock), redsync::program().map(|_| Program::Redsync)];
    for library in libraries.into_iter().flatten() {
        let lost = lost_additions(library, OUR_TIMES, |process| format!("orders {process}"));
        assert!(lost > 0, "{library:?}");
    }
}

/// Adds to one counter from two processes of each library. Returns the number of additions that were lost.
fn lost_additions(library: Program, their_times: u64, name_of: impl Fn(usize) -> String) -> u64 {
    let actors = Actors::start(TTL, &[library, library, Program::BandogSetnx, Program::BandogSetnx]);
    let counter = CounterFile::new();
    let start = Instant::now();
    let counts = |(process, neighbour): (usize, &Neighbour)| {
        let times = if neighbour.program == library { their_times } else { OUR_TIMES };
        (lock(neighbour, "a", &name_of(process)).counts(counter.path(), times), times)
    };
    let counting: Vec<(PendingAnswer, u64)> = actors.neighbours.iter().enumerate().map(counts).collect();
    for (pending, times) in counting {
        assert_eq!(pending.answer(LONG), times.to_string());
        println!("{library:?}: {times} additions after {:.1} s", start.elapsed().as_secs_f64());
    }
    let lost = 2 * (OUR_TIMES + their_times) - counter.count();
    println!("{lost} additions were lost");
    lost
}
