//! What the tasks of one client share: its history, and the resources that the locks protect.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bandog::{Client, Clock, Guard};

use crate::{
    args::WorkerArgs,
    history::{CallId, Entry, Event, Files, Log, Nanos, nanos},
};

/// One client and where it writes.
///
/// The files are written from async tasks without a hop to another thread: it takes microseconds, and what has been
/// told must be written down before anything follows from it.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) client: Client,
    number: u32,
    calls: AtomicU64,
    log: Log,
    resources: Vec<Log>,
    clock: Clock,
    /// What to take away from the clock to get the machine's.
    ahead: Nanos,
}

impl Desk {
    pub(super) fn open(client: Client, number: u32, args: &WorkerArgs) -> Self {
        let files = Files::in_dir(&args.dir);
        let open = |path: std::path::PathBuf| Log::open(&path).expect("the history's directory can be written to");
        Self {
            client,
            number,
            calls: AtomicU64::new(0),
            log: open(files.client(number)),
            resources: (0..args.names).map(|name| open(files.resource(name))).collect(),
            clock: Clock::system(),
            ahead: args.ahead * 1_000_000_000,
        }
    }

    pub(super) fn now(&self) -> Nanos {
        self.clock.now().as_nanos().saturating_sub(self.ahead)
    }

    pub(super) fn next_call(&self) -> CallId {
        self.calls.fetch_add(1, Relaxed)
    }

    pub(super) fn note(&self, event: &Event) {
        self.log.write(event);
    }

    /// Writes to the resource as a holder would, with the fence.
    pub(super) fn write(&self, name: usize, guard: &Guard, call: CallId) {
        self.resources[name].write(&Entry { fence: guard.fence().get(), client: self.number, call });
    }

    /// Until when the guard says that it holds. The clock is read first: so the deadline is never too late, however
    /// long the process stands still between the two.
    pub(super) fn look(&self, guard: &Guard) -> (Nanos, Nanos) {
        let at = self.now();
        (at, at + nanos(guard.remaining()))
    }
}
