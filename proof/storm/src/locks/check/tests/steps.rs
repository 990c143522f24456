//! Histories of latches, barriers and elections.

use super::*;
use crate::plan::{BARRIERS, ELECTIONS, LATCHES, RESOURCES};

const EARLY: &str = "a latch opens only after as many count-downs as it was set to";
const TWICE: &str = "each count-down of a latch counts once";
const NOT_COUNTED: &str = "each answered count-down of a latch counts";
const TOO_FEW: &str = "a barrier opens only when enough parties wait";
const TWO_LEADERS: &str = "each time a barrier opens, it has one leader and its own parties";
const NO_LEADER: &str = "each party that passes a barrier has a leader";
const STUCK: &str = "no party waits at a barrier when enough parties wait";
const OVERLAP: &str = "no two clients hold one lock at the same time";
const FENCES: &str = "fences increase with every grant";
const ORDER: &str = "an observer sees the leaders in their order";
const UNKNOWN: &str = "each reported leader is a candidate, with its fence";
const FORMER: &str = "no leader is reported after it has resigned";
const MISSING: &str = "a leader is reported while it is the leader";

impl Story {
    /// A call of client 1 for the first latch or barrier. The calls have different numbers if they begin at different
    /// times.
    fn step(&mut self, op: Op, from: Nanos, to: Nanos, outcome: Outcome) {
        self.step_of(1, op, from, to, outcome);
    }

    fn step_of(&mut self, client: u32, op: Op, from: Nanos, to: Nanos, outcome: Outcome) {
        let name = if op == Op::Meet { BARRIERS.start } else { LATCHES.start };
        self.calls(client, (from, to), name, op, outcome);
    }

    /// Four parties that wait at the barrier until `to`. The last one is the leader.
    fn meets(&mut self, from: Nanos, to: Nanos) {
        for client in 1..4 {
            self.step_of(client, Op::Meet, from, to, Outcome::Ok);
        }
        self.step_of(4, Op::Meet, to - 1, to, Outcome::Opened);
    }

    /// A candidate that is the leader from the one time to the other.
    fn leads(&mut self, client: u32, from: Nanos, to: Nanos, fence: u64) {
        self.resources.resize(RESOURCES, Vec::new());
        let (call, name, until) = (from, ELECTIONS.start, from * MS + TTL);
        let op = Op::Lock { share: Share::Leader, verb: Verb::Lock, ttl: TTL, watched: true };
        self.begins(client, call, from, name, op, Nanos::MAX);
        self.answers(client, call, from, Outcome::Granted { fence, until, claim: fence });
        self.leaves(client, call, to, true, 0);
        self.calls(client, (to, to), name, Op::Release { of: call }, Outcome::Ok);
    }

    /// Client 9 sees the leader that client `of` has been since `call`. Fence 0: none.
    fn sees(&mut self, from: Nanos, at: Nanos, fence: u64, of: u32, call: CallId) {
        let outcome = if fence == 0 { Outcome::No } else { Outcome::Leader { fence, client: of, call } };
        self.calls(9, (from, at), ELECTIONS.start, Op::Leader { follows: true }, outcome);
    }
}

#[test]
fn latches_that_are_counted_down_and_set_again_pass() {
    let mut story = Story::new();
    story.step(Op::Wait, 5, 6, Outcome::Ok); // A latch that does not exist is open.
    story.step(Op::Set(3), 10, 12, Outcome::Ok);
    story.step(Op::Wait, 13, 40, Outcome::Ok);
    story.step(Op::CountDown(1), 14, 16, Outcome::Found(2));
    story.step(Op::Set(5), 17, 18, Outcome::No);
    story.step(Op::Wait, 19, 20, Outcome::No);
    story.step(Op::CountDown(2), 21, 39, Outcome::Found(0));
    story.step(Op::Set(1), 41, 43, Outcome::Ok);
    story.step(Op::Count, 44, 45, Outcome::Found(1));
    story.step(Op::Delete, 46, 47, Outcome::Ok);
    story.step(Op::Count, 48, 49, Outcome::Found(0));
    is_broken(&story.ends(100), &[]);
}

#[test]
fn a_latch_that_opens_too_early_is_found() {
    let evidence = [
        (Op::Wait, Outcome::Ok),
        (Op::Count, Outcome::Found(0)),
        (Op::CountDown(1), Outcome::Found(0)),
        (Op::Set(2), Outcome::Ok),
    ];
    for (op, outcome) in evidence {
        let story = |downs: u64, fault: Option<FaultKind>| {
            let mut story = Story::new();
            story.step(Op::Set(4), 10, 12, Outcome::Ok);
            (0..downs).for_each(|down| story.step(Op::CountDown(1), 13 + down, 14 + down, Outcome::Found(3 - down)));
            if let Some(kind) = fault {
                story.fault(kind, 20, 21, None);
            }
            story.step(op, 40, 50, outcome);
            story.ends(100)
        };
        is_broken(&story(3, None), if matches!(op, Op::CountDown(_)) { &[] } else { &[EARLY] });
        is_broken(&story(2, None), &[EARLY]);
        is_broken(&story(2, Some(FaultKind::Stop)), &[EARLY]);
        is_broken(&story(2, Some(FaultKind::ServerEmpty)), &[]);
    }
}

