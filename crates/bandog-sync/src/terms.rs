//! The terms of a call, and the numbers of calls and holds.

use std::{num::NonZeroU8, time::Duration};

use bandog_core::Kind;

/// Number of a call or of a record subscription. The numbers rise: an older call has a smaller ticket.
pub(crate) type Ticket = u64;
/// Number of a *hold*, which is what the store gives for a claim. A hold has the number of its claim. Tickets and the
/// numbers of claims come from the same counter.
pub(crate) type HoldId = u64;
/// The terms of a hold: what its claim asks the store for, and what the engine does with the hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) kind: Kind,
    pub(crate) ttl: Duration,
    /// Whether the hold is renewed.
    pub(crate) watchdog: bool,
    /// Number of fences (fencing tokens) that a grant reserves. This is also the maximum number of turns of the hold,
    /// because each turn uses one fence.
    pub(crate) fences: NonZeroU8,
    /// Maximum duration of a turn, even if the hold is renewed.
    pub(crate) max_hold: Option<Duration>,
    /// Whether the caller logs a loss. The engine then logs the loss only at debug level.
    pub(crate) quiet: bool,
}

/// How long a call waits for a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    /// Until the first answer of the store.
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
