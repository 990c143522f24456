//! The blocking calls that all kinds of locks share.

use std::time::Duration;

use bandog_core::{Error, Result};

use super::{
    Guard, thread,
    wait::{answer, wait},
};
use crate::lock::Lock;

/// Waits for the lock without a limit.
pub(super) fn acquire<S>(lock: &Lock) -> Result<Guard<S>> {
    wait(by_this_thread(lock)?.acquire()).map(Guard::new)
}

/// Waits for the lock, for at most this time. If the time is zero, the call ends with the first answer of the store.
pub(super) fn try_acquire_for<S>(lock: &Lock, limit: Duration) -> Result<Option<Guard<S>>> {
    let lock = by_this_thread(lock)?;
    let handle = lock.handle();
    // The time after which the engine ends the call.
    let engine_limit = if limit.is_zero() { handle.profile.request_timeout } else { limit };
    let guard = answer(lock.try_acquire_for(limit), engine_limit, handle.clock)?;
    Ok(guard.map(Guard::new))
}

/// Locks, runs the body and releases the lock.
pub(super) fn run<S, T>(lock: &Lock, body: impl FnOnce(&Guard<S>) -> T) -> Result<T> {
    let guard = acquire(lock)?;
    let value = body(&guard);
    guard.check_held()?;
    // The lock was held until the body ended, so the value is valid even if the release fails.
    let _ = guard.release();
    Ok(value)
}

/// The same lock, with the calling thread as its owner if it has no owner.
pub(super) fn by_this_thread(lock: &Lock) -> Result<Lock> {
    let with_key = |error: Error| match lock.key() {
        Ok(key) => error.at(key),
        Err(_) => error,
    };
    thread::may_block("lock").map_err(with_key)?;
    if lock.has_owner() {
        return Ok(lock.clone());
    }
    let owner = thread::owner(lock.handle().id).map_err(with_key)?;
    Ok(lock.clone().by(&owner))
}
