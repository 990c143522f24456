//! What a backend's tests lend to the laws: a store, ways to it, and the harm that can be done to it.

use std::time::Duration;

use async_trait::async_trait;
use bandog_core::{Backend, Clock, Error, Inspect, Pattern};
use bandog_sync::{Client, ClientOptions};

/// Why a law was not kept.
#[derive(Debug)]
pub enum Unkept {
    /// It cannot be tried here, for this reason.
    Cannot(&'static str),
    /// A call failed that should have gone well.
    Failed(Error),
}

impl From<Error> for Unkept {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How the trial of a law ends. A law that is broken panics or fails.
pub type Law = Result<(), Unkept>;

/// What a world can do, or why it cannot.
pub type Can<T = ()> = Result<T, Unkept>;

/// Why a law is not tried that needs a power which nobody has written.
const NOT_WRITTEN: Unkept = Unkept::Cannot("its tests do not say how");

/// A store of one backend, made for one test.
///
/// The first three are all that it takes. The powers at the end are those that not every store has. A law that needs
/// one that is missing is printed with the reason that the power gives.
#[async_trait]
pub trait World: Send + Sync + Sized + 'static {
    /// The backend's name.
    const NAME: &'static str;
    /// The backend.
    type Backend: Backend;

    /// Starts an empty store.
    async fn start() -> Self;

    /// A new backend on this store, as another process would make one.
    fn backend(&self) -> Self::Backend;

    /// How clients run over it: which clock, and where the engine runs.
    fn options(&self) -> ClientOptions {
        Client::options()
    }

    /// The clock that clients read.
    fn clock(&self) -> Clock {
        Clock::system()
    }

    /// A ttl that is short enough to wait for, and long enough for a loaded machine to renew in time.
    fn ttl(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// How late anything may come on a loaded machine.
    fn slack(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// How soon a waiter usually has the lock that another client released. Shorter than half a second, after which
    /// waiters look again without a bell; for a backend that cannot ring, a second and a little.
    fn prompt(&self) -> Duration {
        Duration::from_millis(250)
    }

    /// What is in the store: holds, and whatever waiters leave; not the tokens that stay for good. A raw look finds
    /// more than the backend's own list, which it is by default.
    async fn left(&self) -> Vec<String> {
        let rows = self.backend().list(&Pattern::all()).await.expect("a look at the store");
        rows.into_iter().map(|row| row.name).collect()
    }

    /// How many names are locked where a law speaks of many.
    fn many(&self) -> usize {
        1_000
    }

    /// Whether the backend keeps a registry of clients.
    fn registry(&self) -> Can {
        Ok(())
    }

    /// Whether the backend keeps records.
    fn records(&self) -> Can {
        Ok(())
    }

    /// Takes a hold out of the store behind everybody's back. Waiters need not hear of it.
    async fn forget(&self, key: &str) -> Can {
        let _ = key;
        Err(NOT_WRITTEN)
    }

    /// Puts records under some names that are not of this backend's making, and returns these names. Each is either
    /// somebody's hold or no lock at all, and nobody may change it.
    async fn plant(&self) -> Can<Vec<String>> {
        Err(NOT_WRITTEN)
    }

    /// The raw record under a name, as text that differs when the record does.
    async fn raw(&self, key: &str) -> Can<String> {
        let _ = key;
        Err(NOT_WRITTEN)
    }

    /// Puts what is not of this backend's making where it keeps records, and returns the names of these records.
    /// Nobody can read them, and nobody may change them.
    async fn plant_records(&self) -> Can<Vec<String>> {
        Err(NOT_WRITTEN)
    }

    /// Ends the store in order, with all that it keeps, and starts it again.
    async fn restart(&self) -> Can {
        Err(NOT_WRITTEN)
    }

    /// Kills the store and starts it again, empty.
    async fn restart_empty(&self) -> Can {
        Err(NOT_WRITTEN)
    }

    /// Breaks every connection; new ones are welcome.
    async fn cut(&self) -> Can {
        Err(NOT_WRITTEN)
    }

    /// While on, the store does what it is asked and its answers are lost.
    async fn lose_answers(&self, on: bool) -> Can {
        let _ = on;
        Err(NOT_WRITTEN)
    }

    /// While on, the store stands still: it answers nothing, and does all that it was asked when it goes on.
    async fn stand_still(&self, on: bool) -> Can {
        let _ = on;
        Err(NOT_WRITTEN)
    }

    /// How many connections (or files) the backends of this process have open to the store.
    async fn connections(&self) -> Can<usize> {
        Err(NOT_WRITTEN)
    }

    /// Moves this process's wall clock.
    async fn jump(&self) -> Can {
        Err(NOT_WRITTEN)
    }

    /// Where the store is, for a child process.
    fn address(&self) -> Can<String> {
        Err(NOT_WRITTEN)
    }

    /// In a child process: a backend on the store at this address.
    fn backend_at(address: &str) -> Can<Self::Backend> {
        let _ = address;
        Err(NOT_WRITTEN)
    }

    /// Asserts that a hold with this owner and this last fence lies in the store exactly as documented, `ttl` at most
    /// from its end.
    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        let _ = (key, owner, fence, ttl);
        Err(NOT_WRITTEN)
    }

    /// A client over this backend, with a ttl that no test lives to see.
    fn over(&self, backend: impl Backend) -> Client {
        self.options().over(backend).expect("a client can be made")
    }

    /// A client whose holds end after `ttl` if they are not renewed.
    fn brisk_over(&self, ttl: Duration, backend: impl Backend) -> Client {
        self.options().watchdog(ttl).over(backend).expect("a client can be made")
    }

    /// A client of its own on the store, with a ttl that no test lives to see.
    fn client(&self) -> Client {
        self.over(self.backend())
    }

    /// A client of its own on the store, whose holds end after a short ttl if they are not renewed.
    fn brisk(&self) -> Client {
        self.brisk_over(self.ttl(), self.backend())
    }
}
