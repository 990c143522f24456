//! Messages from users to the engine. A sender never has to wait.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{Backend, Key, Moment, Notifier, Result};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::{
    Health, Owner,
    caller::Caller,
    lane::SlotId,
    terms::{HoldId, Patience, Terms, Ticket},
    turn::{Report, Turn, TurnClient},
};

/// Where the answer to a [`LockRequest`] goes. The answer `None` means that another client or call holds the lock.
pub(crate) type LockReply = oneshot::Sender<Result<Option<TurnGrant>>>;

/// The answer to a call that gets the lock. A *turn* begins when a call gets the hold, and ends when the last guard of
/// the turn is dropped. Calls of one owner can share a turn.
pub(crate) enum TurnGrant {
    /// The turn of a call without an owner, or of a downgrade.
    New(Arc<Turn>),
    /// The turn of the call's owner, which the call may share with other calls. The call takes that turn from the owner
    /// ([`Owner::call_ended`]).
    Shared,
}

pub(crate) enum Msg {
    /// The first message. The engine puts this client into each turn, so that a guard keeps the client alive.
    Start(Weak<dyn TurnClient>),
    Lock(LockRequest),
    Downgrade(DowngradeRequest),
    /// A caller has dropped the future of its [`LockRequest`].
    Cancel {
        slot: SlotId,
        ticket: Ticket,
    },
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
    WarnBefore {
        slot: SlotId,
        hold: HoldId,
        ticket: Ticket,
        grace: Duration,
    },
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
    SubscribeRecord {
        id: Ticket,
        key: Key,
        notifier: Notifier,
    },
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

/// A call that asks for a lock.
pub(crate) struct LockRequest {
    pub(crate) key: Key,
    pub(crate) ticket: Ticket,
    /// The owner for which the call locks. `None` if the call names no owner.
    pub(crate) owner: Option<Owner>,
    /// The task or thread that made the call.
    pub(crate) caller: Caller,
    pub(crate) terms: Terms,
    /// How long the call waits.
    pub(crate) patience: Patience,
    /// Whether the call can be part of a deadlock: it has no time limit, and its owner may hold other locks.
    pub(crate) can_deadlock: bool,
    /// Maximum number of calls of this client that wait for the lock. `None` if there is no limit.
    pub(crate) max_waiters: Option<NonZeroU32>,
    pub(crate) reply: LockReply,
}

/// A call that turns a write lock into a read lock.
pub(crate) struct DowngradeRequest {
    /// The slot of the writers.
    pub(crate) slot: SlotId,
    /// The hold and the ticket of the writer's turn.
    pub(crate) hold: HoldId,
    pub(crate) turn: Ticket,
    /// The ticket of the reader's turn.
    pub(crate) ticket: Ticket,
    pub(crate) owner: Option<Owner>,
    /// Maximum duration of the reader's turn. `None` if there is no limit.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) caller: Caller,
    pub(crate) reply: LockReply,
}

impl fmt::Debug for Msg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start(_) => "Start",
            Self::Lock(_) => "Lock",
            Self::Downgrade(_) => "Downgrade",
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
        assert!(size_of::<Msg>() <= 128, "{} bytes", size_of::<Msg>());
    }
}
