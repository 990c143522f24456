//! A backend behind a wire that loses things.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Error, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step,
    Subscription,
};
use tokio::time;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is applied and answered.
    Well,
    /// It is surely not applied, and the error says so: a refused dial.
    Refused,
    /// It is not applied, and the error cannot know.
    RequestLost,
    /// It is applied, and the error cannot know.
    ReplyLost,
    /// The error comes first; it is applied a while later, as by a server that had been stopped.
    Late(Duration),
}

/// A backend that loses calls: by a list of fates, then at random by a rate.
///
/// All steps of one call share its fate, as on a connection. It needs a Tokio runtime for calls that come late.
#[derive(Debug)]
pub struct Lossy<B>(Arc<Inner<B>>);

#[derive(Debug)]
struct Inner<B> {
    backend: B,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The fates of the next calls of `apply` and `swap`.
    next: VecDeque<Fate>,
    /// The fate of every other call, if it is not left to chance.
    always: Option<Fate>,
    random: fastrand::Rng,
    rate: f64,
    late: Duration,
    lost: usize,
}

impl<B: Backend> Lossy<B> {
    /// A backend that loses nothing until it is told to.
    pub fn new(backend: B) -> Self {
        let random = fastrand::Rng::with_seed(0);
        let late = Duration::ZERO;
        let state = State { next: VecDeque::new(), always: None, random, rate: 0.0, late, lost: 0 };
        Self(Arc::new(Inner { backend, state: Mutex::new(state) }))
    }

    /// Loses this fraction of all calls from now on, in every way; those that come late do so by up to `late`.
    pub fn at_random(&self, seed: u64, rate: f64, late: Duration) {
        let mut state = self.state();
        state.random = fastrand::Rng::with_seed(seed);
        (state.rate, state.late) = (rate, late);
    }

    /// The fates of the next calls of `apply` and `swap`, in their order.
    pub fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().next.extend(fates);
    }

    /// Every call has this fate from now on, but those of [`Lossy::next`].
    pub fn always(&self, fate: Fate) {
        self.state().always = Some(fate);
    }

    /// Loses nothing from now on.
    pub fn heal(&self) {
        let mut state = self.state();
        state.next.clear();
        (state.always, state.rate) = (None, 0.0);
    }

    /// How many fates of [`Lossy::next`] are still to come.
    pub fn pending(&self) -> usize {
        self.state().next.len()
    }

    /// How many calls it has lost.
    pub fn lost(&self) -> usize {
        self.state().lost
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of a call that may be repeated soon: one that would come late does nothing.
    pub(super) async fn ask<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let fate = self.state().fate(false);
        match fate {
            Fate::Well => return call.await,
            Fate::ReplyLost => drop(call.await),
            Fate::Refused | Fate::RequestLost | Fate::Late(_) => {}
        }
        Err(lost())
    }

    /// What becomes of a call that matters, however late it comes: so it owns what it takes along.
    pub(super) async fn send<T, F>(&self, call: impl FnOnce(Self) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (fate, call) = (self.state().fate(true), call(self.clone()));
        match fate {
            Fate::Well => return Ok(call.await),
            Fate::Refused => return Err(Error::unavailable("refused, as the test wanted")),
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

impl State {
    fn fate(&mut self, scripted: bool) -> Fate {
        let next = if scripted { self.next.pop_front() } else { None };
        let fate = next.or(self.always).unwrap_or_else(|| self.throw());
        self.lost += usize::from(fate != Fate::Well);
        fate
    }

    fn throw(&mut self) -> Fate {
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
    Error::unavailable("lost, as the test wanted").ambiguous()
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
            // A late renewal of a claim that is not held does nothing, so it need not be played.
            Fate::ReplyLost | Fate::Late(_) => drop(self.inner().renew(claims).await),
            Fate::Refused | Fate::RequestLost => {}
        }
        claims.iter().map(|claim| Err(lost().during("renew").at(&claim.key))).collect()
    }

    async fn subscribe(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let fate = self.state().fate(false);
        match fate {
            Fate::Well => self.inner().subscribe(key, notifier).await,
            Fate::Refused | Fate::RequestLost | Fate::ReplyLost | Fate::Late(_) => {
                Err(lost().during("subscribe").at(key))
            }
        }
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.ask(self.inner().announce(member, ttl)).await
    }

    async fn withdraw(&self, client: ClientId) -> Result<()> {
        self.ask(self.inner().withdraw(client)).await
    }

    fn profile(&self) -> Profile {
        self.inner().profile()
    }
}

super::looks_through!(Lossy);
