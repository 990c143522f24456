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
    fn step(&mut self, step: Step, from: Nanos, to: Nanos, reply: Reply) {
        self.step_of(1, step, from, to, reply);
    }

    fn step_of(&mut self, client: u32, step: Step, from: Nanos, to: Nanos, reply: Reply) {
        let name = if step == Step::Meet { BARRIERS.start } else { LATCHES.start };
        let begin = Event::Began { call: from, at: from * MS, task: 0, name, step, limit: Nanos::MAX };
        self.record(client, begin);
        self.record(client, Event::Returned { call: from, at: to * MS, reply });
    }

    /// Four parties that wait at the barrier until `to`. The last one is the leader.
    fn meets(&mut self, from: Nanos, to: Nanos) {
        for client in 1..4 {
            self.step_of(client, Step::Meet, from, to, Reply::Passed);
        }
        self.step_of(4, Step::Meet, to - 1, to, Reply::Leader);
    }

    /// A candidate that is the leader from the one time to the other.
    fn leads(&mut self, client: u32, from: Nanos, to: Nanos, fence: u64) {
        self.0.resources.resize(RESOURCES, Vec::new());
        let (call, at, name, until) = (from, from * MS, ELECTIONS.start, from * MS + TTL);
        let (task, share, verb, limit, ttl, watched) = (0, Share::Leader, Verb::Lock, Nanos::MAX, TTL, true);
        self.record(client, Event::Asked { call, at, task, name, share, verb, limit, ttl, watched });
        self.record(client, Event::Granted { call, at, fence, until, claim: fence });
        self.record(client, Event::Ended { call, at: to * MS, held: true, writes: 0 });
        self.record(client, Event::Answered { call, at: to * MS, outcome: Outcome::Released });
    }

    /// Client 9 sees the leader that client `of` has been since `call`.
    fn sees(&mut self, from: Nanos, at: Nanos, fence: u64, of: u32, call: CallId) {
        let (from, at, name, follows) = (from * MS, at * MS, ELECTIONS.start, true);
        self.record(9, Event::Observed { task: 0, from, at, name, follows, fence, client: of, call });
    }
}

#[test]
fn latches_that_are_counted_down_and_set_again_pass() {
    let mut story = Story::new();
    story.step(Step::Wait, 5, 6, Reply::Yes); // A latch that does not exist is open.
    story.step(Step::Set(3), 10, 12, Reply::Yes);
    story.step(Step::Wait, 13, 40, Reply::Yes);
    story.step(Step::CountDown(1), 14, 16, Reply::Count(2));
    story.step(Step::Set(5), 17, 18, Reply::No);
    story.step(Step::Wait, 19, 20, Reply::No);
    story.step(Step::CountDown(2), 21, 39, Reply::Count(0));
    story.step(Step::Set(1), 41, 43, Reply::Yes);
    story.step(Step::Count, 44, 45, Reply::Count(1));
    story.step(Step::Delete, 46, 47, Reply::Yes);
    story.step(Step::Count, 48, 49, Reply::Count(0));
    is_broken(&story.ends(100), &[]);
}

#[test]
fn a_latch_that_opens_too_early_is_found() {
    let evidence = [
        (Step::Wait, Reply::Yes),
        (Step::Count, Reply::Count(0)),
        (Step::CountDown(1), Reply::Count(0)),
        (Step::Set(2), Reply::Yes),
    ];
    for (step, reply) in evidence {
        let story = |downs: u64, fault: Option<FaultKind>| {
            let mut story = Story::new();
            story.step(Step::Set(4), 10, 12, Reply::Yes);
            (0..downs).for_each(|down| story.step(Step::CountDown(1), 13 + down, 14 + down, Reply::Count(3 - down)));
            if let Some(kind) = fault {
                story.fault(kind, 20, 21, None);
            }
            story.step(step, 40, 50, reply);
            story.ends(100)
        };
        is_broken(&story(3, None), if matches!(step, Step::CountDown(_)) { &[] } else { &[EARLY] });
        is_broken(&story(2, None), &[EARLY]);
        is_broken(&story(2, Some(FaultKind::Stop)), &[EARLY]);
        is_broken(&story(2, Some(FaultKind::ServerEmpty)), &[]);
    }
}

