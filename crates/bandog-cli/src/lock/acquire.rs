//! Waits for the locks. The wait ends when all are granted, when the time limit is over, or when a signal asks
//! bandog to exit.

use std::{convert::Infallible, time::Duration};

use bandog::{All, AllGuard, Result};
use rustix::process::Signal;

use crate::signals::Signals;

/// How the wait ended.
pub(super) enum Acquired {
    Guard(AllGuard),
    /// Other clients held the lock for the whole wait.
    Busy,
    /// A signal asked bandog to exit.
    Interrupted(Signal),
}

/// Waits for the locks: for at most `wait`, or without a limit if `wait` is none. `progress` is a future that never
/// ends. It reports the holder during the wait.
pub(super) async fn acquire(
    locks: &All,
    wait: Option<Duration>,
    signals: &mut Signals,
    progress: impl Future<Output = Infallible>,
) -> Result<Acquired> {
    let guard = tokio::select! { biased;
        signal = signals.ending() => return Ok(Acquired::Interrupted(signal)),
        guard = lock(locks, wait) => guard?,
        never = progress => match never {},
    };
    // If a signal came at the same moment as the grant, the child must not be started. So the signal wins.
    Ok(match (signals.received_ending(), guard) {
        (Some(signal), _) => Acquired::Interrupted(signal),
        (None, Some(guard)) => Acquired::Guard(guard),
        (None, None) => Acquired::Busy,
    })
}

/// Takes the locks. None if other clients held one of them for the whole `wait`.
async fn lock(locks: &All, wait: Option<Duration>) -> Result<Option<AllGuard>> {
    match wait {
        Some(wait) => locks.try_lock_for(wait).await,
        None => locks.lock().await.map(Some),
    }
}
