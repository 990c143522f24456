//! Pending releases: a release request is repeated until the store has answered.
//!
//! A *claim* is a request for a key, and a *hold* is what the store gives for a claim. A *turn* begins when a call gets
//! the hold, and ends when the last guard of the turn is dropped. Calls of one owner can share a turn. A release starts
//! in four cases:
//! - The last guard of a turn was dropped, and no other call of this client gets the hold.
//! - A grant arrived too late, or no call waits for the lock any more.
//! - No call waits for a claim any more. But the store may have applied the claim, may have a place for it, or may
//!   have noted that this client starves (has waited for a long time).
//! - A hold was passed to a new claim, and the store may still apply a request of the old claim
//!   ([`Releases::start_later`]).
//!
//! A claim is *unsure* if one of its requests had no answer. The store may have applied that request, or may still
//! apply it. A running store applies the request no later than one request timeout after the error of that request, or
//! after the answer to a later request of the same claim. A store that was stopped can apply the request when the store
//! continues. So an unsure claim is released twice. The first release is sent immediately, and is repeated until the
//! store answers. The second release is sent one request timeout after that answer. If the store applied the unanswered
//! request after the first release, the second release frees the key.
//!
//! A failover or a crash of the store can undo a release that the store has answered. Then the lock would stay held until
//! its ttl ends. So the releases of the last seconds are sent again after a reconnection ([`Releases::repeat_recent`]).
//! They do no harm to a store that has kept them, because no other hold has the id of the claim: a claim that is
//! repeated with its id was not released before.
//!
//! Like a slot, this is a state machine that does no I/O.

use std::{
    collections::{BTreeSet, VecDeque, hash_map::Entry},
    time::Duration,
};

use bandog_core::{Claim, Error, ErrorKind, Moment, PLACE, Released, Result, Step};

use super::{backoff::backoff_after, map::Map};
use crate::{terms::HoldId, turn::Report};

/// If more releases than this are pending, the release of an unsure claim is not repeated any more after the claim's
/// ttl plus one request timeout.
const MAX_UNSURE: usize = 1000;

/// Maximum number of releases that are sent again after a reconnection.
const MAX_RECENT: usize = 16_384;
/// Maximum number of them that are sent at the same time. All other requests of the client go over the same connection.
const PORTION: usize = 256;

/// A claim whose release is not finished.
struct PendingRelease {
    claim: Claim,
    /// Where the result goes. `None` if no caller waits for the result, or the result was already reported.
    report: Option<Report>,
    /// When the release was requested.
    since: Moment,
    /// Whether the store may still apply a request of the claim. If so, a second release is sent one request timeout
    /// after the first release was answered.
    unsure: bool,
    /// Whether an earlier release may have been applied. If so, a later release that finds nothing to release does not
    /// mean that the lock was lost.
    repeated: bool,
    round: Round,
    /// Number of release requests without an answer.
    faults: u32,
    /// When the release is sent again, if that is planned.
    due: Option<Moment>,
    reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// The store has not answered a release of the claim.
    First,
    /// The store has answered. The claim is unsure, so one more release follows.
    Second,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The claim has ended in this client.
    Ended,
    /// The store has released the claim before, and may have lost that.
    Reconnected,
}

impl PendingRelease {
    fn new(claim: Claim, since: Moment) -> Self {
        let (round, reason) = (Round::First, Reason::Ended);
        Self { claim, report: None, since, unsure: false, repeated: false, round, faults: 0, due: None, reason }
    }

    fn is_repetition(&self) -> bool {
        self.reason == Reason::Reconnected
    }
}

/// The work of the engine after the end of a release request.
pub(super) struct ReleaseAnswer {
    /// The result for the caller of `release()`, if it is known now.
    pub(super) report: Option<(Report, Result<()>)>,
    /// The error of a release that the store refused. The hold of that claim expires after its ttl.
    pub(super) refused: Option<Error>,
}

