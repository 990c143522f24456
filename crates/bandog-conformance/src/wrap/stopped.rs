//! A backend that can be made to stand still.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step, Subscription,
};
use tokio::sync::watch;

/// What stands still while a [`Stopped`] is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Requests: they are applied when it goes on, as by a server that was stopped.
    Requests,
    /// Answers: requests are applied at once, and nobody hears of it until it goes on.
    Answers,
    /// Requests to listen; all else goes its way.
    Listening,
}

/// A backend that can be stopped and let go. A call that is held does not end by itself, not even at the timeout.
#[derive(Debug)]
pub struct Stopped<B>(Arc<Inner<B>>);

#[derive(Debug)]
struct Inner<B> {
    backend: B,
    still: watch::Sender<Still>,
    held: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Still {
    which: Option<Which>,
    /// Calls that come now go their way.
    kept_back: bool,
}

impl Still {
    fn holds(&self, which: Which) -> bool {
        self.which == Some(which)
    }
}

impl<B: Backend> Stopped<B> {
    /// A backend that runs until it is stopped.
    pub fn new(backend: B) -> Self {
        Self(Arc::new(Inner { backend, still: watch::Sender::new(Still::default()), held: watch::Sender::new(0) }))
    }

    /// Makes this stand still from now on.
    pub fn stop(&self, which: Which) {
        self.0.still.send_replace(Still { which: Some(which), kept_back: false });
    }

    /// Lets everything go on.
    pub fn go_on(&self) {
        self.0.still.send_replace(Still::default());
    }

    /// Keeps back the calls that are held now, until it goes on; those that come from now on go their way.
    pub fn keep_back(&self) {
        self.0.still.send_modify(|still| still.kept_back = true);
    }

    /// How many calls have been held so far, but for those of the registry.
    pub fn held(&self) -> usize {
        *self.0.held.borrow()
    }

    /// Waits until so many calls have been held.
    pub async fn until_held(&self, calls: usize) {
        // The sender lives as long as this.
        let _ = self.0.held.subscribe().wait_for(|held| *held >= calls).await;
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    pub(super) async fn gate(&self, which: Which) {
        let is_held = {
            let still = self.0.still.borrow();
            still.holds(which) && !still.kept_back
        };
        if is_held {
            self.0.held.send_modify(|held| *held += 1);
            // The sender lives as long as this.
            let _ = self.0.still.subscribe().wait_for(|still| !still.holds(which)).await;
        }
    }

    /// A call of the registry stands still like any other, and is not counted: nobody waits for it.
    async fn unheard<T>(&self, call: impl Future<Output = T>) -> T {
        let stands_still =
            |still: &Still| !still.kept_back && (still.holds(Which::Requests) || still.holds(Which::Answers));
        // The sender lives as long as this.
        let _ = self.0.still.subscribe().wait_for(|still| !stands_still(still)).await;
        call.await
    }

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

    async fn subscribe(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.gate(Which::Listening).await;
        self.through(self.inner().subscribe(key, notifier)).await
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.unheard(self.inner().announce(member, ttl)).await
    }

    async fn withdraw(&self, client: ClientId) -> Result<()> {
        self.unheard(self.inner().withdraw(client)).await
    }

    fn profile(&self) -> Profile {
        self.inner().profile()
    }
}

super::looks_through!(Stopped);