#[test]
fn a_waiter_that_returns_before_the_last_count_down_begins_is_found() {
    let story = |down: Nanos| {
        let mut story = Story::new();
        story.step(Op::Set(1), 10, 12, Outcome::Ok);
        story.step(Op::Wait, 13, 30, Outcome::Ok);
        story.step(Op::CountDown(1), down, 50, Outcome::Found(0));
        story.ends(100)
    };
    is_broken(&story(29), &[]);
    is_broken(&story(31), &[EARLY]);
}

#[test]
fn a_count_down_that_counts_twice_is_found() {
    let story = |count, outcome| {
        let mut story = Story::new();
        story.step(Op::Set(5), 10, 12, Outcome::Ok);
        // This call might be applied, but once at most.
        story.step(Op::CountDown(1), 20, 600, outcome);
        story.step(Op::Count, 700, 701, Outcome::Found(count));
        story.ends(1_000)
    };
    is_broken(&story(4, Outcome::Found(4)), &[]);
    is_broken(&story(3, Outcome::Found(4)), &[TWICE]);
    is_broken(&story(5, Outcome::Unclear), &[]);
    is_broken(&story(4, Outcome::Cancelled), &[]);
    is_broken(&story(3, Outcome::Cancelled), &[TWICE]);
    is_broken(&story(5, Outcome::Found(4)), &[NOT_COUNTED]);
}

#[test]
fn a_latch_that_stays_closed_after_the_last_count_down_is_found() {
    for (op, outcome) in [(Op::Wait, Outcome::No), (Op::Set(4), Outcome::No), (Op::Count, Outcome::Found(1))] {
        let mut story = Story::new();
        story.step(Op::Set(1), 10, 12, Outcome::Ok);
        story.step(Op::CountDown(1), 20, 25, Outcome::Found(0));
        story.step(op, 30, 40, outcome);
        is_broken(&story.ends(100), &[NOT_COUNTED]);
    }
}

#[test]
fn the_count_is_unknown_after_a_set_that_took_long() {
    let mut story = Story::new();
    // The store sets the latch at the end of this call, after ten shorter lives.
    story.step_of(2, Op::Set(5), 5, 400, Outcome::Ok);
    for life in 0..10 {
        let at = 10 + life * 20;
        story.step(Op::Set(1), at, at + 1, Outcome::Ok);
        story.step(Op::CountDown(1), at + 2, at + 3, Outcome::Found(0));
    }
    story.step(Op::Count, 401, 402, Outcome::Found(5));
    is_broken(&story.ends(500), &[]);
}

#[test]
fn barriers_that_open_for_all_their_parties_pass() {
    let mut story = Story::new();
    story.meets(10, 20);
    story.step_of(1, Op::Meet, 21, 25, Outcome::Cancelled);
    story.meets(26, 40);
    story.step_of(2, Op::Meet, 41, 43, Outcome::Lost);
    is_broken(&story.ends(100), &[]);
}

#[test]
fn a_barrier_that_opens_for_too_few_parties_is_found() {
    let story = |cancelled: Nanos, fault: bool| {
        let mut story = Story::new();
        story.step_of(1, Op::Meet, 10, cancelled, Outcome::Cancelled);
        for client in 2..4 {
            story.step_of(client, Op::Meet, 5_000, 5_020, Outcome::Ok);
        }
        story.step_of(4, Op::Meet, 5_001, 5_020, Outcome::Opened);
        if fault {
            // The mutex of a party can outlive its call during a fault.
            story.fault(FaultKind::Stall, 3_000, 4_800, None);
        }
        story.ends(6_000)
    };
    is_broken(&story(5_010, false), &[]);
    is_broken(&story(4_800, false), &[]);
    is_broken(&story(4_700, false), &[TOO_FEW]);
    is_broken(&story(4_400, true), &[]);
}

#[test]
fn two_leaders_of_one_opening_and_none_are_found() {
    let story = |third, fourth| {
        let mut story = Story::new();
        story.step_of(1, Op::Meet, 10, 20, Outcome::Ok);
        story.step_of(2, Op::Meet, 10, 20, Outcome::Ok);
        story.step_of(3, Op::Meet, 10, 20, third);
        story.step_of(4, Op::Meet, 10, 20, fourth);
        story.ends(100)
    };
    is_broken(&story(Outcome::Ok, Outcome::Opened), &[]);
    is_broken(&story(Outcome::Opened, Outcome::Opened), &[TWO_LEADERS]);
    is_broken(&story(Outcome::Ok, Outcome::Ok), &[NO_LEADER]);
    // The leader might be a party whose call was cancelled when the barrier had opened.
    is_broken(&story(Outcome::Ok, Outcome::Cancelled), &[]);
}

