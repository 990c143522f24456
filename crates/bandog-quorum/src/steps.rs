//! The steps of one call, and the votes of the nodes about each of them.

use std::{sync::Arc, time::Duration};

use bandog_core::{Answer, Claim, Error, Fence, Fences, Moment, QuorumNode, Result, Step, Verdict};

use crate::{
    contention::Contention,
    gather::Progress,
    node::{Node, Reply, Skip, now},
    rules::{Choice, Decision, Vote, claimed, failure, released},
};

/// Delay after which the fences of a lock may have stopped to change.
const FENCES_DELAY: Duration = Duration::from_millis(30);
/// Delay after which a node has released an earlier request of the same claim.
const OWED_DELAY: Duration = Duration::from_millis(5);
/// How often a claim that the first node has granted asks the nodes again that have refused it. They may not have
/// received the last release yet, or claims without a majority are being handed back there.
const MAX_REPETITIONS: u32 = 3;

/// One step of a call.
pub(crate) struct Ballot {
    step: Step,
    votes: Votes,
    /// For each node, whether it might have applied the claim.
    maybe_applied: Vec<bool>,
    asks: Asks,
    /// How often the nodes that refuse the claim may be asked again, although the first node has granted it.
    repetitions: u32,
    /// The node that contenders ask first. None if no node is known to answer.
    first: Option<usize>,
    /// The answer, when it is known.
    answer: Option<Result<Answer>>,
    /// Whether some nodes have granted the claim, and it was refused. Then possibly no claim has a majority.
    is_split: bool,
}

enum Votes {
    Claim(Vec<Vote<Choice>>),
    Release(Vec<Vote<bandog_core::Released>>),
}

/// The nodes to which the next requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    All,
    /// This node only. The others follow when it has granted the claim, or has not answered for some time.
    First(usize),
    /// All nodes but this one.
    Others(usize),
    /// No node. The steps were sent to all nodes.
    None,
}

impl Ballot {
    pub(crate) fn new(step: &Step, nodes: usize, first: Option<usize>) -> Self {
        let votes = match step {
            Step::Claim(_) | Step::Pass { .. } => Votes::Claim(vec![Vote::Awaited; nodes]),
            Step::Release(_) => Votes::Release(vec![Vote::Awaited; nodes]),
        };
        Self {
            step: step.clone(),
            votes,
            maybe_applied: vec![false; nodes],
            asks: Asks::All,
            repetitions: 0,
            first,
            answer: None,
            is_split: false,
        }
    }

    /// Answers the step without a request.
    pub(crate) fn refuse(&mut self, error: Error) {
        self.answer = Some(Err(error.during(self.step.verb()).at(self.step.key())));
    }

    /// Sends the claim to one node first, and to the others only if it does not refuse the claim.
    pub(crate) fn ask_first(&mut self, first: usize) {
        self.asks = Asks::First(first);
    }

    pub(crate) fn awaits_first(&self) -> bool {
        self.first_progress() == Progress::Wait
    }

    /// The result of the vote of the first node. Other steps do not delay the claims that ask one node first.
    pub(crate) fn first_progress(&self) -> Progress {
        match (&self.votes, self.asks) {
            (Votes::Claim(votes), Asks::First(first)) if matches!(votes[first], Vote::Awaited) => Progress::Wait,
            _ => Progress::Done,
        }
    }

    /// Ends the time in which one node is asked first. A refusal of this node answers the claim. A node that has not
    /// answered yet can still do so.
    pub(crate) fn end_first<B: QuorumNode>(&mut self, nodes: &[Arc<Node<B>>], contention: &Contention) {
        let (Votes::Claim(votes), Asks::First(first)) = (&self.votes, self.asks) else {
            self.asks = Asks::None;
            return;
        };
        self.asks = Asks::Others(first);
        match &votes[first] {
            Vote::Given(Choice::Granted { .. }) => self.repetitions = MAX_REPETITIONS,
            Vote::Given(Choice::Busy { retry_after }) => {
                // A node that must release an earlier request of the claim refuses it although the lock may be free.
                self.is_split = !self.maybe_applied[first] && nodes[first].skips(claim_of(&self.step).id).is_some();
                contention.refused(&claim_of(&self.step).key);
                self.answer = Some(Ok(Answer::Claimed(Verdict::Busy { retry_after: *retry_after, ahead: None })));
            }
            // The next claims ask another node first, until this one has answered a ping.
            Vote::Awaited => nodes[first].doubt(),
            Vote::Refused(_) | Vote::Missing(_) => {}
        }
    }

