//! The channels of notifications.

use std::fmt;

use bandog_core::{Claim, ClaimId, Key, Kind};

/// The prefix of the names of channels.
const PREFIX: &str = "bandog_";

/// A channel. Different names can have the same channel. Then some notifications are unnecessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Channel(u64);

impl Channel {
    /// The channel of a lock: a release notifies it if a subscriber waits.
    pub(crate) fn of_lock(key: &Key) -> Self {
        Self::of(&["lock", key.as_str()])
    }

    /// The channel of a place in the queue of a fair mutex: notified when the claim is next.
    pub(crate) fn of_place(key: &Key, id: ClaimId) -> Self {
        Self::of(&["place", &id.to_string(), key.as_str()])
    }

    /// The channel that a waiting claim needs.
    pub(crate) fn of_claim(claim: &Claim) -> Self {
        match claim.kind {
            Kind::Fair => Self::of_place(&claim.key, claim.id),
            Kind::Mutex | Kind::Read | Kind::Write | Kind::Permits { .. } => Self::of_lock(&claim.key),
        }
    }

    /// The channel of a record.
    pub(crate) fn of_record(key: &Key) -> Self {
        Self::of(&["record", key.as_str()])
    }

    /// The channel of a work queue: an element may be ready.
    pub(crate) fn of_queue(queue: &Key) -> Self {
        Self::of(&["queue", queue.as_str()])
    }

    /// The channel of a client of a work queue: the result of an element that it has pushed is there.
    pub(crate) fn of_results(queue: &Key, client: u64) -> Self {
        Self::of(&["results", &format!("{client:016x}"), queue.as_str()])
    }

    /// FNV-1a over the words. All versions of bandog must agree on it, so it is no hash of a library.
    fn of(words: &[&str]) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(hash)
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok().map(Self)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:016x}", self.0)
    }
}
