//! The kinds of exits: a cell for each combination of engine, runtime, store and way to end.

use std::{fmt, time::Duration};

use clap::ValueEnum;

use crate::settings::name;

/// Timeout of one request to the store. The timeout is short, because many programs wait for a store that does not
/// answer.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(200);

/// One kind of exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(crate) struct Cell {
    #[arg(value_enum)]
    pub(crate) engine: Engine,
    #[arg(value_enum)]
    pub(crate) runtime: Ends,
    #[arg(value_enum)]
    pub(crate) store: Store,
    #[arg(value_enum)]
    pub(crate) way: Way,
}

/// The place where the client's engine (its background task) runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    OwnThread,
    CurrentRuntime,
}

/// The program's runtime, and how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ends {
    /// The runtime has two workers, and is dropped at the end.
    MultiThread,
    /// The runtime has no worker, and is dropped at the end.
    CurrentThread,
    /// The runtime has two workers, and ends with `shutdown_background`.
    ShutdownBackground,
    /// The runtime has two workers, and ends with `shutdown_timeout`.
    ShutdownTimeout,
    /// The program has no runtime.
    None,
}

/// The store, and its state when the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    Memory,
    Sqlite,
    Redis,
    /// The server was killed, so its port refuses connections.
    RedisKilled,
    /// The server was stopped with a signal, so it does not answer.
    RedisStopped,
}

/// The way in which the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// The guard is dropped, then the client, then the runtime.
    Dropped,
    /// The guard is released, and the client is closed.
    Released,
    /// The guard is released, and the client is dropped without a close.
    NoClose,
    /// The guard is leaked.
    Forgotten,
    /// A task that never ends holds the guard.
    Task,
    /// A task waits for a lock that another client of this process holds.
    Waiting,
    /// `main` panics while it holds the lock.
    Panic,
    /// `main` drops the guard and the client after the runtime has ended.
    Return,
    /// The program calls `process::exit` while it holds the lock.
    Exit,
    /// The client is in a static variable, and is never dropped.
    Static,
    /// A scheduler is dropped while a run is in progress.
    Job,
    /// A scheduler is stopped while a run is in progress.
    Stop,
    /// The guard is a guard of `bandog::blocking`. If the program has a runtime, a task of `spawn_blocking` holds the
    /// guard.
    Blocking,
}

/// Maximum time for which the drop of the client's last handle waits for the store. The documentation of `Client`
/// promises this maximum. The drop waits only if the engine has its own thread.
const LAST_WAIT: Duration = Duration::from_millis(100);
/// Maximum time that a release waits for a store that does not answer. The value is the sum of three times: the time in
/// which new attempts can begin (one request timeout), the longest pause before the last attempt (250 ms), and the
/// duration of the last attempt (one request timeout).
const RELEASE: Duration = Duration::from_millis(250).saturating_add(TIMEOUT.saturating_mul(2));
/// The timeout that the program passes to the runtime's method `shutdown_timeout`.
pub(crate) const SHUTDOWN: Duration = Duration::from_millis(100);
/// Time that a stopping scheduler gives its runs to end by themselves.
pub(crate) const DRAIN: Duration = Duration::from_millis(20);
/// Time that a cancelled run has to end.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

impl Cell {
    /// In this cell, about one of a hundred exits hung because of a bug. The bug is fixed.
    pub(crate) const SUSPECT: Self =
        Self { engine: Engine::CurrentRuntime, runtime: Ends::MultiThread, store: Store::Redis, way: Way::Dropped };

    /// All combinations, also those that make no sense.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let stores = Store::value_variants().iter();
        stores.flat_map(|store| {
            Way::value_variants().iter().flat_map(move |way| {
                Engine::value_variants().iter().flat_map(move |engine| {
                    let ends = Ends::value_variants().iter();
                    ends.map(move |runtime| Self { engine: *engine, runtime: *runtime, store: *store, way: *way })
                })
            })
        })
    }

    /// The reason why this combination is not played. `None` if the combination is played.
    pub(crate) fn makes_no_sense(self) -> Option<&'static str> {
        match (self.engine, self.runtime, self.way) {
            (Engine::CurrentRuntime, _, Way::Blocking) => {
                Some("the library refuses blocking calls, because this engine cannot run while a call blocks")
            }
            (Engine::CurrentRuntime, Ends::None, _) => Some("an engine on the current runtime needs a runtime"),
            (_, Ends::None, way) if way != Way::Blocking => Some("async calls need a runtime"),
            (_, Ends::ShutdownBackground | Ends::ShutdownTimeout, Way::Exit) => Some(
                "process::exit ends the program before the runtime ends, so the result is the same as for multi-thread",
            ),
            _ => None,
        }
    }

    /// The exit code that the program must have.
    pub(crate) fn code(self) -> u8 {
        match self.way {
            Way::Panic => 101,
            Way::Exit => 7,
            Way::Return => 3,
            _ => 0,
        }
    }

    /// Maximum time from the moment when the program is ordered to end until its exit, according to the documentation.
    pub(crate) fn bound(self) -> Duration {
        // The time for the drop of the last handles. With `Way::Waiting`, the program has two clients.
        let last = match (self.engine, self.way) {
            (Engine::CurrentRuntime, _) => Duration::ZERO,
            (Engine::OwnThread, Way::Waiting) => LAST_WAIT * 2,
            (Engine::OwnThread, _) => LAST_WAIT,
        };
        // The time for the calls that the program makes when it ends.
        let way = match self.way {
            Way::Released => RELEASE + TIMEOUT * 2, // `close` waits for two timeouts.
            Way::NoClose => RELEASE,
            // Four requests: the request in flight, the report of the run's end, the end of the node's session, and the
            // notification of other nodes.
            Way::Stop => DRAIN + GRACE + TIMEOUT * 4,
            _ => Duration::ZERO,
        };
        let runtime = if self.runtime == Ends::ShutdownTimeout { SHUTDOWN } else { Duration::ZERO };
        last + way + runtime
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, runtime, store, way } = self;
        write!(f, "{}/{}/{}/{}", name(store), name(way), name(engine), name(runtime))
    }
}
