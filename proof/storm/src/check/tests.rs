//! Tests of the checker with hand-written histories. Correct histories must pass. For each law, there is also a history
//! that breaks the law.

use super::{Findings, History, check};
use crate::{
    fault::{Fault, FaultKind},
    history::{CallId, Event, Nanos, Outcome, ResourceWrite, Verb, nanos},
    plan::{GREATER_LIMIT, LIMIT, PLACE},
    share::Share,
    step::{Reply, Step},
    worker_pool::Life,
};

const MS: Nanos = 1_000_000;
const TTL: Nanos = 600 * MS;

mod kinds;
mod promotions;
mod steps;

/// A hand-written history. The methods take all times in milliseconds.
struct Story(History, Share);

impl Story {
    fn new() -> Self {
        Self(History { resources: vec![Vec::new()], ttl: TTL, place: nanos(PLACE), ..History::default() }, Share::Mutex)
    }

    /// All calls that follow ask for this share.
    fn of(&mut self, share: Share) -> &mut Self {
        self.1 = share;
        self
    }

    fn record(&mut self, client: u32, event: Event) {
        self.0.add(&Life { client, process: client, killed: None }, event);
    }

    /// A call with this method and this time limit begins.
    fn asks_with(&mut self, client: u32, call: CallId, at: Nanos, verb: Verb, limit: Nanos) {
        let (at, limit) = (at * MS, limit.saturating_mul(MS));
        let (task, name, share, ttl, watched) = (0, 0, self.1, TTL, true);
        self.record(client, Event::Asked { call, at, task, name, share, verb, limit, ttl, watched });
    }

    /// A call of `lock` without a time limit begins.
    fn asks(&mut self, client: u32, call: CallId, at: Nanos) {
        self.asks_with(client, call, at, Verb::Lock, Nanos::MAX);
    }

    /// The call gets the lock, and writes to the resource.
    fn granted(&mut self, client: u32, call: CallId, at: Nanos, fence: u64) {
        let at = at * MS;
        // The number of the claim is the fence.
        self.record(client, Event::Granted { call, at, fence, until: at + TTL, claim: fence });
        self.0.resources[0].push(ResourceWrite { fence, client, call });
    }

    /// The holder writes again, checks the guard, and releases the lock.
    fn releases(&mut self, client: u32, call: CallId, at: Nanos) {
        let fence = self.0.find(client, call).map_or(0, super::Call::fence);
        self.0.resources[0].push(ResourceWrite { fence, client, call });
        self.record(client, Event::Ended { call, at: at * MS, held: true, writes: 2 });
        self.record(client, Event::Answered { call, at: at * MS, outcome: Outcome::Released });
    }

    /// A complete critical section: call, grant, writes and release.
    fn holds(&mut self, client: u32, call: CallId, from: Nanos, to: Nanos, fence: u64) {
        self.asks(client, call, from);
        self.granted(client, call, from, fence);
        self.releases(client, call, to);
    }

    fn fault(&mut self, kind: FaultKind, from: Nanos, to: Nanos, client: Option<u32>) {
        self.0.faults.push(Fault { kind, from: from * MS, to: to * MS, client, name: None });
    }

    /// Ends the history, and checks it.
    fn ends(mut self, at: Nanos) -> Findings {
        self.0.end = at * MS;
        self.0.tidy();
        check(&self.0)
    }
}

/// Asserts that exactly these laws are broken.
#[track_caller]
fn is_broken(findings: &Findings, laws: &[&str]) {
    assert_eq!(findings.laws().into_keys().collect::<Vec<_>>(), laws, "{:?}", findings.violations);
}

#[test]
fn holds_one_after_the_other_pass() {
    let mut story = Story::new();
    story.holds(1, 0, 10, 20, 5);
    story.holds(2, 0, 20, 30, 6);
    story.holds(1, 1, 30, 900, 9);
    is_broken(&story.ends(1_000), &[]);
}

