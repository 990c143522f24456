//! A release wakes a waiter of the other neighbour by a notification.

use std::time::{Duration, Instant};

use bandog_testkit::eventually;

use super::for_pairs;
use crate::{
    neighbour::{Neighbour, PendingAnswer, SOON},
    objects::{Lease, LockKind, PermitIds},
    rig::{PROMPT, Pair, TTL, blocked, median, settle, show},
};

/// Number of hand-overs in each direction.
const TURNS: usize = 12;
/// Timeout of a hand-over. Java polls after the ttl only.
const LATE: Duration = Duration::from_secs(3);

for_pairs! {
    a_release_of_a_plain_lock_wakes_the_waiter: old_java_and_bandog;
    // Promise: X9
    a_release_of_a_fair_lock_wakes_the_waiter: java_and_bandog old_java_and_bandog;
    // Promise: X9
    a_release_of_a_writer_wakes_the_reader: java_and_bandog old_java_and_bandog;
    // Promise: X9
    a_release_of_a_reader_wakes_the_writer: java_and_bandog old_java_and_bandog;
    // Promise: X11
    a_release_of_a_writer_wakes_the_writer: java_and_bandog old_java_and_bandog;
    // Promise: X9
    a_release_of_permits_wakes_the_waiter: java_and_bandog;
}

fn a_release_of_a_plain_lock_wakes_the_waiter(pair: &Pair) {
    hand_over(pair, LockKind::Plain, LockKind::Plain);
}

fn a_release_of_a_fair_lock_wakes_the_waiter(pair: &Pair) {
    hand_over(pair, LockKind::Fair, LockKind::Fair);
}

fn a_release_of_a_writer_wakes_the_reader(pair: &Pair) {
    hand_over(pair, LockKind::Write, LockKind::Read);
}

fn a_release_of_a_reader_wakes_the_writer(pair: &Pair) {
    hand_over(pair, LockKind::Read, LockKind::Write);
}

fn a_release_of_a_writer_wakes_the_writer(pair: &Pair) {
    hand_over(pair, LockKind::Write, LockKind::Write);
}

fn hand_over(pair: &Pair, held: LockKind, wanted: LockKind) {
    for (holder, waiter) in pair.both_ways() {
        let (held, wanted) = (holder.lock(held, "a", "orders"), waiter.lock(wanted, "b", "orders"));
        let mut times = Vec::new();
        for _ in 0..TURNS {
            held.lock();
            settle(&pair.server);
            let pending = blocked(&pair.server, || wanted.waits());
            pending.wait_for_sleep();
            times.push(time_of(pending, || held.unlock(), |answer| assert_eq!(answer, "held")));
            wanted.unlock();
        }
        check_median(holder, waiter, &mut times);
    }
}

fn a_release_of_permits_wakes_the_waiter(pair: &Pair) {
    pair.one.leased("a", "gpus", 3).set(3);
    for (holder, waiter) in pair.both_ways() {
        let (held, wanted) = (holder.leased("a", "gpus", 3), waiter.leased("b", "gpus", 3));
        let lease = Lease::Of(TTL);
        let mut times = Vec::new();
        for turn in 0..TURNS {
            let stays = held.acquire(1, lease);
            // A release of one permit and a release of several permits publish different numbers.
            let freed = held.acquire(if turn % 2 == 0 { 2 } else { 1 }, lease);
            let take = u32::try_from(freed.count()).expect("a few");
            let take = if take == 1 { 2 } else { take };
            let mut granted = None;
            let read = |answer: &str| granted = PermitIds::read(answer);
            settle(&pair.server);
            let scripts = || pair.server.calls("evalsha");
            let before = scripts();
            let pending = blocked(&pair.server, || wanted.waits(take, lease));
            // A waiter claims before and after its subscription.
            eventually(SOON, || scripts() >= before + 2);
            times.push(time_of(pending, || held.release(&freed), read));
            wanted.release(&granted.expect("granted"));
            held.release(&stays);
        }
        check_median(holder, waiter, &mut times);
    }
    assert_eq!(pair.one.leased("a", "gpus", 3).available(), 3);
}

/// The time from a release to the answer of the waiter.
fn time_of(pending: PendingAnswer, release: impl FnOnce(), read: impl FnOnce(&str)) -> Duration {
    let start = Instant::now();
    release();
    let answer = pending.answer(LATE);
    let time = start.elapsed();
    read(&answer);
    time
}

/// Checks that the waiter was notified. If it polled, once a second, the median would be much longer.
#[track_caller]
fn check_median(holder: &Neighbour, waiter: &Neighbour, times: &mut [Duration]) {
    let what = format!("{:?} to {:?}", holder.program, waiter.program);
    show(&what, times);
    assert!(median(times) < PROMPT, "{what}: {times:?}");
}
