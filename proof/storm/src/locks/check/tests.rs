//! Tests of the checker with hand-written histories. Correct histories must pass. For each law, there is also a history
//! that breaks the law.

use super::{Findings, History, check};
use crate::{
    calls::{Event, Outcome, Recorded},
    fault::{Fault, FaultKind},
    history::{CallId, Nanos, nanos},
    locks::{
        history::{Locks, Name, Note, Op, ResourceWrite, Terms, Verb},
        share::Share,
    },
    plan::{GREATER_LIMIT, LIMIT, PLACE},
};

const MS: Nanos = 1_000_000;
const TTL: Nanos = 600 * MS;
/// The numbers of calls that have no number of their own.
const FURTHER: CallId = 1_000_000;

mod kinds;
mod promotions;
mod steps;

/// A hand-written history. The methods take all times in milliseconds.
struct Story {
    recorded: Recorded<Locks>,
    resources: Vec<Vec<ResourceWrite>>,
    terms: Terms,
    /// The share for which calls ask.
    share: Share,
    /// The number of the next call that has no number of its own.
    next: CallId,
}

impl Story {
    fn new() -> Self {
        let terms = Terms { ttl: TTL, place: nanos(PLACE), end: 0 };
        Self { recorded: Recorded::default(), resources: vec![Vec::new()], terms, share: Share::Mutex, next: FURTHER }
    }

    /// All calls that follow ask for this share.
    fn of(&mut self, share: Share) -> &mut Self {
        self.share = share;
        self
    }

    fn note(&mut self, client: u32, note: Note) {
        self.recorded.add(client, Event::Other(note));
    }

    fn begins(&mut self, client: u32, call: CallId, at: Nanos, name: usize, op: Op, limit: Nanos) {
        let (at, task, object, limit) = (at * MS, 0, Name(name), limit.saturating_mul(MS));
        self.recorded.add(client, Event::Began { call, at, task, object, op, limit });
    }

    /// The end of a call.
    fn answers(&mut self, client: u32, call: CallId, at: Nanos, outcome: Outcome) {
        self.recorded.add(client, Event::Ended { call, at: at * MS, outcome });
    }

    /// A call that has no number of its own.
    fn calls(&mut self, client: u32, (from, to): (Nanos, Nanos), name: usize, op: Op, outcome: Outcome) {
        self.next += 1;
        self.begins(client, self.next, from, name, op, Nanos::MAX);
        self.answers(client, self.next, to, outcome);
    }

    /// A call with this method and this time limit begins.
    fn asks_with(&mut self, client: u32, call: CallId, at: Nanos, verb: Verb, limit: Nanos) {
        let op = Op::Lock { share: self.share, verb, ttl: TTL, watched: true };
        self.begins(client, call, at, 0, op, limit);
    }

    /// A call of `lock` without a time limit begins.
    fn asks(&mut self, client: u32, call: CallId, at: Nanos) {
        self.asks_with(client, call, at, Verb::Lock, Nanos::MAX);
    }

    /// The call gets the lock until this time, and writes to the resource. The number of the claim is the fence.
    fn granted_until(&mut self, client: u32, call: CallId, at: Nanos, fence: u64, until: Nanos) {
        self.answers(client, call, at, Outcome::Granted { fence, until: until * MS, claim: fence });
        self.resources[0].push(ResourceWrite { fence, client, call });
    }

    /// The call gets the lock, and writes to the resource.
    fn granted(&mut self, client: u32, call: CallId, at: Nanos, fence: u64) {
        self.granted_until(client, call, at, fence, at + TTL / MS);
    }

    /// The holder checks its guard for the last time.
    fn leaves(&mut self, client: u32, call: CallId, at: Nanos, held: bool, writes: u32) {
        self.note(client, Note::Left { call, name: Name(0), at: at * MS, held, writes });
    }

    /// The holder writes again, checks the guard, and releases the lock.
    fn releases(&mut self, client: u32, call: CallId, at: Nanos) {
        let fence = self.resources[0].iter().find(|write| (write.client, write.call) == (client, call));
        let fence = fence.map_or(0, |write| write.fence);
        self.resources[0].push(ResourceWrite { fence, client, call });
        self.leaves(client, call, at, true, 2);
        self.calls(client, (at, at), 0, Op::Release { of: call }, Outcome::Ok);
    }

    /// A complete critical section: call, grant, writes and release.
    fn holds(&mut self, client: u32, call: CallId, from: Nanos, to: Nanos, fence: u64) {
        self.asks(client, call, from);
        self.granted(client, call, from, fence);
        self.releases(client, call, to);
    }

    fn fault(&mut self, kind: FaultKind, from: Nanos, to: Nanos, client: Option<u32>) {
        let fault = Fault { kind, from: from * MS, to: to * MS, client, name: None };
        self.recorded.disturbances.faults.push(fault);
    }

    /// The process of this client is killed.
    fn killed(&mut self, client: u32, at: Nanos) {
        self.recorded.disturbances.killed.insert(client, at * MS);
    }

