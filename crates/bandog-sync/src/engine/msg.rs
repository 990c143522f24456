//! Messages from users to the engine. A sender never has to wait.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{Backend, Key, Moment, Notifier, Result};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::call::Call;
use crate::{
    Health,
    lane::SlotId,
    terms::{HoldId, Ticket},
    turn::{Report, TurnClient},
};

pub(crate) enum Msg {
    /// The first message. The engine puts this client into each turn, so that a guard keeps the client alive.
    Start(Weak<dyn TurnClient>),
    /// A call asks for the lock of this key.
    Lock(Key, Box<Call>),
    /// A writer wants to become a reader.
    Downgrade {
        /// The slot of the writers.
        slot: SlotId,
        /// The hold and the ticket of the writer's turn.
        hold: HoldId,
        turn: Ticket,
        call: Box<Call>,
    },
    /// A caller has dropped the future of its call.
    Cancel { slot: SlotId, ticket: Ticket },
    /// The last guard of a turn was dropped or released.
    Release {
        slot: SlotId,
        hold: HoldId,
        /// The ticket of the call that got the turn.
        ticket: Ticket,
        /// Where the result of the release goes. `None` if no caller waits for the result.
        report: Option<Report>,
    },
    /// A caller wants to be woken when `grace` is left before the deadline of a turn.
    WarnBefore { slot: SlotId, hold: HoldId, ticket: Ticket, grace: Duration },
    /// A caller leaves the hold of a turn in the store.
    Detach {
        slot: SlotId,
        hold: HoldId,
        /// The ticket of the call that got the turn.
        ticket: Ticket,
        /// Where the result goes. It is dropped if the lock is lost or the client is closed.
        report: Report,
    },
    /// A caller extends the fixed lease of a turn to at least `ttl`.
    Extend {
        slot: SlotId,
        hold: HoldId,
        ttl: Duration,
        /// Where the result goes. It is dropped if the lock is lost or the client is closed.
        report: Report,
    },
    /// An operator has changed the key. If this client holds the key, the engine asks the store whether the hold still
    /// exists.
    Recheck(Key),
    /// A caller subscribes to the changes of a record.
    SubscribeRecord { id: Ticket, key: Key, notifier: Notifier },
    /// A caller waits for a latch. The notifier makes the caller poll: when the latch becomes open, at least once a
    /// second, and at the end of its wait.
    SubscribeLatch {
        id: Ticket,
        key: Key,
        notifier: Notifier,
        /// The end of the caller's wait. `None` if the wait has no limit.
        until: Option<Moment>,
    },
    /// The subscription to a record or a latch with this number was dropped.
    UnsubscribeRecord(Ticket),
    /// A caller waits until the store answers.
    Ping(oneshot::Sender<Result<()>>),
    /// A caller asks for the health of the client and its store.
    CheckHealth(oneshot::Sender<Health>),
    /// A caller sends a request that takes no lock.
    Query(BackendQuery),
    /// A caller waits until no release is pending and no request is in flight.
    WaitForIdle(oneshot::Sender<()>),
    /// A caller closes the client. The sender is dropped when the engine has ended.
    Close(oneshot::Sender<()>),
    /// The last message. No handle exists any more.
    LastHandleDropped,
}

/// A request of a user that takes no lock. The request reads the store, or changes the store for an operator. The
/// engine polls the future of the request.
pub(crate) type BackendQuery = Box<dyn FnOnce(Arc<dyn Backend>) -> BoxFuture<'static, ()> + Send>;

impl fmt::Debug for Msg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start(_) => "Start",
            Self::Lock(..) => "Lock",
            Self::Downgrade { .. } => "Downgrade",
            Self::Cancel { .. } => "Cancel",
            Self::Release { .. } => "Release",
            Self::WarnBefore { .. } => "WarnBefore",
            Self::Detach { .. } => "Detach",
            Self::Extend { .. } => "Extend",
            Self::Recheck(_) => "Recheck",
            Self::SubscribeRecord { .. } => "SubscribeRecord",
            Self::SubscribeLatch { .. } => "SubscribeLatch",
            Self::UnsubscribeRecord(_) => "UnsubscribeRecord",
            Self::Ping(_) => "Ping",
            Self::CheckHealth(_) => "CheckHealth",
            Self::Query(_) => "Query",
            Self::WaitForIdle(_) => "WaitForIdle",
            Self::Close(_) => "Close",
            Self::LastHandleDropped => "LastHandleDropped",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each call sends two messages, and each message is moved several times. The compiler moves a larger value with a
    /// call of `memcpy`.
    #[test]
    fn messages_are_small() {
        assert!(size_of::<Msg>() <= 96, "{} bytes", size_of::<Msg>());
    }
}
