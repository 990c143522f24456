//! The options of a client.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use bandog_core::{Backend, ClientId, Clock, Kind, Member, Result, check_ttl};

use crate::{
    Client,
    engine::{MAX_TURNS, Terms},
    handle::Handle,
    prefix,
};

/// How a client runs. Made by [`Client::options`].
#[derive(Debug, Clone)]
pub struct ClientOptions {
    watchdog: Duration,
    local_turns: NonZeroU32,
    clock: Clock,
    current_runtime: bool,
    max_waiting: NonZeroUsize,
    program: Option<String>,
    prefix: String,
}

/// Default of [`ClientOptions::max_waiting`].
const MAX_WAITING: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99_999);

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            watchdog: Duration::from_secs(30),
            local_turns: MAX_TURNS,
            clock: Clock::system(),
            current_runtime: false,
            max_waiting: MAX_WAITING,
            program: None,
            prefix: String::new(),
        }
    }
}

impl ClientOptions {
    /// The ttl of locks without a lease; they are renewed when a third of it has passed. Default 30 s, as Redisson's
    /// `lockWatchdogTimeout`; 100 ms to 365 days.
    #[must_use]
    pub fn watchdog(mut self, ttl: Duration) -> Self {
        self.watchdog = ttl;
        self
    }

    /// Maximum number of turns that calls of this client take at one hold before the store is asked again, and so the
    /// number of fences that a grant reserves. Default 64, which is also the limit: a client lets others go first after
    /// 64 turns, so a larger number counts as 64. With 1, every turn needs a request to the store.
    #[must_use]
    pub fn local_turns(mut self, turns: NonZeroU32) -> Self {
        self.local_turns = turns;
        self
    }

    /// Runs the engine as a task of the runtime in which the client is made, instead of on a thread of its own.
    ///
    /// It saves two thread switches a call. The price: when that runtime is blocked for longer than a ttl, locks are
    /// lost, and when it ends, the client ends with it. A guard that is dropped just before that end may never be
    /// released, and its lock expires after the ttl: await [`crate::Guard::release`] or [`Client::close`] before.
    #[must_use]
    pub fn on_current_runtime(mut self) -> Self {
        self.current_runtime = true;
        self
    }

    /// The engine's clock. [`Clock::tokio`] lets a test pause it, over the memory backend and on the current runtime.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Maximum number of calls of this client that wait for locks at a time; the next one is `Overloaded`. Default
    /// 100,000: a waiting call takes some hundred bytes, and a program that has more of them will not catch up.
    #[must_use]
    pub fn max_waiting(mut self, calls: NonZeroUsize) -> Self {
        self.max_waiting = calls;
        self
    }

    /// This client's name in the store's registry, for operators who want to know which program holds a lock. Default:
    /// the name of the running program.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.program = Some(name.into());
        self
    }

    /// A prefix of all names of this client in the store, so that several systems can share one store. It ends in `:`,
    /// and has 2 to 256 bytes without control characters. Default: no prefix.
    ///
    /// Names are given and listed without it; [`crate::Guard::key`] and errors contain it. Two prefixes never produce
    /// the same name unless one begins the other: `a:` with the name `b:x` is the lock `x` of the prefix `a:b:`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Starts a client over a backend. No I/O is done yet.
    ///
    /// # Errors
    /// `Misused` for a watchdog out of bounds, a wrong prefix, or outside a runtime after
    /// [`ClientOptions::on_current_runtime`]; `Unavailable` when no thread could be started.
    pub fn over(self, backend: impl Backend) -> Result<Client> {
        let ttl = check_ttl("the watchdog's ttl", self.watchdog)?;
        let prefix = prefix::check(self.prefix)?;
        let here = Member::here(ClientId::random());
        let member = Member { program: self.program.unwrap_or(here.program), prefix, ..here };
        let fences = self.local_turns.min(MAX_TURNS);
        let terms = Terms { kind: Kind::Mutex, ttl, watchdog: true, fences, max_hold: None, quiet: false };
        Handle::start(backend, member, terms, self.max_waiting, self.clock, self.current_runtime).map(Client::of)
    }
}
