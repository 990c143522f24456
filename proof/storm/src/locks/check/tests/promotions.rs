//! Histories of stores with several servers. A replica that takes over may lose what was written last, but no grant.

use super::*;
use crate::plan::{BARRIERS, LATCHES};

const OVERLAP: &str = "no two clients hold one lock at the same time";
const OVER_LIMIT: &str = "no more permits are held than the limit";
const QUEUE: &str = "a fair mutex is granted in the order of its queue";
const TWO_LEADERS: &str = "each time a barrier opens, it has one leader and its own parties";
const NOT_COUNTED: &str = "each answered count-down of a latch counts";

/// The faults after which the latest writes may be missing.
const UNDOING: [FaultKind; 4] =
    [FaultKind::MasterKilled, FaultKind::MasterStopped, FaultKind::Failover, FaultKind::Promoted];
/// The other faults of servers.
const OTHERS: [FaultKind; 5] = [
    FaultKind::HandedOver,
    FaultKind::NodeEmpty,
    FaultKind::SlotsMoved,
    FaultKind::SentinelKilled,
    FaultKind::ServerStop,
];

/// Asserts that these stories break this law after each other fault, and nothing after faults that undo writes.
#[track_caller]
fn is_excused_only_if_undone(law: &str, story: impl Fn(FaultKind) -> Findings) {
    UNDOING.into_iter().for_each(|kind| is_broken(&story(kind), &[]));
    OTHERS.into_iter().for_each(|kind| is_broken(&story(kind), &[law]));
}

#[test]
fn no_fault_of_several_servers_excuses_an_overlap() {
    for kind in UNDOING.into_iter().chain(OTHERS) {
        let mut story = Story::new();
        story.holds(1, 0, 10, 100, 5);
        story.fault(kind, 20, 80, None);
        story.holds(2, 0, 50, 60, 6);
        is_broken(&story.ends(200), &[OVERLAP]);
    }
}

#[test]
fn a_count_down_can_be_lost_while_a_replica_takes_over() {
    let story = |kind, fault| {
        let mut story = Story::new();
        let mut call = |op, at, outcome| story.calls(1, (at, at + 2), LATCHES.start, op, outcome);
        call(Op::Set(1), 10, Outcome::Ok);
        call(Op::CountDown(1), 30, Outcome::Found(0));
        call(Op::Wait, 90, Outcome::No);
        story.fault(kind, fault, fault + 20, None);
        story.ends(200)
    };
    is_excused_only_if_undone(NOT_COUNTED, |kind| story(kind, 25));
    // The fault began after the last call.
    is_broken(&story(FaultKind::MasterKilled, 100), &[NOT_COUNTED]);
}

#[test]
fn a_change_of_a_limit_can_be_lost_while_a_replica_takes_over() {
    let story = |kind, fault| {
        let mut story = Story::new();
        story.of(Share::Permits(1)).holds(4, 0, 1, 2, 1);
        story.limit(10, 11, GREATER_LIMIT, true);
        story.limit(100, 101, LIMIT, true);
        story.fault(kind, fault, fault + 40, None);
        story.of(Share::Permits(2)).holds(1, 0, 2_000, 2_050, 5);
        story.holds(2, 0, 2_010, 2_060, 6);
        story.ends(3_000)
    };
    is_excused_only_if_undone(OVER_LIMIT, |kind| story(kind, 70));
    is_broken(&story(FaultKind::MasterKilled, 200), &[OVER_LIMIT]);
}

#[test]
fn a_queue_can_be_lost_while_a_replica_takes_over() {
    is_excused_only_if_undone(QUEUE, |kind| {
        let mut story = Story::new();
        story.of(Share::Fair);
        story.holds(1, 0, 1, 100, 1);
        story.asks(2, 0, 10);
        story.asks(3, 0, 11);
        story.queue(50, &[3, 2]);
        story.fault(kind, 60, 70, None);
        story.granted(2, 0, 100, 2);
        story.releases(2, 0, 110);
        story.granted(3, 0, 110, 3);
        story.releases(3, 0, 120);
        story.ends(200)
    });
}

#[test]
fn an_opening_of_a_barrier_can_be_lost_while_a_replica_takes_over() {
    let story = |kind, fault| {
        let mut story = Story::new();
        for client in 1..=5 {
            let outcome = if matches!(client, 1 | 5) { Outcome::Opened } else { Outcome::Ok };
            let (from, to) = if client == 5 { (40, 50) } else { (10, if client == 1 { 20 } else { 50 }) };
            story.calls(client, (from, to), BARRIERS.start, Op::Meet, outcome);
        }
        story.fault(kind, fault, fault + 30, None);
        story.ends(200)
    };
    is_excused_only_if_undone(TWO_LEADERS, |kind| story(kind, 5));
    is_broken(&story(FaultKind::MasterKilled, 30), &[TWO_LEADERS]);
}
