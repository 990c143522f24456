//! Detects that a new client uses the machine's clock although a test has paused tokio's clock.

use bandog_core::{Clock, Error, Result};

use crate::url::Scheme;

/// If tokio's clock is paused, refuses a client that cannot work, and logs a warning for a client that works but
/// behaves unexpectedly.
pub(crate) fn check(scheme: Scheme, on_current_runtime: bool) -> Result<()> {
    if !Clock::tokio_is_paused() {
        return Ok(());
    }
    match (scheme, on_current_runtime) {
        (Scheme::Memory, _) => Err(Error::misused(
            "tokio's clock is paused here (start_paused, tokio::time::pause), but leases of memory: follow the machine's \
             clock and would never expire; use bandog::testing::client(), whose leases follow tokio's clock",
        )),
        (
            Scheme::Redis | Scheme::Quorum | Scheme::MySql | Scheme::Postgres | Scheme::Sqlite | Scheme::ZooKeeper,
            true,
        ) => Err(Error::misused(
            "tokio's clock is paused here (start_paused, tokio::time::pause), so with on_current_runtime() each request to \
             the store would time out immediately; use bandog::testing::client(), or a test whose clock runs",
        )),
        (
            Scheme::Redis | Scheme::Quorum | Scheme::MySql | Scheme::Postgres | Scheme::Sqlite | Scheme::ZooKeeper,
            false,
        ) => {
            tracing::warn!(
                "tokio's clock is paused in this runtime, so its timers fire immediately while a call waits for the store, \
                 and the store's leases expire in real time; use bandog::testing::client(), or a test whose clock runs"
            );
            Ok(())
        }
    }
}