#[test]
fn two_holders_at_the_same_time_are_found() {
    let mut story = Story::new();
    story.holds(1, 0, 10, 30, 5);
    story.holds(2, 0, 25, 40, 6);
    is_broken(&story.ends(100), &["no two clients hold one lock at the same time"]);
}

#[test]
fn a_long_hold_is_compared_with_all_that_follow() {
    let mut story = Story::new();
    story.holds(1, 0, 10, 300, 5);
    story.holds(2, 0, 310, 320, 6);
    story.holds(3, 0, 50, 60, 7);
    let findings = story.ends(400);
    assert_eq!(findings.laws()["no two clients hold one lock at the same time"], 1, "{:?}", findings.violations);
}

#[test]
fn a_stopped_holder_believes_until_its_deadline_and_no_longer() {
    let story = |granted| {
        let mut story = Story::new();
        story.asks(1, 0, 10);
        story.granted(1, 0, 10, 5);
        story.fault(FaultKind::Stop, 20, 900, Some(1));
        story.record(1, Event::Ended { call: 0, at: 900 * MS, held: false, writes: 2 });
        story.holds(2, 0, granted, granted + 10, 6);
        story.ends(1_000)
    };
    is_broken(&story(610), &[]);
    is_broken(&story(605), &["no two clients hold one lock at the same time"]);
}

#[test]
fn a_killed_holder_believes_until_it_was_killed() {
    let story = |granted| {
        let mut story = Story::new();
        let life = Life { client: 1, process: 1, killed: Some(100 * MS) };
        let asked = Event::Asked {
            call: 0,
            at: 10 * MS,
            task: 0,
            name: 0,
            share: Share::Mutex,
            verb: Verb::Lock,
            limit: Nanos::MAX,
            ttl: TTL,
            watched: true,
        };
        story.0.add(&life, asked);
        story.granted(1, 0, 10, 5);
        story.holds(2, 0, granted, granted + 10, 6);
        story.ends(1_000)
    };
    is_broken(&story(100), &[]);
    is_broken(&story(99), &["no two clients hold one lock at the same time"]);
}

#[test]
fn a_hold_that_the_store_lost_excuses_an_overlap_for_one_ttl() {
    let story = |to| {
        let mut story = Story::new();
        story.asks(1, 0, 10);
        story.granted(1, 0, 10, 5);
        story.fault(FaultKind::ServerEmpty, 50, 60, None);
        story.holds(2, 0, 70, 80, 6);
        story.asks(3, 0, 81);
        story.granted(3, 0, 81, 7);
        // The hold ends at the time `to`. If this is more than a ttl after the fault, a renewal has succeeded although
        // the store had lost the hold.
        story.record(1, Event::Held { call: 0, at: 500 * MS, until: 500 * MS + TTL, writes: 1 });
        story.record(1, Event::Ended { call: 0, at: to * MS, held: true, writes: 1 });
        story.releases(3, 0, to + 10);
        story.ends(to + 20)
    };
    let findings = story(600);
    is_broken(&findings, &[]);
    assert_eq!(findings.excused[&FaultKind::ServerEmpty].overlaps, 2);
    is_broken(&story(700), &["no two clients hold one lock at the same time"]);
}

#[test]
fn a_hold_that_the_store_lost_may_still_be_passed_on() {
    let story = |granted_until| {
        let mut story = Story::new();
        story.fault(FaultKind::ServerEmpty, 50, 60, None);
        story.holds(2, 0, 70, 80, 9);
        story.asks(1, 0, 65);
        story.record(1, Event::Granted { call: 0, at: 90 * MS, fence: 6, until: granted_until * MS, claim: 6 });
        story.releases(1, 0, 100);
        story.ends(200)
    };
    is_broken(&story(650), &[]);
    is_broken(
        &story(690),
        &["fences increase with every grant", "no holder is overtaken while it believes that it holds the lock"],
    );
}

