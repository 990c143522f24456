//! What users tell the engine. No message waits for an answer while it is sent.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{Backend, Key, Notifier, Result};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::{Health, Owner, caller::Caller, client::Handle, guard::Turn};

/// A place in a queue: smaller came first. Also the number of whoever hears a record.
pub(crate) type Ticket = u64;
/// A hold of this client: its claim's number.
pub(crate) type HoldId = u64;
/// What a call that waits for a lock is told. `None`: somebody else holds it.
pub(crate) type Reply = oneshot::Sender<Result<Option<Given>>>;

/// What a call is given.
pub(crate) enum Given {
    /// A turn of its own.
    Turn(Arc<Turn>),
    /// A part of its owner's turn, which lies with the owner.
    Part,
}

pub(crate) enum Msg {
    /// The first message: through whom turns keep the client alive.
    Begin(Weak<Handle>),
    Want(Want),
    /// The caller has gone.
    Quit {
        key: Key,
        ticket: Ticket,
    },
    /// The last guard of a turn has gone.
    Free {
        hold: HoldId,
        report: Option<oneshot::Sender<Result<()>>>,
    },
    /// Somebody wants to be woken this long before the hold ends.
    WarnBefore {
        hold: HoldId,
        grace: Duration,
    },
    /// Somebody has meddled with the key: whoever holds it asks the store.
    Recheck(Key),
    /// Somebody wants to hear a record.
    SubscribeRecord {
        id: Ticket,
        key: Key,
        notifier: Notifier,
    },
    /// And does so no more.
    UnsubscribeRecord(Ticket),
    Ping(oneshot::Sender<Result<()>>),
    Health(oneshot::Sender<Health>),
    Look(Looker),
    Idle(oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
    /// The last message: nobody is left.
    LastHandleGone,
}

/// A look at the store that runs where the backend runs.
pub(crate) type Looker = Box<dyn FnOnce(Arc<dyn Backend>) -> BoxFuture<'static, ()> + Send>;

/// A call that wants a lock.
pub(crate) struct Want {
    pub(crate) key: Key,
    pub(crate) ticket: Ticket,
    pub(crate) owner: Option<Owner>,
    pub(crate) caller: Caller,
    pub(crate) terms: Terms,
    pub(crate) patience: Patience,
    pub(crate) reply: Reply,
}

/// For how long a hold is claimed, and how many turns it may serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    /// Whether the hold is renewed.
    pub(crate) watchdog: bool,
    pub(crate) fences: NonZeroU32,
    /// After what time a turn is lost though it could be renewed.
    pub(crate) max_hold: Option<Duration>,
    /// Whether its user tells people of its loss.
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
    /// Whether the call may have given up by then.
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
            Self::Begin(_) => "Begin",
            Self::Want(_) => "Want",
            Self::Quit { .. } => "Quit",
            Self::Free { .. } => "Free",
            Self::WarnBefore { .. } => "WarnBefore",
            Self::Recheck(_) => "Recheck",
            Self::SubscribeRecord { .. } => "SubscribeRecord",
            Self::UnsubscribeRecord(_) => "UnsubscribeRecord",
            Self::Ping(_) => "Ping",
            Self::Health(_) => "Health",
            Self::Look(_) => "Look",
            Self::Idle(_) => "Idle",
            Self::Close(_) => "Close",
            Self::LastHandleGone => "LastHandleGone",
        })
    }
}
