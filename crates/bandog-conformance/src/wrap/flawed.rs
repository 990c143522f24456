//! A backend that breaks one rule on purpose, so that tests can check that the laws find it.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{
    Answer, Backend, Claim, ClaimId, Error, ErrorKind, Fences, IfUnused, Key, Kind, Notifier, PLACE, Released, Renewal,
    Result, Row, Step, Subscription, Usage, Verdict, check_pass,
};

use super::{Flaw, Hooks, Wrapped};

/// A backend with one [`Flaw`]. The backend inside must decide each call before the next call comes, as
/// [`bandog_core::Memory`] does.
pub type Flawed<B> = Wrapped<Flaws, B>;

/// The flaw of a [`Flawed`] backend, and the state that it needs.
#[derive(Debug)]
pub struct Flaws {
    flaw: Flaw,
    /// The claims that hold a lock or have a place, as far as this wrapper knows.
    known: Mutex<HashMap<ClaimId, Known>>,
    /// The limits before the last changes.
    former_limits: Mutex<HashMap<Key, NonZeroU32>>,
    /// While this is true, no subscriber is notified.
    is_silent: Arc<AtomicBool>,
}

/// A claim whose request the store has answered, and the fences of its grant, or `None` if it was refused.
#[derive(Debug, Clone)]
struct Known {
    claim: Claim,
    fences: Option<Fences>,
    number: u64,
}

impl<B: Backend> Flawed<B> {
    /// Breaks this rule of the backend.
    pub fn new(backend: B, flaw: Flaw) -> Self {
        let (known, former_limits, is_silent) = (Mutex::default(), Mutex::default(), Arc::default());
        Self::wrap(backend, Flaws { flaw, known, former_limits, is_silent })
    }
}

impl Hooks for Flaws {
    async fn apply<B: Backend>(&self, inner: &B, steps: &[Step]) -> Vec<Result<Answer>> {
        let mut order: Vec<_> = (0..steps.len()).collect();
        if self.has(Flaw::ReleasesFirst) {
            order.sort_by_key(|at| !matches!(steps[*at], Step::Release(_)));
        }
        let mut answers: Vec<(usize, Result<Answer>)> = Vec::with_capacity(steps.len());
        for at in order {
            let answer = match (&steps[at], answers.last()) {
                (_, Some((_, Err(error)))) if self.has(Flaw::ErrorsSpread) => Err(error.clone()),
                (Step::Claim(claim), _) => self.claim(inner, claim).await,
                (Step::Release(claim), _) => self.release(inner, claim).await,
                (Step::Pass { from, to }, _) => self.pass(inner, from, to).await,
            };
            answers.push((at, answer));
        }
        answers.sort_by_key(|(at, _)| match self.flaw {
            Flaw::AnswersByKind => (steps[*at].kind().to_string(), *at),
            _ => (String::new(), *at),
        });
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    async fn renew<B: Backend>(&self, inner: &B, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            let is_waiting = self.known().get(&claim.id).is_some_and(|known| known.fences.is_none());
            if is_waiting && self.has(Flaw::RenewalsKeepNoPlace) {
                answers.push(Ok(Renewal::Waiting { is_next: false }));
                continue;
            }
            if self.has(Flaw::RenewalsRenewAll) {
                let all = self.known_claims(Some(&claim.key), true).into_iter().map(|known| known.claim);
                inner.renew(&all.collect::<Vec<_>>()).await;
            }
            let sent = Claim { id: claim.id, ..self.altered(claim) };
            let mut answer = inner.renew(&[sent]).await;
            if let (Flaw::HalfTtl, [Ok(Renewal::Extended { valid_for })]) = (self.flaw, &mut *answer)
                && !is_waiting
            {
                *valid_for = claim.ttl;
            }
            if let (Flaw::NeverNext, [Ok(renewal @ Renewal::Waiting { is_next: true })]) = (self.flaw, &mut *answer) {
                *renewal = Renewal::Waiting { is_next: false };
            }
            answers.append(&mut answer);
        }
        answers
    }

