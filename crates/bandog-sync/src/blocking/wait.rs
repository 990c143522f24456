//! How a thread waits until a future is ready.

use std::{
    pin::pin,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use bandog_core::{Clock, Error, MAX_TTL, Result};
use tokio::task::unconstrained;

use crate::pause::poll_on_this_thread;

/// Additional time after the limit of a call. Normally the engine ends the call at its limit. If the engine has not
/// ended the call after this additional time, the waiting thread ends the call itself, because the engine's thread
/// seems to be blocked.
const SLACK: Duration = Duration::from_secs(1);

/// Waits for a future, without a limit.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Some(value) = wait_at_most(future.as_mut(), MAX_TTL, Clock::system()) {
            return value;
        }
    }
}

/// Waits for a future until the limit. After that, drops the future and returns `None`.
pub(super) fn wait_at_most<T>(future: impl Future<Output = T>, limit: Duration, clock: Clock) -> Option<T> {
    let until = clock.now() + limit;
    // A future that has used up Tokio's budget (a limit of operations per poll) would not be polled again.
    // `unconstrained` removes that limit.
    let mut future = pin!(unconstrained(future));
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        let (polled, again) = poll_on_this_thread(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        if let Poll::Ready(value) = polled {
            return Some(value);
        }
        let left = until.since(clock.now());
        if left.is_zero() {
            return None;
        }
        signal.wait_at_most(left.min(again));
    }
}

/// Waits for the answer to a call. Normally the engine ends the call at this limit. If the engine has not ended the
/// call [`SLACK`] after the limit, returns an error.
pub(super) fn answer<T>(call: impl Future<Output = Result<T>>, limit: Duration, clock: Clock) -> Result<T> {
    let slow = || Err(Error::unavailable("the engine has not answered in time; the backend may block its thread"));
    wait_at_most(call, limit.saturating_add(SLACK), clock).unwrap_or_else(slow)
}

/// Wakes the waiting thread, so that it polls its future again.
#[derive(Default)]
struct Signal {
    /// Whether the thread must poll its future again.
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn wait_at_most(&self, limit: Duration) {
        let woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = self.changed.wait_timeout_while(woken, limit, |woken| !*woken);
        *woken.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}
