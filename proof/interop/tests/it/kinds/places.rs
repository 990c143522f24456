//! Processes that are killed or stopped while they hold a lock, or while they wait for one.

use std::time::{Duration, Instant};

use super::{SHORT, java_alone, java_and_bandog, short_java_and_bandog};
use crate::{
    neighbour::{Neighbour, PendingAnswer, Program, SOON},
    objects::{Lease, LockKind, PermitIds},
    rig::{Pair, fair_queue, wait_for_fair_queue},
};

/// Maximum time until a fair lock is free again after its first waiter died: its place ends after 5 s, the next waiter
/// of bandog finds that by a poll, and the next waiter of Java by a poll after the ttl that it has seen.
pub(super) const DEAD_PLACE: Duration = Duration::from_secs(15);

/// The key of the deadlines of the waiters.
const DEADLINES: &str = "redisson_lock_timeout:{orders}";

// Promise: X6
#[test]
fn a_killed_jvm_loses_its_locks_of_all_kinds_to_bandog() {
    let pair = short_java_and_bandog();
    kill_holder(&pair, &pair.one, &pair.two);
}

#[test]
fn a_killed_process_of_bandog_loses_its_locks_of_all_kinds_to_java() {
    let pair = short_java_and_bandog();
    kill_holder(&pair, &pair.two, &pair.one);
}

/// One process holds locks of all kinds, and the other one waits for all of them and is a reader of one of them.
fn kill_holder(pair: &Pair, holder: &Neighbour, waiter: &Neighbour) {
    let held =
        [(LockKind::Fair, "fair"), (LockKind::Write, "write"), (LockKind::Read, "read"), (LockKind::Read, "shared")];
    for (kind, name) in held {
        holder.lock(kind, name, name).lock();
    }
    pair.one.leased("limit", "gpus", 2).set(2);
    // Java does not renew permits, so they have a lease.
    holder.leased("gpus", "gpus", 2).acquire(2, Lease::Of(SHORT));
    let survivor = waiter.lock(LockKind::Read, "survivor", "shared");
    survivor.lock();

    let wanted =
        [(LockKind::Fair, "fair"), (LockKind::Read, "write"), (LockKind::Write, "read"), (LockKind::Write, "shared")];
    let waits: Vec<(&str, PendingAnswer)> =
        wanted.map(|(kind, name)| (name, waiter.lock(kind, name, name).waits())).into();
    let permits = waiter.leased("gpus", "gpus", 2).waits(1, Lease::Of(SHORT));
    let left = i64::min(pair.server.pttl("fair"), pair.server.pttl("write"));
    holder.kill();
    let start = Instant::now();
    for (name, pending) in waits {
        if name == "shared" {
            assert!(pending.answered().is_none(), "a writer got the lock beside a reader");
            survivor.unlock();
        }
        assert_eq!(pending.answer(SOON), "held", "{name}");
        println!("{name}: {:.0} ms after the kill", start.elapsed().as_secs_f64() * 1e3);
        if name == "fair" {
            let waited = i64::try_from(start.elapsed().as_millis()).expect("a short time");
            assert!(waited + 50 >= left, "granted after {waited} ms although {left} ms were left");
        }
    }
    assert!(PermitIds::read(&permits.answer(SOON)).is_some());
}

/// The place of a dead waiter of bandog ends after 5 s. Java waits 5 minutes for its deadline if no process of bandog
/// uses the lock.
#[test]
fn a_killed_waiter_of_bandog_delays_a_fair_lock_for_a_short_time() {
    let pair = short_java_and_bandog();
    let dead = Neighbour::start(Program::Bandog, &pair.server.url(), SHORT);
    let holder = fair(&pair.one, "holder");
    holder.lock();
    let waiters = [fair(&dead, "a"), fair(&pair.one, "b"), fair(&pair.two, "c")];
    let mut pending = Vec::new();
    for waiter in &waiters {
        pending.push(waiter.waits());
        wait_for_fair_queue(&pair.server, "orders", pending.len());
    }
    dead.kill();
    holder.unlock();
    let start = Instant::now();
    let mut pending = pending.into_iter().skip(1);
    let mut next = || pending.next().expect("a waiter").answer(DEAD_PLACE);
    assert_eq!(next(), "held");
    println!("Java got the lock {:.1} s after the release", start.elapsed().as_secs_f64());
    waiters[1].unlock();
    assert_eq!(next(), "held");
    waiters[2].unlock();
    assert_eq!(fair_queue(&pair.server, "orders"), Vec::<String>::new());
}