#[test]
fn a_fault_of_another_time_or_kind_excuses_no_overlap() {
    for (kind, from, to) in
        [(FaultKind::ServerEmpty, 200, 210), (FaultKind::ServerStop, 12, 14), (FaultKind::ServerEmpty, 1, 5)]
    {
        let mut story = Story::new();
        story.holds(1, 0, 10, 30, 5);
        story.holds(2, 0, 25, 40, 6);
        story.fault(kind, from, to, None);
        is_broken(&story.ends(300), &["no two clients hold one lock at the same time"]);
    }
}

#[test]
fn a_fence_that_does_not_increase_is_found() {
    for fence in [5, 4] {
        let mut story = Story::new();
        story.holds(1, 0, 10, 20, 5);
        story.holds(2, 0, 20, 30, fence);
        let findings = story.ends(100);
        assert_eq!(findings.laws()["fences increase with every grant"], 1, "{:?}", findings.violations);
    }
}

#[test]
fn a_fence_of_two_holders_is_found_at_the_resource() {
    let mut story = Story::new();
    story.holds(1, 0, 10, 20, 5);
    story.holds(2, 0, 20, 30, 5);
    is_broken(&story.ends(100), &["a fence belongs to one holder", "fences increase with every grant"]);
}

#[test]
fn an_overtaken_holder_is_found_even_if_clocks_are_wrong() {
    let mut story = Story::new();
    story.asks(1, 0, 10);
    story.granted(1, 0, 10, 5);
    // The clocks of the second client are wrong, so no beliefs overlap.
    story.holds(2, 0, 2_000, 2_010, 6);
    story.releases(1, 0, 30);
    is_broken(&story.ends(2_100), &["no holder is overtaken while it believes that it holds the lock"]);
}

#[test]
fn a_stale_write_of_a_holder_that_knows_of_the_loss_is_refused_and_counted() {
    let mut story = Story::new();
    story.asks(1, 0, 10);
    story.granted(1, 0, 10, 5);
    story.fault(FaultKind::Stop, 20, 900, Some(1));
    story.holds(2, 0, 700, 710, 6);
    story.0.resources[0].push(ResourceWrite { fence: 5, client: 1, call: 0 });
    story.record(1, Event::Ended { call: 0, at: 900 * MS, held: false, writes: 2 });
    let findings = story.ends(1_000);
    is_broken(&findings, &[]);
    assert_eq!(findings.stale_writes, 1);
}

#[test]
fn a_call_that_exceeds_its_limit_is_found_unless_its_process_was_paused() {
    let story = |fault: Option<FaultKind>| {
        let mut story = Story::new();
        story.asks_with(1, 0, 10, Verb::TryLockFor, 100);
        story.record(1, Event::Answered { call: 0, at: 1_500 * MS, outcome: Outcome::Busy });
        if let Some(kind) = fault {
            story.fault(kind, 20, 1_400, Some(1));
        }
        story.ends(2_000)
    };
    is_broken(&story(Some(FaultKind::Stop)), &[]);
    let mut stalled = Story::new();
    stalled.asks_with(1, 0, 10, Verb::TryLockFor, 100);
    stalled.record(1, Event::Answered { call: 0, at: 3_000 * MS, outcome: Outcome::Busy });
    // These two time spans overlap. The checker must count their common time once.
    stalled.record(1, Event::Stalled { from: 20 * MS, to: 1_000 * MS });
    stalled.record(1, Event::Blocked { from: 20 * MS, to: 1_010 * MS });
    is_broken(&stalled.ends(4_000), &["every call ends within its limit"]);
    is_broken(&story(Some(FaultKind::ServerStop)), &["every call ends within its limit"]);
    is_broken(&story(None), &["every call ends within its limit"]);
}

#[test]
fn a_call_that_never_ends_is_found() {
    let mut story = Story::new();
    story.asks(1, 0, 10);
    is_broken(&story.ends(100), &["every call ends"]);
}

#[test]
fn an_answer_that_no_correct_call_gets_is_found() {
    let mut story = Story::new();
    story.asks(1, 0, 10);
    story.record(1, Event::Answered { call: 0, at: 20 * MS, outcome: Outcome::Refused });
    is_broken(&story.ends(100), &["a correct call gets a documented answer"]);
}

