//! Waits for the lock, until it is granted, the wait is over, or a signal asks bandog to exit.

use std::{convert::Infallible, time::Duration};

use bandog::{Guard, Mutex, Result};
use rustix::process::Signal;

use crate::signals::Signals;

/// How the wait ended.
pub(super) enum Acquired {
    Guard(Guard),
    /// Another client held the lock for the whole wait.
    Busy,
    /// A signal asked bandog to exit.
    Interrupted(Signal),
}

/// Waits for at most `wait`, or without limit. Meanwhile `progress` reports the holder.
pub(super) async fn acquire(
    mutex: &Mutex,
    wait: Option<Duration>,
    signals: &mut Signals,
    progress: impl Future<Output = Infallible>,
) -> Result<Acquired> {
    let guard = tokio::select! { biased;
        signal = signals.ending() => return Ok(Acquired::Interrupted(signal)),
        guard = lock(mutex, wait) => guard?,
        never = progress => match never {},
    };
    // If a signal came together with the grant, the child is not started.
    Ok(match (signals.received_ending(), guard) {
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
