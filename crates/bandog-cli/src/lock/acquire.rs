//! Waits for the locks. The wait ends when all are granted, when the time limit is over, or when a signal asks
//! bandog to exit.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use bandog::{All, AllGuard, Result, SharedHold};
use rustix::process::Signal;

use crate::{signals::Signals, store::until_answered};

/// How the wait ended.
pub(crate) enum Acquired<G> {
    Guard(G),
    /// Other clients held the lock for the whole wait.
    Busy,
    /// A signal asked bandog to exit.
    Interrupted(Signal),
}

/// Waits for the guard of `locking`, which is none if other clients held a lock for the whole wait. `progress` is a future
/// that never ends. It reports the holder during the wait.
pub(crate) async fn acquire<G>(
    locking: impl Future<Output = Result<Option<G>>>,
    signals: &mut Signals,
    progress: impl Future<Output = Infallible>,
) -> Result<Acquired<G>> {
    let guard = tokio::select! { biased;
        signal = signals.ending() => return Ok(Acquired::Interrupted(signal)),
        guard = locking => guard?,
        never = progress => match never {},
    };
    // If a signal came at the same moment as the grant, the child must not be started. So the signal wins.
    Ok(match (signals.received_ending(), guard) {
        (Some(signal), _) => Acquired::Interrupted(signal),
        (None, Some(guard)) => Acquired::Guard(guard),
        (None, None) => Acquired::Busy,
    })
}

/// Takes the locks: waits for at most `wait`, or without a limit if `wait` is none. None if other clients held one of them
/// for the whole wait.
pub(super) async fn lock(locks: &All<SharedHold>, wait: Option<Duration>) -> Result<Option<AllGuard<SharedHold>>> {
    match wait {
        Some(wait) => until_answered(Instant::now() + wait, async |rest| locks.try_lock_for(rest).await).await,
        None => locks.lock().await.map(Some),
    }
}