    async fn subscribe<B: Backend>(&self, inner: &B, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let is_silent = Arc::clone(&self.is_silent);
        let notifier = Notifier::new(move || {
            if !is_silent.load(Relaxed) {
                notifier.notify();
            }
        });
        let mut claim = self.altered(claim);
        if self.has(Flaw::NotifiesAll) {
            claim.kind = Kind::Mutex;
        }
        inner.subscribe(&claim, notifier).await
    }

    async fn set_limit<B: Backend>(&self, inner: &B, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        let before = self.known_claims(Some(key), true).into_iter().find_map(|known| match known.claim.kind {
            Kind::Permits { of, .. } => Some(of),
            Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write => None,
        });
        if let Some(before) = before {
            self.former_limits().insert(key.clone(), before);
        }
        self.quietly(self.has(Flaw::SilentLimit), inner.set_limit(key, permits)).await
    }

    fn row(&self, mut row: Row) -> Row {
        match self.flaw {
            Flaw::RowOfOne => row.holders.truncate(1),
            Flaw::RowWithoutQueue => row.queue.clear(),
            Flaw::RowReversesQueue => row.queue.reverse(),
            Flaw::RowWithoutKind => row.holders.iter_mut().for_each(|holder| holder.kind = None),
            _ => {}
        }
        row
    }

    async fn evict<B: Backend>(&self, inner: &B, key: &Key) -> Result<Option<Row>> {
        let row = inner.show(key).await?;
        if self.has(Flaw::EvictsOne) && row.holders.len() > 1 {
            if let Some(known) = self.known_claims(Some(key), true).first() {
                one(inner, Step::Release(known.claim.clone())).await?;
            }
            return Ok(Some(row));
        }
        self.quietly(self.has(Flaw::SilentEviction), inner.evict(key)).await
    }

    async fn forget<B: Backend>(&self, inner: &B, key: &Key) -> Result<bool> {
        if self.has(Flaw::ForgetsNothing) {
            return Ok(!inner.show(key).await?.is_held());
        }
        if self.has(Flaw::ForgetsHeld) {
            inner.evict(key).await?;
        }
        inner.forget(key).await
    }

    async fn usage<B: Backend>(
        &self,
        inner: &B,
        keys: &[Key],
        unused_for: Duration,
        then: IfUnused,
    ) -> Result<Vec<Usage>> {
        let unused_for = if self.has(Flaw::ForgetsFresh) { Duration::ZERO } else { unused_for };
        let then = if self.has(Flaw::ForgetsNothing) { IfUnused::Keep } else { then };
        let mut usages = inner.usage(keys, unused_for, then).await?;
        if self.has(Flaw::ForgetsHeld) && then == IfUnused::Forget {
            for (key, usage) in keys.iter().zip(&mut usages).filter(|(_, usage)| **usage == Usage::Used) {
                inner.evict(key).await?;
                inner.forget(key).await?;
                *usage = Usage::Unused;
            }
        }
        Ok(usages)
    }
}

impl Flaws {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ClaimId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn former_limits(&self) -> MutexGuard<'_, HashMap<Key, NonZeroU32>> {
        self.former_limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The claims that hold a lock (`are_holders`) or wait for it. Claims of the same key only, if there is one. Sorted
    /// by their last answers.
    fn known_claims(&self, key: Option<&Key>, are_holders: bool) -> Vec<Known> {
        let known = self.known();
        let of_key = known.values().filter(|known| key.is_none_or(|key| known.claim.key == *key));
        let mut claims: Vec<_> = of_key.filter(|known| known.fences.is_some() == are_holders).cloned().collect();
        claims.sort_by_key(|known| known.number);
        claims
    }

    /// Makes a call. No subscriber is notified if `is_silent`.
    async fn quietly<T>(&self, is_silent: bool, call: impl Future<Output = T>) -> T {
        self.is_silent.store(is_silent, Relaxed);
        let answer = call.await;
        self.is_silent.store(false, Relaxed);
        answer
    }