#[test]
fn an_owner_that_does_not_get_its_own_lock_is_found() {
    let mut story = Story::new();
    story.asks(1, 0, 10);
    story.granted(1, 0, 10, 5);
    story.record(1, Event::Reentered { call: 0, at: 11 * MS, fence: 6 });
    story.releases(1, 0, 20);
    is_broken(&story.ends(100), &["an owner gets its own lock again, with the same fence"]);
}

#[test]
fn a_waiter_at_a_free_lock_is_found() {
    let story = |granted, fault: Option<FaultKind>| {
        let mut story = Story::new();
        story.holds(1, 0, 10, 100, 5);
        story.asks(2, 0, 50);
        if let Some(kind) = fault {
            story.fault(kind, 150, 400, None);
        }
        story.granted(2, 0, granted, 6);
        story.releases(2, 0, granted + 10);
        story.ends(granted + 20)
    };
    is_broken(&story(2_000, None), &[]);
    is_broken(&story(2_200, None), &["no client waits at a free lock"]);
    is_broken(&story(3_900, Some(FaultKind::ServerStop)), &[]);
    is_broken(&story(4_100, Some(FaultKind::ServerStop)), &["no client waits at a free lock"]);
}

#[test]
fn a_client_that_is_passed_over_again_and_again_is_found() {
    let story = |turns: u64, fault: bool| {
        let mut story = Story::new();
        story.asks(1, 0, 1);
        for turn in 0..turns {
            let at = 10 + turn * 100;
            let (client, call) = (2 + u32::try_from(turn % 2).unwrap(), turn + 1);
            story.holds(client, call, at, at + 99, 5 + turn);
        }
        if fault {
            story.fault(FaultKind::ServerStop, 3_000, 3_100, None);
        }
        let end = 10 + turns * 100;
        story.granted(1, 0, end, 5 + turns);
        story.releases(1, 0, end + 10);
        story.ends(end + 20)
    };
    is_broken(&story(50, false), &[]);
    is_broken(&story(60, false), &["no client is passed over for ever"]);
    is_broken(&story(60, true), &[]);
}

#[test]
fn events_are_read_as_they_were_written() {
    let events = [
        Event::Asked {
            call: 1,
            at: 2,
            task: 3,
            name: 4,
            share: Share::Permits(2),
            verb: Verb::Dropped,
            limit: 5,
            ttl: 6,
            watched: true,
        },
        Event::Granted { call: 1, at: 2, fence: 3, until: 4, claim: 5 },
        Event::Queued { task: 1, from: 2, at: 3, name: 4, position: 5, claim: 6 },
        Event::Limited { from: 1, to: 2, name: 3, limit: 4, sure: true },
        Event::Held { call: 1, at: 2, until: 3, writes: 4 },
        Event::Ended { call: 1, at: 2, held: false, writes: 3 },
        Event::Reentered { call: 1, at: 2, fence: 3 },
        Event::Answered { call: 1, at: 2, outcome: Outcome::Cancelled },
        Event::Evicted { from: 1, to: 2, name: 3 },
        Event::Blocked { from: 1, to: 2 },
        Event::Stalled { from: 1, to: 2 },
        Event::Observed { task: 1, from: 2, at: 3, name: 4, follows: true, fence: 5, client: 6, call: 7 },
    ];
    let steps = [Step::Set(3), Step::CountDown(2), Step::Delete, Step::Count, Step::Wait, Step::Meet];
    let steps = steps.map(|step| Event::Began { call: 1, at: 2, task: 3, name: 4, step, limit: 5 });
    let replies = [Reply::Yes, Reply::Count(0), Reply::Leader, Reply::Passed, Reply::Unavailable, Reply::Lost];
    let replies = replies.map(|reply| Event::Returned { call: 1, at: 2, reply });
    for event in events.into_iter().chain(steps).chain(replies) {
        assert_eq!(event.to_string().parse::<Event>().ok(), Some(event));
    }
    assert!("granted 1 2".parse::<Event>().is_err());
    assert!("granted 1 2 3 4 5 6".parse::<Event>().is_err());
}