/// All releases that are not finished.
pub(super) struct Releases {
    pending: Map<HoldId, PendingRelease>,
    /// When each release must be sent again.
    due: BTreeSet<(Moment, HoldId)>,
    /// Timeout of a request.
    timeout: Duration,
    /// The claims that the store has released, and the time of its answer.
    recent: VecDeque<(Moment, Claim)>,
    /// The time for which the store may undo a release ([`bandog_core::Profile::may_undo`]).
    may_undo: Duration,
    /// The claims whose releases must be sent again, but are not sent yet.
    again: VecDeque<(Moment, Claim)>,
    /// Number of pending releases that are sent again after a reconnection.
    repetitions: usize,
    /// Number of them that the store has not answered.
    unanswered: usize,
}

impl Releases {
    pub(super) fn new(timeout: Duration, may_undo: Duration) -> Self {
        Self {
            pending: Map::default(),
            due: BTreeSet::new(),
            timeout,
            recent: VecDeque::new(),
            may_undo,
            again: VecDeque::new(),
            repetitions: 0,
            unanswered: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Starts the release of a claim, and returns the step to send. `report` gets the result, which is the store's
    /// answer or an error. While the release is repeated, an error is reported only if one request timeout has passed
    /// since the start. So `report` gets the result after two request timeouts at the latest. `unsure`: the store may
    /// still apply a request of the claim.
    pub(super) fn start(&mut self, claim: Claim, unsure: bool, report: Option<Report>, now: Moment) -> Step {
        let (id, step) = (claim.id.number, Step::Release(claim.clone()));
        let mut pending = PendingRelease::new(claim, now);
        (pending.report, pending.unsure) = (report, unsure);
        if let Some(earlier) = self.remove(id) {
            // A release of this claim is pending already, because the claim was unsure. The new release replaces the
            // pending release, and takes over the flags of the pending release.
            pending.unsure |= earlier.unsure;
            pending.repeated |= earlier.repeated;
        }
        self.pending.insert(id, pending);
        step
    }

    /// Releases an unsure claim whose hold was passed. The release is sent one request timeout from now. At that
    /// time, a running store no longer applies an old request of that claim.
    pub(super) fn start_later(&mut self, claim: Claim, now: Moment) {
        let id = claim.id.number;
        let pending =
            PendingRelease { unsure: true, repeated: true, round: Round::Second, ..PendingRelease::new(claim, now) };
        self.remove(id);
        self.pending.insert(id, pending);
        self.schedule(id, now + self.timeout);
    }

    /// Handles the store's answer to a release.
    pub(super) fn answered(&mut self, id: HoldId, released: Released, now: Moment) -> Option<ReleaseAnswer> {
        let pending = self.pending.get_mut(&id)?;
        let is_gone = matches!(released, Released::NotHeld) && !pending.repeated;
        let result = if is_gone { Err(Error::lost(&pending.claim.key)) } else { Ok(()) };
        let report = pending.report.take().map(|report| (report, result));
        let has_ended = match released {
            Released::Freed { .. } | Released::LeftQueue => true,
            // An earlier request may have ended the claim, and its answer was lost.
            Released::NotHeld => {
                let is_first = pending.round == Round::First && !pending.is_repetition();
                is_first && (pending.repeated || pending.unsure)
            }
        };
        let ended = has_ended.then(|| pending.claim.clone());
        if pending.unsure && pending.round == Round::First {
            pending.round = Round::Second;
            self.unanswered -= usize::from(pending.is_repetition());
            self.schedule(id, now + self.timeout);
        } else {
            self.remove(id);
        }
        if let Some(claim) = ended {
            self.ended(claim, now);
        }
        Some(ReleaseAnswer { report, refused: None })
    }

    /// Records that the store has ended this claim: by a release, or because it has passed the hold to another claim.
    pub(super) fn ended(&mut self, claim: Claim, now: Moment) {
        if self.may_undo.is_zero() {
            return;
        }
        self.recent.push_back((now, claim));
        self.forget_old(now);
    }

    /// Starts the releases of the last seconds again, and returns the first steps to send. No caller waits for their
    /// results.
    pub(super) fn repeat_recent(&mut self, now: Moment) -> Vec<Step> {
        self.forget_old(now);
        self.again = self.recent.clone();
        self.next_portion(now)
    }

    /// The next releases to send again. None as long as the store has not answered the last ones.
    pub(super) fn next_portion(&mut self, now: Moment) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.unanswered > 0 {
            return steps;
        }
        while steps.len() < PORTION
            && let Some((at, claim)) = self.again.pop_front()
        {
            let claim = Claim { offers: false, ..claim };
            if now.since(at) > self.may_undo {
                continue;
            }
            if let Entry::Vacant(vacant) = self.pending.entry(claim.id.number) {
                steps.push(Step::Release(claim.clone()));
                let pending = PendingRelease::new(claim, now);
                vacant.insert(PendingRelease { repeated: true, reason: Reason::Reconnected, ..pending });
                self.repetitions += 1;
                self.unanswered += 1;
            }
        }
        steps
    }

    fn remove(&mut self, id: HoldId) -> Option<PendingRelease> {
        let pending = self.pending.remove(&id)?;
        if let Some(moment) = pending.due {
            self.due.remove(&(moment, id));
        }
        self.repetitions -= usize::from(pending.is_repetition());
        self.unanswered -= usize::from(pending.is_repetition() && pending.round == Round::First);
        Some(pending)
    }

    fn forget_old(&mut self, now: Moment) {
        let is_old = |(at, _): &(Moment, Claim)| now.since(*at) > self.may_undo;
        while self.recent.len() > MAX_RECENT || self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
    }

    /// Handles a release that was refused or had no answer.
    pub(super) fn failed(&mut self, id: HoldId, error: Error, now: Moment) -> Option<ReleaseAnswer> {
        let number = self.pending.len() - self.repetitions;
        let pending = self.pending.get_mut(&id)?;
        pending.unsure |= error.maybe_applied();
        pending.repeated |= error.maybe_applied();
        pending.faults += 1;
        let age = now.since(pending.since);
        // A release is repeated until the hold has expired. If the store can no longer apply a request of the claim,
        // the hold expires after the ttl. The release of an unsure claim is repeated for a longer time, because a store
        // that was stopped can apply an old request when the store continues. But in a long outage each call can leave
        // an unsure claim, so the number of unsure claims is limited.
        let is_crowded = number > MAX_UNSURE && age > pending.claim.ttl + self.timeout;
        // A place of the claim can last longer than a hold.
        let lasts = if pending.claim.joins { pending.claim.ttl.max(PLACE) } else { pending.claim.ttl };
        let has_expired = if pending.unsure { is_crowded } else { age > lasts };
        let repeats = error.is_retryable() && !has_expired;
        let report = pending.report.take_if(|_| !repeats || age >= self.timeout);
        // Any of the requests may have been applied, not only the last one.
        let reported = if pending.repeated { error.clone().ambiguous() } else { error.clone() };
        let report = report.map(|report| (report, Err(reported)));
        if repeats {
            let delay = backoff_after(pending.faults);
            self.schedule(id, now + delay);
            return Some(ReleaseAnswer { report, refused: None });
        }
        self.remove(id);
        let refused = (error.kind() != ErrorKind::Unavailable).then_some(error);
        Some(ReleaseAnswer { report, refused })
    }

    /// When the next release must be sent again.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(moment, _)| *moment)
    }