    /// The claim that is sent to the backend inside.
    fn altered(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        let is_fair_try = claim.kind == Kind::Fair && !claim.joins;
        match (self.flaw, claim.kind) {
            (_, Kind::Mutex) => {}
            (Flaw::NoPlaces, _) => claim.joins = false,
            (Flaw::TriesJumpTheQueue, _) if is_fair_try => claim.kind = Kind::Mutex,
            (Flaw::TriesJoinTheQueue, _) if is_fair_try => claim.joins = true,
            (Flaw::ReadersJumpWriters, Kind::Read) => claim.offers = true,
            (Flaw::NoStarvation, _) => claim.offers = false,
            (Flaw::ReadersExclude, Kind::Read) => claim.kind = Kind::Write,
            (Flaw::WritersShare, Kind::Write) => claim.kind = Kind::Read,
            (Flaw::OnePermit, Kind::Permits { of, .. }) => claim.kind = Kind::Permits { take: NonZeroU32::MIN, of },
            (Flaw::LimitPlusOne, Kind::Permits { take, of }) => {
                claim.kind = Kind::Permits { take, of: of.saturating_add(1) };
            }
            (Flaw::HalfTtl, _) => claim.ttl /= 2,
            (Flaw::ShortestTtl, _) => {
                let holders = self.known_claims(Some(&claim.key), true);
                claim.ttl = holders.iter().map(|known| known.claim.ttl).chain([claim.ttl]).min().unwrap_or(claim.ttl);
            }
            (Flaw::FamiliesApart, kind) => {
                claim.key = Key::new(format!("{}/{:?}", claim.key, kind.family())).unwrap_or(claim.key);
            }
            (Flaw::HoldsTwice, Kind::Read | Kind::Permits { .. }) if self.known().contains_key(&claim.id) => {
                claim.id.number += 1_000_000;
            }
            _ => {}
        }
        claim
    }

    async fn claim<B: Backend>(&self, inner: &B, claim: &Claim) -> Result<Answer> {
        let earlier = self.known().get(&claim.id).cloned();
        let is_repeated = earlier.is_some_and(|known| known.fences.is_some());
        let sent = self.altered(claim);
        if self.has(Flaw::NewFencesAgain) && is_repeated && claim.kind != Kind::Mutex {
            self.quietly(true, one(inner, Step::Release(sent.clone()))).await?;
        }
        let mut answer = match self.answer_of_flaw(inner, &sent).await? {
            Some(answer) => answer,
            None => self.quietly(self.has(Flaw::SilentGrant), one(inner, Step::Claim(sent.clone()))).await,
        };
        if let (Flaw::SomePermits, Kind::Permits { take, of }) = (self.flaw, sent.kind) {
            for fewer in (1..take.get()).rev().filter_map(NonZeroU32::new) {
                if matches!(answer, Ok(Answer::Claimed(Verdict::Busy { .. }))) {
                    let kind = Kind::Permits { take: fewer, of };
                    answer = one(inner, Step::Claim(Claim { kind, ..sent.clone() })).await;
                }
            }
        }
        let is_denied = matches!(&answer, Err(error) if error.kind() == ErrorKind::Denied);
        if self.has(Flaw::DeniedEvicts) && is_denied {
            inner.evict(&claim.key).await?;
        }
        if self.has(Flaw::LastFencesAgain) && is_repeated {
            let all = self.known_claims(Some(&claim.key), true).into_iter().filter_map(|known| known.fences);
            if let (Some(last), Ok(Answer::Claimed(Verdict::Granted { fences, .. }))) =
                (all.max_by_key(Fences::last), &mut answer)
            {
                *fences = last;
            }
        }
        self.note(claim, &answer);
        self.altered_answer(claim, answer)
    }

