//! What `#[bandog::locked]` calls. It is no API: only the attribute of the same version knows it.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
};

use crate::{Client, Error, Guard, Mutex};

/// What a function under a lock returns.
#[diagnostic::on_unimplemented(
    message = "a function under `#[bandog::locked]` must return `Result<T, E>` with `E: From<bandog::Error>`",
    label = "this is not such a `Result`",
    note = "a lock can fail: the store may be away, or the lock be lost"
)]
pub trait Returned {
    /// The lock failed.
    fn failed(error: Error) -> Self;
}

/// What a function returns that gives up when the lock is busy.
#[diagnostic::on_unimplemented(
    message = "a function under `#[bandog::locked(wait = …)]` must return `Result<Option<T>, E>` with `E: From<bandog::Error>`",
    label = "this is not such a `Result`",
    note = "`Ok(None)` says that somebody else held the lock for all that time"
)]
pub trait Tried {
    /// The lock failed.
    fn failed(error: Error) -> Self;

    /// Somebody else has the lock.
    fn busy() -> Self;
}

impl<T, E: From<Error>> Returned for Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }
}

impl<T, E: From<Error>> Tried for Result<Option<T>, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }

    fn busy() -> Self {
        Ok(None)
    }
}

/// What a function returns instead of its body's value.
pub struct Otherwise<R> {
    failed: fn(Error) -> R,
    busy: fn() -> R,
}

/// For a function that waits until the lock is free.
pub fn otherwise<R: Returned>() -> Otherwise<R> {
    Otherwise { failed: R::failed, busy: || unreachable!("a call without a limit is never told that it is busy") }
}

/// For a function that gives up.
pub fn otherwise_tried<R: Tried>() -> Otherwise<R> {
    Otherwise { failed: R::failed, busy: R::busy }
}

impl<R> Otherwise<R> {
    /// The guard, or what the function returns instead.
    pub fn guard<G>(&self, locked: Result<impl Locked<G>, Error>) -> Result<G, R> {
        locked.map_err(self.failed)?.into_guard().ok_or_else(self.busy)
    }
}

/// What a call that locks gives.
pub trait Locked<G> {
    /// The guard, unless somebody else has the lock.
    fn into_guard(self) -> Option<G>;
}

impl Locked<Self> for Guard {
    fn into_guard(self) -> Option<Self> {
        Some(self)
    }
}

impl Locked<Self> for crate::blocking::Guard {
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

/// What the body gives, or nothing once the lock is lost; the body is dropped by then.
pub async fn until_lost<R>(guard: &Guard, body: impl Future<Output = R>) -> Option<R> {
    let (mut lost, mut body) = (guard.lost(), pin!(body));
    poll_fn(|context| match Pin::new(&mut lost).poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => body.as_mut().poll(context).map(Some),
    })
    .await
}

/// Gives the lock back, and tells what the function returns.
pub async fn end<R>(guard: Guard, value: Option<R>, otherwise: Otherwise<R>) -> R {
    let key = guard.key().clone();
    let released = guard.release().await;
    // A body that had its lock to the end stands, whatever became of the release.
    value.unwrap_or_else(|| (otherwise.failed)(released.err().unwrap_or_else(|| Error::lost(&key))))
}

/// A value that is never made, for its type.
pub fn never<T>() -> T {
    unreachable!("nobody calls it")
}

/// The same without async.
pub mod blocking {
    use super::Otherwise;
    use crate::blocking::{Client, Guard, Mutex};
    use crate::{Error, Result};

    /// A client whose calls can block. It is a method, so that it is found behind any pointer, and its name is what
    /// the compiler says when there is none.
    pub trait Mutexes {
        /// The lock of this name.
        fn mutex_of_bandog_client(&self, name: impl AsRef<str>) -> Result<Mutex>;
    }

    impl Mutexes for crate::Client {
        fn mutex_of_bandog_client(&self, name: impl AsRef<str>) -> Result<Mutex> {
            Ok(self.blocking()?.mutex(name))
        }
    }

    impl Mutexes for Client {
        fn mutex_of_bandog_client(&self, name: impl AsRef<str>) -> Result<Mutex> {
            Ok(self.mutex(name))
        }
    }

    /// Calls the body.
    pub fn call<R>(body: impl FnOnce() -> R) -> R {
        body()
    }

    /// Gives the lock back, and tells what the function returns.
    pub fn end<R>(guard: Guard, value: R, otherwise: Otherwise<R>) -> R {
        let (key, lost) = (guard.key().clone(), guard.is_lost());
        let released = guard.release();
        // A body that had its lock to the end stands, whatever became of the release.
        if lost { (otherwise.failed)(released.err().unwrap_or_else(|| Error::lost(&key))) } else { value }
    }
}
