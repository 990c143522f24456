//! One node of a quorum: its store, whether it has a vote, the releases that it has not answered yet, and the holds that it
//! has lost.

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{
    Answer, Claim, ClaimId, Clock, Error, Moment, Notifier, QuorumNode, Result, Step, Subscription, Verdict, rounded,
};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use crate::{
    agreement::{self, Agreement, Terms},
    owed::Owed,
    repairs::{Repairs, has_failed},
    rules::{self, Kept},
};

/// A node of a quorum.
#[derive(Debug)]
pub(crate) struct Node<B> {
    pub(crate) backend: B,
    /// The address of the store.
    pub(crate) store: String,
    /// Maximum duration of one request to this node.
    pub(crate) limit: Duration,
    terms: Terms,
    /// Whether a majority of the nodes has stored our terms.
    has_agreed: Arc<AtomicBool>,
    epoch: watch::Receiver<u64>,
    state: Mutex<NodeState>,
    /// Locked by the caller that sends releases and repairs, so that none of them is sent twice at the same time.
    settling: tokio::sync::Mutex<()>,
    /// Whether the node did not answer the last ping. Requests are not sent to such a node if the others are a majority.
    /// A node that refuses requests and answers pings is not silent: its answers delay no call.
    is_silent: AtomicBool,
    /// Notified when the node's task has something to do.
    pub(crate) work: Notify,
    /// Notified when the node answers again after a silence or over a new connection. It may have lost holds.
    pub(crate) returned: Notify,
}

#[derive(Debug, Default)]
struct NodeState {
    /// The result of the last check of the node's uptime.
    checked: Option<Checked>,
    /// The claims that the node must release.
    owed: Owed,
    /// The holds that the node has lost.
    repairs: Repairs,
    /// Whether the node's task must check that the node answers.
    is_doubted: bool,
    /// Whether the node was silent or has a new connection, and its return is not reported yet.
    owes_report: bool,
}

#[derive(Debug, Clone)]
struct Checked {
    /// The number of the connection over which the node has answered.
    epoch: u64,
    vote: Vote,
}

/// The time from which the node has a vote. None if the node has always had one.
type Vote = Result<Option<Moment>>;

/// The answer of a node to a list of steps.
pub(crate) struct Reply {
    pub(crate) answers: Vec<Result<Answer>>,
    /// The moment before the request was sent.
    pub(crate) sent: Moment,
    /// The reason why the grants of this reply do not count. None if the node has a vote.
    pub(crate) has_no_vote: Option<Error>,
}

impl<B: QuorumNode> Node<B> {
    pub(crate) fn new(backend: B, limit: Duration, terms: Terms, has_agreed: Arc<AtomicBool>) -> Self {
        let profile = backend.profile();
        Self {
            backend,
            store: profile.store,
            limit,
            terms,
            has_agreed,
            epoch: profile.epoch,
            state: Mutex::default(),
            settling: tokio::sync::Mutex::default(),
            is_silent: AtomicBool::new(false),
            work: Notify::new(),
            returned: Notify::new(),
        }
    }

