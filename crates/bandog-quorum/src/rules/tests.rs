#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::{collections::VecDeque, num::NonZeroU32, time::Duration};

use bandog_core::{Answer, Claim, ClaimId, ClientId, Fence, Key, Kind, LockState, Released, Step, Verdict};

use super::*;

const TTL: Duration = Duration::from_millis(1_000);
/// The nodes have no vote for this time after a restart.
const MAX_TTL: Duration = Duration::from_millis(1_000);
const FENCES: NonZeroU32 = NonZeroU32::new(3).unwrap();

/// A node that keeps its locks in memory. Its fences are the times of its clock.
struct Node {
    state: LockState,
    votes_from: Moment,
    /// Number of microseconds by which its wall clock is ahead.
    ahead: u64,
}

/// A client that claims the lock again and again.
struct Contender {
    id: ClaimId,
    kind: Kind,
    phase: Phase,
    /// The number of the present round of requests.
    round: u64,
    /// For each node, the requests that the node has not processed.
    sent: Vec<VecDeque<Request>>,
    /// For each node, the repairs that the node has not processed. They can arrive much later than other requests.
    repairs: Vec<VecDeque<Request>>,
}

/// A request to a node. The client reads the answer only in the same round.
#[derive(Clone)]
struct Request {
    what: What,
    at: Moment,
    round: u64,
}

#[derive(Clone)]
enum What {
    Step(Step),
    Renew(Claim),
}

enum Phase {
    Idle,
    Claiming(Vec<Vote<Choice>>),
    Holding { until: Moment, last: Fence },
    Renewing { until: Moment, last: Fence, votes: Vec<Vote<Kept>> },
}

/// The events of a simulation, counted.
#[derive(Debug, Default)]
struct Tally {
    grants: u32,
    raised: u32,
    split: u32,
    renewed: u32,
    repaired: u32,
    /// Repairs at nodes that had a place of the claim.
    places: u32,
    /// Repairs that came when another client had the node.
    refused_repairs: u32,
    restarts: u32,
    /// Restarts while another node had no vote.
    close_restarts: u32,
}

/// A quorum and its clients, without I/O. The events happen in a random order.
struct Simulation {
    random: fastrand::Rng,
    now: Moment,
    nodes: Vec<Node>,
    contenders: Vec<Contender>,
    /// The last fence that was granted, and the writers that a restart may not forget.
    last: Fence,
    tally: Tally,
    /// A node that processes nothing until this moment.
    stopped: (usize, Moment),
}

impl Simulation {
    fn new(seed: u64, nodes: usize, contenders: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let now = Moment::from_nanos(3_600_000_000_000);
        let mut node = || Node { state: LockState::default(), votes_from: now, ahead: random.u64(..500_000) };
        let nodes: Vec<_> = (0..nodes).map(|_| node()).collect();
        let contender = |number| Contender {
            id: ClaimId { client: ClientId::random(), number },
            kind: Kind::Write,
            phase: Phase::Idle,
            round: 0,
            sent: vec![VecDeque::new(); nodes.len()],
            repairs: vec![VecDeque::new(); nodes.len()],
        };
        let contenders = (0..contenders).map(contender).collect();
        Self { random, now, contenders, nodes, last: Fence::new(0), tally: Tally::default(), stopped: (0, now) }
    }

    fn run(mut self, steps: u32) -> Tally {
        for _ in 0..steps {
            self.now = self.now + Duration::from_micros(self.random.u64(..2_000));
            match self.random.u32(..900) {
                0 => self.restart_a_node(),
                1 => self.now = self.now + TTL / 2,
                2 => self.stopped = (self.random.usize(..self.nodes.len()), self.now + TTL),
                _ => {}
            }
            let acting = self.random.usize(..self.contenders.len());
            if self.random.u32(..4) == 0 {
                self.advance(acting);
            } else {
                let node = self.random.usize(..self.nodes.len());
                self.deliver(acting, node);
            }
        }
        self.tally
    }

    /// A node loses its locks and all requests under way.
    fn restart_a_node(&mut self) {
        self.tally.close_restarts += u32::from(self.nodes.iter().any(|node| self.now < node.votes_from));
        let at = self.random.usize(..self.nodes.len());
        (self.nodes[at].state, self.nodes[at].votes_from) = (LockState::default(), self.now + MAX_TTL);
        for contender in &mut self.contenders {
            while let Some(request) = contender.sent[at].pop_front() {
                contender.lose(&request, at);
            }
            contender.repairs[at].clear();
        }
        self.tally.restarts += 1;
    }