    /// Ends the history, and checks it.
    fn ends(mut self, at: Nanos) -> Findings {
        self.terms.end = at * MS;
        self.recorded.tidy();
        check(&History::of(self.recorded, self.resources, self.terms))
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
        story.leaves(1, 0, 900, false, 2);
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
        story.killed(1, 100);
        story.asks(1, 0, 10);
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
        story.note(1, Note::Held { call: 0, at: 500 * MS, until: 500 * MS + TTL, writes: 1 });
        story.leaves(1, 0, to, true, 1);
        story.releases(3, 0, to + 10);
        story.ends(to + 20)
    };
    let findings = story(600);
    is_broken(&findings, &[]);
    assert_eq!(findings.excused["server-empty"].cases, 2);
    is_broken(&story(700), &["no two clients hold one lock at the same time"]);
}

#[test]
fn a_hold_that_the_store_lost_may_still_be_passed_on() {
    let story = |granted_until| {
        let mut story = Story::new();
        story.fault(FaultKind::ServerEmpty, 50, 60, None);
        story.holds(2, 0, 70, 80, 9);
        story.asks(1, 0, 65);
        story.granted_until(1, 0, 90, 6, granted_until);
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
    story.resources[0].push(ResourceWrite { fence: 5, client: 1, call: 0 });
    story.leaves(1, 0, 900, false, 2);
    let findings = story.ends(1_000);
    is_broken(&findings, &[]);
    assert_eq!(findings.counts["writes refused because of an old fence"], 1);
}

#[test]
fn a_call_that_exceeds_its_limit_is_found_unless_its_process_was_paused() {
    let story = |fault: Option<FaultKind>| {
        let mut story = Story::new();
        story.asks_with(1, 0, 10, Verb::TryLockFor, 100);
        story.answers(1, 0, 1_500, Outcome::No);
        if let Some(kind) = fault {
            story.fault(kind, 20, 1_400, Some(1));
        }
        story.ends(2_000)
    };
    is_broken(&story(Some(FaultKind::Stop)), &[]);
    let mut stalled = Story::new();
    stalled.asks_with(1, 0, 10, Verb::TryLockFor, 100);
    stalled.answers(1, 0, 3_000, Outcome::No);
    // These two time spans overlap. The checker must count their common time once.
    stalled.recorded.add(1, Event::Stalled { from: 20 * MS, to: 1_000 * MS });
    stalled.recorded.add(1, Event::Blocked { from: 20 * MS, to: 1_010 * MS });
    is_broken(&stalled.ends(4_000), &["late"]);
    is_broken(&story(Some(FaultKind::ServerStop)), &["late"]);
    is_broken(&story(None), &["late"]);
}

#[test]
fn a_call_that_never_ends_is_found() {
    let mut story = Story::new();
    story.asks(1, 0, 10);
    is_broken(&story.ends(100), &["never"]);
}

#[test]
fn an_answer_that_no_correct_call_gets_is_found() {
    let mut story = Story::new();
    story.asks(1, 0, 10);
    story.answers(1, 0, 20, Outcome::Broken);
    is_broken(&story.ends(100), &["errors"]);
}

#[test]
fn an_owner_that_does_not_get_its_own_lock_is_found() {
    let mut story = Story::new();
    story.asks(1, 0, 10);
    story.granted(1, 0, 10, 5);
    story.note(1, Note::Again { call: 0, fence: 6 });
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
    let (call, at, name) = (1, 2, Name(4));
    let share = Share::Permits(2);
    let ops = [
        Op::Lock { share, verb: Verb::Dropped, ttl: 6, watched: true },
        Op::Release { of: 5 },
        Op::Evict,
        Op::Limit(3),
        Op::Leader { follows: true },
        Op::Set(3),
        Op::CountDown(2),
        Op::Delete,
        Op::Count,
        Op::Wait,
        Op::Meet,
    ];
    let outcomes = [
        Outcome::Granted { fence: 3, until: Nanos::MAX, claim: 5 },
        Outcome::Leader { fence: 5, client: 6, call: 7 },
        Outcome::Opened,
        Outcome::OtherLimit,
        Outcome::NotReplicated,
    ];
    let notes = [
        Note::Held { call, at, until: 3, writes: 4 },
        Note::Left { call, name, at, held: false, writes: 3 },
        Note::Again { call, fence: 3 },
        Note::Queued { task: 1, from: 2, at: 3, name, position: 5, claim: 6 },
    ];
    let began = |op| Event::<Locks>::Began { call, at, task: 3, object: name, op, limit: 5 };
    let events = ops.map(began).into_iter().chain(outcomes.map(|outcome| Event::Ended { call, at, outcome }));
    let events = events.chain(notes.map(Event::Other));
    let others = [Event::Blocked { from: 1, to: 2 }, Event::Stalled { from: 1, to: 2 }, Event::Killed { at }];
    events.chain(others).for_each(Event::is_read_as_written);
    assert!(serde_json::from_str::<Event<Locks>>(r#"{"killed":{"from":1}}"#).is_err());
}
