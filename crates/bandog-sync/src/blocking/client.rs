//! The client for code without async: its calls block the calling thread.

use std::time::Duration;

use bandog_core::{ClientId, Error, Finding, LatchRow, Member, Pattern, Result, Row};

use super::{
    Barrier, ClientRecords, Election, Latch, Mutex, RwLock, Semaphore, calls::blocking_calls, thread, wait::wait,
};
use crate::{Health, Owner, StoreProfile, Token};

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

    /// The capabilities of the store of this client. This call does no I/O. See [`crate::Client::profile`].
    pub fn profile(&self) -> &StoreProfile {
        self.client.profile()
    }

    /// The records of this client's store. See [`crate::Client::records`].
    pub fn records(&self) -> ClientRecords {
        ClientRecords::new(self.client.records())
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

    /// The count-down latch with this name. See [`crate::Client::latch`].
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch::new(self.client.latch(name))
    }

    /// A new owner, for locks that several threads hold together ([`Mutex::by`]).
    pub fn owner(&self) -> Owner {
        self.client.owner()
    }

    blocking_calls! { Client.client:
        /// Waits until the store answers, for at most 5 s.
        fn ready() -> ();

        /// Reports the health of this client and its store, for readiness probes.
        fn health() -> Health;

        /// The state of one lock in the store, whether it is held or free. The holder can be any client.
        ///
        /// ```
        /// # fn main() -> bandog::Result<()> {
        /// # let client = bandog::blocking::connect("memory:")?;
        /// let guard = client.mutex("orders").lock()?;
        /// assert!(client.show("orders")?.is_held());
        /// # guard.release() }
        /// ```
        fn show(name: impl AsRef<str>) -> Row;

        /// All locks that are held now and whose names match the pattern, sorted by name. On Redis this call scans all
        /// keys of the server.
        fn list(pattern: Pattern) -> Vec<Row>;

        /// The latches that are not open and whose names match the pattern, sorted by name. On Redis this call scans all
        /// keys of the server.
        fn list_latches(pattern: Pattern) -> Vec<LatchRow>;

        /// The clients in the store's registry.
        fn members() -> Vec<Member>;

        /// The states of several locks, with the clients that hold them.
        fn holders(names: &[impl AsRef<str> + Sync]) -> Vec<Row>;

        /// Takes a lock from its holder, so that it is free. Returns the previous state of the lock, or `None` if it was
        /// not held. This can be dangerous: read [`crate::Client::evict`] first.
        fn evict(name: impl AsRef<str>) -> Option<Row>;

        /// Releases a lock that another client has left in the store.
        fn release_detached(name: impl AsRef<str>, token: &Token) -> bool;

        /// Extends the lease of a lock that another client has left in the store.
        fn extend_detached(name: impl AsRef<str>, token: &Token, ttl: Duration) -> bool;

        /// Forgets the names that match the pattern and are not used any more.
        fn forget_unused(pattern: Pattern, unused_for: Duration) -> usize;

        /// Checks the store and its environment. Returns findings: what might endanger locks, and what is fine.
        fn check() -> Vec<Finding>;
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
