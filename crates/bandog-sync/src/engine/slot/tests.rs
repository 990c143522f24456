//! A model test: it drives the slots of one key, and the pending releases of that key, through random orders of events.
//! The events are calls, dropped futures, dropped guards, downgrades, answers, lost answers, requests that the store
//! applies late, notifications, timers, and pauses of the process.
//!
//! The store is [`LockState`], whose rules the conformance laws check. A run consists of episodes; each begins with a
//! new key, which is a mutex, a fair mutex, a read-write lock or a semaphore. After each step the test checks the
//! promises to users ([`World::check`], and the asserts at the handling of each effect). At the end of an episode all
//! faults stop. Then every call must get an answer, the slots must become unused, and the lock must be free in the
//! store, without places.
//!
//! Three environment variables control the test. `BANDOG_MODEL_STEPS` is the number of steps of each family, 500,000 by
//! default. `BANDOG_MODEL_SEED` is the seed, 1 by default; the same seed gives the same steps. If `BANDOG_MODEL_EPISODE`
//! is set to the number that a failure has printed, only that episode runs, and every request and answer is printed.
//!
//! - `world`: the state of an episode; `users`: what callers do; `client`: what the engine does; `store`: what the store,
//!   other clients and the clock do; `checks`: what must be true;
//! - `scaling`: tests of the work for many calls, which are not part of the model.

mod checks;
mod client;
mod scaling;
mod store;
mod users;
mod world;

use std::{
    cell::Cell,
    env,
    rc::Rc,
    thread::{self, ThreadId},
    time::Duration,
};

use self::world::{TestFamily, World};
use crate::caller::Caller;

const TIMEOUT: Duration = Duration::from_millis(300);
const FIXED_LEASE: Duration = Duration::from_millis(400);
/// Maximum number of steps in one episode.
const EPISODE: u64 = 600;

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn random_interleavings_keep_the_promises_of_a_mutex() {
    let Sums { turns, handed_over, passed, shared, refused, timed_out, lost, late, cancelled, offered, .. } =
        run(TestFamily::Mutex);
    must_be_tried(&[turns, handed_over, passed, shared, refused, timed_out, lost, late, cancelled, offered]);
}

// Promise: K15
#[test]
fn random_interleavings_keep_the_promises_of_a_fair_mutex() {
    let Sums { turns, followed, refused, timed_out, lost, late, cancelled, .. } = run(TestFamily::Fair);
    must_be_tried(&[turns, followed, refused, timed_out, lost, late, cancelled]);
}

// Promise: K15
#[test]
fn random_interleavings_keep_the_promises_of_a_read_write_lock() {
    let Sums { turns, handed_over, passed, refused, timed_out, lost, late, cancelled, offered, downgraded, .. } =
        run(TestFamily::ReadWrite);
    must_be_tried(&[turns, handed_over, passed, refused, timed_out, lost, late, cancelled, offered, downgraded]);
}

// Promise: K15
#[test]
fn random_interleavings_keep_the_promises_of_a_semaphore() {
    let Sums { turns, handed_over, passed, refused, timed_out, lost, late, cancelled, offered, further, .. } =
        run(TestFamily::Permits);
    must_be_tried(&[turns, handed_over, passed, refused, timed_out, lost, late, cancelled, offered, further]);
}

#[test]
fn a_call_that_waits_does_not_read_the_turns_of_other_callers() {
    let stranger = thread::spawn(|| thread::current().id()).join().unwrap();
    scaling::strangers_do_not_read_the_turns(Caller::Thread(stranger));
}

/// If one of these events never happened, the test would prove nothing about it.
fn must_be_tried(counts: &[u64]) {
    if env::var_os("BANDOG_MODEL_EPISODE").is_none() {
        let steps = number("BANDOG_MODEL_STEPS", 500_000);
        assert!(counts.iter().all(|count| *count > steps / 20_000), "{counts:?}");
    }
}

fn run(family: TestFamily) -> Sums {
    let steps = number("BANDOG_MODEL_STEPS", 500_000);
    let callers = [thread::current().id(), thread::spawn(|| thread::current().id()).join().unwrap()];
    let mut sums = Sums::default();
    if env::var_os("BANDOG_MODEL_EPISODE").is_some() {
        run_episode(family, number("BANDOG_MODEL_EPISODE", 0), callers, &mut sums);
        return sums;
    }
    let (mut done, mut episode) = (0, number("BANDOG_MODEL_SEED", 1) << 32);
    while done < steps {
        done += run_episode(family, episode, callers, &mut sums);
        episode += 1;
    }
    println!("{family:?}: {done} steps, {sums:?}");
    sums
}

/// Numbers of the events that the test must try.
#[derive(Debug, Default)]
struct Sums {
    turns: u64,
    /// Turns that the slots have started, also for callers that have gone.
    began: u64,
    ended: u64,
    handed_over: u64,
    passed: u64,
    /// Turns of calls that left their own slots for the hold of a call before them.
    followed: u64,
    shared: u64,
    refused: u64,
    timed_out: u64,
    lost: u64,
    /// Requests that the store applied after the client had received an error for them.
    late: u64,
    /// Calls that were dropped while they waited.
    cancelled: u64,
    /// Claims that said that this client starves.
    offered: u64,
    /// Further claims of a semaphore's slot.
    further: u64,
    /// Turns of readers that began with a downgrade.
    downgraded: u64,
}

fn run_episode(family: TestFamily, seed: u64, callers: [ThreadId; 2], sums: &mut Sums) -> u64 {
    fastrand::seed(seed);
    let mut world = World::new(family, seed, callers, std::mem::take(sums));
    let trace = Trace { family, seed, steps: Rc::clone(&world.trace) };
    let steps = world.rng.u64(EPISODE / 4..EPISODE);
    for _ in 0..steps {
        world.step();
        world.check();
    }
    world.finish();
    drop(trace);
    *sums = world.sums;
    steps
}

/// Prints the last steps if the episode fails.
struct Trace {
    family: TestFamily,
    seed: u64,
    steps: Rc<Cell<Vec<(u64, &'static str)>>>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        if thread::panicking() {
            let steps = self.steps.take();
            println!("{:?}, episode {}, the last of {} steps:", self.family, self.seed, steps.len());
            for (millis, step) in &steps[steps.len().saturating_sub(60)..] {
                println!("{millis:>8} ms  {step}");
            }
        }
    }
}