    /// The step to send to this node. None if nothing is sent. `is_left_out`: the node does not answer, and the other
    /// nodes are a majority.
    pub(crate) fn request<B: QuorumNode>(&mut self, at: usize, node: &Node<B>, is_left_out: bool) -> Option<Step> {
        let asks = match self.asks {
            Asks::All => true,
            Asks::First(first) => at == first,
            Asks::Others(first) => at != first,
            Asks::None => false,
        };
        if self.answer.is_some() || !asks {
            return None;
        }
        match (&mut self.votes, claim_of(&self.step)) {
            (Votes::Claim(votes), claim) => {
                votes[at] = match node.skips(claim.id) {
                    Some(Skip::Missing(error)) => refused_or_missing(error),
                    Some(Skip::Owed) => Vote::Given(Choice::Busy { retry_after: OWED_DELAY }),
                    None if is_left_out => Vote::Missing(node.silence()),
                    None => {
                        self.maybe_applied[at] = true;
                        return Some(self.step.clone());
                    }
                };
                None
            }
            (Votes::Release(votes), claim) if is_left_out => {
                node.owe(claim);
                votes[at] = Vote::Missing(node.silence());
                None
            }
            (Votes::Release(_), _) => Some(self.step.clone()),
        }
    }

    /// Records the answer of a node.
    pub(crate) fn record<B: QuorumNode>(&mut self, at: usize, node: &Node<B>, answer: Result<Answer>, reply: &Reply) {
        let claim = claim_of(&self.step);
        match (&mut self.votes, answer) {
            (Votes::Claim(votes), Ok(Answer::Claimed(Verdict::Granted { fences, valid_for, .. }))) => {
                votes[at] = match &reply.has_no_vote {
                    None => Vote::Given(Choice::Granted { fences, until: reply.sent + valid_for }),
                    Some(error) => refused_or_missing(error.clone()),
                };
            }
            (Votes::Claim(votes), Ok(Answer::Claimed(Verdict::Busy { retry_after, .. }))) => {
                self.maybe_applied[at] = false;
                votes[at] = Vote::Given(Choice::Busy { retry_after });
            }
            (Votes::Claim(votes), Err(error)) => {
                self.maybe_applied[at] &= error.maybe_applied() || error.is_retryable();
                votes[at] = refused_or_missing(error);
            }
            (Votes::Release(votes), Ok(Answer::Released(released))) => votes[at] = Vote::Given(released),
            (Votes::Release(votes), Err(error)) => {
                if error.is_retryable() {
                    node.owe(claim);
                }
                votes[at] = refused_or_missing(error);
            }
            (Votes::Claim(votes), Ok(Answer::Released(_))) => votes[at] = Vote::Missing(wrong_answer()),
            (Votes::Release(votes), Ok(Answer::Claimed(_))) => votes[at] = Vote::Missing(wrong_answer()),
        }
    }

    /// The result of the votes so far.
    pub(crate) fn progress(&self) -> Progress {
        let awaits = match &self.votes {
            Votes::Claim(votes) => votes.iter().any(|vote| matches!(vote, Vote::Awaited)),
            Votes::Release(votes) => votes.iter().any(|vote| matches!(vote, Vote::Awaited)),
        };
        if self.answer.is_some() || !awaits {
            return Progress::Done;
        }
        let is_enough = match &self.votes {
            Votes::Claim(votes) => match claimed(votes, claim_of(&self.step).fences, false) {
                Decision::Granted { .. } | Decision::Busy { .. } => true,
                Decision::Failed | Decision::Split { .. } => false,
                // More answers could make the fences equal.
                Decision::Wait | Decision::Raise { .. } => {
                    matches!(claimed(votes, claim_of(&self.step).fences, true), Decision::Raise { .. })
                }
            },
            Votes::Release(votes) => matches!(released(votes, true), Some(Ok(_))),
        };
        if is_enough { Progress::Enough } else { Progress::Wait }
    }

    fn has_grant(&self) -> bool {
        let is_grant = |vote: &Vote<_>| matches!(vote, Vote::Given(Choice::Granted { .. }));
        matches!(&self.votes, Votes::Claim(votes) if votes.iter().any(is_grant))
    }

