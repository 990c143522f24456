//! A client whose calls block their thread.

use bandog_core::{ClientId, Error, Finding, Member, Pattern, Result, Row};

use super::{Mutex, thread, wait::wait};
use crate::Health;

/// Locks on one store, for code without async. Clones are the same client, and so is the async [`crate::Client`] that
/// it was made from.
///
/// Made by [`crate::Client::blocking`]. Its calls, and those of its mutexes and guards, are `Misused` in async code;
/// see [the module](super).
#[derive(Debug, Clone)]
pub struct Client {
    client: crate::Client,
}

impl Client {
    pub(crate) fn of(client: &crate::Client) -> Result<Self> {
        if client.handle().has_own_thread() {
            return Ok(Self { client: client.clone() });
        }
        let message = "the client was made with on_current_runtime(), whose engine cannot run while a call blocks; \
                       leave that out for blocking calls";
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

    /// This client's id: the first half of its owners' names in the store.
    pub fn id(&self) -> ClientId {
        self.client.id()
    }

    /// A description of the store, without secrets.
    pub fn store(&self) -> &str {
        self.client.store()
    }

    /// The lock of this name, 1 to 1024 bytes without control characters. Cheap, no I/O; a bad name is an error of the
    /// first call that locks.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.client.mutex(name))
    }

    /// Waits until the store has answered, for at most 5 s.
    ///
    /// # Errors
    /// As [`crate::Client::ready`], and `Misused` in async code.
    pub fn ready(&self) -> Result<()> {
        thread::may_block("connect")?;
        wait(self.client.ready())
    }

    /// The health of this client and its store, for readiness probes; see [`crate::Client::health`].
    ///
    /// # Errors
    /// As [`crate::Client::health`], and `Misused` in async code.
    pub fn health(&self) -> Result<Health> {
        thread::may_block("health")?;
        wait(self.client.health())
    }

    /// One lock as the store sees it, held or not, by any client.
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
    /// As [`crate::Client::show`], and `Misused` in async code.
    pub fn show(&self, name: impl AsRef<str>) -> Result<Row> {
        thread::may_block("show")?;
        wait(self.client.show(name))
    }

    /// The locks that are held now and whose names match, sorted by name.
    ///
    /// # Errors
    /// As [`crate::Client::list`], and `Misused` in async code.
    pub fn list(&self, pattern: Pattern) -> Result<Vec<Row>> {
        thread::may_block("list")?;
        wait(self.client.list(pattern))
    }

    /// The clients in the store's registry; see [`crate::Client::members`].
    ///
    /// # Errors
    /// As [`crate::Client::members`], and `Misused` in async code.
    pub fn members(&self) -> Result<Vec<Member>> {
        thread::may_block("members")?;
        wait(self.client.members())
    }

    /// Several locks with the clients that hold them; see [`crate::Client::holders`].
    ///
    /// # Errors
    /// As [`crate::Client::holders`], and `Misused` in async code.
    pub fn holders(&self, names: &[impl AsRef<str> + Sync]) -> Result<Vec<Row>> {
        thread::may_block("holders")?;
        wait(self.client.holders(names))
    }

    /// Takes a lock from its holder. Returns the row that the lock had then, if it was held. Read
    /// [`crate::Client::evict`] first.
    ///
    /// # Errors
    /// As [`crate::Client::evict`], and `Misused` in async code.
    pub fn evict(&self, name: impl AsRef<str>) -> Result<Option<Row>> {
        thread::may_block("evict")?;
        wait(self.client.evict(name))
    }

    /// Findings about the store and its environment: what may endanger locks, and what is fine.
    ///
    /// # Errors
    /// As [`crate::Client::check`], and `Misused` in async code.
    pub fn check(&self) -> Result<Vec<Finding>> {
        thread::may_block("check")?;
        wait(self.client.check())
    }

    /// Releases every guard, ends every wait and the engine, and returns when the store has answered or after twice the
    /// request timeout. Guards and calls are `Closed` from then on, also calls that wait in other threads.
    ///
    /// # Errors
    /// `Misused` in async code; the client is not closed then.
    pub fn close(&self) -> Result<()> {
        thread::may_block("close")?;
        wait(self.client.close())
    }

    /// Waits until no release is pending and no call is in flight: for tests that inspect the store.
    ///
    /// # Errors
    /// `Misused` in async code.
    pub fn idle(&self) -> Result<()> {
        thread::may_block("idle")?;
        wait(self.client.idle());
        Ok(())
    }
}
