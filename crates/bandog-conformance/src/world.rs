//! What a backend's tests lend to the laws: a store, ways to it, and the harm that can be done to it.

use std::time::Duration;

use async_trait::async_trait;
use bandog_core::{Backend, Clock, Error};
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

/// A store of one backend, made for one test.
///
/// The powers at the end are those that not every store has. A law that needs one that is missing is printed with
/// the reason that the power gives.
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
    fn options(&self) -> ClientOptions;

    /// The clock that clients read.
    fn clock(&self) -> Clock;

    /// A ttl that is short enough to wait for, and long enough for a loaded machine to renew in time.
    fn ttl(&self) -> Duration;

    /// How late anything may come on a loaded machine.
    fn slack(&self) -> Duration;

    /// How soon a waiter usually has the lock that another client released. Shorter than half a second, after which
    /// waiters look again without a bell.
    fn prompt(&self) -> Duration;

    /// What is in the store by a raw look: holds, and whatever waiters leave; not the tokens that stay for good.
    async fn left(&self) -> Vec<String>;

    /// Takes a hold out of the store behind everybody's back. Waiters need not hear of it.
    async fn forget(&self, key: &str) -> Can;

    /// Puts records under some names that are not of this backend's making, and returns these names. Each is either
    /// somebody's hold or no lock at all, and nobody may change it.
    async fn plant(&self) -> Can<Vec<String>>;

    /// The raw record under a name, as text that differs when the record does.
    async fn raw(&self, key: &str) -> Can<String>;

    /// Kills the store and starts it again, empty.
    async fn restart_empty(&self) -> Can;

    /// Breaks every connection; new ones are welcome.
    async fn cut(&self) -> Can;

    /// While on, the store does what it is asked and its answers are lost.
    async fn lose_answers(&self, on: bool) -> Can;

    /// While on, the store stands still: it answers nothing, and does all that it was asked when it goes on.
    async fn stand_still(&self, on: bool) -> Can;

    /// How many connections (or files) the backends of this process have open to the store.
    async fn connections(&self) -> Can<usize>;

    /// Moves this process's wall clock.
    async fn jump(&self) -> Can;

    /// Where the store is, for a child process.
    fn address(&self) -> Can<String>;

    /// In a child process: a backend on the store at this address.
    fn backend_at(address: &str) -> Can<Self::Backend>;

    /// Asserts that a hold with this owner and this last fence lies in the store exactly as documented, `ttl` at most
    /// from its end.
    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can;

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