    /// A node processes a request, and the client reads the answer.
    fn deliver(&mut self, acting: usize, at: usize) {
        let (stopped, until) = self.stopped;
        if at == stopped && self.now < until {
            return;
        }
        let (node, contender) = (&mut self.nodes[at], &mut self.contenders[acting]);
        let is_late = self.random.u32(..50) == 0;
        let queue = if is_late { &mut contender.repairs[at] } else { &mut contender.sent[at] };
        let Some(request) = queue.pop_front() else { return };
        let wall = Fence::new(self.now.as_nanos() / 1_000 + node.ahead);
        let has_vote = request.at >= node.votes_from;
        let phase = Some(&mut contender.phase).filter(|_| request.round == contender.round);
        match (&request.what, phase) {
            (What::Renew(claim), phase) => {
                let renewal = node.state.renew(claim, self.now);
                if let Some(Phase::Renewing { votes, .. }) = phase {
                    votes[at] = Vote::Given(kept(renewal, request.at));
                }
            }
            (What::Step(step), phase) => {
                let answer = node.state.apply_above(step, self.now, wall).unwrap();
                self.tally.refused_repairs +=
                    u32::from(is_late && matches!(answer, Answer::Claimed(Verdict::Busy { .. })));
                let (Some(Phase::Claiming(votes)), Answer::Claimed(verdict)) = (phase, answer) else { return };
                votes[at] = match verdict {
                    Verdict::Granted { .. } if !has_vote => Vote::Missing(Error::unavailable("no vote")),
                    Verdict::Granted { fences, valid_for, .. } => {
                        Vote::Given(Choice::Granted { fences, until: request.at + valid_for })
                    }
                    Verdict::Busy { retry_after, .. } => Vote::Given(Choice::Busy { retry_after }),
                };
            }
        }
    }

    /// A client decides, or begins something new.
    fn advance(&mut self, acting: usize) {
        let (now, is_over) = (self.now, self.random.u32(..20) == 0);
        let others: Vec<_> = (0..self.contenders.len()).filter(|other| *other != acting).collect();
        let believes = |contender: &Contender| match &contender.phase {
            Phase::Holding { until, .. } | Phase::Renewing { until, .. } => now < *until,
            Phase::Idle | Phase::Claiming(_) => false,
        };
        let present: Vec<_> = others.iter().map(|other| &self.contenders[*other]).filter(|c| believes(c)).collect();
        let has_writer = present.iter().any(|other| other.kind != Kind::Read);
        let has_any = !present.is_empty();
        let contender = &mut self.contenders[acting];
        let nodes = self.nodes.len();
        match &mut contender.phase {
            Phase::Idle => {
                if self.random.bool() {
                    contender.id.number += 1_000;
                    contender.kind = if self.random.bool() { Kind::Write } else { Kind::Read };
                }
                contender.phase = Phase::Claiming(vec![Vote::Awaited; nodes]);
                contender.send_all(now, |claim| What::Step(Step::Claim(claim)));
            }
            Phase::Claiming(votes) => match claimed(votes, FENCES, is_over) {
                Decision::Wait => {}
                Decision::Raise { above, nodes } => {
                    self.tally.raised += 1;
                    for at in nodes {
                        votes[at] = Vote::Awaited;
                        let claim = Claim { above: Some(above), ..claim(contender.id, contender.kind) };
                        let what = What::Step(Step::Claim(claim));
                        contender.sent[at].push_back(Request { what, at: now, round: contender.round });
                    }
                }
                Decision::Granted { fences, until } if now < until => {
                    let is_shared = contender.kind == Kind::Read && !has_writer;
                    assert!(is_shared || !has_any, "two clients hold the lock");
                    let first = fences.clone().take().unwrap();
                    // Readers can hold the lock at the same time, so their fences have no order.
                    assert!(first > self.last || contender.kind == Kind::Read, "{first} after {}", self.last);
                    self.last = self.last.max(fences.last());
                    self.tally.grants += 1;
                    contender.phase = Phase::Holding { until, last: fences.last() };
                }
                Decision::Busy { .. } | Decision::Split { .. } => {
                    let has_vote = |vote: &Vote<_>| matches!(vote, Vote::Given(Choice::Granted { .. }));
                    self.tally.split += u32::from(votes.iter().any(has_vote));
                    contender.release(now);
                }
                Decision::Granted { .. } | Decision::Failed => contender.release(now),
            },
            Phase::Holding { until, last } => match self.random.u32(..8) {
                0 => contender.release(now),
                // The client dies.
                1 => {
                    contender.id.number += 1_000;
                    contender.phase = Phase::Idle;
                }
                2 | 3 => {
                    contender.phase = Phase::Renewing { until: *until, last: *last, votes: vec![Vote::Awaited; nodes] };
                    contender.send_all(now, What::Renew);
                }
                _ => {}
            },
            Phase::Renewing { until: before, last, votes } => match renewed(votes, is_over) {
                None => {}
                Some(Ok(Kept::Hold(until))) => {
                    self.tally.renewed += 1;
                    let above = Some(Fence::new(last.get() - u64::from(FENCES.get())));
                    let lost = |(_, vote): &(usize, &Vote<_>)| matches!(vote, Vote::Given(Kept::Place | Kept::Nothing));
                    for (at, vote) in votes.iter().enumerate().filter(lost) {
                        self.tally.repaired += 1;
                        self.tally.places += u32::from(matches!(vote, Vote::Given(Kept::Place)));
                        // The repair often follows the release. The client does not wait for its answer.
                        let what = What::Step(Step::Claim(Claim {
                            above,
                            joins: false,
                            ..claim(contender.id, contender.kind)
                        }));
                        contender.repairs[at].push_back(Request { what, at: now, round: 0 });
                    }
                    // A client whose hold has expired gives it up, as after its death.
                    contender.id.number += if now < *before { 0 } else { 1_000 };
                    contender.phase = if now < *before { Phase::Holding { until, last: *last } } else { Phase::Idle };
                }
                Some(Ok(Kept::Place | Kept::Nothing) | Err(_)) => {
                    contender.phase = Phase::Holding { until: *before, last: *last }
                }
            },
        }
    }
}

