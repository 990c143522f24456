//! A backend behind a connection that loses requests and answers.

use std::{
    collections::VecDeque,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Error, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step,
    Subscription,
};
use tokio::time;

/// The fate of a call. An error is ambiguous if the caller cannot know whether the call was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing bad: the call is applied and answered.
    Well,
    /// The call is not applied, and its error is not ambiguous, as if the connection was refused.
    Refused,
    /// The call is not applied, and its error is ambiguous.
    RequestLost,
    /// The call is applied, and its error is ambiguous.
    ReplyLost,
    /// The call is applied after this delay, as if the server had been stopped in the meantime. The error of the call
    /// is ambiguous, and comes immediately.
    Late(Duration),
}

/// A backend that loses calls. A test sets the fates of the next calls ([`Lossy::next`]), one fate for all other calls
/// ([`Lossy::always`]), or random fates ([`Lossy::at_random`]).
///
/// All steps of one call have the same fate, as on a connection. Late calls need a Tokio runtime.
#[derive(Debug)]
pub struct Lossy<B>(Arc<LossyShared<B>>);

#[derive(Debug)]
struct LossyShared<B> {
    backend: B,
    state: Mutex<LossyState>,
}

#[derive(Debug)]
struct LossyState {
    /// The fates of the next calls of `apply` and `swap`.
    next: VecDeque<Fate>,
    /// The fate of every other call. If this field is `None`, the fate of each call is random.
    always: Option<Fate>,
    random: fastrand::Rng,
    /// The fraction of calls that a random fate loses.
    rate: f64,
    /// Maximum delay of a late call with a random fate.
    late: Duration,
    /// The number of lost calls.
    lost: usize,
    /// The number of the next operations on latches before which another operation comes.
    overtaken: usize,
}

impl<B: Backend> Lossy<B> {
    /// Wraps this backend. No call is lost until the test sets other fates.
    pub fn new(backend: B) -> Self {
        let random = fastrand::Rng::with_seed(0);
        let late = Duration::ZERO;
        let state = LossyState { next: VecDeque::new(), always: None, random, rate: 0.0, late, lost: 0, overtaken: 0 };
        Self(Arc::new(LossyShared { backend, state: Mutex::new(state) }))
    }

    /// From now on, loses the fraction `rate` of all calls, with random fates. The delay of a late call is at most
    /// `late`.
    pub fn at_random(&self, seed: u64, rate: f64, late: Duration) {
        let mut state = self.state();
        state.random = fastrand::Rng::with_seed(seed);
        (state.rate, state.late) = (rate, late);
    }

    /// Sets the fates of the next calls of `apply` and `swap`, in their order.
    pub fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().next.extend(fates);
    }

    /// Sets the fate of all calls from now on, except the calls whose fate was set with [`Lossy::next`].
    pub fn always(&self, fate: Fate) {
        self.state().always = Some(fate);
    }

    /// At the next operations on latches, as many as this number, another operation comes first: they change nothing.
    pub fn overtake(&self, operations: usize) {
        self.state().overtaken = operations;
    }

    /// From now on, no call is lost.
    pub fn heal(&self) {
        let mut state = self.state();
        state.next.clear();
        (state.always, state.rate) = (None, 0.0);
    }

    /// The number of fates of [`Lossy::next`] that were not used yet.
    pub fn pending(&self) -> usize {
        self.state().next.len()
    }

    /// The number of lost calls.
    pub fn lost(&self) -> usize {
        self.state().lost
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    fn state(&self) -> MutexGuard<'_, LossyState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another operation comes before this operation on a latch.
    pub(super) fn is_overtaken(&self) -> bool {
        let mut state = self.state();
        let left = state.overtaken.checked_sub(1);
        state.overtaken = left.unwrap_or(0);
        left.is_some()
    }

    /// Makes a call, or loses the call, as its fate requires. This function is for calls that are never late: if the
    /// fate is [`Fate::Late`], the call is not made at all. For calls that can be late, there is [`Lossy::send`].
    pub(super) async fn ask<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let fate = self.state().fate(false);
        match fate {
            Fate::Well => return call.await,
            Fate::ReplyLost => drop(call.await),
            Fate::Refused | Fate::RequestLost | Fate::Late(_) => {}
        }
        Err(lost())
    }

    /// Makes a call, or loses the call, as its fate requires. This function is for calls that can be late: if the fate
    /// is [`Fate::Late`], a separate task makes the call after the delay. This task can outlive `self`. So the closure
    /// `call` gets a clone of this backend, and returns a future that owns its data.
    pub(super) async fn send<T, F>(&self, call: impl FnOnce(Self) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (fate, call) = (self.state().fate(true), call(self.clone()));
        match fate {
            Fate::Well => return Ok(call.await),
            Fate::Refused => return Err(Error::unavailable("refused by the test")),
            Fate::RequestLost => {}
            Fate::ReplyLost => drop(call.await),
            Fate::Late(delay) => {
                drop(tokio::spawn(async move {
                    time::sleep(delay).await;
                    call.await
                }));
            }
        }
        Err(lost())
    }
}