    /// Takes a release that must be sent again now.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Step> {
        let (moment, id) = *self.due.first()?;
        if moment > now {
            return None;
        }
        self.due.pop_first();
        let pending = self.pending.get_mut(&id)?;
        pending.due = None;
        Some(Step::Release(pending.claim.clone()))
    }

    /// Plans to send a release again at this moment.
    fn schedule(&mut self, id: HoldId, moment: Moment) {
        if let Some(pending) = self.pending.get_mut(&id) {
            let earlier = pending.due.replace(moment);
            self.due.extend([(moment, id)]);
            if let Some(earlier) = earlier.filter(|earlier| *earlier != moment) {
                self.due.remove(&(earlier, id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bandog_core::{ClaimId, ClientId, Key, Kind};

    use super::*;

    const UNDO: Duration = Duration::from_secs(10);
    const TIMEOUT: Duration = Duration::from_secs(3);

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(1_000_000_000 * (seconds + 1))
    }

    fn claim(ttl: Duration) -> Claim {
        let id = ClaimId { client: ClientId::random(), number: 1 };
        Claim::new(Key::new("key").unwrap(), id, Kind::Mutex, ttl)
    }

    /// In a long outage, every call that times out leaves a claim that the store may have applied.
    #[test]
    fn the_number_of_unsure_releases_without_an_answer_is_limited() {
        let mut releases = Releases::new(TIMEOUT, UNDO);
        let (client, all) = (ClientId::random(), MAX_UNSURE + 500);
        for number in (0..).take(all) {
            let id = ClaimId { client, number };
            releases.start(Claim { id, ..claim(Duration::from_secs(30)) }, true, None, at(0));
        }
        let left_at = |releases: &mut Releases, seconds| {
            for number in (0..).take(all) {
                releases.failed(number, Error::unavailable("no answer").ambiguous(), at(seconds));
            }
            releases.len()
        };
        assert_eq!(left_at(&mut releases, 33), all, "a request of the claims can still be applied");
        assert_eq!(left_at(&mut releases, 34), MAX_UNSURE);
        assert_eq!(left_at(&mut releases, 1000), MAX_UNSURE, "a store that was stopped can apply a request much later");
    }

    #[test]
    fn the_error_of_a_release_says_whether_any_of_its_requests_may_have_been_applied() {
        let errors = [Error::unavailable("refused"), Error::unavailable("no answer").ambiguous()];
        for (first, is_ambiguous) in errors.into_iter().zip([false, true]) {
            let mut releases = Releases::new(TIMEOUT, UNDO);
            let (report, _answer) = tokio::sync::oneshot::channel();
            releases.start(claim(Duration::from_secs(30)), false, Some(report), at(0));
            assert!(releases.failed(1, first, at(1)).unwrap().report.is_none(), "the caller waits for a timeout");
            let (_, reported) = releases.failed(1, Error::unavailable("refused"), at(9)).unwrap().report.unwrap();
            assert_eq!(reported.unwrap_err().maybe_applied(), is_ambiguous);
        }
    }

    #[test]
    fn an_unsure_claim_is_released_a_second_time_one_timeout_after_the_answer() {
        let mut releases = Releases::new(TIMEOUT, UNDO);
        releases.start(claim(Duration::from_secs(30)), true, None, at(0));
        releases.answered(1, Released::NotHeld, at(1)).unwrap();
        assert_eq!((releases.take_due(at(3)), releases.next_due()), (None, Some(at(4))));
        assert!(matches!(releases.take_due(at(4)), Some(Step::Release(_))));
        releases.answered(1, Released::NotHeld, at(4)).unwrap();
        assert!(releases.is_empty());
    }

    fn number(step: Step) -> HoldId {
        if let Step::Release(claim) = step { claim.id.number } else { panic!("{step:?}") }
    }

    /// One reconnection must not put thousands of requests before all others.
    #[test]
    fn releases_are_sent_again_in_portions() {
        let mut releases = Releases::new(TIMEOUT, UNDO);
        let client = ClientId::random();
        let claim = |number| Claim { id: ClaimId { client, number }, ..claim(Duration::from_secs(30)) };
        for number in (0..).take(MAX_RECENT + 5) {
            releases.ended(claim(number), at(20));
        }
        let mut portion: Vec<_> = releases.repeat_recent(at(20)).into_iter().map(number).collect();
        let mut numbers = Vec::new();
        while let Some((last, others)) = portion.split_last() {
            assert_eq!(portion.len(), PORTION);
            for number in others {
                releases.answered(*number, Released::NotHeld, at(20)).unwrap();
                assert_eq!(releases.next_portion(at(20)), [], "the last portion has no answer yet");
            }
            // A release that fails is sent again, and the next portion waits for it.
            releases.failed(*last, Error::unavailable("no answer"), at(20)).unwrap();
            assert_eq!(releases.next_portion(at(20)), []);
            assert!(releases.take_due(at(25)).is_some());
            releases.answered(*last, Released::NotHeld, at(20)).unwrap();
            numbers.extend(portion);
            portion = releases.next_portion(at(20)).into_iter().map(number).collect();
        }
        assert_eq!(numbers, (5..).take(MAX_RECENT).collect::<Vec<_>>());
        assert!(releases.is_empty() && releases.repetitions == 0 && releases.unanswered == 0);

        // The releases that are old by then are not sent again.
        assert_eq!(releases.repeat_recent(at(30)).len(), PORTION);
        for number in (5..).take(PORTION) {
            releases.answered(number, Released::NotHeld, at(31)).unwrap();
        }
        assert_eq!(releases.next_portion(at(31)), []);
    }

    /// The releases that are sent again are not the reason why another release is given up.
    #[test]
    fn releases_that_are_sent_again_do_not_count_as_unsure() {
        let mut releases = Releases::new(TIMEOUT, UNDO);
        let (client, ttl) = (ClientId::random(), Duration::from_secs(1));
        let claim = |number| Claim { id: ClaimId { client, number }, ..claim(ttl) };
        let unsure = u64::try_from(MAX_UNSURE).unwrap();
        for number in 0..unsure {
            releases.start(claim(number), true, None, at(0));
        }
        for number in (unsure..).take(PORTION) {
            releases.ended(claim(number), at(0));
        }
        assert_eq!(releases.repeat_recent(at(0)).len(), PORTION);
        for number in 0..unsure {
            releases.failed(number, Error::unavailable("no answer").ambiguous(), at(9)).unwrap();
        }
        assert_eq!(releases.len(), MAX_UNSURE + PORTION);
    }

    #[test]
    fn the_releases_of_the_last_seconds_are_sent_again_after_a_reconnection() {
        let mut releases = Releases::new(TIMEOUT, UNDO);
        let (client, freed) = (ClientId::random(), Released::Freed { others: None });
        let claim = |number| Claim { id: ClaimId { client, number }, ..claim(Duration::from_secs(30)) };
        for (number, answer) in [(1, freed), (2, Released::NotHeld), (3, Released::LeftQueue)] {
            releases.start(Claim { offers: true, ..claim(number) }, number == 3, None, at(number));
            releases.answered(number, answer, at(number)).unwrap();
        }
        releases.ended(claim(4), at(4));
        assert_eq!(releases.repeat_recent(at(5)), [1, 4].map(|number| Step::Release(claim(number))));
        assert_eq!(releases.repeat_recent(at(6)), [], "they are pending, and so is the second release of claim 3");
        for number in [1, 3, 4] {
            let answer = if number == 4 { freed } else { Released::NotHeld };
            assert!(releases.answered(number, answer, at(7)).unwrap().report.is_none());
        }
        assert!(releases.is_empty());
        let again = |releases: &mut Releases, seconds| {
            let steps = releases.repeat_recent(at(seconds));
            let numbers: Vec<_> = steps.into_iter().map(number).collect();
            for number in &numbers {
                releases.answered(*number, Released::NotHeld, at(seconds)).unwrap();
            }
            numbers
        };
        assert_eq!(again(&mut releases, 12), [3, 4], "claim 1 was released 11 s ago");
        assert_eq!(
            again(&mut releases, 17),
            [4],
            "the store had lost its release, and the second one can be lost, too"
        );
        assert_eq!(again(&mut releases, 18), [0; 0]);

        // The answer of the first release was lost, or that of a pass from this claim.
        for is_unsure in [false, true] {
            let mut releases = Releases::new(TIMEOUT, UNDO);
            releases.start(claim(5), is_unsure, None, at(0));
            if !is_unsure {
                releases.failed(5, Error::unavailable("no answer").ambiguous(), at(1)).unwrap();
            }
            releases.answered(5, Released::NotHeld, at(2)).unwrap();
            releases.answered(5, Released::NotHeld, at(5)).unwrap();
            assert!(releases.is_empty());
            assert_eq!(again(&mut releases, 6), [5]);
            assert_eq!(again(&mut releases, 13), [0; 0], "it was answered 11 s ago");
        }

        let mut keeps_all = Releases::new(TIMEOUT, Duration::ZERO);
        keeps_all.ended(claim(1), at(1));
        assert_eq!(keeps_all.repeat_recent(at(1)), []);
    }
}
