//! The connection for subscriptions. It has one Redis subscription for each channel, glob or key that has subscribers.
//!
//! [`Channels`] keeps the subscribers of each such [`Source`]. One task sends the SUBSCRIBE and UNSUBSCRIBE commands that
//! are needed. It sends the next command for a source after the server has answered the previous command for this source.
//! If the connection breaks, the task connects again, and subscribes to all sources again.

mod channels;
mod connection;
mod shared;
mod source;
mod watched;

use std::sync::{Arc, Mutex};

use bandog_core::{Error, Result, Subscription, messages::Sink};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};

pub(crate) use self::source::Source;
use self::{
    channels::SubscribeOutcome,
    shared::{ConnectionTask, Moved, SharedSubscriptions, SubscriptionsState},
};
use crate::dialler::Dialler;

/// The result of a call that subscribes.
#[derive(Debug)]
pub(crate) enum SubscribeResult {
    Subscribed(Subscription),
    /// This user has no right to subscribe.
    Denied(Error),
    /// Another node of the cluster has the slot of the channel.
    Moved,
}

/// The subscriptions of one store on a server.
#[derive(Debug)]
pub(crate) struct Subscriptions(Arc<SharedSubscriptions>);

impl Subscriptions {
    /// Creates an empty set of subscriptions. The connection is opened when the first subscriber is added. It is opened
    /// again when `leave` is notified.
    pub(crate) fn new(dialler: Dialler, leave: Arc<Notify>) -> Self {
        Self::create(dialler, leave, || ())
    }

    /// The subscriptions of a node of a cluster. `moved` is called when this node no longer has the slot of a channel, or
    /// cannot be reached.
    pub(crate) fn of_node(dialler: Dialler, moved: impl Fn() + Send + Sync + 'static) -> Self {
        Self::create(dialler, Arc::default(), moved)
    }

    fn create(dialler: Dialler, leave: Arc<Notify>, moved: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(SharedSubscriptions { dialler, state: Mutex::default(), moved: Moved(Box::new(moved)), leave }))
    }

    /// Subscribes, and returns after the server has confirmed the subscription.
    ///
    /// # Errors
    /// - `Unavailable`: the server did not confirm the subscription within the timeout.
    /// - `Denied`: the server refuses the login.
    ///
    /// Before the first connection is open, the call can also fail with the other errors of
    /// [`Dialler::dial`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscriber is removed.
    pub(crate) async fn subscribe(&self, source: &Source, sink: Sink) -> Result<SubscribeResult> {
        let (subscription, outcome) = self.add(source, sink);
        let Some(outcome) = outcome else {
            return Ok(SubscribeResult::Subscribed(subscription));
        };
        match timeout(self.0.dialler.options.timeout, outcome).await {
            Ok(Ok(Ok(SubscribeOutcome::Subscribed))) => Ok(SubscribeResult::Subscribed(subscription)),
            Ok(Ok(Ok(SubscribeOutcome::Denied(error)))) => Ok(SubscribeResult::Denied(error)),
            Ok(Ok(Ok(SubscribeOutcome::Moved))) => Ok(SubscribeResult::Moved),
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) => Err(Error::unavailable("the Tokio runtime of the subscriptions has ended")),
            Err(_) => Err(Error::unavailable("Redis did not confirm the subscription in time")),
        }
    }

    /// Whether the server has confirmed the subscription to this source.
    pub(crate) fn is_subscribed(&self, source: &Source) -> bool {
        self.0.state().channels.is_subscribed(source)
    }

    /// Adds a subscriber. The returned receiver gets the outcome. There is no receiver if the server has already
    /// confirmed a subscription to this source. Dropping the returned subscription removes the subscriber, even if the
    /// caller no longer waits for the outcome.
    fn add(&self, source: &Source, sink: Sink) -> (Subscription, Option<oneshot::Receiver<Result<SubscribeOutcome>>>) {
        let mut state = self.0.state();
        let changes = state.running_task(&self.0);
        let added = state.channels.add(source, sink);
        if added.outcome.is_some() && changes.send(added.source.clone()).is_err() {
            // The task has ended, because a runtime that shuts down drops each new task immediately. So the task is not
            // started again here, but by the next call.
            state
                .channels
                .connection_failed(&Error::unavailable("the Tokio runtime of the subscriptions has shut down"));
        }
        drop(state);
        let (shared, source, id) = (self.0.clone(), added.source, added.id);
        (Subscription::new(move || shared.remove(&source, id)), added.outcome)
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        if let Some(task) = self.0.state().task.take() {
            task.handle.abort();
        }
    }
}

impl SubscriptionsState {
    /// The sender of changes to the task. If there is no task, or if the runtime of the task has ended, a new task is
    /// started on the current runtime.
    fn running_task(&mut self, shared: &Arc<SharedSubscriptions>) -> mpsc::UnboundedSender<Source> {
        match &self.task {
            Some(task) if !task.handle.is_finished() => task.changes.clone(),
            Some(_) | None => {
                // The task receives the changes from `inbox`.
                let (changes, inbox) = mpsc::unbounded_channel();
                self.channels.connection_lost();
                let handle = tokio::spawn(connection::run(shared.clone(), inbox)).abort_handle();
                self.task = Some(ConnectionTask { handle, changes: changes.clone() });
                changes
            }
        }
    }
}

#[cfg(test)]
mod tests;