#[test]
fn a_waiter_that_returns_before_the_last_count_down_begins_is_found() {
    let story = |down: Nanos| {
        let mut story = Story::new();
        story.step(Step::Set(1), 10, 12, Reply::Yes);
        story.step(Step::Wait, 13, 30, Reply::Yes);
        story.step(Step::CountDown(1), down, 50, Reply::Count(0));
        story.ends(100)
    };
    is_broken(&story(29), &[]);
    is_broken(&story(31), &[EARLY]);
}

#[test]
fn a_count_down_that_counts_twice_is_found() {
    let story = |count, reply| {
        let mut story = Story::new();
        story.step(Step::Set(5), 10, 12, Reply::Yes);
        // This call might be applied, but once at most.
        story.step(Step::CountDown(1), 20, 600, reply);
        story.step(Step::Count, 700, 701, Reply::Count(count));
        story.ends(1_000)
    };
    is_broken(&story(4, Reply::Count(4)), &[]);
    is_broken(&story(3, Reply::Count(4)), &[TWICE]);
    is_broken(&story(5, Reply::Unavailable), &[]);
    is_broken(&story(4, Reply::Cancelled), &[]);
    is_broken(&story(3, Reply::Cancelled), &[TWICE]);
    is_broken(&story(5, Reply::Count(4)), &[NOT_COUNTED]);
}

#[test]
fn a_latch_that_stays_closed_after_the_last_count_down_is_found() {
    for (step, reply) in [(Step::Wait, Reply::No), (Step::Set(4), Reply::No), (Step::Count, Reply::Count(1))] {
        let mut story = Story::new();
        story.step(Step::Set(1), 10, 12, Reply::Yes);
        story.step(Step::CountDown(1), 20, 25, Reply::Count(0));
        story.step(step, 30, 40, reply);
        is_broken(&story.ends(100), &[NOT_COUNTED]);
    }
}

#[test]
fn the_count_is_unknown_after_a_set_that_took_long() {
    let mut story = Story::new();
    // The store sets the latch at the end of this call, after ten shorter lives.
    story.step_of(2, Step::Set(5), 5, 400, Reply::Yes);
    for life in 0..10 {
        let at = 10 + life * 20;
        story.step(Step::Set(1), at, at + 1, Reply::Yes);
        story.step(Step::CountDown(1), at + 2, at + 3, Reply::Count(0));
    }
    story.step(Step::Count, 401, 402, Reply::Count(5));
    is_broken(&story.ends(500), &[]);
}

#[test]
fn barriers_that_open_for_all_their_parties_pass() {
    let mut story = Story::new();
    story.meets(10, 20);
    story.step_of(1, Step::Meet, 21, 25, Reply::Cancelled);
    story.meets(26, 40);
    story.step_of(2, Step::Meet, 41, 43, Reply::Lost);
    is_broken(&story.ends(100), &[]);
}

#[test]
fn a_barrier_that_opens_for_too_few_parties_is_found() {
    let story = |cancelled: Nanos, fault: bool| {
        let mut story = Story::new();
        story.step_of(1, Step::Meet, 10, cancelled, Reply::Cancelled);
        for client in 2..4 {
            story.step_of(client, Step::Meet, 5_000, 5_020, Reply::Passed);
        }
        story.step_of(4, Step::Meet, 5_001, 5_020, Reply::Leader);
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
        story.step_of(1, Step::Meet, 10, 20, Reply::Passed);
        story.step_of(2, Step::Meet, 10, 20, Reply::Passed);
        story.step_of(3, Step::Meet, 10, 20, third);
        story.step_of(4, Step::Meet, 10, 20, fourth);
        story.ends(100)
    };
    is_broken(&story(Reply::Passed, Reply::Leader), &[]);
    is_broken(&story(Reply::Leader, Reply::Leader), &[TWO_LEADERS]);
    is_broken(&story(Reply::Passed, Reply::Passed), &[NO_LEADER]);
    // The leader might be a party whose call was cancelled when the barrier had opened.
    is_broken(&story(Reply::Passed, Reply::Cancelled), &[]);
}

#[test]
fn a_party_that_is_counted_twice_is_found() {
    let story = |again: bool| {
        let mut story = Story::new();
        story.meets(10, 20);
        // The second opening needs four other calls.
        for client in 1..4 {
            story.step_of(client, Step::Meet, 21, 30, if client == 3 { Reply::Leader } else { Reply::Passed });
        }
        if again {
            story.step_of(4, Step::Meet, 22, 30, Reply::Passed);
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
            story.step_of(client, Step::Meet, 10, 2_100, Reply::Cancelled);
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