#[test]
fn a_party_that_is_counted_twice_is_found() {
    let story = |again: bool| {
        let mut story = Story::new();
        story.meets(10, 20);
        // The second opening needs four other calls.
        for client in 1..4 {
            story.step_of(client, Op::Meet, 21, 30, if client == 3 { Outcome::Opened } else { Outcome::Ok });
        }
        if again {
            story.step_of(4, Op::Meet, 22, 30, Outcome::Ok);
        }
        story.ends(100)
    };
    is_broken(&story(true), &[]);
    is_broken(&story(false), &[TOO_FEW, TWO_LEADERS]);
}

#[test]
fn a_barrier_that_does_not_open_is_found() {
    let story = |parties: u32, fault: bool| {
        let mut story = Story::new();
        for client in 1..=parties {
            story.step_of(client, Op::Meet, 10, 2_100, Outcome::Cancelled);
        }
        if fault {
            story.fault(FaultKind::ServerStop, 500, 600, None);
        }
        story.ends(3_000)
    };
    is_broken(&story(3, false), &[]);
    is_broken(&story(4, false), &[STUCK]);
    is_broken(&story(4, true), &[]);
}

#[test]
fn two_leaders_at_the_same_time_and_fences_that_fall_are_found() {
    let story = |from, fence| {
        let mut story = Story::new();
        story.leads(1, 10, 50, 5);
        story.leads(2, from, from + 10, fence);
        story.ends(100)
    };
    is_broken(&story(51, 6), &[]);
    is_broken(&story(49, 6), &[OVERLAP]);
    is_broken(&story(51, 4), &[FENCES]);
}

#[test]
fn leaders_that_are_reported_in_their_order_pass() {
    let mut story = Story::new();
    story.leads(1, 10, 50, 5);
    story.sees(9, 20, 5, 1, 10);
    story.sees(21, 55, 0, 0, 0);
    story.leads(2, 60, 90, 7);
    story.sees(56, 60, 7, 2, 60);
    story.sees(61, 95, 0, 0, 0);
    is_broken(&story.ends(100), &[]);
}

#[test]
fn leaders_that_are_reported_in_another_order_are_found() {
    let story = |fault: Option<(FaultKind, Nanos)>| {
        let mut story = Story::new();
        story.leads(1, 10, 50, 5);
        story.leads(2, 60, 90, 7);
        story.sees(40, 61, 7, 2, 60);
        story.sees(45, 62, 5, 1, 10);
        if let Some((kind, from)) = fault {
            story.fault(kind, from, 100, None);
        }
        story.ends(100)
    };
    is_broken(&story(None), &[ORDER]);
    // The new master does not know the last leader.
    is_broken(&story(Some((FaultKind::MasterKilled, 50))), &[]);
    is_broken(&story(Some((FaultKind::MasterKilled, 70))), &[ORDER]);
    is_broken(&story(Some((FaultKind::ServerStop, 50))), &[ORDER]);
}

#[test]
fn a_leader_that_is_no_candidate_and_a_wrong_fence_are_found() {
    for (fence, client, call) in [(5, 2, 10), (6, 1, 10), (5, 1, 11)] {
        let mut story = Story::new();
        story.leads(1, 10, 50, 5);
        story.sees(11, 20, fence, client, call);
        is_broken(&story.ends(100), &[UNKNOWN]);
    }
    // Before its call returns, a candidate can lose its mutex and get it again, with a greater fence.
    let mut story = Story::new();
    story.leads(1, 10, 50, 5);
    story.sees(9, 11, 4, 1, 10);
    is_broken(&story.ends(100), &[]);
}

#[test]
fn a_leader_that_is_reported_after_its_end_is_found() {
    let story = |from, fault: bool| {
        let mut story = Story::new();
        story.leads(1, 10, 50, 5);
        story.sees(from, from + 10, 5, 1, 10);
        if fault {
            story.fault(FaultKind::LoseRequests, 48, 49, Some(1));
        }
        story.ends(100)
    };
    is_broken(&story(49, false), &[]);
    is_broken(&story(51, false), &[FORMER]);
    is_broken(&story(51, true), &[]);
}

#[test]
fn a_leader_that_is_not_reported_is_found() {
    let story = |from, at, fault: bool| {
        let mut story = Story::new();
        story.leads(1, 10, 500, 5);
        story.sees(from, at, 0, 0, 0);
        if fault {
            story.fault(FaultKind::Evict, 100, 101, None);
        }
        story.ends(600)
    };
    is_broken(&story(9, 400, false), &[]);
    is_broken(&story(11, 510, false), &[]);
    is_broken(&story(11, 400, false), &[MISSING]);
    is_broken(&story(150, 400, true), &[]);
}
