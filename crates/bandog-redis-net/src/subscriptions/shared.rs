//! The state that the subscribers and the task of the connection share.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bandog_core::Error;
use redis::{PushInfo, PushKind, Value, aio::SendError};
use tokio::{
    sync::{Notify, mpsc},
    task::AbortHandle,
};

use super::channels::Channels;
use crate::dialler::Dialler;

#[derive(Debug)]
pub(super) struct SharedSubscriptions {
    pub(super) dialler: Dialler,
    pub(super) state: Mutex<SubscriptionsState>,
    /// Whether the warning was logged that this user has no right to subscribe.
    pub(super) warned: AtomicBool,
    /// Called when this server no longer has the slot of a channel.
    pub(super) moved: Moved,
    /// Notified when the server has ended a subscription by itself, or has become a replica. Then the connection is closed.
    pub(super) leave: Arc<Notify>,
}

/// The function that is called when a server no longer has the slot of a channel.
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
    /// Sends the task the name of each channel whose subscribers have changed.
    pub(super) changes: mpsc::UnboundedSender<Arc<str>>,
}

impl SharedSubscriptions {
    pub(super) fn state(&self) -> MutexGuard<'_, SubscriptionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn remove(&self, channel: &Arc<str>, id: u64) {
        let mut state = self.state();
        state.channels.remove(channel, id);
        if let Some(task) = &state.task {
            // If the task has ended, there is no connection, so the server has no subscription to end.
            let _ = task.changes.send(channel.clone());
        }
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
        let Some(Value::BulkString(channel)) = push.data.first() else { return Ok(()) };
        let Ok(channel) = std::str::from_utf8(channel) else { return Ok(()) };
        match &push.kind {
            PushKind::Message | PushKind::SMessage => {
                let payload = match push.data.get(1) {
                    Some(Value::BulkString(payload)) => payload.as_slice(),
                    _ => &[],
                };
                self.state().channels.message(channel, payload);
            }
            PushKind::SUnsubscribe if !self.state().channels.is_unsubscribing(channel) => {
                self.leave.notify_one();
                (self.moved.0)();
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn warn_once(&self, error: &Error) {
        if error.is_about_login() {
            return; // The engine logs it.
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            let store = self.dialler.options.store();
            tracing::warn!(%store, %error, "this user may not subscribe, so no message arrives, and waiters poll");
        }
    }
}