    /// Whether a claim was refused although possibly no other claim has a majority. A claim that gets a place is never
    /// split: it keeps its places while it waits.
    pub(crate) fn is_split(&self) -> bool {
        self.is_split && !claim_of(&self.step).joins
    }

    /// No node is asked again because it has refused the claim.
    pub(crate) fn end_repetitions(&mut self) {
        self.repetitions = 0;
    }

    /// Ends a round of requests. `asked`: the beginning of the call. Returns the nodes to ask again, and the steps for
    /// them.
    pub(crate) fn end_round<B: QuorumNode>(
        &mut self,
        nodes: &[Arc<Node<B>>],
        contention: &Contention,
        asked: Moment,
        timeout: &Error,
    ) -> Vec<(usize, Step)> {
        if self.answer.is_some() {
            return Vec::new();
        }
        let claim = claim_of(&self.step);
        let answer = match &mut self.votes {
            Votes::Release(votes) => {
                for (vote, node) in votes.iter_mut().zip(nodes) {
                    if matches!(vote, Vote::Awaited) {
                        node.owe(claim);
                        node.doubt();
                        *vote = Vote::Missing(timeout.clone());
                    }
                }
                let answer = released(votes, true).unwrap_or_else(|| Err(failure(votes)));
                answer.map(Answer::Released).map_err(Error::ambiguous)
            }
            Votes::Claim(votes) => {
                for (vote, node) in votes.iter_mut().zip(nodes) {
                    if matches!(vote, Vote::Awaited) {
                        node.doubt();
                        *vote = Vote::Missing(timeout.clone());
                    }
                }
                match claimed(votes, claim.fences, true) {
                    Decision::Raise { above, nodes } => {
                        let step = Step::Claim(Claim { above: Some(above), ..claim.clone() });
                        for node in &nodes {
                            votes[*node] = Vote::Awaited;
                        }
                        return nodes.into_iter().map(|node| (node, step.clone())).collect();
                    }
                    Decision::Granted { fences, until } => {
                        let is_granted = |at: usize| matches!(votes[at], Vote::Given(Choice::Granted { .. }));
                        contention.granted(&claim.key, self.first.is_some_and(is_granted));
                        self.grant(fences, asked, until, nodes, contention)
                    }
                    // The other nodes may have the hold that is passed, so a majority can still have it.
                    Decision::Split { .. } if matches!(self.step, Step::Pass { .. }) => {
                        Err(Error::unavailable(split_pass(votes)).ambiguous())
                    }
                    Decision::Busy { retry_after } | Decision::Split { retry_after } => {
                        let again = self.ask_again(nodes);
                        if !again.is_empty() {
                            return again;
                        }
                        let claim = claim_of(&self.step);
                        contention.refused(&claim.key);
                        self.is_split = self.has_grant();
                        self.hand_back(nodes, contention);
                        Ok(Answer::Claimed(Verdict::Busy { retry_after, ahead: None }))
                    }
                    Decision::Wait | Decision::Failed => {
                        let error = failure(votes);
                        // A pass is repeated. Until then each node keeps one of the two holds. If they were released,
                        // another client could get the lock, and the repetition would be granted as a new claim.
                        if !matches!(self.step, Step::Pass { .. }) || !error.is_retryable() {
                            self.hand_back(nodes, contention);
                        }
                        Err(if error.is_retryable() { error.ambiguous() } else { error })
                    }
                }
            }
        };
        self.answer = Some(answer.map_err(|error| error.during(self.step.verb()).at(self.step.key())));
        Vec::new()
    }

    /// The nodes that have refused the claim, and the steps that ask them again. A node that must release an earlier request
    /// of the claim is not asked: it would release the new hold, too.
    fn ask_again<B: QuorumNode>(&mut self, nodes: &[Arc<Node<B>>]) -> Vec<(usize, Step)> {
        let (Votes::Claim(votes), 1..) = (&mut self.votes, self.repetitions) else { return Vec::new() };
        self.repetitions -= 1;
        let id = claim_of(&self.step).id;
        let mut refused = Vec::new();
        for (at, vote) in votes.iter_mut().enumerate() {
            if matches!(vote, Vote::Given(Choice::Busy { .. })) && nodes[at].skips(id).is_none() {
                *vote = Vote::Awaited;
                self.maybe_applied[at] = true;
                refused.push((at, self.step.clone()));
            }
        }
        refused
    }

