//! A backend that a test can stop.

use std::{fmt::Debug, num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step, Subscription,
};
use tokio::sync::watch;

/// The part of a call that a [`Stopped`] holds while it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Requests. A held request is applied when the backend continues, as after a stop of the server.
    Requests,
    /// Answers. A request is applied immediately, but its answer is held until the backend continues.
    Answers,
    /// Only requests that subscribe. No other call is held.
    Subscriptions,
    /// Only requests that delete the records of open latches. No other call is held.
    Deletions,
}

/// A backend that can be stopped and continued. A held call has no timeout: it waits until the backend continues.
#[derive(Debug)]
pub struct Stopped<B>(Arc<StoppedShared<B>>);

#[derive(Debug)]
struct StoppedShared<B> {
    backend: B,
    standstill: watch::Sender<Standstill>,
    /// The number of calls that have been held so far.
    held: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Standstill {
    /// The part of a call that is held. `None` if the backend is not stopped.
    which: Option<Which>,
    /// True if new calls are not held. Then only the calls that were held before stay held.
    passes_new_calls: bool,
}

impl Standstill {
    /// Returns true if this part of a call is held.
    fn holds(&self, which: Which) -> bool {
        self.which == Some(which)
    }
}

impl<B: Backend> Stopped<B> {
    /// Wraps this backend. The new backend is not stopped yet.
    pub fn new(backend: B) -> Self {
        Self(Arc::new(StoppedShared {
            backend,
            standstill: watch::Sender::new(Standstill::default()),
            held: watch::Sender::new(0),
        }))
    }

    /// From now on, holds this part of every call.
    pub fn stop(&self, which: Which) {
        self.0.standstill.send_replace(Standstill { which: Some(which), passes_new_calls: false });
    }

    /// Lets all held calls continue. From now on, no call is held.
    pub fn go_on(&self) {
        self.0.standstill.send_replace(Standstill::default());
    }

    /// Holds no new calls. The calls that are held now stay held until [`Stopped::go_on`].
    pub fn keep_back(&self) {
        self.0.standstill.send_modify(|standstill| standstill.passes_new_calls = true);
    }

    /// The number of calls that have been held so far. Calls of the registry are not counted.
    pub fn held(&self) -> usize {
        *self.0.held.borrow()
    }

    /// Waits until at least this number of calls has been held since the backend was made.
    pub async fn until_held(&self, calls: usize) {
        // `wait_for` fails only if the sender is dropped, and `self` has the sender.
        let _ = self.0.held.subscribe().wait_for(|held| *held >= calls).await;
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    /// A gate is the point before a part of a call at which the call can be held. If the test holds this part now,
    /// waits until the test no longer holds this part. Otherwise returns immediately.
    pub(super) async fn gate(&self, which: Which) {
        let is_held = {
            let standstill = self.0.standstill.borrow();
            standstill.holds(which) && !standstill.passes_new_calls
        };
        if is_held {
            self.0.held.send_modify(|held| *held += 1);
            // `wait_for` fails only if the sender is dropped, and `self` has the sender.
            let _ = self.0.standstill.subscribe().wait_for(|standstill| !standstill.holds(which)).await;
        }
    }

    /// Makes a call of the registry. The call is held like any other call, but it is not counted, because no caller
    /// waits for its answer.
    async fn uncounted<T>(&self, call: impl Future<Output = T>) -> T {
        let holds_any = |standstill: &Standstill| {
            !standstill.passes_new_calls && (standstill.holds(Which::Requests) || standstill.holds(Which::Answers))
        };
        // `wait_for` fails only if the sender is dropped, and `self` has the sender.
        let _ = self.0.standstill.subscribe().wait_for(|standstill| !holds_any(standstill)).await;
        call.await
    }

    /// Passes a call on to the wrapped backend, through two gates. At the first gate, before the request, the call
    /// waits while requests are held. At the second gate, before the answer, the call waits while answers are held.
    pub(super) async fn through<T>(&self, call: impl Future<Output = T>) -> T {
        self.gate(Which::Requests).await;
        let answer = call.await;
        self.gate(Which::Answers).await;
        answer
    }
}

impl<B> Clone for Stopped<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[async_trait]
impl<B: Backend> Leases for Stopped<B> {
    async fn ping(&self) -> Result<()> {
        self.through(self.inner().ping()).await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.through(self.inner().apply(steps)).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.through(self.inner().renew(claims)).await
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.gate(Which::Subscriptions).await;
        self.through(self.inner().subscribe(claim, notifier)).await
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.through(self.inner().set_limit(key, permits)).await
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.uncounted(self.inner().register(member, ttl)).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.uncounted(self.inner().deregister(client)).await
    }

    fn profile(&self) -> Profile {
        self.inner().profile()
    }
}

super::impl_inspect!(Stopped);
