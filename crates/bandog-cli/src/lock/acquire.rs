//! Waits for the lock. The wait ends when the lock is granted, when the time limit is over, or when a signal asks
//! bandog to exit.

use std::{convert::Infallible, time::Duration};

use bandog::{Guard, Result};
use rustix::process::Signal;

use super::kind::Handle;
use crate::signals::Signals;

/// How the wait ended.
pub(super) enum Acquired {
    Guard(Guard),
    /// Other clients held the lock for the whole wait.
    Busy,
    /// A signal asked bandog to exit.
    Interrupted(Signal),
}

/// Waits for the lock: for at most `wait`, or without a limit if `wait` is none. `progress` is a future that never
/// ends. It reports the holder during the wait.
pub(super) async fn acquire(
    handle: &Handle,
    wait: Option<Duration>,
    signals: &mut Signals,
    progress: impl Future<Output = Infallible>,
) -> Result<Acquired> {
    let guard = tokio::select! { biased;
        signal = signals.ending() => return Ok(Acquired::Interrupted(signal)),
        guard = lock(handle, wait) => guard?,
        never = progress => match never {},
    };
    // If a signal came at the same moment as the grant, the child must not be started. So the signal wins.
    Ok(match (signals.received_ending(), guard) {
        (Some(signal), _) => Acquired::Interrupted(signal),
        (None, Some(guard)) => Acquired::Guard(guard),
        (None, None) => Acquired::Busy,
    })
}

/// Takes the lock. None if other clients held the lock for the whole `wait`.
async fn lock(handle: &Handle, wait: Option<Duration>) -> Result<Option<Guard>> {
    match wait {
        Some(wait) => handle.try_lock_for(wait).await,
        None => handle.lock().await.map(Some),
    }
}
