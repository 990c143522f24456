//! A backend behind a connection that loses requests and answers.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bandog_core::{Backend, Error, Result};
use tokio::time;

use super::{Call, Hooks, Wrapped};

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
pub type Lossy<B> = Wrapped<Losses, B>;

/// The fates of the calls of a [`Lossy`] backend.
#[derive(Debug)]
pub struct Losses(Mutex<LossyState>);

#[derive(Debug)]
struct LossyState {
    /// The fates of the next calls of `apply`, `swap` and `change_latch`.
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
        Self::wrap(backend, Losses(Mutex::new(state)))
    }

    /// From now on, loses the fraction `rate` of all calls, with random fates. The delay of a late call is at most
    /// `late`.
    pub fn at_random(&self, seed: u64, rate: f64, late: Duration) {
        let mut state = self.hooks().state();
        state.random = fastrand::Rng::with_seed(seed);
        (state.rate, state.late) = (rate, late);
    }

    /// Sets the fates of the next calls of `apply`, `swap` and `change_latch`, in their order.
    pub fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.hooks().state().next.extend(fates);
    }

    /// Sets the fate of all calls from now on, except the calls whose fate was set with [`Lossy::next`].
    pub fn always(&self, fate: Fate) {
        self.hooks().state().always = Some(fate);
    }

    /// At the next operations on latches, as many as this number, another operation comes first: they change nothing.
    pub fn overtake(&self, operations: usize) {
        self.hooks().state().overtaken = operations;
    }

    /// From now on, no call is lost.
    pub fn heal(&self) {
        let mut state = self.hooks().state();
        state.next.clear();
        (state.always, state.rate) = (None, 0.0);
    }

    /// The number of fates of [`Lossy::next`] that were not used yet.
    pub fn pending(&self) -> usize {
        self.hooks().state().next.len()
    }

    /// The number of lost calls.
    pub fn lost(&self) -> usize {
        self.hooks().state().lost
    }
}

impl Hooks for Losses {
    /// Makes a call that is never late: if the fate is [`Fate::Late`], the call is not made, except for a renewal.
    async fn around<T: Send>(&self, call: Call, answer: impl Future<Output = T> + Send) -> Result<T> {
        let fate = self.state().fate(false);
        let is_applied = match fate {
            Fate::Well => return Ok(answer.await),
            Fate::Refused | Fate::RequestLost => false,
            Fate::ReplyLost => !matches!(call, Call::Ping | Call::LockSubscription),
            // A renewal that really comes late, after the claim has lost its lock, does nothing. So the delay is not
            // simulated, and a late renewal is made immediately.
            Fate::Late(_) => call == Call::Renewals,
        };
        if is_applied {
            drop(answer.await);
        }
        Err(lost())
    }

    /// Makes a call that can be late: if the fate is [`Fate::Late`], a separate task makes the call after the delay.
    /// The task can outlive this backend.
    async fn around_change<T: Send + 'static>(
        &self,
        _: Call,
        answer: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let fate = self.state().fate(true);
        match fate {
            Fate::Well => return Ok(answer.await),
            Fate::Refused => return Err(Error::unavailable("refused by the test")),
            Fate::RequestLost => {}
            Fate::ReplyLost => drop(answer.await),
            Fate::Late(delay) => {
                drop(tokio::spawn(async move {
                    time::sleep(delay).await;
                    answer.await
                }));
            }
        }
        Err(lost())
    }

    fn is_overtaken(&self) -> bool {
        let mut state = self.state();
        let left = state.overtaken.checked_sub(1);
        state.overtaken = left.unwrap_or(0);
        left.is_some()
    }
}

impl Losses {
    fn state(&self) -> MutexGuard<'_, LossyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
