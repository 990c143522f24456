//! `RPermitExpirableSemaphore` and `RSemaphore`.

use std::time::{Duration, Instant};

use bandog_testkit::{RedisServer, eventually};

use super::CONTENDED;
use crate::{
    java::{PendingAnswer, SOON, Version},
    rig::{JavaPair, semaphore_channel, subscribers},
    theirs::{Lease, PermitIds},
};

/// Number of permits in the contended tests.
const LIMIT: u32 = 3;
/// Number of turns of each thread in the contended tests.
const TIMES: u32 = 150;
/// The key of the number of permits in use.
const IN_USE: &str = "in use";

const MINUTE: Lease = Lease::Of(Duration::from_secs(60));

#[test]
fn leased_permits_are_never_above_the_limit() {
    let pair = JavaPair::start(Version::Current);
    let semaphore = pair.one.leased("a", "gpus");
    semaphore.set(LIMIT);
    let threads = ["a", "b", "c"];
    let ones = threads.map(|thread| pair.one.leased(thread, "gpus").crowds(1, IN_USE, TIMES));
    let twos = threads.map(|thread| pair.two.leased(thread, "gpus").crowds(2, IN_USE, TIMES));
    assert_eq!(peak(&pair.server, ones.into_iter().chain(twos)), LIMIT);
    assert_eq!((semaphore.available(), semaphore.limit()), (u64::from(LIMIT), u64::from(LIMIT)));
}

#[test]
fn plain_permits_are_never_above_the_limit() {
    let pair = JavaPair::start(Version::Current);
    let semaphore = pair.one.semaphore("a", "gpus");
    assert!(semaphore.set_if_absent(LIMIT));
    let threads = ["a", "b", "c"];
    let ones = threads.map(|thread| pair.one.semaphore(thread, "gpus").crowds(1, IN_USE, TIMES));
    let twos = threads.map(|thread| pair.two.semaphore(thread, "gpus").crowds(2, IN_USE, TIMES));
    assert_eq!(peak(&pair.server, ones.into_iter().chain(twos)), LIMIT);
    assert_eq!(semaphore.available(), u64::from(LIMIT));
}

/// Checks that the other tests can fail: if the JVMs use semaphores with different names, more permits are in use.
#[test]
fn with_different_names_more_permits_are_in_use() {
    let pair = JavaPair::start(Version::Current);
    pair.one.leased("a", "gpus").set(LIMIT);
    pair.two.leased("a", "other").set(LIMIT);
    let threads = ["a", "b", "c"];
    let one = threads.map(|thread| pair.one.leased(thread, "gpus").crowds(1, IN_USE, TIMES));
    let two = threads.map(|thread| pair.two.leased(thread, "other").crowds(1, IN_USE, TIMES));
    assert!(peak(&pair.server, one.into_iter().chain(two)) > LIMIT);
}

/// The highest number of permits that were in use at once. Afterwards no permit is in use.
fn peak(server: &RedisServer, crowds: impl IntoIterator<Item = PendingAnswer>) -> u32 {
    let start = Instant::now();
    let answers = crowds.into_iter().map(|crowd| crowd.answer(CONTENDED));
    let peaks: Vec<u32> = answers.map(|answer| answer.parse().unwrap_or_else(|_| panic!("{answer}"))).collect();
    println!("permits in use at once, by thread: {peaks:?}, after {:.1} s", start.elapsed().as_secs_f64());
    assert_eq!(server.cmd(&["GET", IN_USE]).text(), "0");
    peaks.into_iter().max().expect("threads")
}

#[test]
fn leased_permits_are_granted_all_or_none_and_a_release_wakes_the_waiter() {
    let pair = JavaPair::start(Version::Current);
    let (ours, other) = (pair.one.leased("a", "gpus"), pair.two.leased("a", "gpus"));
    assert!(ours.set_if_absent(3));
    assert!(!other.set_if_absent(5));
    let two = ours.acquire(2, MINUTE);
    assert_eq!(two.count(), 2);
    assert!(other.try_acquire(2, MINUTE).is_none());
    assert_eq!(other.available(), 1);
    let endless = other.try_acquire(1, Lease::Endless).expect("available");

    let pending = waits(&pair.server, || other.waits(2, MINUTE));
    assert!(pending.answered().is_none());
    ours.release(&two);
    let granted = PermitIds::read(&pending.answer(SOON)).expect("granted");
    assert_eq!((granted.count(), ours.available()), (2, 0));
    other.release(&granted);
    other.release(&endless);
    assert_eq!(ours.available(), 3);
}

#[test]
fn plain_permits_are_granted_all_or_none_and_a_release_wakes_the_waiter() {
    let pair = JavaPair::start(Version::Current);
    let (ours, other) = (pair.one.semaphore("a", "gpus"), pair.two.semaphore("a", "gpus"));
    assert!(ours.set_if_absent(3));
    assert!(!other.set_if_absent(5));
    ours.acquire(2);
    assert!(!other.try_acquire(2));
    assert_eq!(other.available(), 1);
    assert_eq!(other.waits_for(2, Duration::from_millis(100)).answer(SOON), "busy");

    let pending = waits(&pair.server, || other.waits(2));
    assert!(pending.answered().is_none());
    ours.release(1);
    assert_eq!(pending.answer(SOON), "held");
    assert_eq!(ours.available(), 0);
}

#[test]
fn a_higher_limit_wakes_waiters() {
    let pair = JavaPair::start(Version::Current);
    let leased = pair.one.leased("a", "leased");
    leased.set(1);
    leased.acquire(1, MINUTE);
    let pending = waits_on(&pair.server, "leased", || pair.two.leased("a", "leased").waits(2, MINUTE));
    leased.set(3);
    assert_eq!(PermitIds::read(&pending.answer(SOON)).expect("granted").count(), 2);
    assert_eq!((leased.available(), leased.limit()), (0, 3));

    let plain = pair.one.semaphore("a", "plain");
    assert!(plain.set_if_absent(1));
    plain.acquire(1);
    let pending = waits_on(&pair.server, "plain", || pair.two.semaphore("a", "plain").waits(2));
    plain.add(2);
    assert_eq!(pending.answer(SOON), "held");
}

/// The plain semaphore has no lease, so the permits of a killed JVM are lost.
#[test]
fn permits_of_a_killed_jvm_come_back_only_if_they_are_leased() {
    let pair = JavaPair::start(Version::Current);
    let (leased, plain) = (pair.one.leased("a", "leased"), pair.one.semaphore("a", "plain"));
    leased.set(1);
    assert!(plain.set_if_absent(1));
    plain.acquire(1);
    leased.acquire(1, Lease::Of(Duration::from_secs(1)));
    pair.one.kill();
    let other = pair.two.leased("a", "leased");
    let granted = PermitIds::read(&other.waits_for(1, MINUTE, Duration::from_secs(5)).answer(SOON));
    assert!(granted.is_some(), "the permit did not come back");
    assert!(!pair.two.semaphore("a", "plain").try_acquire(1));
}

fn waits(server: &RedisServer, begin: impl FnOnce() -> PendingAnswer) -> PendingAnswer {
    waits_on(server, "gpus", begin)
}

/// Begins to wait, and returns when the thread's JVM has subscribed.
fn waits_on(server: &RedisServer, name: &str, begin: impl FnOnce() -> PendingAnswer) -> PendingAnswer {
    let pending = begin();
    eventually(SOON, || subscribers(server, &semaphore_channel(name)) == 1);
    pending
}