impl Contender {
    /// Begins a round of requests.
    fn send_all(&mut self, now: Moment, what: impl Fn(Claim) -> What) {
        self.round += 1;
        let what = what(claim(self.id, self.kind));
        for sent in &mut self.sent {
            sent.push_back(Request { what: what.clone(), at: now, round: self.round });
        }
    }

    fn release(&mut self, now: Moment) {
        self.send_all(now, |claim| What::Step(Step::Release(claim)));
        self.phase = Phase::Idle;
    }

    /// A request of this client is lost.
    fn lose(&mut self, request: &Request, at: usize) {
        let error = || Error::unavailable("lost");
        if request.round == self.round {
            match &mut self.phase {
                Phase::Claiming(votes) => votes[at] = Vote::Missing(error()),
                Phase::Renewing { votes, .. } => votes[at] = Vote::Missing(error()),
                Phase::Idle | Phase::Holding { .. } => {}
            }
        }
    }
}

/// The claim with this id. Half of the contenders get places as writers.
fn claim(id: ClaimId, kind: Kind) -> Claim {
    let (key, ttl, joins) = (Key::new("orders").unwrap(), TTL, kind == Kind::Write && id.number % 2 == 1);
    Claim { fences: FENCES, joins, ..Claim::new(key, id, kind, ttl) }
}

/// Restarts lose locks and fences of nodes. The other nodes and the clocks keep the order of the fences.
// Promise: RQ2, RQ7
#[test]
fn random_interleavings_never_grant_twice_and_fences_rise() {
    let mut all = Tally::default();
    for seed in 0..60 {
        let (nodes, contenders) = ([3, 5, 4][usize::try_from(seed % 3).unwrap()], 2 + seed % 3);
        let tally = Simulation::new(seed, nodes, contenders).run(80_000);
        all.grants += tally.grants;
        all.raised += tally.raised;
        all.split += tally.split;
        all.renewed += tally.renewed;
        all.repaired += tally.repaired;
        all.places += tally.places;
        all.refused_repairs += tally.refused_repairs;
        all.close_restarts += tally.close_restarts;
        all.restarts += tally.restarts;
    }
    assert!(all.grants > 10_000 && all.raised > 1_000 && all.split > 100, "{all:?}");
    assert!(all.renewed > 1_000 && all.restarts > 100, "{all:?}");
    assert!(
        all.places > 100 && all.repaired > 1_000 && all.refused_repairs > 100 && all.close_restarts > 30,
        "{all:?}"
    );
}

#[test]
fn a_majority_of_five_is_three_and_of_four_too() {
    assert_eq!([3, 4, 5, 6, 7].map(majority), [2, 3, 3, 4, 4]);
}

fn granted(last: u64, until: u64) -> Vote<Choice> {
    let fences = Fences::ending(Fence::new(last), FENCES);
    Vote::Given(Choice::Granted { fences, until: Moment::from_nanos(until) })
}

fn busy(millis: u64) -> Vote<Choice> {
    Vote::Given(Choice::Busy { retry_after: Duration::from_millis(millis) })
}

