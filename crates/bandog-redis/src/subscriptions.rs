//! The connection for subscriptions. It has one Redis subscription for each channel that has subscribers.
//!
//! [`Channels`] keeps the subscribers of each channel. One task sends the SUBSCRIBE and UNSUBSCRIBE commands that are
//! needed. It sends the next command for a channel after the server has answered the previous command for this channel.
//! If the connection breaks, the task connects again, and subscribes to all channels again.

mod channels;
mod connection;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bandog_core::{Error, Notifier, Result, Subscription};
use channels::{Channels, SubscribeOutcome};
use redis::{PushInfo, PushKind, Value, aio::SendError};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::AbortHandle,
    time::timeout,
};

use crate::options::RedisOptions;

/// The subscriptions of one backend on its server.
#[derive(Debug)]
pub(crate) struct Subscriptions(Arc<SharedSubscriptions>);

#[derive(Debug)]
struct SharedSubscriptions {
    options: RedisOptions,
    state: Mutex<SubscriptionsState>,
    /// Whether the warning was logged that this user has no right to subscribe.
    warned: AtomicBool,
    /// Called when this server no longer has the slot of a channel.
    moved: Moved,
    /// Notified when the server has ended a subscription by itself, or has become a replica. Then the connection is closed.
    leave: Arc<Notify>,
}

/// The function that is called when a server no longer has the slot of a channel.
struct Moved(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Moved")
    }
}

/// The result of a call that subscribes.
#[derive(Debug)]
pub(crate) enum SubscribeResult {
    Subscribed(Subscription),
    /// Another node of the cluster has the slot of the channel.
    Moved,
}

#[derive(Debug, Default)]
struct SubscriptionsState {
    channels: Channels,
    /// None until the first subscriber is added.
    task: Option<ConnectionTask>,
}

/// The task that keeps the connection open.
#[derive(Debug)]
struct ConnectionTask {
    /// Ends the task.
    handle: AbortHandle,
    /// Sends the task the name of each channel whose subscribers have changed.
    changes: mpsc::UnboundedSender<Arc<str>>,
}

impl Subscriptions {
    /// Creates an empty set of subscriptions. The connection is opened when the first subscriber is added. It is opened
    /// again when `leave` is notified.
    pub(crate) fn new(options: RedisOptions, leave: Arc<Notify>) -> Self {
        Self::create(options, leave, || ())
    }

    /// The subscriptions of a node of a cluster. `moved` is called when this node no longer has the slot of a channel.
    pub(crate) fn of_node(options: RedisOptions, moved: impl Fn() + Send + Sync + 'static) -> Self {
        Self::create(options, Arc::default(), moved)
    }

    fn create(options: RedisOptions, leave: Arc<Notify>, moved: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(SharedSubscriptions {
            options,
            state: Mutex::default(),
            warned: AtomicBool::new(false),
            moved: Moved(Box::new(moved)),
            leave,
        }))
    }

    /// Subscribes to a channel, and returns after the server has confirmed the subscription. If the user has no right
    /// to subscribe, the returned subscription is silent: it never notifies.
    ///
    /// # Errors
    /// - `Unavailable`: the server did not confirm the subscription within the timeout.
    /// - `Denied`: the server refuses the login.
    ///
    /// Before the first connection is open, the call can also fail with the other errors of
    /// [`dial`](crate::dial::dial).
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscriber is removed.
    pub(crate) async fn subscribe(&self, channel: &str, notifier: Notifier) -> Result<SubscribeResult> {
        let (subscription, outcome) = self.add(channel, notifier);
        let Some(outcome) = outcome else {
            return Ok(SubscribeResult::Subscribed(subscription));
        };
        match timeout(self.0.options.timeout, outcome).await {
            Ok(Ok(Ok(SubscribeOutcome::Subscribed))) => Ok(SubscribeResult::Subscribed(subscription)),
            Ok(Ok(Ok(SubscribeOutcome::Denied))) => Ok(SubscribeResult::Subscribed(Subscription::silent())),
            Ok(Ok(Ok(SubscribeOutcome::Moved))) => Ok(SubscribeResult::Moved),
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) => Err(Error::unavailable("the Tokio runtime of the subscriptions has ended")),
            Err(_) => Err(Error::unavailable("Redis did not confirm the subscription in time")),
        }
    }

    /// Whether the server has confirmed the subscription to this channel.
    pub(crate) fn is_subscribed(&self, channel: &str) -> bool {
        self.0.state().channels.is_subscribed(channel)
    }

    /// Adds a subscriber. The returned receiver gets the outcome. There is no receiver if the server has already
    /// confirmed a subscription to this channel. Dropping the returned subscription removes the subscriber, even if the
    /// caller no longer waits for the outcome.
    fn add(
        &self,
        channel: &str,
        notifier: Notifier,
    ) -> (Subscription, Option<oneshot::Receiver<Result<SubscribeOutcome>>>) {
        let mut state = self.0.state();
        let changes = state.running_task(&self.0);
        let added = state.channels.add(channel, notifier);
        if added.outcome.is_some() && changes.send(added.channel.clone()).is_err() {
            // The task has ended, because a runtime that shuts down drops each new task immediately. So the task is not
            // started again here, but by the next call.
            state
                .channels
                .connection_failed(&Error::unavailable("the Tokio runtime of the subscriptions has shut down"));
        }
        drop(state);
        let (shared, channel, id) = (self.0.clone(), added.channel, added.id);
        (Subscription::new(move || shared.remove(&channel, id)), added.outcome)
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        if let Some(task) = self.0.state().task.take() {
            task.handle.abort();
        }
    }
}

impl SharedSubscriptions {
    fn state(&self) -> MutexGuard<'_, SubscriptionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, channel: &Arc<str>, id: u64) {
        let mut state = self.state();
        state.channels.remove(channel, id);
        if let Some(task) = &state.task {
            // If the task has ended, there is no connection, so the server has no subscription to end.
            let _ = task.changes.send(channel.clone());
        }
    }

    /// Handles a push message of the server. A message on a channel means that the lock of this channel may be free, or
    /// that the record or latch of this channel has changed. The text of the message is ignored.
    ///
    /// If the slot of a sharded channel moves, the server ends the subscription by itself. The client library would take
    /// this message for the answer to another request. So the connection is closed then.
    fn pushed(&self, push: &PushInfo) -> Result<(), SendError> {
        let Some(Value::BulkString(channel)) = push.data.first() else { return Ok(()) };
        let Ok(channel) = std::str::from_utf8(channel) else { return Ok(()) };
        match &push.kind {
            PushKind::Message | PushKind::SMessage => self.state().channels.notify(channel),
            PushKind::SUnsubscribe if !self.state().channels.is_unsubscribing(channel) => {
                self.leave.notify_one();
                (self.moved.0)();
            }
            _ => {}
        }
        Ok(())
    }

    fn warn_once(&self, error: &Error) {
        if error.is_about_login() {
            return; // The engine logs it.
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            let store = self.options.store();
            tracing::warn!(%store, %error, "this user may not subscribe, so waiters poll instead of being woken");
        }
    }
}

impl SubscriptionsState {
    /// The sender of changes to the task. If there is no task, or if the runtime of the task has ended, a new task is
    /// started on the current runtime.
    fn running_task(&mut self, shared: &Arc<SharedSubscriptions>) -> mpsc::UnboundedSender<Arc<str>> {
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
