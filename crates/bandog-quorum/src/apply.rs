//! The steps of one call: which nodes are asked, in how many rounds.

use std::{collections::HashSet, time::Duration};

use bandog_core::{Answer, Claim, Error, Inspect, Kind, Moment, QuorumNode, Result, Step, check_pass, rounded};
use futures_util::future::FutureExt;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    gather::{GRACE, Progress, Requests, gather},
    leases::{KINDS, Quorum},
    node::Reply,
    steps::{Ballot, claim_of},
};

/// Maximum number of rounds in which the fences of the nodes are made equal, or in which nodes are asked again.
const MAX_ROUNDS: usize = 6;
/// A claim that asks one node first waits for it no longer than the node's timeout, divided by this.
const FIRST_SHARE: u32 = 5;

/// Maximum delay before a split claim is repeated for the first time, and before each repetition.
const FIRST_DELAY: Duration = Duration::from_millis(8);
const MAX_DELAY: Duration = Duration::from_millis(200);
/// A split claim is repeated only if this share of the node's timeout is left after the delay.
const LAST_SHARE: u32 = 4;

/// The answer of a node to the steps of the ballots at these positions.
type Answered = (Vec<usize>, Reply);

impl<B: QuorumNode> Quorum<B> {
    /// Applies these steps. `asked`: the beginning of the call.
    pub(crate) async fn apply_steps(&self, steps: &[Step], asked: Moment, deadline: Instant) -> Vec<Result<Answer>> {
        let mut answers = Vec::with_capacity(steps.len());
        for part in parts(steps) {
            let (mut part_answers, mut split) = self.apply_part(part, asked, deadline).await;
            self.repeat_split(part, &mut part_answers, &mut split, asked, deadline).await;
            answers.extend(part_answers);
        }
        answers
    }

    /// Repeats the claims at these positions, of which each was granted by some nodes and handed back. If several clients ask
    /// for a free lock at the same moment, each of them can get a node, and none a majority. So each of them asks again after
    /// a random delay, until one has the lock. A waiter is not served here, because it claims again by itself.
    async fn repeat_split(
        &self,
        steps: &[Step],
        answers: &mut [Result<Answer>],
        split: &mut Vec<usize>,
        asked: Moment,
        deadline: Instant,
    ) {
        for delay in repetition_delays() {
            split.retain(|at| !self.contention.waits(steps[*at].key()));
            // Without a split, this costs no request.
            if split.is_empty() || Instant::now() + delay + self.options.node_timeout() / LAST_SHARE > deadline {
                return;
            }
            let mut repeated = Vec::new();
            for at in std::mem::take(split) {
                if !self.is_held_by_majority(claim_of(&steps[at]), deadline).await {
                    repeated.push(at);
                }
            }
            sleep(delay).await;
            let again: Vec<_> = repeated.iter().map(|at| steps[*at].clone()).collect();
            let (new, still_split) = self.apply_part(&again, asked, deadline).await;
            for (at, answer) in repeated.iter().zip(new) {
                answers[*at] = answer;
            }
            *split = still_split.into_iter().map(|at| repeated[at]).collect();
        }
    }

