//! The trait [`World`], which the tests of a backend implement for the laws. A world is a store, with functions that
//! make backends for this store and that inject faults.

use std::time::Duration;

use async_trait::async_trait;
use bandog_core::{Backend, Clock, Error, Inspect, Pattern};
use bandog_sync::{Client, ClientOptions};

/// The reason why a law was not kept on a world.
#[derive(Debug)]
pub enum Unkept {
    /// The law does not apply to this world. The text is the reason. The test of the law prints this reason and passes.
    Cannot(&'static str),
    /// The law passed for the kinds of locks that this world supports. The text names the other kinds.
    Partly(String),
    /// A call failed that should have succeeded.
    Failed(Error),
}

impl From<Error> for Unkept {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The result of a law. If the law is broken, it panics or returns [`Unkept::Failed`].
pub type Law = Result<(), Unkept>;

/// The result of an optional operation of a world. If the world does not support the operation, the result is
/// [`Unkept::Cannot`] with the reason.
pub type Can<T = ()> = Result<T, Unkept>;

/// The result of each optional operation that a world does not implement.
const NOT_WRITTEN: Unkept = Unkept::Cannot("the tests of this backend do not implement a method that the law needs");

/// A store of one backend, created for one test.
///
/// Only the items without a default are required. The methods that return [`Can`] are optional. If a law needs such a
/// method and the world does not support it, the law does not apply, and its test prints the reason.
#[async_trait]
pub trait World: Send + Sync + Sized + 'static {
    /// The backend's name.
    const NAME: &'static str;
    /// The backend.
    type Backend: Backend;

    /// Starts an empty store.
    async fn start() -> Self;

    /// A new backend for this store. The new backend shares nothing with earlier backends, as if it were in another
    /// process.
    fn backend(&self) -> Self::Backend;

    /// Another handle of the store that can repeat the calls of `ours`. The default is a new backend. A store whose claims
    /// belong to the session of a client returns a clone of `ours`.
    fn peer(&self, ours: &Self::Backend) -> Self::Backend {
        let _ = ours;
        self.backend()
    }

    /// The options of the clients that laws make, for example the clock of a client.
    fn options(&self) -> ClientOptions {
        Client::options()
    }

    /// The clock of the clients that laws make.
    fn clock(&self) -> Clock {
        Clock::system()
    }

