//! How a thread waits for a future.

use std::{
    pin::pin,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use bandog_core::{Clock, Error, MAX_TTL, Result};
use tokio::task::unconstrained;

/// Maximum time by which a call may end after its limit. The engine keeps the limits; this one is for an engine whose
/// thread is blocked by a backend.
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

/// Waits for a future until the limit, and drops it then.
pub(super) fn wait_at_most<T>(future: impl Future<Output = T>, limit: Duration, clock: Clock) -> Option<T> {
    let until = clock.now() + limit;
    // Unconstrained, because a future that has used up a task's budget would not be polled again.
    let mut future = pin!(unconstrained(future));
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        let left = until.since(clock.now());
        if left.is_zero() {
            return None;
        }
        signal.wait_at_most(left);
    }
}

/// Waits for a call whose limit the engine keeps.
pub(super) fn answer<T>(call: impl Future<Output = Result<T>>, limit: Duration, clock: Clock) -> Result<T> {
    let slow = || Err(Error::unavailable("the engine has not answered in time; does the backend block its thread?"));
    wait_at_most(call, limit.saturating_add(SLACK), clock).unwrap_or_else(slow)
}

/// Wakes a waiting thread to poll its future again.
#[derive(Default)]
struct Signal {
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
