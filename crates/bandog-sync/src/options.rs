//! The options of a client.

use std::{num::NonZeroU8, time::Duration};

use bandog_core::{Backend, BlockedCalls, ClientId, Clock, Error, Kind, Member, Result, check_ttl};

use crate::{Client, engine::MAX_TURNS, handle::Handle, prefix, terms::Terms};

/// The options of a client. Created by [`Client::options`].
#[derive(Debug, Clone)]
pub struct ClientOptions {
    // Each field is explained at the method with the same name.
    watchdog: Duration,
    local_turns: u32,
    clock: Clock,
    // Set by `on_current_runtime`.
    current_runtime: bool,
    max_waiting: usize,
    program: Option<String>,
    prefix: String,
    // Set by `lends`.
    lends: bool,
}

/// Default of [`ClientOptions::max_waiting`].
const MAX_WAITING: usize = 100_000;

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            watchdog: Duration::from_secs(30),
            local_turns: MAX_TURNS.get(),
            clock: Clock::system(),
            current_runtime: false,
            max_waiting: MAX_WAITING,
            program: None,
            prefix: String::new(),
            lends: false,
        }
    }
}

impl Client {
    /// Starts a client with default options over a backend. This does no I/O.
    ///
    /// # Errors
    /// As [`ClientOptions::over`].
    pub fn over(backend: impl Backend) -> Result<Self> {
        Self::options().over(backend)
    }

    /// Returns the default options of a client. [`ClientOptions::over`] starts the client.
    pub fn options() -> ClientOptions {
        ClientOptions::default()
    }
}

impl ClientOptions {
    /// The ttl of locks without a fixed lease. A held lock is renewed each time a third of its ttl has passed. The ttl
    /// must be between 100 ms and 365 days. Default: 30 s, like Redisson's `lockWatchdogTimeout`.
    #[must_use]
    pub fn watchdog(mut self, ttl: Duration) -> Self {
        self.watchdog = ttl;
        self
    }

    /// Maximum number of calls of this client that get a lock one after another without a new request to the store.
    /// This number is also the number of fences that the store reserves with one grant. Default: 64. A larger number
    /// counts as 64, because a client releases a lock after 64 calls, so that other clients can get the lock. With 1,
    /// each call needs a request to the store.
    #[must_use]
    pub fn local_turns(mut self, turns: u32) -> Self {
        self.local_turns = turns;
        self
    }

    /// Runs the engine (the part of the client that sends the requests) as a task of the runtime in which the client is
    /// started. Without this option, the engine has its own thread.
    ///
    /// This option saves two thread switches for each call, but it has two disadvantages. If the runtime is blocked for
    /// longer than a ttl, locks are lost. And the client ends when this runtime ends. If a guard was dropped shortly
    /// before the end of the runtime, the release might never be sent. The lock of that guard then expires after its
    /// ttl. To prevent this, await [`crate::Guard::release`] or [`Client::close`] before the runtime ends.
    #[must_use]
    pub fn on_current_runtime(mut self) -> Self {
        self.current_runtime = true;
        self
    }

    /// The clock of the client. With [`Clock::tokio`], a test can pause the time. For this, the test must use the
    /// memory backend and [`ClientOptions::on_current_runtime`].
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Maximum number of calls of this client that wait for locks at the same time. Further calls return
    /// `ErrorKind::Overloaded`. Default: 100,000. Each waiting call takes some hundred bytes of memory. A program with
    /// even more waiting calls usually has a problem that waiting does not solve.
    #[must_use]
    pub fn max_waiting(mut self, calls: usize) -> Self {
        self.max_waiting = calls;
        self
    }

    /// The name of this client in the store's registry. Operators see this name when they ask which program holds a
    /// lock, so it must not be empty or blank. Default: the name of the running program.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.program = Some(name.into());
        self
    }

    /// A prefix for all names of this client in the store, so that several systems can share one store. The prefix must
    /// end in `:`, and must have 2 to 256 bytes and no control characters. Default: no prefix.
    ///
    /// Calls and lists use names without the prefix. [`crate::Guard::key`] and errors contain the prefix. Two systems
    /// can have the same lock only if one prefix begins with the other. For example, the name `b:x` with the prefix
    /// `a:` is the same lock as the name `x` with the prefix `a:b:`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// For a client whose holds belong to other processes, too: these processes can wait for locks on behalf of this
    /// client's holds. So the search for deadlocks includes their calls.
    #[doc(hidden)]
    #[must_use]
    pub fn lends(mut self) -> Self {
        self.lends = true;
        self
    }

    /// Checks the values of these options, as [`ClientOptions::over`] does.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the ttl, the prefix or the program's name is not allowed, or `local_turns` or `max_waiting`
    /// is 0.
    pub fn check(&self) -> Result<()> {
        check_ttl("the watchdog's ttl", self.watchdog)?;
        prefix::check(&self.prefix)?;
        self.fences()?;
        if self.max_waiting == 0 {
            return Err(Error::misused("max_waiting is 0; it must be at least 1"));
        }
        if let Some(program) = self.program.as_ref().filter(|program| program.trim().is_empty()) {
            return Err(Error::misused(format!("the name of the program is {program:?}; it must not be blank")));
        }
        Ok(())
    }

    /// Starts a client over a backend. This does no I/O.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: as [`ClientOptions::check`], or the option [`ClientOptions::on_current_runtime`] was used
    ///   outside a Tokio runtime.
    /// - `ErrorKind::Unavailable`: no thread could be started.
    pub fn over(self, backend: impl Backend) -> Result<Client> {
        self.check()?;
        let (ttl, fences) = (self.watchdog, self.fences()?);
        let here = Member::here(ClientId::random());
        let blocked = BlockedCalls { lends: self.lends, ..BlockedCalls::default() };
        let program = self.program.unwrap_or(here.program);
        let member = Member { program, prefix: self.prefix, blocked, ..here };
        let terms = Terms { kind: Kind::Mutex, ttl, watchdog: true, fences, max_hold: None, quiet: false };
        Handle::start(backend, member, terms, self.max_waiting, self.clock, self.current_runtime).map(Client::of)
    }

    /// The number of fences that the store reserves with one grant.
    fn fences(&self) -> Result<NonZeroU8> {
        let of_turns = u8::try_from(self.local_turns.min(MAX_TURNS.get())).ok().and_then(NonZeroU8::new);
        of_turns.ok_or_else(|| Error::misused("local_turns is 0; it must be at least 1"))
    }
}
