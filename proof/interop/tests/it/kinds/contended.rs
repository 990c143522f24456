//! Two processes of each side use one lock, one counter or one semaphore at the same time.

use std::time::{Duration, Instant};

use bandog_testkit::RedisServer;

use crate::{
    counter_file::CounterFile,
    neighbour::{Neighbour, PendingAnswer, Program},
    objects::{Lock, LockKind},
    stage::Actors,
};

/// Number of threads of each process.
const THREADS: usize = 2;
/// Number of turns of each thread.
const TIMES: u64 = 150;
/// Timeout that is reached only if the test fails.
const LONG: Duration = Duration::from_secs(120);
/// The ttl. With a ttl of 30 s, a contended run of Redisson alone once took 29 s longer than usual, as if all waiters
/// had missed a message and slept until the ttl had passed.
const TTL: Duration = Duration::from_secs(10);
/// Number of permits.
const LIMIT: u32 = 3;
/// The key of the number of permits in use.
const IN_USE: &str = "in use";

const JAVA: &[Program] = &[Program::Redisson4, Program::Redisson4];
const BOTH_VERSIONS: &[Program] = &[Program::Redisson4, Program::Redisson3];
const MIXED: &[Program] = &[Program::Redisson4, Program::Redisson4, Program::Bandog, Program::Bandog];
const MIXED_OLD: &[Program] = &[Program::Redisson3, Program::Redisson3, Program::Bandog, Program::Bandog];

struct Crew(Actors);

impl Crew {
    fn start(programs: &[Program]) -> Self {
        Self(Actors::start(TTL, programs))
    }

    /// The locks of this number of threads of each neighbour. `name_of` gives the name of each lock.
    fn locks(&self, kind: LockKind, threads: usize, name_of: impl Fn(usize) -> String) -> Vec<Lock> {
        let count = self.0.neighbours.len();
        let lock = |number: usize| {
            self.0.neighbours[number % count].lock(kind, &format!("{kind:?} {number}"), &name_of(number))
        };
        (0..count * threads).map(lock).collect()
    }
}

#[test]
fn fair_locks_of_java_lose_no_addition() {
    assert_eq!(lost_additions(&Crew::start(JAVA), LockKind::Fair, THREADS, |_| "orders".into()), 0);
}

/// One thread of each version. With more threads the test would take minutes, because waiters of 3.10.6 are removed
/// from the queue and sleep until the ttl has passed.
#[test]
fn fair_locks_of_both_versions_lose_no_addition() {
    let crew = Crew::start(BOTH_VERSIONS);
    assert_eq!(lost_additions(&crew, LockKind::Fair, 1, |_| "orders".into()), 0);
}

// Promise: X9
#[test]
fn fair_locks_of_java_and_bandog_lose_no_addition() {
    assert_eq!(lost_additions(&Crew::start(MIXED), LockKind::Fair, THREADS, |_| "orders".into()), 0);
}

// Promise: X11
#[test]
fn fair_locks_of_old_java_and_bandog_lose_no_addition() {
    assert_eq!(lost_additions(&Crew::start(MIXED_OLD), LockKind::Fair, 1, |_| "orders".into()), 0);
}

/// Checks that the other tests can fail: if each thread has a lock of its own, additions must be lost.
#[test]
fn with_different_names_additions_are_lost() {
    assert!(lost_additions(&Crew::start(MIXED), LockKind::Fair, 2 * THREADS, |thread| format!("orders {thread}")) > 0);
}

/// Adds to one counter from this number of threads of each neighbour. Returns the number of additions that were lost.
fn lost_additions(crew: &Crew, kind: LockKind, threads: usize, name_of: impl Fn(usize) -> String) -> u64 {
    let counter = CounterFile::new();
    let start = Instant::now();
    let locks = crew.locks(kind, threads, name_of);
    let counting: Vec<_> = locks.iter().map(|lock| lock.counts(counter.path(), TIMES)).collect();
    for pending in counting {
        assert_eq!(pending.answer(LONG), TIMES.to_string());
    }
    let all = locks.len() as u64 * TIMES;
    let lost = all - counter.count();
    println!("{lost} of {all} additions were lost, in {:.1} s", start.elapsed().as_secs_f64());
    lost
}

#[test]
fn writers_of_java_lose_no_addition_and_no_reader_sees_one() {
    check_readers_and_writers(JAVA);
}

#[test]
fn writers_of_both_versions_lose_no_addition_and_no_reader_sees_one() {
    check_readers_and_writers(BOTH_VERSIONS);
}

// Promise: X9
#[test]
fn writers_of_java_and_bandog_lose_no_addition_and_no_reader_sees_one() {
    check_readers_and_writers(MIXED);
}

// Promise: X11
#[test]
fn writers_of_old_java_and_bandog_lose_no_addition_and_no_reader_sees_one() {
    check_readers_and_writers(MIXED_OLD);
}