    /// The answer to the step. If it is not known, the claim is handed back.
    pub(crate) fn answer<B: QuorumNode>(self, nodes: &[Arc<Node<B>>], contention: &Contention) -> Result<Answer> {
        if self.answer.is_none() {
            self.hand_back(nodes, contention);
        }
        self.answer.unwrap_or_else(|| {
            // Other claims change the fences of a reader's lock in each round. A later attempt succeeds.
            Ok(Answer::Claimed(Verdict::Busy { retry_after: FENCES_DELAY, ahead: None }))
        })
    }

    /// The answer to a claim that a majority has granted.
    fn grant<B: QuorumNode>(
        &mut self,
        fences: Fences,
        asked: Moment,
        until: Moment,
        nodes: &[Arc<Node<B>>],
        contention: &Contention,
    ) -> Result<Answer> {
        let claim = claim_of(&self.step);
        let valid_for = valid_for(claim, asked, until);
        if valid_for.is_zero() {
            self.hand_back(nodes, contention);
            if matches!(self.step, Step::Pass { .. }) {
                return Ok(Answer::Claimed(Verdict::Busy { retry_after: Duration::ZERO, ahead: None }));
            }
            return Err(Error::unavailable("the nodes of the quorum took longer than the ttl").ambiguous());
        }
        if let Votes::Claim(votes) = &self.votes {
            let held = Claim { above: Some(before(&fences, claim)), ..claim.clone() };
            for (vote, node) in votes.iter().zip(nodes) {
                if matches!(vote, Vote::Given(Choice::Granted { .. })) {
                    continue;
                }
                if let Step::Pass { from, .. } = &self.step {
                    node.owe(from);
                }
                // The hold would be missing there until its first renewal. A node that refuses the step would also refuse
                // the repair.
                if !matches!(vote, Vote::Refused(_)) {
                    node.repair(&held, asked + claim.ttl);
                }
            }
        }
        Ok(Answer::Claimed(Verdict::Granted { fences, valid_for, followers: Vec::new() }))
    }

    /// Releases a claim that was not granted, at each node that might have granted it. A refused pass ends both claims.
    fn hand_back<B: QuorumNode>(&self, nodes: &[Arc<Node<B>>], contention: &Contention) {
        let claim = claim_of(&self.step);
        for (node, maybe_applied) in nodes.iter().zip(&self.maybe_applied) {
            // An earlier request of the same claim may have been granted, and its answer lost.
            node.end_repair(claim);
            if *maybe_applied {
                node.owe(claim);
            }
            if let Step::Pass { from, .. } = &self.step {
                node.owe(from);
            }
        }
        // The releases notify the waiters, also this client.
        if self.maybe_applied.contains(&true) {
            contention.handed_back(&claim.key);
        }
    }
}

/// The duration of a hold that a majority of the nodes keeps until this moment, counted from the beginning of the call.
/// Zero if the hold has expired.
pub(crate) fn valid_for(claim: &Claim, asked: Moment, until: Moment) -> Duration {
    // The clocks of the nodes may be faster than ours.
    let drift = claim.ttl / 100 + Duration::from_millis(2);
    if until.since(now() + drift).is_zero() {
        return Duration::ZERO;
    }
    until.since(asked + drift).min(claim.ttl)
}

/// The last fence before these fences of the claim.
fn before(fences: &Fences, claim: &Claim) -> Fence {
    Fence::new(fences.last().get().saturating_sub(u64::from(claim.fences.get())))
}

fn refused_or_missing<T>(error: Error) -> Vote<T> {
    if error.is_retryable() { Vote::Missing(error) } else { Vote::Refused(error) }
}

/// The text of the error of a pass that a minority refuses.
fn split_pass(votes: &[Vote<Choice>]) -> String {
    let busy = votes.iter().filter(|vote| matches!(vote, Vote::Given(Choice::Busy { .. }))).count();
    format!(
        "{busy} of the {} nodes of the quorum refuse to pass the hold on, and too few others have answered",
        votes.len()
    )
}

fn wrong_answer() -> Error {
    Error::unavailable("a node of the quorum has answered another step")
}

/// The claim that this step makes or releases.
pub(crate) fn claim_of(step: &Step) -> &Claim {
    match step {
        Step::Claim(claim) | Step::Release(claim) | Step::Pass { to: claim, .. } => claim,
    }
}
