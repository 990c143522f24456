//! The client for code without async: its calls block the calling thread.

use std::time::Duration;

use bandog_core::{ClientId, Error, Finding, Member, Pattern, Result, Row};

use super::{Barrier, Election, Mutex, RwLock, Semaphore, thread, wait::wait};
use crate::{Health, Token};

/// A client of one store, for code without async. All clones of this value, and the async [`crate::Client`] from which
/// this value was created, are the same client.
///
/// Created by [`crate::Client::blocking`]. In async code, calls of this client, its mutexes and its guards return
/// `ErrorKind::Misused`. See [the module](super).
#[derive(Debug, Clone)]
pub struct Client {
    client: crate::Client,
}

impl crate::Client {
    /// The same client for code without async.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// let client = bandog::ConnectOptions::parse("memory:")?.connect_lazy()?;
    /// let guard = client.blocking()?.mutex("orders").lock()?;
    /// # guard.release() }
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Misused` if the client was made with [`on_current_runtime`](crate::ClientOptions::on_current_runtime),
    /// because its engine could not run while a call blocks the thread.
    pub fn blocking(&self) -> Result<Client> {
        Client::of(self)
    }
}

impl Client {
    pub(crate) fn of(client: &crate::Client) -> Result<Self> {
        if client.handle().has_own_thread() {
            return Ok(Self { client: client.clone() });
        }
        let message = "the client was started with on_current_runtime(), so its engine cannot run while a call \
                       blocks; start the client without that option to make blocking calls";
        Err(Error::misused(message))
    }

    /// The same client for async code.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?.blocking()?;
    /// let guard = client.to_async().mutex("orders").lock().await?;
    /// # guard.release().await }
    /// ```
    pub fn to_async(&self) -> crate::Client {
        self.client.clone()
    }

    /// This client's id. The store writes it into each lock that the client holds.
    pub fn id(&self) -> ClientId {
        self.client.id()
    }

    /// A description of the store, without secrets.
    pub fn store(&self) -> &str {
        self.client.store()
    }

