//! Fair locks: the order of the queue.

use std::time::Duration;

use super::for_pairs;
use crate::{
    neighbour::{Neighbour, PendingAnswer, SOON},
    objects::{Lock, LockKind},
    rig::{Pair, fair_queue, wait_for_fair_queue},
};

for_pairs! {
    // Promise: X10
    four_waiters_get_the_lock_in_their_order: java_alone java_and_bandog old_java_and_bandog;
    three_waiters_get_the_lock_in_their_order: both_versions;
    a_waiter_that_gives_up_leaves_the_queue: java_alone java_and_bandog old_java_and_bandog;
}

/// The waiters of both neighbours alternate, and the first one is of either neighbour.
fn four_waiters_get_the_lock_in_their_order(pair: &Pair) {
    for (one, two) in pair.both_ways() {
        serve_in_order(pair, fair(two, "holder"), vec![fair(one, "a"), fair(two, "b"), fair(one, "c"), fair(two, "d")]);
    }
}

/// In a queue of both versions of Redisson, a waiter of 3.10.6 must not stand behind a waiter of 4.7.0 that stands
/// behind another waiter of 3.10.6: the deadlines of 3.10.6 are short, and each grant of 4.7.0 shortens them by its own
/// long waiting time. Then the next call removes that waiter.
fn three_waiters_get_the_lock_in_their_order(pair: &Pair) {
    let (one, two) = (&pair.one, &pair.two);
    serve_in_order(pair, fair(two, "holder"), vec![fair(one, "a"), fair(two, "b"), fair(one, "c")]);
}

#[track_caller]
fn serve_in_order(pair: &Pair, holder: Lock, waiters: Vec<Lock>) {
    holder.lock();
    let mut waiting: Vec<(Lock, PendingAnswer)> = Vec::new();
    for waiter in waiters {
        let pending = waiter.waits();
        waiting.push((waiter, pending));
        wait_for_fair_queue(&pair.server, "orders", waiting.len());
    }
    for (neighbour, _) in pair.both_ways() {
        assert!(!fair(neighbour, "other").try_lock());
    }
    let mut holds = holder;
    for (waiter, pending) in waiting.clone() {
        let before = fair_queue(&pair.server, "orders");
        holds.unlock();
        assert_eq!(pending.answer(SOON), "held");
        assert_eq!(fair_queue(&pair.server, "orders"), before[1..], "another waiter than the first got the lock");
        let answered = waiting.iter().filter(|(_, pending)| pending.answered().is_some()).count();
        assert_eq!(answered, waiting.len() - before.len() + 1);
        holds = waiter;
    }
    holds.unlock();
    assert_eq!(fair_queue(&pair.server, "orders"), Vec::<String>::new());
    assert_eq!(pair.server.pttl("orders"), -2);
}

fn a_waiter_that_gives_up_leaves_the_queue(pair: &Pair) {
    for (one, two) in pair.both_ways() {
        let holder = fair(one, "holder");
        holder.lock();
        let impatient = fair(two, "a").waits_for(Duration::from_millis(500));
        wait_for_fair_queue(&pair.server, "orders", 1);
        let patient = fair(one, "b").waits();
        wait_for_fair_queue(&pair.server, "orders", 2);
        assert_eq!(impatient.answer(SOON), "busy");
        wait_for_fair_queue(&pair.server, "orders", 1);
        holder.unlock();
        assert_eq!(patient.answer(SOON), "held");
        fair(one, "b").unlock();
    }
}

fn fair(neighbour: &Neighbour, thread: &str) -> Lock {
    neighbour.lock(LockKind::Fair, thread, "orders")
}
