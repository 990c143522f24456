//! The functions and types for the code that the attribute `#[bandog::locked]` generates. They are not a public API:
//! only the attribute of the same version of bandog is allowed to use them.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
};

use crate::{Client, Error, Guard, Lost, Mutex, RwLock, Semaphore, SharedHold, WriteGuard};

/// The return type of a locked function, which is a function under `#[bandog::locked]`.
#[diagnostic::on_unimplemented(
    message = "a function under `#[bandog::locked]` must return `Result<T, E>` with `E: From<bandog::Error>`",
    label = "`{Self}` is not such a `Result`",
    note = "a lock can fail: the store may be unavailable, or the lock may be lost",
    note = "an error type of your own needs `impl From<bandog::Error>`; `anyhow::Error` and boxed errors have it"
)]
pub trait Returned {
    /// The value that the function returns if the lock failed with this error.
    fn failed(error: Error) -> Self;
}

/// The return type of a locked function with the option `wait`. Such a function gives up if the lock stays busy for the
/// whole wait.
#[diagnostic::on_unimplemented(
    message = "a function under `#[bandog::locked(wait = …)]` must return `Result<Option<T>, E>` with `E: From<bandog::Error>`",
    label = "`{Self}` is not such a `Result`",
    note = "`Ok(None)` means that the lock was busy for the whole wait",
    note = "an error type of your own needs `impl From<bandog::Error>`; `anyhow::Error` and boxed errors have it"
)]
pub trait Tried {
    /// The value that the function returns if its lock failed with this error.
    fn failed(error: Error) -> Self;

    /// The value that the function returns if its lock stayed busy for the whole wait.
    fn busy() -> Self;
}

// With the attribute, the compiler names the trait, whose message is above, and not the missing `From`.
#[diagnostic::do_not_recommend]
impl<T, E: From<Error>> Returned for Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }
}

#[diagnostic::do_not_recommend]
impl<T, E: From<Error>> Tried for Result<Option<T>, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }

    fn busy() -> Self {
        Ok(None)
    }
}

/// Makes the value that a locked function returns when it does not return the value of its body: `failed` makes it
/// after an error of the lock, and `busy` makes it if the lock stayed busy. `R` is the return type of the locked
/// function.
#[derive(Debug)]
pub struct Otherwise<R> {
    failed: fn(Error) -> R,
    busy: fn() -> R,
}

/// The return values of a locked function without `wait`. Such a function waits until the lock is free.
pub fn otherwise<R: Returned>() -> Otherwise<R> {
    Otherwise { failed: R::failed, busy: || unreachable!("lock() without a limit never returns busy") }
}

/// The return values of a locked function with `wait`.
pub fn otherwise_tried<R: Tried>() -> Otherwise<R> {
    Otherwise { failed: R::failed, busy: R::busy }
}

impl<R> Otherwise<R> {
    /// Returns the guard. If there is none, the error is the value that the locked function returns without running its
    /// body.
    pub fn guard<G>(&self, locked: Result<impl Locked<G>, Error>) -> Result<G, R> {
        locked.map_err(self.failed)?.into_guard().ok_or_else(self.busy)
    }
}

/// The result of a call that takes a lock, such as `lock()` or `try_lock_for()`: a guard or an optional guard.
pub trait Locked<G> {
    /// The guard, or `None` if the lock stayed busy.
    fn into_guard(self) -> Option<G>;
}

impl<S> Locked<Self> for Guard<S> {
    fn into_guard(self) -> Option<Self> {
        Some(self)
    }
}

impl Locked<Self> for WriteGuard {
    fn into_guard(self) -> Option<Self> {
        Some(self)
    }
}

impl<S> Locked<Self> for crate::blocking::Guard<S> {
    fn into_guard(self) -> Option<Self> {
        Some(self)
    }
}

impl Locked<Self> for crate::blocking::WriteGuard {
    fn into_guard(self) -> Option<Self> {
        Some(self)
    }
}

impl<G> Locked<G> for Option<G> {
    fn into_guard(self) -> Option<G> {
        self
    }
}

/// The lock of this name.
pub fn mutex(client: &Client, name: impl AsRef<str>) -> Mutex {
    client.mutex(name)
}