/// A dead waiter of Java keeps its place until Redisson's deadline, also for bandog.
// Promise: X6
#[test]
fn a_killed_waiter_of_java_keeps_its_place_until_javas_deadline() {
    let pair = java_and_bandog();
    let holder = fair(&pair.two, "holder");
    holder.lock();
    let dead = fair(&pair.one, "a").waits();
    wait_for_fair_queue(&pair.server, "orders", 1);
    let waiter = fair(&pair.two, "b").waits();
    wait_for_fair_queue(&pair.server, "orders", 2);
    let queue = fair_queue(&pair.server, "orders");
    pair.one.kill();
    holder.unlock();
    assert_eq!(pair.server.pttl("orders"), -2, "the lock is free");
    assert!(!fair(&pair.two, "c").try_lock(), "a call passed a waiter of Java");
    assert_eq!(fair_queue(&pair.server, "orders"), queue);
    // The ttl of the hold was 30 s at most, and Redisson adds 5 minutes for each place.
    let left = deadline(&pair, &queue[0]) - now(&pair);
    assert!((300_000..=330_000).contains(&left), "the deadline of the dead waiter is {left} ms ahead");
    assert_eq!(deadline(&pair, &queue[1]) - deadline(&pair, &queue[0]), 300_000);
    assert!(dead.answered().is_none() && waiter.answered().is_none());

    // The deadline passes.
    pair.server.cmd(&["ZADD", DEADLINES, &(now(&pair) - 1).to_string(), &queue[0]]);
    assert_eq!(waiter.answer(SOON), "held");
    assert_eq!(fair_queue(&pair.server, "orders"), Vec::<String>::new());
}

/// A stopped process of bandog loses its place after 5 s. When it continues, it joins the queue again.
#[test]
fn a_stopped_first_waiter_of_bandog_loses_its_place_and_joins_again() {
    let pair = java_and_bandog();
    let stopped = Neighbour::start(Program::Bandog, &pair.server.url(), SHORT);
    let holder = fair(&pair.one, "holder");
    holder.lock();
    let first = fair(&stopped, "a").waits();
    wait_for_fair_queue(&pair.server, "orders", 1);
    let second = fair(&pair.two, "b").waits();
    wait_for_fair_queue(&pair.server, "orders", 2);
    stopped.pause();
    holder.unlock();
    let start = Instant::now();
    assert_eq!(second.answer(DEAD_PLACE), "held");
    println!("the second waiter got the lock {:.1} s after the release", start.elapsed().as_secs_f64());
    stopped.resume();
    wait_for_fair_queue(&pair.server, "orders", 1);
    assert!(first.answered().is_none(), "two owners hold the lock");
    fair(&pair.two, "b").unlock();
    assert_eq!(first.answer(SOON), "held");
    fair(&stopped, "a").unlock();
}

/// A stopped holder of bandog notices the loss as soon as it continues.
#[test]
fn a_stopped_holder_of_bandog_loses_its_locks_to_java_and_notices_it() {
    let pair = short_java_and_bandog();
    let kinds = [(LockKind::Fair, "fair"), (LockKind::Write, "write"), (LockKind::Read, "read")];
    let held = kinds.map(|(kind, name)| pair.two.lock(kind, name, name));
    held.iter().for_each(|lock| lock.lock());
    let losses: Vec<_> = held.iter().map(|lock| lock.reports_loss()).collect();
    let wanted = [LockKind::Fair, LockKind::Read, LockKind::Write];
    let waits: Vec<_> =
        kinds.iter().zip(wanted).map(|((_, name), kind)| pair.one.lock(kind, name, name).waits()).collect();
    pair.two.pause();
    for pending in waits {
        assert_eq!(pending.answer(SOON), "held");
    }
    assert!(losses.iter().all(|loss| loss.answered().is_none()));
    pair.two.resume();
    for loss in losses {
        assert_eq!(loss.answer(Duration::from_secs(1)), "lost");
    }
    for lock in held {
        let refused = lock.refused_unlock();
        assert!(refused.contains("lost"), "{refused}");
    }
    // The refused releases did not free the locks of Java.
    for ((_, name), kind) in kinds.iter().zip(wanted) {
        pair.one.lock(kind, name, name).unlock();
    }
}

/// The lease ends without a message, so the waiter polls when the lease that it saw has passed.
#[test]
fn a_waiter_of_java_gets_the_fair_lock_of_a_killed_jvm_when_the_lease_has_passed() {
    let pair = java_alone();
    fair(&pair.one, "holder").lock_for_lease(Duration::from_secs(2));
    let pending = fair(&pair.two, "a").waits();
    wait_for_fair_queue(&pair.server, "orders", 1);
    let (start, left) = (Instant::now(), pair.server.pttl("orders"));
    pair.one.kill();
    assert_eq!(pending.answer(SOON), "held");
    let waited = i64::try_from(start.elapsed().as_millis()).expect("a short time");
    assert!(waited + 50 >= left, "granted after {waited} ms although {left} ms were left");
}

pub(super) fn fair(neighbour: &Neighbour, thread: &str) -> crate::objects::Lock {
    neighbour.lock(LockKind::Fair, thread, "orders")
}

/// The time in ms at which Redisson gives this waiter up.
pub(super) fn deadline(pair: &Pair, owner: &str) -> i64 {
    pair.server.cmd(&["ZSCORE", DEADLINES, owner]).text().parse().expect("an integer")
}

/// The server's time in ms.
pub(super) fn now(pair: &Pair) -> i64 {
    let time = pair.server.cmd(&["TIME"]).texts();
    let [seconds, micros] = [&time[0], &time[1]].map(|part| part.parse::<i64>().expect("a number"));
    seconds * 1000 + micros / 1000
}
