//! Pauses in calls that exist both as async and as blocking calls. The async call uses Tokio's timer. In the blocking
//! call, the waiting thread is the timer, because that thread can be outside a Tokio runtime.

use std::{cell::Cell, future::poll_fn, pin::pin, task::Poll, time::Duration};

use bandog_core::{Clock, Error, MAX_TTL, Result};
use futures_util::future::{Either, select};
use tokio::{runtime, time};

use crate::handle::Handle;

thread_local! {
    /// `Some` while a blocking call of this thread polls its future: the time after which the thread must poll the
    /// future again. [`Duration::MAX`] if the future has no timer.
    static POLL_AGAIN: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Polls the future of a blocking call. Returns the result, and the time after which the future must be polled again
/// although it was not woken.
pub(crate) fn poll_on_this_thread<T>(poll: impl FnOnce() -> Poll<T>) -> (Poll<T>, Duration) {
    let reset = ResetOnDrop(POLL_AGAIN.replace(Some(Duration::MAX)));
    let polled = poll();
    let again = POLL_AGAIN.get().unwrap_or(Duration::MAX);
    drop(reset);
    (polled, again)
}

/// Checks that [`sleep`] has a timer. `call` is the name of the user's call in the error message.
pub(crate) fn check_timer(call: &str) -> Result<()> {
    if POLL_AGAIN.get().is_some() {
        return Ok(());
    }
    runtime::Handle::try_current().map(drop).map_err(|source| {
        Error::misused(format!("{call}() uses Tokio's timers for its retries; call it in a Tokio runtime"))
            .caused_by(source)
    })
}

/// Checks the limit of a wait, which is the same for all calls that have one. `None` stands for zero: the call makes one
/// attempt, and waits for no other client.
pub(crate) fn check_limit(limit: Duration) -> Result<Option<Duration>> {
    if limit > MAX_TTL {
        return Err(Error::misused(format!(
            "the wait is {limit:?}; at most 365 days are allowed (the call without a limit waits longer)"
        )));
    }
    Ok(Some(limit).filter(|limit| !limit.is_zero()))
}

/// Waits for this time. Returns an error if the client ends before that.
pub(crate) async fn pause(handle: &Handle, time: Duration) -> Result<()> {
    match select(pin!(handle.ended()), pin!(sleep(handle.clock, time))).await {
        Either::Left(((), _)) => Err(Error::closed()),
        Either::Right(((), _)) => Ok(()),
    }
}

/// Waits for this time.
pub(crate) async fn sleep(clock: Clock, time: Duration) {
    if POLL_AGAIN.get().is_none() {
        return time::sleep(time).await;
    }
    let until = clock.now() + time;
    poll_fn(|_| {
        let left = until.since(clock.now());
        if left.is_zero() {
            return Poll::Ready(());
        }
        POLL_AGAIN.set(POLL_AGAIN.get().map(|again| again.min(left)));
        Poll::Pending
    })
    .await;
}

/// Waits for the call until the limit. After that, drops the call and returns `None`.
pub(crate) async fn at_most<T>(call: impl Future<Output = T>, limit: Duration, clock: Clock) -> Option<T> {
    match select(pin!(call), pin!(sleep(clock, limit))).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

/// Its drop restores the earlier value of [`POLL_AGAIN`], also if the poll panics.
struct ResetOnDrop(Option<Duration>);

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        POLL_AGAIN.set(self.0);
    }
}