/// The read-write lock of this name.
pub fn rwlock(client: &Client, name: impl AsRef<str>) -> RwLock {
    client.rwlock(name)
}

/// The semaphore of this name.
pub fn semaphore(client: &Client, name: impl AsRef<str>, limit: u32) -> Semaphore {
    client.semaphore(name, limit)
}

/// Runs the body and returns its value. If the lock is lost before the body has ended, this function drops the body and
/// returns `None`.
pub async fn until_lost<R>(mut lost: Lost, body: impl Future<Output = R>) -> Option<R> {
    let mut body = pin!(body);
    poll_fn(|context| match Pin::new(&mut lost).poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => body.as_mut().poll(context).map(Some),
    })
    .await
}

/// Releases the lock, and returns the value of the function: the body's value, or an error if the lock was lost.
pub async fn end<R>(guard: impl Into<Guard<SharedHold>>, value: Option<R>, otherwise: Otherwise<R>) -> R {
    let guard = guard.into();
    let key = guard.holding().key;
    let released = guard.release().await;
    // If the body held the lock to its end, its value is returned even if the release fails.
    value.unwrap_or_else(|| (otherwise.failed)(released.err().unwrap_or_else(|| Error::lost(&key))))
}

/// Gives the compiler the type `T`. The generated code contains calls of this function only in places that are never
/// executed.
pub fn never<T>() -> T {
    unreachable!("the generated code never executes this call")
}

/// The functions for locked functions without async.
pub mod blocking {
    use super::Otherwise;
    use crate::blocking::{Client, Guard, Mutex, RwLock, Semaphore};
    use crate::{Error, Result, SharedHold};

    /// A client that can make blocking locks. The generated code calls a method and not a function, because a method
    /// call also works on a reference or another pointer to a client. The methods have long names, because the
    /// compiler's error shows the name if a value is not a client.
    pub trait Locks {
        /// The mutex of this name.
        fn mutex_of_bandog_client(&self, name: impl AsRef<str>) -> Result<Mutex>;

        /// The read-write lock of this name.
        fn rwlock_of_bandog_client(&self, name: impl AsRef<str>) -> Result<RwLock>;

        /// The semaphore of this name.
        fn semaphore_of_bandog_client(&self, name: impl AsRef<str>, limit: u32) -> Result<Semaphore>;
    }

    impl Locks for crate::Client {
        fn mutex_of_bandog_client(&self, name: impl AsRef<str>) -> Result<Mutex> {
            Ok(self.blocking()?.mutex(name))
        }

        fn rwlock_of_bandog_client(&self, name: impl AsRef<str>) -> Result<RwLock> {
            Ok(self.blocking()?.rwlock(name))
        }

        fn semaphore_of_bandog_client(&self, name: impl AsRef<str>, limit: u32) -> Result<Semaphore> {
            Ok(self.blocking()?.semaphore(name, limit))
        }
    }

    impl Locks for Client {
        fn mutex_of_bandog_client(&self, name: impl AsRef<str>) -> Result<Mutex> {
            Ok(self.mutex(name))
        }

        fn rwlock_of_bandog_client(&self, name: impl AsRef<str>) -> Result<RwLock> {
            Ok(self.rwlock(name))
        }

        fn semaphore_of_bandog_client(&self, name: impl AsRef<str>, limit: u32) -> Result<Semaphore> {
            Ok(self.semaphore(name, limit))
        }
    }

    /// Calls the body. The body is a closure, so a `return` in the body ends only the closure, and the generated code
    /// still calls [`end`].
    pub fn call<R>(body: impl FnOnce() -> R) -> R {
        body()
    }

    /// Releases the lock, and returns the value of the function: the body's value, or an error if the lock was lost.
    pub fn end<R>(guard: impl Into<Guard<SharedHold>>, value: R, otherwise: Otherwise<R>) -> R {
        let guard = guard.into();
        let (key, lost) = (guard.holding().key, guard.is_lost());
        let released = guard.release();
        // If the body held the lock to its end, its value is returned even if the release fails.
        if lost { (otherwise.failed)(released.err().unwrap_or_else(|| Error::lost(&key))) } else { value }
    }
}