    /// The ttl of the holds in laws about expiry. Such a law waits until this ttl has passed, so the ttl must be short.
    /// But the ttl must also be long enough that renewals succeed on a loaded machine.
    fn ttl(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// Maximum delay of any event on a loaded machine.
    fn slack(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// Upper bound for the lower quartile of the times from the release of a lock until a waiter of another client has the
    /// lock. On a loaded machine, the median can be several times the usual time.
    ///
    /// If the backend has notifications, the bound must be less than half a second. A waiter can poll after half a
    /// second, and with a longer bound the law could not distinguish a poll from a notification. If the backend has no
    /// notifications, the bound is a little more than a second.
    fn prompt(&self) -> Duration {
        Duration::from_millis(250)
    }

    /// The data of holds and of waiters in the store. Fences and the limits of semaphores are not included, because
    /// they always stay in the store. The default is the backend's list of locks. A world that reads the raw store also
    /// finds the data of waiters.
    async fn left(&self) -> Vec<String> {
        let rows = self.backend().list(&Pattern::all()).await.expect("cannot list the locks");
        rows.into_iter().map(|row| row.name).collect()
    }

    /// The number of names in the laws about many names.
    fn many(&self) -> usize {
        1_000
    }

    /// Returns `Ok` if the backend supports the registry of clients.
    fn registry(&self) -> Can {
        Ok(())
    }

    /// Returns `Ok` if the backend supports records.
    fn records(&self) -> Can {
        Ok(())
    }

    /// Whether the backend notifies only the next claim in the queue of a fair mutex. A backend is allowed to notify
    /// all waiters instead ([`bandog_core::Leases::subscribe`]).
    fn notifies_the_next_only(&self) -> Can {
        Ok(())
    }

    /// Whether a name that was used as a semaphore can be used as another lock when no claim holds a permit.
    fn frees_names_of_semaphores(&self) -> Can {
        Ok(())
    }

    /// Whether the store makes offers to clients that starve. A store that grants every lock in the order of a queue has no
    /// such clients, if they subscribe.
    fn offers(&self) -> Can {
        Ok(())
    }

    /// Whether a claim of a mutex or of a writer, or a starving claim of a reader, can get the lock before claims that have a
    /// place. A store that grants every lock in the order of a queue refuses such a claim.
    fn barges(&self) -> Can {
        Ok(())
    }

    /// Whether a claim that is sent again while it holds its lock always gets the same fences. A quorum gives it greater
    /// fences if another majority answers.
    fn keeps_fences(&self) -> Can {
        Ok(())
    }

    /// Whether a swap may require a holding of a lock with any name.
    fn holdings_of_any_lock(&self) -> Can {
        Ok(())
    }

    /// Whether the store accepts this name. A store may refuse some names.
    fn accepts(&self, name: &str) -> bool {
        let _ = name;
        true
    }

    /// Removes a hold from the store without using a backend. It is not necessary to notify the waiters.
    async fn forget(&self, key: &str) -> Can {
        let _ = key;
        Err(NOT_WRITTEN)
    }

    /// Writes foreign data under some names of locks, and returns these names. The data are either a hold of another
    /// library or not a lock at all. The backend must not change them.
    async fn plant(&self) -> Can<Vec<String>> {
        Err(NOT_WRITTEN)
    }

    /// The raw data under a lock's name, as text. Different data must give different texts.
    async fn raw(&self, key: &str) -> Can<String> {
        let _ = key;
        Err(NOT_WRITTEN)
    }

    /// Writes foreign data under some names of records, and returns these names. The backend cannot read these data and
    /// must not change them.
    async fn plant_records(&self) -> Can<Vec<String>> {
        Err(NOT_WRITTEN)
    }

    /// Shuts the store down regularly and starts it again. The store keeps its data.
    async fn restart(&self) -> Can {
        Err(NOT_WRITTEN)
    }

    /// Kills the store, and starts it again without its data.
    async fn restart_empty(&self) -> Can {
        Err(NOT_WRITTEN)
    }

    /// Breaks all connections. The store accepts new connections.
    async fn cut(&self) -> Can {
        Err(NOT_WRITTEN)
    }

    /// While `on` is true, the store applies requests, but its answers are lost.
    async fn lose_answers(&self, on: bool) -> Can {
        let _ = on;
        Err(NOT_WRITTEN)
    }

    /// While `on` is true, the store is stopped and answers nothing. When the store continues, it applies all requests
    /// that were sent in the meantime.
    async fn stand_still(&self, on: bool) -> Can {
        let _ = on;
        Err(NOT_WRITTEN)
    }

    /// The number of connections, or of files, that the backends of this process have open.
    async fn connections(&self) -> Can<usize> {
        Err(NOT_WRITTEN)
    }

    /// Makes the wall clock of this process jump to another time.
    async fn jump(&self) -> Can {
        Err(NOT_WRITTEN)
    }

    /// The address of the store, for a child process.
    fn address(&self) -> Can<String> {
        Err(NOT_WRITTEN)
    }

    /// Makes a backend for the store at this address. Child processes call this function.
    fn backend_at(address: &str) -> Can<Self::Backend> {
        let _ = address;
        Err(NOT_WRITTEN)
    }

    /// Asserts that the store has a hold with this owner and this last fence, that the hold has exactly the documented
    /// layout, and that the hold expires within `ttl`.
    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        let _ = (key, owner, fence, ttl);
        Err(NOT_WRITTEN)
    }

    /// A client that uses this backend. The ttl of its holds is longer than any test.
    fn over(&self, backend: impl Backend) -> Client {
        self.options().over(backend).expect("cannot make a client")
    }

    /// A client that uses this backend and renews its holds often: the holds expire after `ttl` if the client does not
    /// renew them.
    fn brisk_over(&self, ttl: Duration, backend: impl Backend) -> Client {
        self.options().watchdog(ttl).over(backend).expect("cannot make a client")
    }

    /// A client with a new backend of its own. The ttl of its holds is longer than any test.
    fn client(&self) -> Client {
        self.over(self.backend())
    }

    /// A client with a new backend of its own that renews its holds often: the holds expire after [`World::ttl`] if the
    /// client does not renew them.
    fn brisk(&self) -> Client {
        self.brisk_over(self.ttl(), self.backend())
    }
}