/// Checks that the other tests can fail: if each thread has a lock of its own, readers must see additions.
#[test]
fn with_different_names_readers_see_additions() {
    let (_, answers) = read_and_write(&Crew::start(MIXED), |thread| format!("orders {thread}"));
    let seen = answers.expect_err("a reader sees an addition");
    assert!(seen.contains("the counter changed"), "{seen}");
}

fn check_readers_and_writers(programs: &[Program]) {
    let (lost, answers) = read_and_write(&Crew::start(programs), |_| "orders".into());
    answers.expect("no reader saw an addition");
    assert_eq!(lost, 0);
}

/// One thread of each neighbour adds to a counter, and another one checks that nothing is added while it reads. Returns
/// the number of additions that were lost, and the first error of a thread.
fn read_and_write(crew: &Crew, name_of: impl Fn(usize) -> String) -> (u64, Result<(), String>) {
    let counter = CounterFile::new();
    let start = Instant::now();
    let writers = crew.locks(LockKind::Write, 1, &name_of);
    // The locks of the readers have other numbers than the locks of the writers.
    let readers = crew.locks(LockKind::Read, 1, |reader| name_of(writers.len() + reader));
    let writing = writers.iter().map(|lock| lock.counts(counter.path(), TIMES));
    let turns: Vec<_> = writing.chain(readers.iter().map(|lock| lock.checks(counter.path(), TIMES))).collect();
    let answers: Vec<String> = turns.into_iter().map(|turn| turn.answer(LONG)).collect();
    let all = writers.len() as u64 * TIMES;
    let lost = all - counter.count();
    println!("{lost} of {all} additions were lost, in {:.1} s", start.elapsed().as_secs_f64());
    let failed = answers.into_iter().find(|answer| *answer != TIMES.to_string());
    (lost, failed.map_or(Ok(()), Err))
}

#[test]
fn leased_permits_of_java_are_never_above_the_limit() {
    check_leased_permits(&Crew::start(JAVA));
}

// Promise: X9
#[test]
fn leased_permits_of_java_and_bandog_are_never_above_the_limit() {
    check_leased_permits(&Crew::start(MIXED));
}

/// Half of the neighbours take one permit each time, and the others two.
fn check_leased_permits(crew: &Crew) {
    let semaphore = crew.0.neighbours[0].leased("a", "gpus", LIMIT);
    semaphore.set(LIMIT);
    let crowd = |(number, neighbour): (usize, &Neighbour)| {
        let take = if number % 2 == 0 { 1 } else { 2 };
        ["a", "b"].map(|thread| neighbour.leased(thread, "gpus", LIMIT).crowds(take, IN_USE, times()))
    };
    assert_eq!(peak(&crew.0.server, crew.0.neighbours.iter().enumerate().flat_map(crowd)), LIMIT);
    assert_eq!((semaphore.available(), semaphore.limit()), (u64::from(LIMIT), u64::from(LIMIT)));
}

/// Checks that the test above can fail: if the neighbours use semaphores with different names, more permits are in use.
#[test]
fn with_different_names_more_permits_are_in_use() {
    let crew = Crew::start(&[Program::Redisson4, Program::Bandog]);
    let crowds = crew.0.neighbours.iter().zip(["gpus", "other"]).flat_map(|(neighbour, name)| {
        neighbour.leased("a", name, LIMIT).set(LIMIT);
        ["a", "b", "c"].map(|thread| neighbour.leased(thread, name, LIMIT).crowds(1, IN_USE, times()))
    });
    assert!(peak(&crew.0.server, crowds) > LIMIT);
}

#[test]
fn plain_permits_of_java_are_never_above_the_limit() {
    let crew = Crew::start(JAVA);
    let semaphore = crew.0.neighbours[0].semaphore("a", "gpus", LIMIT);
    assert!(semaphore.set_if_absent(LIMIT));
    let crowds = crew.0.neighbours.iter().zip([1, 2]).flat_map(|(neighbour, take)| {
        ["a", "b", "c"].map(|thread| neighbour.semaphore(thread, "gpus", LIMIT).crowds(take, IN_USE, times()))
    });
    assert_eq!(peak(&crew.0.server, crowds), LIMIT);
    assert_eq!(semaphore.available(), u64::from(LIMIT));
}

fn times() -> u32 {
    u32::try_from(TIMES).expect("a small number")
}

/// The highest number of permits that were in use at once. Afterwards no permit is in use.
fn peak(server: &RedisServer, crowds: impl IntoIterator<Item = PendingAnswer>) -> u32 {
    let start = Instant::now();
    let crowds: Vec<_> = crowds.into_iter().collect();
    let answers = crowds.into_iter().map(|crowd| crowd.answer(LONG));
    let peaks: Vec<u32> = answers.map(|answer| answer.parse().unwrap_or_else(|_| panic!("{answer}"))).collect();
    println!("permits in use at once, by thread: {peaks:?}, after {:.1} s", start.elapsed().as_secs_f64());
    assert_eq!(server.cmd(&["GET", IN_USE]).text(), "0");
    peaks.into_iter().max().expect("threads")
}
