//! The state of a lock, as it was read from the tables.

use bandog_core::{ClaimId, LockState};

use crate::rules::Lease;

/// The owner in the table `lease` while the name is held as a read-write lock. It is not the id of a claim, so no
/// program takes it for an offer, and no program can renew or release the hold.
pub(crate) const READ_WRITE: &str = "read-write";
/// The owner in the table `lease` while the name is held as a semaphore.
pub(crate) const SEMAPHORE: &str = "semaphore";

/// The state of a lock, and the rows from which it was read.
pub(crate) struct StoredState {
    pub(crate) state: LockState,
    pub(crate) lease: Lease,
    /// The rows of the table `claim` whose holds and places have ended.
    pub(crate) ended: Vec<ClaimId>,
    /// The holds and places of another boot that this boot has not observed yet: for each, its name in the table
    /// `sighting` and its stamp.
    pub(crate) unseen: Vec<(String, i64)>,
    /// The greatest rank of the rows that were read.
    pub(crate) last_rank: i64,
    /// Whether all rows of the lock were read. If not, the state has only the rows on which one step depends.
    pub(crate) is_whole: bool,
    /// The number of places that were not read, and that are before the place of the claim in the queue.
    pub(crate) unread_ahead: u32,
}

/// Whether this lease is occupied by a lock whose holds are in the table `claim`.
pub(crate) fn is_shared(lease: &Lease) -> bool {
    matches!(lease.owner.as_deref(), Some(READ_WRITE | SEMAPHORE))
}