fn missing<T>() -> Vote<T> {
    Vote::Missing(Error::unavailable("no answer"))
}

#[test]
fn a_grant_is_valid_as_long_as_a_majority_has_it() {
    let decide = |votes: &[_]| claimed(votes, FENCES, false);
    let fences = Fences::ending(Fence::new(9), FENCES);
    let expected = Decision::Granted { fences, until: Moment::from_nanos(20) };
    assert_eq!(decide(&[granted(9, 10), granted(9, 20), granted(9, 30)]), expected);
    assert_eq!(decide(&[granted(9, 20), granted(9, 30), granted(8, 5)]), expected);
}

#[test]
fn different_fences_are_raised_to_the_highest() {
    let votes = [granted(9, 10), granted(7, 20), Vote::Awaited];
    assert_eq!(claimed(&votes, FENCES, false), Decision::Wait);
    let above = Fence::new(6);
    assert_eq!(claimed(&votes, FENCES, true), Decision::Raise { above, nodes: vec![1] });
}

#[test]
fn a_claim_waits_until_enough_holds_have_expired() {
    let refused = |retry_after| Decision::Busy { retry_after: Duration::from_millis(retry_after) };
    assert_eq!(claimed(&[busy(30), busy(10), Vote::Awaited], FENCES, false), refused(30));
    assert_eq!(claimed(&[busy(30), busy(10), granted(9, 9)], FENCES, false), refused(10));
    assert_eq!(claimed(&[busy(30), Vote::Awaited, missing()], FENCES, false), Decision::Wait);
    assert_eq!(claimed(&[busy(30), missing(), missing()], FENCES, true), Decision::Failed);
}

/// The node without an answer may have the hold that is passed.
#[test]
fn a_minority_does_not_refuse_a_claim() {
    let split = Decision::Split { retry_after: Duration::from_millis(1) };
    assert_eq!(claimed(&[busy(1), granted(9, 9), missing()], FENCES, true), split);
    assert_eq!(claimed(&[busy(1), granted(9, 9), Vote::Awaited], FENCES, false), Decision::Wait);
    let votes = [granted(9, 9), busy(1), busy(1), missing(), missing()];
    assert_eq!(claimed(&votes, FENCES, true), split);
}

#[test]
fn a_hold_is_gone_only_if_a_majority_cannot_have_it() {
    let hold = |until| Kept::Hold(Moment::from_nanos(until));
    let held = |until| Vote::Given(hold(until));
    let (gone, place) = (|| Vote::Given(Kept::Nothing), || Vote::Given(Kept::Place));
    assert_eq!(renewed(&[held(3), held(5), gone()], false).unwrap().unwrap(), hold(3));
    assert_eq!(renewed(&[held(3), held(5), place()], false).unwrap().unwrap(), hold(3));
    assert!(renewed(&[held(3), place(), missing()], true).unwrap().is_err(), "a place is no hold");
    assert_eq!(renewed(&[held(3), place(), place()], false).unwrap().unwrap(), Kept::Place);
    assert_eq!(renewed(&[place(), gone(), gone()], false).unwrap().unwrap(), Kept::Nothing);
    assert!(renewed(&[held(3), missing(), Vote::Awaited], false).is_none());
    assert!(renewed(&[held(3), missing(), gone()], false).unwrap().is_err(), "the node without an answer may have it");
    assert_eq!(renewed(&[held(3), gone(), gone()], false).unwrap().unwrap(), Kept::Nothing);
}

#[test]
fn a_lock_is_free_when_a_majority_has_freed_it() {
    let freed = |others| Vote::Given(Released::Freed { others });
    let not_held = || Vote::Given(Released::NotHeld);
    let answer = |votes: &[_]| released(votes, true).unwrap();
    assert_eq!(answer(&[freed(Some(1)), freed(Some(2)), not_held()]).unwrap(), Released::Freed { others: Some(2) });
    assert_eq!(answer(&[freed(Some(1)), freed(None), missing()]).unwrap(), Released::Freed { others: None });
    assert_eq!(answer(&[freed(Some(1)), not_held(), not_held()]).unwrap(), Released::NotHeld);
    assert!(answer(&[freed(Some(1)), missing(), missing()]).is_err());
    // The claim may have had exactly the first and the third node.
    assert!(answer(&[freed(Some(1)), not_held(), missing()]).is_err());
    assert!(answer(&[freed(Some(1)), not_held(), Vote::Awaited]).is_err());
    assert_eq!(answer(&[not_held(), not_held(), missing()]).unwrap(), Released::NotHeld);
}
