//! Fair locks whose first waiter is stopped with SIGSTOP until its place has expired, and then continues.

use std::time::{Duration, Instant};

use super::{
    SHORT, for_pairs,
    places::{DEAD_PLACE, deadline, fair, now},
};
use crate::{
    neighbour::{Neighbour, Program, SOON},
    rig::{Pair, fair_queue, wait_for_fair_queue},
};

/// The time limit of a waiter of 4.7.0. Redisson also writes it into the queue, so the waiter is given up soon.
const LIMIT: Duration = Duration::from_secs(4);
/// The time that 3.10.6 writes into the queue for each waiter.
const OLD_WAIT: Duration = Duration::from_secs(5);
/// bandog's time for each waiter in the queue.
const WAIT_MS: i64 = 300_000;
/// Maximum time after which a waiter of bandog finds that the place before it has expired: it polls about once a second,
/// and the machine can be busy.
const POLL_MS: i64 = 8_000;
/// Timeout of the waiter of bandog.
const LATE: Duration = Duration::from_secs(30);

/// The time in ms at which the place of a waiter of bandog expires.
fn place_of(pair: &Pair, owner: &str) -> i64 {
    pair.server.cmd(&["ZSCORE", "bandog:waiting:{orders}", owner]).text().parse().expect("an integer")
}

for_pairs! {
    a_stopped_first_waiter_of_java_delays_bandog_until_its_deadline:
        short_java_and_bandog short_old_java_and_bandog;
    a_stopped_first_waiter_of_bandog_delays_java_until_its_place_expires:
        java_and_bandog old_java_and_bandog;
}

/// The keys say when the stopped waiter is given up: after the ttl of the hold that it saw, and the time for one waiter.
/// bandog gets the lock then, and not before.
fn a_stopped_first_waiter_of_java_delays_bandog_until_its_deadline(pair: &Pair) {
    let has_limit = pair.one.program == Program::Redisson4;
    let holder = fair(&pair.two, "holder");
    holder.lock();
    let stopped = fair(&pair.one, "a");
    let first = if has_limit { stopped.waits_for(LIMIT) } else { stopped.waits() };
    wait_for_fair_queue(&pair.server, "orders", 1);
    // After it has subscribed, 3.10.6 tries again, and this writes its deadline again.
    first.wait_for_sleep();
    let own_time = if has_limit { LIMIT } else { OLD_WAIT };
    let owner = fair_queue(&pair.server, "orders").remove(0);
    let until = deadline(pair, &owner);
    let left = until - now(pair);
    let longest = i64::try_from((SHORT + own_time).as_millis()).expect("a short time");
    assert!(left <= longest && left > longest - 4_000, "the deadline is {left} ms ahead");

    let waiter = fair(&pair.two, "b");
    let second = waiter.waits();
    wait_for_fair_queue(&pair.server, "orders", 2);
    let ours = fair_queue(&pair.server, "orders").remove(1);
    assert_eq!(deadline(pair, &ours), until + WAIT_MS);
    // A command whose answer comes while the process is stopped would fail with a timeout.
    first.wait_for_sleep();
    pair.one.pause();
    holder.unlock();
    assert_eq!(pair.server.pttl("orders"), -2, "the lock is free");
    assert!(!fair(&pair.two, "c").try_lock(), "a call passed a waiter of Java");

    assert_eq!(second.answer(LATE), "held");
    let late = now(pair) - until;
    println!("bandog got the lock {late} ms after the deadline of the stopped waiter, {left} ms after it had joined");
    assert!((0..POLL_MS).contains(&late), "granted {late} ms after the deadline");
    assert_eq!(fair_queue(&pair.server, "orders"), Vec::<String>::new());

    pair.one.resume();
    if has_limit {
        assert_eq!(first.answer(SOON), "busy");
        waiter.unlock();
    } else {
        // The waiter joins again.
        wait_for_fair_queue(&pair.server, "orders", 1);
        assert_eq!(first.answered(), None, "two owners hold the lock, or Redisson failed");
        waiter.unlock();
        assert_eq!(first.answer(SOON), "held");
        stopped.unlock();
    }
    assert_eq!((fair_queue(&pair.server, "orders"), pair.server.pttl("orders")), (Vec::new(), -2));
}

/// Java gets the lock although it does not know places, because a waiter of bandog behind it removes the expired one, and
/// notifies Java. Without the notification, Java would sleep until the ttl that it has seen, and 3.10.6 for 5 minutes.
fn a_stopped_first_waiter_of_bandog_delays_java_until_its_place_expires(pair: &Pair) {
    let stopped = Neighbour::start(Program::Bandog, &pair.server.url(), SHORT);
    let holder = fair(&pair.two, "holder");
    holder.lock();
    let waiters = [fair(&stopped, "a"), fair(&pair.one, "b"), fair(&pair.two, "c")];
    let [first, second, third] = [0, 1, 2].map(|number: usize| {
        let pending = waiters[number].waits();
        wait_for_fair_queue(&pair.server, "orders", number + 1);
        pending
    });
    let queue = fair_queue(&pair.server, "orders");
    stopped.pause();
    let until = place_of(pair, &queue[0]);
    holder.unlock();
    let start = Instant::now();
    assert!(!fair(&pair.two, "d").try_lock(), "a call passed a waiter whose place has not expired");
    assert_eq!(second.answer(DEAD_PLACE), "held");
    let early = until - now(pair);
    println!("Java got the lock {:.1} s after the release", start.elapsed().as_secs_f64());
    assert!(early <= 0, "granted {early} ms before the place of the stopped waiter expired");

    stopped.resume();
    // The continued process joins again, behind the others.
    wait_for_fair_queue(&pair.server, "orders", 2);
    assert_eq!(fair_queue(&pair.server, "orders")[0], queue[2]);
    assert!(first.answered().is_none() && third.answered().is_none(), "two owners hold the lock");
    waiters[1].unlock();
    assert_eq!(third.answer(SOON), "held");
    assert!(first.answered().is_none(), "two owners hold the lock");
    waiters[2].unlock();
    assert_eq!(first.answer(SOON), "held");
    waiters[0].unlock();
    assert_eq!((fair_queue(&pair.server, "orders"), pair.server.pttl("orders")), (Vec::new(), -2));
}
