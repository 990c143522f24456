//! The properties of a backend.

use std::time::Duration;

use tokio::sync::watch;

use crate::{Kinds, LockState, SqlDialect};

/// The properties of a backend.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The address or path of the store, without secrets.
    pub store: String,
    /// Maximum duration of one request. A request without an answer returns an error after this time.
    pub timeout: Duration,
    /// The kinds of locks that the backend supports. `bandog-sync` refuses to create a lock of any other kind, so the
    /// backend gets claims of these kinds only.
    pub kinds: Kinds,
    /// The kinds of locks whose hold stays in the store until its ttl has passed, also if the client and its connections have
    /// ended. Then any client can renew or release the hold, if it knows the id of the claim.
    pub outlive_clients: Kinds,
    /// Whether the backend has records ([`crate::Records`]). Elections, barriers and jobs need them.
    pub has_records: bool,
    /// Whether fences continue to rise after the store has failed over to a replica.
    pub fence_survives_failover: bool,
    /// The time for which a failover or a crash of the store can undo a step after its answer. After a reconnection, the
    /// client sends the releases of this time again. Zero if the store undoes nothing.
    pub may_undo: Duration,
    /// The database whose transactions can check a lock ([`crate::Leases::fence_sql`]). None if the store has no such transactions.
    pub checks_locks_in: Option<SqlDialect>,
    /// The database whose transactions can complete a run of a job ([`crate::Records::mark_sql`]).
    pub completes_runs_in: Option<SqlDialect>,
    /// The clock that decides when a lease expires, as text for messages.
    pub expiry: &'static str,
    /// Maximum number of steps in one call of [`crate::Leases::apply`]. The answers to the steps of a call come together. So a
    /// backend whose grants are answered much later than its other answers sets 1: then no answer waits for a grant.
    pub max_steps: usize,
    /// The number of connections that the backend has made until now. When the backend makes a new connection, the
    /// store might have lost its data, for example in a restart. So the client renews its locks when the number rises.
    pub epoch: watch::Receiver<u64>,
}

impl Profile {
    /// The usual value of [`Profile::max_steps`]. In a larger call, the first steps would wait too long for the others.
    pub const MAX_STEPS: usize = 32;

    /// The profile of a backend that uses no network, and that leaves all decisions to [`LockState`]. The timeout is
    /// 3 s, and the machine's clock decides when leases expire.
    pub fn of_this_machine(store: impl Into<String>) -> Self {
        Self {
            store: store.into(),
            timeout: Duration::from_secs(3),
            kinds: LockState::KINDS,
            outlive_clients: LockState::KINDS,
            has_records: true,
            fence_survives_failover: true,
            may_undo: Duration::ZERO,
            checks_locks_in: None,
            completes_runs_in: None,
            expiry: "this machine's clock",
            max_steps: Self::MAX_STEPS,
            epoch: watch::channel(1).1,
        }
    }
}