    /// Sends these steps, and learns whether the node has a vote if this is unknown.
    pub(crate) async fn apply(&self, steps: &[Step]) -> Reply {
        let (sent, before) = (now(), self.epoch());
        let answers = self.backend.apply(&self.as_known(steps)).await;
        self.note(answers.iter().map(|answer| answer.as_ref().err()));
        let has_grant = answers.iter().any(|answer| matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. }))));
        let has_no_vote = match self.known_vote(before) {
            _ if !has_grant => None, // The reply has nothing that depends on the vote.
            // The number of the connection has not changed, so the server has not restarted since the check.
            Some(vote) if self.epoch() == before => self.has_no_vote(vote, sent),
            // If the server that runs now started long before the request, it has answered the request.
            Some(_) | None => self.has_no_vote(self.check_vote().await, sent),
        };
        Reply { answers, sent, has_no_vote }
    }

    /// Renews these claims. The node can have an earlier request of a claim that it must release. Then it has a hold, and
    /// this hold does not count, because the release removes it.
    pub(crate) async fn renew(&self, claims: &[Claim]) -> Vec<Result<Kept>> {
        let (sent, (claims, owed)) = (now(), self.for_renewal(claims));
        let answers = self.backend.renew(&claims).await;
        self.note(answers.iter().map(|answer| answer.as_ref().err()));
        let kept = |renewal, owes| if owes { Kept::Nothing } else { rules::kept(renewal, sent) };
        answers.into_iter().zip(owed).map(|(answer, owes)| answer.map(|renewal| kept(renewal, owes))).collect()
    }

    /// These claims as the node knows them, and for each whether the node must release it.
    fn for_renewal<'c>(&self, claims: &'c [Claim]) -> (Cow<'c, [Claim]>, Vec<bool>) {
        let mut state = self.state();
        claims.iter().for_each(|claim| state.owed.renewed(claim.id));
        let owes = claims.iter().map(|claim| state.owed.contains(claim.id)).collect();
        (state.owed.reuses().claims(claims), owes)
    }

    /// These steps as the node knows them.
    fn as_known<'s>(&self, steps: &'s [Step]) -> Cow<'s, [Step]> {
        self.state().owed.reuses().steps(steps)
    }

    /// Subscribes to the end of the holds of other claims at this node.
    pub(crate) async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let claim = self.state().owed.reuses().claim(claim);
        self.backend.subscribe(&claim, notifier).await
    }

    /// Compares our terms with those that the node has stored. `stores`: whether the node first stores ours if it has
    /// none.
    pub(crate) async fn agree(&self, stores: bool) -> Result<Agreement> {
        agreement::check(&self.backend, &self.store, self.terms, stores).await
    }

    /// Checks that the node answers, and reads its uptime.
    pub(crate) async fn ping(&self) -> Result<()> {
        self.backend.ping().await?;
        match self.check_vote().await {
            Err(error) if !error.is_retryable() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The time until the node has a vote. Zero if the node has one.
    ///
    /// # Errors
    /// The reason why the time is unknown.
    pub(crate) fn time_until_vote(&self) -> Result<Duration> {
        match self.known_vote(self.epoch()) {
            Some(vote) => Ok(vote?.map_or(Duration::ZERO, |from| from.since(now()))),
            None => Err(Error::unavailable(format!("{} has not reported its uptime", self.store))),
        }
    }

    /// The reason why the node has no vote in a request that was sent at this moment. `vote` is the result of
    /// [`Node::check_vote`].
    fn has_no_vote(&self, vote: Vote, sent: Moment) -> Option<Error> {
        match vote {
            Err(error) => Some(error),
            Ok(Some(from)) if sent < from => Some(Error::unavailable(format!(
                "{} has no vote: it must run for more than {} (max_ttl), because it might have lost its locks when it \
                 started; it has a vote in {}",
                self.store,
                rounded(self.terms.max_ttl),
                rounded(whole_seconds(from.since(sent)))
            ))),
            Ok(Some(_) | None) => None,
        }
    }

    /// Whether claims are not sent to the node, because it has no vote now or because a release of this claim must come
    /// first.
    pub(crate) fn skips(&self, claim: ClaimId) -> Option<Skip> {
        let state = self.state();
        let (owes, is_doubted) = (state.owed.contains(claim), state.is_doubted);
        drop(state);
        if owes {
            return Some(if is_doubted || self.is_silent() { Skip::Missing(self.silence()) } else { Skip::Owed });
        }
        let vote = self.known_vote(self.epoch())?;
        self.has_no_vote(vote, now()).map(Skip::Missing)
    }

    /// Whether contenders may ask this node first. It answers and has a vote, as far as known.
    pub(crate) fn may_be_first(&self) -> bool {
        let vote = self.known_vote(self.epoch());
        let has_vote = vote.is_none_or(|vote| self.has_no_vote(vote, now()).is_none());
        has_vote && !self.is_silent() && !self.state().is_doubted
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Relaxed)
    }

    /// The error for a request that is not sent because the node is silent.
    pub(crate) fn silence(&self) -> Error {
        Error::unavailable(format!("{} does not answer", self.store))
    }

    /// Records that a request had no answer in time, or failed. The node's task checks whether the node answers.
    pub(crate) fn doubt(&self) {
        self.state().is_doubted = true;
        self.work.notify_one();
    }

    /// Lets the node's task release this claim, until the node answers or the hold has expired.
    pub(crate) fn owe(&self, claim: &Claim) {
        let until = now() + claim.ttl + self.limit;
        let claim = Claim { above: None, offers: false, ..claim.clone() };
        self.state().owed.add(claim, until);
        self.work.notify_one();
    }

    /// Lets the node's task claim this hold again, which the node has lost. `until` is the end of the hold.
    pub(crate) fn repair(&self, claim: &Claim, until: Moment) {
        self.state().repairs.add(claim, until);
        self.work.notify_one();
    }

    /// Ends the repair of a claim that is released or passed. If the node might still apply the repair, the claim is
    /// released after it.
    pub(crate) fn end_repair(&self, claim: &Claim) {
        let maybe_applied = self.state().repairs.end(claim.id);
        if maybe_applied {
            self.owe(claim);
        }
    }

    /// Ends the repair of a claim whose hold is lost. The claim is not released: the guard does not know of the loss yet.
    pub(crate) fn stop_repair(&self, claim: &Claim) {
        self.state().repairs.stop(claim.id);
    }

    /// Whether the node must release claims.
    pub(crate) fn owes(&self) -> bool {
        !self.state().owed.is_empty()
    }

    /// Makes one attempt to release all claims that the node must release, if the node answers.
    pub(crate) async fn drain(&self) {
        if self.owes() && !self.is_silent() {
            self.settle().await;
        }
    }

    /// Works until the node has answered all releases and repairs. Returns false if there is more to do after a pause.
    pub(crate) async fn settle(&self) -> bool {
        let _settling = self.settling.lock().await;
        loop {
            if !self.answers().await {
                return false;
            }
            let due = self.state().owed.due(now());
            if due.is_empty() {
                break;
            }
            if !self.release(&due).await {
                return false;
            }
        }
        self.state().repairs.retry();
        loop {
            let due = self.state().repairs.due(now());
            if due.is_empty() {
                return self.state().repairs.are_settled();
            }
            self.send_repairs(&due).await;
        }
    }

    /// Whether the node answers, as far as known. If this is in doubt, the node is asked.
    async fn answers(&self) -> bool {
        if !(self.state().is_doubted || self.is_silent()) {
            return true;
        }
        let answers = matches!(timeout(self.limit, self.backend.ping()).await, Ok(Ok(())));
        let mut state = self.state();
        self.is_silent.store(!answers, Relaxed);
        state.is_doubted = !answers;
        state.owes_report |= !answers;
        self.report_return(&mut state);
        answers
    }

    /// Records that the node has a new connection. It may have lost holds.
    pub(crate) fn connected_again(&self) {
        let mut state = self.state();
        state.owes_report = true;
        self.report_return(&mut state);
    }

    /// Reports the return of the node, unless the node is silent: then it is left out of the renewals that follow the
    /// report. A node that only refuses requests has not returned when it answers a ping. Otherwise the client would
    /// renew and claim at once, be refused again, and never pause.
    fn report_return(&self, state: &mut NodeState) {
        if !self.is_silent() && std::mem::take(&mut state.owes_report) {
            self.returned.notify_one();
        }
    }

    /// Releases these claims. Returns false if one of the releases must be repeated.
    async fn release(&self, due: &[Claim]) -> bool {
        self.state().owed.sent(due);
        let answers = self.send(due, Step::Release).await;
        let mut state = self.state();
        for (claim, answer) in due.iter().zip(&answers) {
            state.owed.answered(claim.id, answer);
        }
        state.is_doubted |= answers.iter().all(Result::is_err);
        answers.len() == due.len() && !answers.iter().any(has_failed)
    }

    /// Claims these holds again, which the node has lost.
    async fn send_repairs(&self, due: &[Claim]) {
        let answers = self.send(due, Step::Claim).await;
        let mut state = self.state();
        for (claim, answer) in due.iter().zip(&answers) {
            state.repairs.answered(claim.id, answer);
        }
        if answers.iter().all(has_failed) {
            state.is_doubted = true;
            self.work.notify_one();
        }
    }

    /// Sends a step for each of these claims. The result is empty if the node does not answer in time.
    async fn send(&self, claims: &[Claim], step: impl Fn(Claim) -> Step) -> Vec<Result<Answer>> {
        let steps: Vec<_> = claims.iter().cloned().map(step).collect();
        timeout(self.limit, self.backend.apply(&self.as_known(&steps))).await.unwrap_or_default()
    }

    /// Receives the number of connections to this node.
    pub(crate) fn epochs(&self) -> watch::Receiver<u64> {
        self.epoch.clone()
    }

    /// Reads the uptime of the node, and compares the terms. Returns the time from which the node has a vote.
    pub(crate) async fn check_vote(&self) -> Vote {
        let before = self.epoch();
        // A node that has lost its data stores our terms again.
        let uptime = match self.agree(self.has_agreed.load(Relaxed)).await {
            Ok(Agreement::Stored | Agreement::Missing) => self.backend.uptime().await,
            Err(error) => Err(error),
        };
        // The server started at this moment or earlier. This may be before the origin of the clock. None if the server
        // has had a vote since before the origin.
        let vote = uptime.map(|uptime| {
            let uptime = u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX);
            (now() + self.terms.max_ttl).as_nanos().checked_sub(uptime).map(Moment::from_nanos)
        });
        let is_lasting = vote.as_ref().err().is_none_or(|error| !error.is_retryable());
        // With another number, an earlier run of the server may have answered.
        if is_lasting && before == self.epoch() {
            self.state().checked = Some(Checked { epoch: before, vote: vote.clone() });
        }
        vote
    }

    /// The result of the last check, if it was made over the connection with this number.
    fn known_vote(&self, epoch: u64) -> Option<Vote> {
        let state = self.state();
        state.checked.as_ref().filter(|checked| checked.epoch == epoch).map(|checked| checked.vote.clone())
    }

    /// Lets the node's task check that the node answers, if all answers are errors that a repetition may resolve.
    fn note<'e>(&self, errors: impl Iterator<Item = Option<&'e Error>>) {
        let (mut asked, mut failed) = (false, true);
        for error in errors {
            asked = true;
            failed &= error.is_some_and(Error::is_retryable);
        }
        if asked && failed {
            self.doubt();
        }
    }

    fn epoch(&self) -> u64 {
        *self.epoch.borrow()
    }

    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a claim is not sent to a node.
pub(crate) enum Skip {
    /// The node has no vote, or does not answer.
    Missing(Error),
    /// The node must release the claim first.
    Owed,
}

/// The duration, rounded up to whole seconds if it is a second or longer.
pub(crate) fn whole_seconds(duration: Duration) -> Duration {
    let secs = duration.as_secs();
    if secs == 0 { duration } else { Duration::from_secs(secs + u64::from(duration.subsec_nanos() > 0)) }
}

/// The present time. This clock does not count the time for which the machine is suspended. The engine counts this time,
/// because its deadlines begin before the call.
pub(crate) fn now() -> Moment {
    Clock::tokio().now()
}