impl LossyState {
    /// Chooses the fate of a call. If `scripted` is true, the call uses the fates of [`Lossy::next`] first.
    fn fate(&mut self, scripted: bool) -> Fate {
        let next = if scripted { self.next.pop_front() } else { None };
        let fate = next.or(self.always).unwrap_or_else(|| self.random_fate());
        self.lost += usize::from(fate != Fate::Well);
        fate
    }

    fn random_fate(&mut self) -> Fate {
        if self.rate == 0.0 || self.random.f64() >= self.rate {
            return Fate::Well;
        }
        match self.random.u8(..4) {
            0 => Fate::Refused,
            1 => Fate::RequestLost,
            2 => Fate::ReplyLost,
            _ => Fate::Late(self.late.mul_f64(self.random.f64())),
        }
    }
}

fn lost() -> Error {
    Error::unavailable("lost by the test").ambiguous()
}

impl<B> Clone for Lossy<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[async_trait]
impl<B: Backend> Leases for Lossy<B> {
    async fn ping(&self) -> Result<()> {
        let fate = self.state().fate(false);
        match fate {
            Fate::Well => self.inner().ping().await,
            Fate::Refused | Fate::RequestLost | Fate::ReplyLost | Fate::Late(_) => Err(lost()),
        }
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let sent = steps.to_vec();
        // `wire`: a clone of `self`, which a late call can own.
        let answers = self.send(|wire| async move { wire.inner().apply(&sent).await }).await;
        answers.unwrap_or_else(|error| {
            let at_each = |step: &Step| Err(error.clone().during(step.verb()).at(step.key()));
            steps.iter().map(at_each).collect()
        })
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let fate = self.state().fate(false);
        match fate {
            Fate::Well => return self.inner().renew(claims).await,
            // A renewal that really comes late, after the claim has lost its lock, does nothing. So the delay is not
            // simulated, and a late renewal is made immediately.
            Fate::ReplyLost | Fate::Late(_) => drop(self.inner().renew(claims).await),
            Fate::Refused | Fate::RequestLost => {}
        }
        claims.iter().map(|claim| Err(lost().during("renew").at(&claim.key))).collect()
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let fate = self.state().fate(false);
        match fate {
            Fate::Well => self.inner().subscribe(claim, notifier).await,
            Fate::Refused | Fate::RequestLost | Fate::ReplyLost | Fate::Late(_) => {
                Err(lost().during("subscribe").at(&claim.key))
            }
        }
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.ask(self.inner().set_limit(key, permits)).await
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.ask(self.inner().register(member, ttl)).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.ask(self.inner().deregister(client)).await
    }

    fn profile(&self) -> Profile {
        self.inner().profile()
    }
}

super::impl_inspect!(Lossy);
