//! The connection for subscriptions: one channel for each key that somebody listens to.
//!
//! What is wanted stands in a table: who listens to which channel. One task makes it so on the server, with never two
//! requests for the same channel under way, and makes it so again when the connection was lost.

mod table;
mod task;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use bandog_core::{Error, Notifier, Result, Subscription};
use redis::{PushInfo, PushKind, Value, aio::SendError};
use table::{Armed, Table};
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
    time::timeout,
};

use crate::{names::Channel, options::RedisOptions};

/// Who listens to what on one server.
#[derive(Debug)]
pub(crate) struct Subscriptions(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: RedisOptions,
    state: Mutex<State>,
    warned: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    task: Option<Task>,
}

/// The task that keeps the connection, and the channels at which it should look again.
#[derive(Debug)]
struct Task {
    handle: AbortHandle,
    orders: mpsc::UnboundedSender<Arc<str>>,
}

impl Subscriptions {
    /// Nobody listens yet, and nothing is dialled.
    pub(crate) fn new(options: RedisOptions) -> Self {
        Self(Arc::new(Shared { options, state: Mutex::default(), warned: AtomicBool::new(false) }))
    }

    /// Listens to a channel; answers once the server has confirmed it. A user who may not subscribe gets a silent bell.
    ///
    /// # Errors
    /// `Unavailable` when there is no confirmation in time, `Denied` when the login is refused.
    ///
    /// # Cancel safety
    /// Dropped, it listens no more.
    pub(crate) async fn listen(&self, channel: Channel<'_>, notifier: Notifier) -> Result<Subscription> {
        let (bell, answer) = self.join(&channel.to_string(), notifier);
        let Some(answer) = answer else {
            return Ok(bell);
        };
        match timeout(self.0.options.timeout, answer).await {
            Ok(Ok(Ok(Armed::Notifications))) => Ok(bell),
            Ok(Ok(Ok(Armed::Denied))) => Ok(Subscription::silent()),
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) => Err(Error::unavailable("the task that listens has ended with its runtime")),
            Err(_) => Err(Error::unavailable("Redis did not confirm the subscription in time")),
        }
    }

    /// Whether the server has confirmed that we listen to this channel.
    pub(crate) fn hears(&self, channel: Channel<'_>) -> bool {
        self.0.state().table.hears(&channel.to_string())
    }

    /// Notes a listener. The bell takes it off again, also when nobody waits for the answer any more.
    fn join(&self, channel: &str, notifier: Notifier) -> (Subscription, Option<oneshot::Receiver<Result<Armed>>>) {
        let mut state = self.0.state();
        let orders = state.running(&self.0);
        let joined = state.table.join(channel, notifier);
        if joined.answer.is_some() && orders.send(joined.channel.clone()).is_err() {
            // A runtime that shuts down drops a new task at once. Nothing is started again here: the next call does.
            state.table.fail(&Error::unavailable("the Tokio runtime of the subscriptions has shut down"));
        }
        drop(state);
        let (shared, channel, id) = (self.0.clone(), joined.channel, joined.id);
        (Subscription::new(move || shared.leave(&channel, id)), joined.answer)
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        if let Some(task) = self.0.state().task.take() {
            task.handle.abort();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, channel: &Arc<str>, id: u64) {
        let mut state = self.state();
        state.table.leave(channel, id);
        if let Some(task) = &state.task {
            // Without a task there is no connection, and so no subscription to end.
            let _ = task.orders.send(channel.clone());
        }
    }

    /// What the server sends unasked. Any message on the channel means that the key may be free.
    fn pushed(&self, push: &PushInfo) -> Result<(), SendError> {
        if let (PushKind::Message, Some(Value::BulkString(channel))) = (&push.kind, push.data.first())
            && let Ok(channel) = std::str::from_utf8(channel)
        {
            self.state().table.ring(channel);
        }
        Ok(())
    }

    fn warn_once(&self, error: &Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            let store = self.options.store();
            tracing::warn!(%store, %error, "this user may not subscribe, so waiters poll instead of being woken");
        }
    }
}

impl State {
    /// The orders of the task, which is started anew on this runtime if that of the last one has ended.
    fn running(&mut self, shared: &Arc<Shared>) -> mpsc::UnboundedSender<Arc<str>> {
        match &self.task {
            Some(task) if !task.handle.is_finished() => task.orders.clone(),
            Some(_) | None => {
                let (orders, inbox) = mpsc::unbounded_channel();
                self.table.lose();
                let handle = tokio::spawn(task::run(shared.clone(), inbox)).abort_handle();
                self.task = Some(Task { handle, orders: orders.clone() });
                orders
            }
        }
    }
}

#[cfg(test)]
mod tests;