    /// Does what the flaw requires before a claim is sent. Some flaws answer the claim without sending it.
    async fn answer_of_flaw<B: Backend>(&self, inner: &B, sent: &Claim) -> Result<Option<Result<Answer>>> {
        if self.has(Flaw::PlacesStay) || self.has(Flaw::HoldsStay) {
            let known = self.known_claims(None, self.has(Flaw::HoldsStay)).into_iter().map(|known| known.claim);
            let renewed: Vec<_> = known.filter(|claim| claim.kind != Kind::Mutex).collect();
            inner.renew(&renewed).await;
        }
        let Kind::Permits { of, .. } = sent.kind else { return Ok(None) };
        let former = self.former_limits().get(&sent.key).copied();
        if self.has(Flaw::PresentLimitOnly) && former == Some(of) {
            return Ok(Some(Err(Error::misused("this is the limit before the last change"))));
        }
        if self.has(Flaw::SignedLimit) && i32::try_from(of.get()).is_err() {
            return Ok(Some(Ok(Answer::Claimed(Verdict::Busy { retry_after: PLACE, ahead: None }))));
        }
        if self.has(Flaw::AnyLimit) {
            inner.set_limit(&sent.key, of).await?;
        }
        Ok(None)
    }

    /// Notes what the answer says about the claim.
    fn note(&self, claim: &Claim, answer: &Result<Answer>) {
        let mut known = self.known();
        let number = known.values().map(|known| known.number + 1).max().unwrap_or(0);
        if let Ok(Answer::Claimed(verdict)) = answer {
            let fences = match verdict {
                Verdict::Granted { fences, .. } => Some(fences.clone()),
                Verdict::Busy { .. } => None,
            };
            known.insert(claim.id, Known { claim: claim.clone(), fences, number });
        }
    }

    /// The answer of a claim, altered by the flaw.
    fn altered_answer(&self, claim: &Claim, answer: Result<Answer>) -> Result<Answer> {
        match answer {
            Ok(Answer::Claimed(Verdict::Busy { retry_after, .. })) if self.has(Flaw::NothingAhead) => {
                Ok(Answer::Claimed(Verdict::Busy { retry_after, ahead: None }))
            }
            Ok(Answer::Claimed(Verdict::Granted { fences, .. })) if self.has(Flaw::HalfTtl) => {
                Ok(Answer::Claimed(Verdict::Granted { fences, valid_for: claim.ttl, followers: Vec::new() }))
            }
            answer => answer,
        }
    }

    async fn release<B: Backend>(&self, inner: &B, claim: &Claim) -> Result<Answer> {
        let is_waiting = self.known().get(&claim.id).is_some_and(|known| known.fences.is_none());
        if is_waiting && self.has(Flaw::LeaversKeepTheirPlaces) {
            return Ok(Answer::Released(Released::LeftQueue));
        }
        let is_silent = self.has(if is_waiting { Flaw::SilentLeave } else { Flaw::SilentRelease });
        let mut sent = self.altered(claim);
        sent.id = claim.id;
        let answer = self.quietly(is_silent, one(inner, Step::Release(sent))).await;
        self.known().remove(&claim.id);
        let is_not_held = matches!(answer, Ok(Answer::Released(Released::NotHeld)));
        if self.has(Flaw::ReleasesOthers) && is_not_held && claim.kind != Kind::Mutex {
            inner.evict(&claim.key).await?;
        }
        answer
    }

    async fn pass<B: Backend>(&self, inner: &B, from: &Claim, to: &Claim) -> Result<Answer> {
        let is_downgrade = (from.kind, to.kind) == (Kind::Write, Kind::Read);
        let in_two_steps = is_downgrade && self.has(Flaw::DowngradeInTwoSteps)
            || check_pass(from.kind, to.kind).is_err() && self.has(Flaw::EveryPass);
        if in_two_steps && !self.known().contains_key(&to.id) {
            self.release(inner, from).await?;
            return self.claim(inner, to).await;
        }
        let is_silent = is_downgrade && self.has(Flaw::SilentDowngrade);
        let step = Step::Pass { from: Box::new(self.altered(from)), to: self.altered(to) };
        let answer = self.quietly(is_silent, one(inner, step)).await;
        if answer.is_ok() {
            self.known().remove(&from.id);
        }
        self.note(to, &answer);
        answer
    }
}

/// Sends one step to the backend inside.
async fn one(inner: &impl Backend, step: Step) -> Result<Answer> {
    let mut answers = inner.apply(&[step]).await;
    answers.pop().unwrap_or_else(|| Err(Error::unavailable("the backend gave no answer")))
}
