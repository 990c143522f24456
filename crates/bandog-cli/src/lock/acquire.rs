//! Waiting for the lock, until it is ours, the time is up or a signal asks us to leave.

use std::{convert::Infallible, time::Duration};

use bandog::{Guard, Mutex, Result};
use rustix::process::Signal;

use crate::signals::Signals;

/// How the wait ended.
pub(super) enum Acquired {
    Guard(Guard),
    /// Somebody else held the lock all the time.
    Busy,
    /// A signal asked us to end.
    Interrupted(Signal),
}

/// Waits for at most `wait`, or for as long as it takes; `telling` says meanwhile who is in the way.
pub(super) async fn acquire(
    mutex: &Mutex,
    wait: Option<Duration>,
    signals: &mut Signals,
    telling: impl Future<Output = Infallible>,
) -> Result<Acquired> {
    let guard = tokio::select! { biased;
        signal = signals.ending() => return Ok(Acquired::Interrupted(signal)),
        guard = lock(mutex, wait) => guard?,
        never = telling => match never {},
    };
    // It may have come at the same moment as the grant: then the child is not even started.
    Ok(match (signals.has_ended(), guard) {
        (Some(signal), _) => Acquired::Interrupted(signal),
        (None, Some(guard)) => Acquired::Guard(guard),
        (None, None) => Acquired::Busy,
    })
}

async fn lock(mutex: &Mutex, wait: Option<Duration>) -> Result<Option<Guard>> {
    match wait {
        Some(wait) => mutex.try_lock_for(wait).await,
        None => mutex.lock().await.map(Some),
    }
}
