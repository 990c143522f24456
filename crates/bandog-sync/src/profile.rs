//! The capabilities of a store, for programs that check it at their start.

use std::time::Duration;

use bandog_core::{Kinds, Profile, SqlDialect};

/// The capabilities of a store. Returned by [`Client::profile`](crate::Client::profile).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreProfile {
    /// A description of the store, without secrets.
    pub store: String,
    /// The kinds of locks that the store has. A lock of another kind is refused with `ErrorKind::Misused`.
    pub kinds: Kinds,
    /// The kinds of locks whose fixed leases can outlive their client ([`crate::Guard::detach`]).
    pub detachable: Kinds,
    /// Whether the store has records. Elections, barriers, latches and jobs need them.
    pub has_records: bool,
    /// The database whose transactions can check a lock ([`crate::Guard::fence_sql`], `guard.commit(tx)` of
    /// `bandog-sqlx`). `None` if the store has no such transactions.
    pub checks_locks_in: Option<SqlDialect>,
    /// The database whose transactions can complete a run of a job (`run.commit(tx)` of `bandog-sqlx`). `None` if the store
    /// has no such transactions.
    pub completes_runs_in: Option<SqlDialect>,
    /// Whether fences continue to rise after the store has failed over to a replica.
    pub fence_survives_failover: bool,
    /// The time for which a failover or a crash of the store can undo a grant after its answer. Zero if the store undoes
    /// nothing.
    pub may_undo: Duration,
    /// Maximum duration of one request.
    pub request_timeout: Duration,
}

impl StoreProfile {
    pub(crate) fn of(profile: Profile) -> Self {
        Self {
            store: profile.store,
            kinds: profile.kinds,
            detachable: profile.outlive_clients,
            has_records: profile.has_records,
            checks_locks_in: profile.checks_locks_in,
            completes_runs_in: profile.completes_runs_in,
            fence_survives_failover: profile.fence_survives_failover,
            may_undo: profile.may_undo,
            request_timeout: profile.timeout,
        }
    }
}