    /// Whether a majority of the nodes has the same claim, which excludes this one.
    async fn is_held_by_majority(&self, claim: &Claim, deadline: Instant) -> bool {
        let excludes = |kind: Option<Kind>| claim.kind != Kind::Read || kind != Some(Kind::Read);
        match timeout_at(deadline, self.show(&claim.key)).await {
            Ok(Ok(row)) => row.holders.iter().any(|holder| excludes(holder.kind)),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Applies steps of which no step follows a claim of the same key. Also returns the positions of the claims that are
    /// split.
    async fn apply_part(&self, steps: &[Step], asked: Moment, deadline: Instant) -> (Vec<Result<Answer>>, Vec<usize>) {
        let (nodes, first) = (&self.nodes, self.first_node());
        let mut ballots: Vec<_> = steps.iter().map(|step| Ballot::new(step, nodes.len(), first)).collect();
        for (ballot, step) in ballots.iter_mut().zip(steps) {
            if let Some(error) = self.misused(step) {
                ballot.refuse(error);
                continue;
            }
            // A hold that is passed is still valid. Its repairs end with the hold.
            if let Step::Release(claim) = step {
                self.end_repairs(claim);
            }
            if let (Step::Claim(claim), Some(first)) = (step, first)
                && self.contention.asks_first(claim, first)
            {
                ballot.ask_first(first);
            }
        }
        let mut requests = Requests::new();
        self.send(&mut requests, self.requests(&mut ballots));
        if ballots.iter().any(Ballot::awaits_first) {
            let share = Instant::now() + self.options.node_timeout() / FIRST_SHARE;
            self.collect(&mut requests, share.min(deadline), &mut ballots, Ballot::first_progress).await;
        }
        ballots.iter_mut().for_each(|ballot| ballot.end_first(nodes, &self.contention));
        self.send(&mut requests, self.requests(&mut ballots));
        for _ in 0..MAX_ROUNDS {
            self.collect(&mut requests, deadline, &mut ballots, Ballot::progress).await;
            if Instant::now() >= deadline {
                ballots.iter_mut().for_each(Ballot::end_repetitions);
            }
            let mut again = vec![Vec::new(); nodes.len()];
            for (index, ballot) in ballots.iter_mut().enumerate() {
                for (at, step) in ballot.end_round(nodes, &self.contention, asked, &self.timeout()) {
                    again[at].push((index, step));
                }
            }
            if again.iter().all(Vec::is_empty) {
                break;
            }
            requests = Requests::new();
            self.send(&mut requests, again);
        }
        let split = (0..ballots.len()).filter(|at| ballots[*at].is_split()).collect();
        let answers: Vec<_> = ballots.into_iter().map(|ballot| ballot.answer(nodes, &self.contention)).collect();
        for (step, answer) in steps.iter().zip(&answers) {
            // A pass with an error may be repeated.
            if let (Step::Pass { from, .. }, Ok(_)) = (step, answer) {
                self.end_repairs(from);
            }
        }
        (answers, split)
    }

    /// The node that clients ask first if they contend for a lock. All clients that can reach the same nodes choose the
    /// same one. None if no node is known to answer.
    fn first_node(&self) -> Option<usize> {
        self.order.iter().copied().find(|at| self.nodes[*at].may_be_first())
    }

    /// The steps to send now. Each list has the steps for one node, and the positions of their ballots.
    fn requests(&self, ballots: &mut [Ballot]) -> Vec<Vec<(usize, Step)>> {
        let of_node = |(at, node)| {
            let is_left_out = self.leaves_out(node);
            let request = |(index, ballot): (usize, &mut Ballot)| Some((index, ballot.request(at, node, is_left_out)?));
            ballots.iter_mut().enumerate().filter_map(request).collect()
        };
        self.nodes.iter().map(|node| &**node).enumerate().map(of_node).collect()
    }

    /// Sends these steps to the nodes.
    fn send<'a>(&'a self, requests: &mut Requests<'a, Answered>, steps: Vec<Vec<(usize, Step)>>) {
        for (at, (node, steps)) in self.nodes.iter().zip(steps).enumerate().filter(|(_, (_, steps))| !steps.is_empty())
        {
            let (indexes, steps): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
            requests.push(async move { (at, (indexes, node.apply(&steps).await)) }.boxed());
        }
    }

    /// Records the answers to these requests, until `progress` says of each ballot that it needs no more.
    async fn collect(
        &self,
        requests: &mut Requests<'_, Answered>,
        deadline: Instant,
        ballots: &mut [Ballot],
        progress: fn(&Ballot) -> Progress,
    ) {
        gather(requests, deadline, GRACE, |at, (indexes, mut reply)| {
            let answers = std::mem::take(&mut reply.answers);
            for (index, answer) in indexes.into_iter().zip(answers) {
                ballots[index].record(at, &self.nodes[at], answer, &reply);
            }
            ballots.iter().map(progress).min().unwrap_or(Progress::Done)
        })
        .await;
    }

    /// The reason why a step is refused without a request.
    fn misused(&self, step: &Step) -> Option<Error> {
        let (claim, max_ttl) = (claim_of(step), self.options.max_ttl);
        match step {
            Step::Claim(_) | Step::Pass { .. } if claim.ttl > max_ttl => Some(Error::misused(format!(
                "the ttl is {}; on this quorum it must be at most {} (max_ttl in the URL), because a node that \
                 restarts has no vote for this time",
                rounded(claim.ttl),
                rounded(max_ttl)
            ))),
            Step::Claim(_) | Step::Pass { .. } if !KINDS.contains(claim.kind) => {
                Some(Error::misused(format!("a quorum has no locks of the kind {}", claim.kind)))
            }
            Step::Pass { from, to } => check_pass(from.kind, to.kind).err(),
            Step::Claim(_) | Step::Release(_) => None,
        }
    }

    /// Ends the repairs of a claim that does not hold its lock any more.
    fn end_repairs(&self, ended: &Claim) {
        self.renewals.end(ended.id);
        for node in &self.nodes {
            node.end_repair(ended);
        }
    }
}

/// Random delays before the repetitions of a claim that is split. Each one is on average twice as long as the one before.
fn repetition_delays() -> impl Iterator<Item = Duration> {
    let longest = (0..).map(|number: u32| FIRST_DELAY * 2u32.saturating_pow(number.min(16)));
    longest.map(|longest| longest.min(MAX_DELAY).mul_f64(fastrand::f64()))
}

/// Splits the steps, so that no step follows a claim of the same key in the same part. A claim can need several requests,
/// and the next step of the key must follow the last of them.
fn parts(steps: &[Step]) -> Vec<&[Step]> {
    let (mut parts, mut start, mut claimed) = (Vec::new(), 0, HashSet::new());
    for (at, step) in steps.iter().enumerate() {
        if claimed.contains(step.key()) {
            parts.push(&steps[start..at]);
            start = at;
            claimed.clear();
        }
        if !matches!(step, Step::Release(_)) {
            claimed.insert(step.key());
        }
    }
    parts.push(&steps[start..]);
    parts
}
