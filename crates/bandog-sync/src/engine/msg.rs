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

/// Number of a call or of a record subscription. The older one has the smaller ticket.
pub(crate) type Ticket = u64;
/// Number of a hold of this client: the number of its claim.
pub(crate) type HoldId = u64;
/// Where the answer to a [`LockRequest`] goes. The answer `None` means that another client or call holds the lock.
pub(crate) type LockReply = oneshot::Sender<Result<Option<TurnGrant>>>;

/// A granted call. A *turn* is the use of a hold by one call; guards of one owner share a turn.
pub(crate) enum TurnGrant {
    /// The call has got its own turn.
    New(Arc<Turn>),
    /// The call shares the turn of its owner. It takes the turn from the owner ([`Owner::call_ended`]).
    Shared,
}

pub(crate) enum Msg {
    /// The first message. The engine puts this handle into each turn, so that a guard keeps the client alive.
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
    /// A caller wants to be woken when `grace` is left before the hold's deadline.
    WarnBefore {
        key: Key,
        hold: HoldId,
        grace: Duration,
    },
    /// An operator has changed the key. If this client holds the key, the engine asks the store whether it still does.
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
    /// The last message. No handle exists any more.
    LastHandleDropped,
}

/// A request of a user that does not lock: it reads the store, or changes it for an operator. The engine polls its
/// future.
pub(crate) type BackendQuery = Box<dyn FnOnce(Arc<dyn Backend>) -> BoxFuture<'static, ()> + Send>;

/// A call that asks for a lock.
pub(crate) struct LockRequest {
    pub(crate) key: Key,
    pub(crate) ticket: Ticket,
    pub(crate) owner: Option<Owner>,
    pub(crate) caller: Caller,
    pub(crate) terms: Terms,
    pub(crate) patience: Patience,
    pub(crate) reply: LockReply,
}

/// The terms of a hold: what its claim asks the store for, and how the hold is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) kind: Kind,
    pub(crate) ttl: Duration,
    /// Whether the hold is renewed.
    pub(crate) watchdog: bool,
    /// Number of fences that a grant reserves. It is the maximum number of turns of the hold, because each turn uses
    /// one.
    pub(crate) fences: NonZeroU32,
    /// Maximum duration of a turn. Renewals do not extend it.
    pub(crate) max_hold: Option<Duration>,
    /// Whether the caller logs a loss. The engine then logs it only at debug level.
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
    /// Whether the call times out within this time.
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
