//! Messages from users to the engine. Sending one never waits.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{Backend, Key, Kind, Notifier, Result};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::{Health, Owner, caller::Caller, guard::Turn, handle::Handle};

/// Number of a call or of a record subscription. A smaller ticket came first.
pub(crate) type Ticket = u64;
/// Number of a hold of this client: the number of its claim.
pub(crate) type HoldId = u64;
/// Where the answer to a [`LockRequest`] goes. `None`: another client or call holds the lock.
pub(crate) type LockReply = oneshot::Sender<Result<Option<TurnGrant>>>;

/// How a call gets the lock.
pub(crate) enum TurnGrant {
    /// With a turn of its own.
    New(Arc<Turn>),
    /// With its owner's turn. The call takes it from the owner ([`Owner::call_ended`]).
    Shared,
}

pub(crate) enum Msg {
    /// The first message. Turns keep the client alive through this handle.
    Start(Weak<Handle>),
    Lock(LockRequest),
    /// A caller has dropped the future of its [`LockRequest`].
    Cancel {
        key: Key,
        ticket: Ticket,
    },
    /// The last guard of a turn was dropped or released.
    Release {
        key: Key,
        hold: HoldId,
        report: Option<oneshot::Sender<Result<()>>>,
    },
    /// A caller wants to be woken this long before the hold's deadline.
    WarnBefore {
        key: Key,
        hold: HoldId,
        grace: Duration,
    },
    /// An operator has changed the key: a holder in this client asks the store whether it still holds it.
    Recheck(Key),
    SubscribeRecord {
        id: Ticket,
        key: Key,
        notifier: Notifier,
    },
    UnsubscribeRecord(Ticket),
    Ping(oneshot::Sender<Result<()>>),
    CheckHealth(oneshot::Sender<Health>),
    Query(BackendQuery),
    WaitForIdle(oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
    /// The last message: no handle is left.
    LastHandleDropped,
}

/// A read or an operator's change of the store, which the engine polls.
pub(crate) type BackendQuery = Box<dyn FnOnce(Arc<dyn Backend>) -> BoxFuture<'static, ()> + Send>;

/// A call that waits for a lock.
pub(crate) struct LockRequest {
    pub(crate) key: Key,
    pub(crate) ticket: Ticket,
    pub(crate) owner: Option<Owner>,
    pub(crate) caller: Caller,
    pub(crate) terms: Terms,
    pub(crate) patience: Patience,
    pub(crate) reply: LockReply,
}

/// The terms on which a hold is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) kind: Kind,
    pub(crate) ttl: Duration,
    /// Whether the hold is renewed.
    pub(crate) watchdog: bool,
    /// Number of fences that a grant reserves: the maximum number of turns.
    pub(crate) fences: NonZeroU32,
    /// Maximum duration of a turn, even if it is renewed.
    pub(crate) max_hold: Option<Duration>,
    /// Whether the caller logs a loss, so that the engine need not.
    pub(crate) quiet: bool,
}

/// How long a call waits for a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    Once,
    For(Duration),
    Forever,
}

impl Patience {
    /// Whether the call gives up within this time.
    pub(crate) fn ends_within(self, time: Duration) -> bool {
        match self {
            Self::Once => true,
            Self::For(wait) => wait <= time,
            Self::Forever => false,
        }
    }
}

impl fmt::Debug for Msg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start(_) => "Start",
            Self::Lock(_) => "Lock",
            Self::Cancel { .. } => "Cancel",
            Self::Release { .. } => "Release",
            Self::WarnBefore { .. } => "WarnBefore",
            Self::Recheck(_) => "Recheck",
            Self::SubscribeRecord { .. } => "SubscribeRecord",
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