    /// The lock with this name. The name must have 1 to 1024 bytes, and no control characters. If the name is not
    /// allowed, each call that locks returns `ErrorKind::Misused`. This call is cheap and does no I/O.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.client.mutex(name))
    }

    /// The election with this name. See [`Election`].
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.client.election(name))
    }

    /// The barrier with this name, at which `parties` calls of [`Barrier::wait`] wait for each other. See [`Barrier`].
    pub fn barrier(&self, name: impl AsRef<str>, parties: u32) -> Barrier {
        Barrier::new(self.client.barrier(name, parties))
    }

    /// The read-write lock with this name. The same rules as for [`Client::mutex`] apply.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.client.rwlock(name))
    }

    /// The semaphore with this name and this number of permits. See [`crate::Client::semaphore`].
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(self.client.semaphore(name, limit))
    }

    /// Waits until the store answers, for at most 5 s.
    ///
    /// # Errors
    /// As [`crate::Client::ready`], and `ErrorKind::Misused` in async code.
    pub fn ready(&self) -> Result<()> {
        thread::may_block("connect")?;
        wait(self.client.ready())
    }

    /// Reports the health of this client and its store, for readiness probes. See [`crate::Client::health`].
    ///
    /// # Errors
    /// As [`crate::Client::health`], and `ErrorKind::Misused` in async code.
    pub fn health(&self) -> Result<Health> {
        thread::may_block("health")?;
        wait(self.client.health())
    }

    /// The state of one lock in the store, whether it is held or free. The holder can be any client.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// # let client = bandog::blocking::connect("memory:")?;
    /// let guard = client.mutex("orders").lock()?;
    /// assert!(client.show("orders")?.is_held());
    /// # guard.release() }
    /// ```
    ///
    /// # Errors
    /// As [`crate::Client::show`], and `ErrorKind::Misused` in async code.
    pub fn show(&self, name: impl AsRef<str>) -> Result<Row> {
        thread::may_block("show")?;
        wait(self.client.show(name))
    }

    /// All locks that are held now and whose names match the pattern, sorted by name. On Redis this call scans all keys
    /// of the server; see [`crate::Client::list`].
    ///
    /// # Errors
    /// As [`crate::Client::list`], and `ErrorKind::Misused` in async code.
    pub fn list(&self, pattern: Pattern) -> Result<Vec<Row>> {
        thread::may_block("list")?;
        wait(self.client.list(pattern))
    }

    /// The clients in the store's registry. See [`crate::Client::members`].
    ///
    /// # Errors
    /// As [`crate::Client::members`], and `ErrorKind::Misused` in async code.
    pub fn members(&self) -> Result<Vec<Member>> {
        thread::may_block("members")?;
        wait(self.client.members())
    }

    /// The states of several locks, with the clients that hold them. See [`crate::Client::holders`].
    ///
    /// # Errors
    /// As [`crate::Client::holders`], and `ErrorKind::Misused` in async code.
    pub fn holders(&self, names: &[impl AsRef<str> + Sync]) -> Result<Vec<Row>> {
        thread::may_block("holders")?;
        wait(self.client.holders(names))
    }

    /// Takes a lock from its holder, so that it is free. Returns the previous state of the lock, or `None` if it was
    /// not held. This can be dangerous: read [`crate::Client::evict`] first.
    ///
    /// # Errors
    /// As [`crate::Client::evict`], and `ErrorKind::Misused` in async code.
    pub fn evict(&self, name: impl AsRef<str>) -> Result<Option<Row>> {
        thread::may_block("evict")?;
        wait(self.client.evict(name))
    }

    /// Releases a lock that another client has left in the store. See [`crate::Client::release_detached`].
    ///
    /// # Errors
    /// As [`crate::Client::release_detached`], and `ErrorKind::Misused` in async code.
    pub fn release_detached(&self, name: impl AsRef<str>, token: &Token) -> Result<bool> {
        thread::may_block("release")?;
        wait(self.client.release_detached(name, token))
    }

    /// Extends the lease of a lock that another client has left in the store. See [`crate::Client::extend_detached`].
    ///
    /// # Errors
    /// As [`crate::Client::extend_detached`], and `ErrorKind::Misused` in async code.
    pub fn extend_detached(&self, name: impl AsRef<str>, token: &Token, ttl: Duration) -> Result<bool> {
        thread::may_block("extend")?;
        wait(self.client.extend_detached(name, token, ttl))
    }

    /// Forgets the names that match the pattern and are not used any more. See [`crate::Client::forget_unused`].
    ///
    /// # Errors
    /// As [`crate::Client::forget_unused`], and `ErrorKind::Misused` in async code.
    pub fn forget_unused(&self, pattern: Pattern, unused_for: Duration) -> Result<u64> {
        thread::may_block("forget_unused")?;
        wait(self.client.forget_unused(pattern, unused_for))
    }

    /// Checks the store and its environment. Returns findings: what might endanger locks, and what is fine.
    ///
    /// # Errors
    /// As [`crate::Client::check`], and `ErrorKind::Misused` in async code.
    pub fn check(&self) -> Result<Vec<Finding>> {
        thread::may_block("check")?;
        wait(self.client.check())
    }

    /// Closes the client: releases all of its locks, and ends all of its calls that wait, also in other threads.
    /// Returns when the store has answered the releases, or after two request timeouts at the latest. From then on,
    /// guards and calls of this client return `ErrorKind::Closed`.
    ///
    /// # Errors
    /// `ErrorKind::Misused` in async code. In that case the client is not closed.
    pub fn close(&self) -> Result<()> {
        thread::may_block("close")?;
        wait(self.client.close())
    }

    /// Waits until the store has answered all requests of this client. This is for tests that inspect the store.
    ///
    /// # Errors
    /// `ErrorKind::Misused` in async code.
    pub fn idle(&self) -> Result<()> {
        thread::may_block("idle")?;
        wait(self.client.idle());
        Ok(())
    }
}
