//! `RFairLock`.

use std::time::{Duration, Instant};

use super::{THREADS, lost_additions};
use crate::{
    java::{Java, PendingAnswer, SOON, Version},
    rig::{JavaPair, fair_queue, wait_for_fair_queue},
    theirs::{Lock, LockKind},
};

#[test]
fn three_waiters_get_the_lock_in_their_order() {
    three_waiters_in_order(&JavaPair::start(Version::Current));
}

#[test]
fn three_waiters_of_both_versions_get_the_lock_in_their_order() {
    three_waiters_in_order(&JavaPair::start(Version::Old));
}

/// The waiters of the second JVM and of the first one alternate.
///
/// In a queue of both versions, a waiter of 3.10.6 must not stand behind a waiter of 4.7.0 that stands behind another
/// waiter of 3.10.6: the deadlines of 3.10.6 are short, and each grant of 4.7.0 shortens them by its own long waiting
/// time. Then the next call removes that waiter.
fn three_waiters_in_order(pair: &JavaPair) {
    let holder = fair(&pair.two, "holder");
    holder.lock();
    let waiters = [fair(&pair.one, "a"), fair(&pair.two, "b"), fair(&pair.one, "c")];
    let mut waiting: Vec<(Lock, PendingAnswer)> = Vec::new();
    for waiter in waiters {
        let pending = waiter.waits();
        waiting.push((waiter, pending));
        wait_for_fair_queue(&pair.server, "orders", waiting.len());
    }
    assert!(!fair(&pair.two, "d").try_lock());
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
    assert!(pair.server.keys().iter().all(|key| key.starts_with("redisson_unlock_latch:")), "{:?}", pair.server.keys());
}

#[test]
fn a_waiter_that_gives_up_leaves_the_queue() {
    let pair = JavaPair::start(Version::Current);
    let holder = fair(&pair.one, "holder");
    holder.lock();
    let impatient = fair(&pair.two, "a").waits_for(Duration::from_millis(300));
    wait_for_fair_queue(&pair.server, "orders", 1);
    let patient = fair(&pair.two, "b").waits();
    wait_for_fair_queue(&pair.server, "orders", 2);
    assert_eq!(impatient.answer(SOON), "busy");
    wait_for_fair_queue(&pair.server, "orders", 1);
    holder.unlock();
    assert_eq!(patient.answer(SOON), "held");
}

#[test]
fn a_forced_unlock_wakes_the_first_waiter_and_the_former_holder_cannot_unlock() {
    let pair = JavaPair::start(Version::Current);
    let holder = fair(&pair.one, "holder");
    holder.lock();
    let waiter = fair(&pair.two, "a");
    let pending = waiter.waits();
    wait_for_fair_queue(&pair.server, "orders", 1);
    assert!(fair(&pair.two, "b").force_unlock());
    assert_eq!(pending.answer(SOON), "held");
    let refused = holder.refused_unlock();
    assert!(refused.starts_with("IllegalMonitorStateException"), "{refused}");
    waiter.unlock();
    assert!(!waiter.force_unlock());
}

/// The lease ends without a message, so the waiter polls when the lease that it saw has passed.
#[test]
fn a_waiter_gets_the_lock_of_a_killed_holder_when_the_lease_has_passed() {
    let pair = JavaPair::start(Version::Current);
    fair(&pair.one, "holder").lock_for_lease(Duration::from_secs(2));
    let pending = fair(&pair.two, "a").waits();
    wait_for_fair_queue(&pair.server, "orders", 1);
    let (start, left) = (Instant::now(), pair.server.pttl("orders"));
    pair.one.kill();
    assert_eq!(pending.answer(SOON), "held");
    let waited = i64::try_from(start.elapsed().as_millis()).expect("a short time");
    assert!(waited + 50 >= left, "granted after {waited} ms although {left} ms were left");
}

#[test]
fn no_addition_is_lost() {
    assert_eq!(lost_additions(LockKind::Fair, Version::Current, THREADS, |_| "orders".into()), 0);
}

/// One thread of each version. With more threads the test would take minutes, because waiters of 3.10.6 are removed
/// from the queue and sleep until the ttl has passed; see [`three_waiters_in_order`].
#[test]
fn no_addition_is_lost_between_the_versions() {
    assert_eq!(lost_additions(LockKind::Fair, Version::Old, 1, |_| "orders".into()), 0);
}

/// Checks that the other tests can fail: if each thread has a lock of its own, additions must be lost.
#[test]
fn with_different_names_additions_are_lost() {
    assert!(lost_additions(LockKind::Fair, Version::Current, THREADS, |thread| format!("orders {thread}")) > 0);
}

fn fair(java: &Java, thread: &str) -> Lock {
    java.lock(LockKind::Fair, thread, "orders")
}
