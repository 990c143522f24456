//! The state that the subscribers and the task of the connection share.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Key, Reports};
use redis::{PushInfo, PushKind, Value, aio::SendError};
use tokio::{
    sync::{Notify, mpsc},
    task::AbortHandle,
};

use super::{channels::Channels, source::Source};
use crate::dialler::Dialler;

#[derive(Debug)]
pub(super) struct SharedSubscriptions {
    pub(super) dialler: Dialler,
    pub(super) state: Mutex<SubscriptionsState>,
    /// Called when this server no longer has the slot of a channel, or cannot be reached.
    pub(super) moved: Moved,
    /// Notified when the server has ended a subscription by itself, or has become a replica. Then the connection is closed.
    pub(super) leave: Arc<Notify>,
}

/// The function that is called when a server no longer has the slot of a channel, or cannot be reached.
pub(super) struct Moved(pub(super) Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Moved")
    }
}

#[derive(Debug, Default)]
pub(super) struct SubscriptionsState {
    pub(super) channels: Channels,
    /// None until the first subscriber is added.
    pub(super) task: Option<ConnectionTask>,
}

/// The task that keeps the connection open.
#[derive(Debug)]
pub(super) struct ConnectionTask {
    /// Ends the task.
    pub(super) handle: AbortHandle,
    /// Sends the task each source whose subscribers have changed.
    pub(super) changes: mpsc::UnboundedSender<Source>,
}

impl SharedSubscriptions {
    pub(super) fn state(&self) -> MutexGuard<'_, SubscriptionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and then calls the sinks that this concerns.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut SubscriptionsState) -> T) -> T {
        let mut state = self.state();
        let result = change(&mut state);
        Reports::unlock(state, &self.state, |state| &mut state.channels.reports);
        result
    }

    pub(super) fn remove(&self, source: &Source, id: u64) {
        self.change(|state| {
            state.channels.remove(source, id);
            if let Some(task) = &state.task {
                // If the task has ended, there is no connection, so the server has no subscription to end.
                let _ = task.changes.send(source.clone());
            }
        });
    }

    /// Gives a message to the sinks of this source. `matched` is its channel if the source is a glob.
    fn message(&self, source: &Source, matched: Option<&Key>, payload: &[u8]) {
        self.change(|state| state.channels.message(source, matched, payload));
    }

    /// Handles a push message of the server.
    ///
    /// If the slot of a sharded channel moves, the server ends the subscription by itself. The client library would take
    /// this message for the answer to another request. So the connection is closed then.
    pub(super) fn pushed(&self, push: &PushInfo) -> Result<(), SendError> {
        if push.kind == PushKind::Invalidate {
            self.invalidated(push.data.first());
            return Ok(());
        }
        let text = |at: usize| match push.data.get(at) {
            Some(Value::BulkString(text)) => std::str::from_utf8(text).ok(),
            _ => None,
        };
        let payload = match push.data.last() {
            Some(Value::BulkString(payload)) => payload.as_slice(),
            _ => &[],
        };
        let Some(name) = text(0) else { return Ok(()) };
        match &push.kind {
            PushKind::Message => self.message(&Source::Plain(name.into()), None, payload),
            PushKind::SMessage => self.message(&Source::Sharded(name.into()), None, payload),
            PushKind::PMessage => {
                if let Some(channel) = text(1).and_then(|channel| Key::new(channel).ok()) {
                    self.message(&Source::Glob(name.into()), Some(&channel), payload);
                }
            }
            PushKind::SUnsubscribe if !self.state().channels.is_unsubscribing(&Source::Sharded(name.into())) => {
                self.leave.notify_one();
                (self.moved.0)();
            }
            _ => {}
        }
        Ok(())
    }
}
