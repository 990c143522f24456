//! Histories of queues with limits and pauses.

use super::{End, FaultKind, History, MS, Op, Outcome, Queue, breaks, element, fault, push};

/// Adds elements of a queue whose handlers begin at these times in milliseconds, and take this time.
fn handled(history: &mut History, queue: Queue, begins: impl IntoIterator<Item = u64>, takes: u64) {
    for (begin, value) in begins.into_iter().zip(history.handlings.len() as u64 + 1..) {
        let pushed = Outcome::Pushed { element: element(value), is_new: true };
        history.call(value, queue, push(value), pushed);
        let handling = history.handle(begin, value, value, 1, End::Ok);
        (handling.queue, handling.left, handling.until) =
            (queue, Some(((begin + takes) * MS, End::Ok)), (begin + takes) * MS);
    }
}

#[test]
fn the_concurrency_is_limited() {
    let of = |handlers: u64, limited_at| {
        let mut history = History::default();
        history.call(0, Queue::Limited, Op::Limit(6), Outcome::Ok);
        history.call(limited_at, Queue::Limited, Op::Limit(3), Outcome::Ok);
        handled(&mut history, Queue::Limited, (0..handlers).map(|number| 9_000 + number * 10), 100);
        history
    };
    breaks(&of(3, 5_000), &[]);
    breaks(&of(4, 5_000), &["limit"]);
    // They may have been taken before.
    breaks(&of(4, 7_000), &[]);
    breaks(&of(7, 7_000), &["limit"]);
    // The lease of one was over before.
    let mut over = of(4, 5_000);
    over.handlings[0].until = 9_020 * MS;
    breaks(&over, &[]);
    let mut unclear = of(4, 5_000);
    unclear.call(6_500, Queue::Limited, Op::Limit(0), Outcome::Unclear);
    breaks(&unclear, &[]);
    let mut flushed = of(4, 5_000);
    flushed.recorded.disturbances.faults.push(fault(FaultKind::Flushed, None, 8_000, 8_001));
    breaks(&flushed, &[]);
    // Other queues have no limit.
    let mut plain = of(0, 5_000);
    handled(&mut plain, Queue::Plain(1), (0..9).map(|number| 9_000 + number), 100);
    breaks(&plain, &[]);
}

#[test]
fn the_rate_is_limited() {
    let of = |per_second: u64, limited_at| {
        let mut history = History::default();
        history.call(0, Queue::Rated, Op::Rate(60), Outcome::Ok);
        history.call(limited_at, Queue::Rated, Op::Rate(20), Outcome::Ok);
        let begins = (0..per_second * 10).map(|number| 20_000 + number * 1_000 / per_second);
        handled(&mut history, Queue::Rated, begins, 1);
        history
    };
    breaks(&of(20, 5_000), &[]);
    breaks(&of(30, 5_000), &["rate"]);
    // The greater rate was in force before.
    breaks(&of(30, 20_000), &[]);
}

#[test]
fn a_paused_queue_delivers_nothing() {
    let of = |begin: u64| {
        let mut history = History::default();
        history.call(1_000, Queue::Rated, Op::Pause, Outcome::Ok);
        handled(&mut history, Queue::Rated, [begin], 5);
        history
    };
    // It may have been taken before, and have waited for a slot, or for its process.
    breaks(&of(2_000), &[]);
    breaks(&of(3_000), &["paused"]);
    let mut stopped = of(3_000);
    stopped.recorded.disturbances.faults.push(fault(FaultKind::Stop, Some(1), 900, 2_900));
    breaks(&stopped, &[]);
    let mut stopped = of(4_500);
    stopped.recorded.disturbances.faults.push(fault(FaultKind::Stop, Some(1), 900, 2_900));
    breaks(&stopped, &["paused"]);
    let mut flushed = of(3_000);
    flushed.recorded.disturbances.faults.push(fault(FaultKind::Flushed, None, 2_500, 2_501));
    breaks(&flushed, &[]);
    for (resumed_at, outcome, laws) in [
        (2_900, Outcome::Ok, &[][..]),
        (2_900, Outcome::Unclear, &[]),
        (3_100, Outcome::Ok, &["paused"]),
        (900, Outcome::Ok, &["paused"]),
        // The store may apply it later.
        (900, Outcome::Unclear, &[]),
    ] {
        let mut history = of(3_000);
        history.call(resumed_at, Queue::Rated, Op::Resume, outcome);
        breaks(&history, laws);
    }
    let mut refused = of(3_000);
    refused.recorded.calls[0].outcome = Some(Outcome::Refused);
    breaks(&refused, &[]);
}
