//! State that the tasks of one client share: the client, its history, and the resources that the locks protect.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bandog::{Client, backend::Clock};

use super::handle::Proof;
use crate::{
    history::{CallId, Event, Files, Log, Nanos, Outcome, ResourceWrite, claim_number, nanos},
    plan::RESOURCES,
    settings::WorkerArgs,
};

/// One client and its files.
///
/// Async tasks write the files directly. A write takes only microseconds, and a task must record an event before it
/// acts on the event.
#[derive(Debug)]
pub(super) struct ClientContext {
    pub(super) client: Client,
    pub(super) number: u32,
    /// Number of calls so far.
    calls: AtomicU64,
    log: Log,
    /// For each lock and each election, the log of the resource that it protects.
    resources: Vec<Log>,
    clock: Clock,
    /// The time by which the clock of this process is ahead of the machine's clock.
    ahead: Nanos,
}

impl ClientContext {
    pub(super) fn open(client: Client, number: u32, args: &WorkerArgs) -> Self {
        let files = Files::in_dir(&args.dir);
        let open = |path: std::path::PathBuf| Log::open(&path).expect("the history's directory can be written to");
        Self {
            client,
            number,
            calls: AtomicU64::new(0),
            log: open(files.client(number)),
            resources: (0..RESOURCES).map(|name| open(files.resource(name))).collect(),
            clock: Clock::system(),
            ahead: args.ahead * 1_000_000_000,
        }
    }

    /// The present time by the machine's clock.
    pub(super) fn now(&self) -> Nanos {
        self.clock.now().as_nanos().saturating_sub(self.ahead)
    }

    /// The number of the next call.
    pub(super) fn next_call(&self) -> CallId {
        self.calls.fetch_add(1, Relaxed)
    }

    /// Writes an event to the client's history.
    pub(super) fn note(&self, event: &Event) {
        self.log.write(event);
    }

    /// Records the end of a call.
    pub(super) fn answered(&self, call: CallId, outcome: Outcome) {
        self.note(&Event::Answered { call, at: self.now(), outcome });
    }

    /// Records a grant, and writes to the protected resource.
    pub(super) fn begin(&self, name: usize, call: CallId, guard: &dyn Proof) {
        let (at, until) = self.deadline(guard);
        let (fence, claim) = (guard.fence(), claim_number(&guard.claim().to_string()));
        self.note(&Event::Granted { call, at, fence, until, claim });
        self.write(name, guard, call);
    }

    /// Writes to the resource for the second time, and records the last check of the guard. If the lock is lost, this
    /// method writes only if `late` is true. Returns whether the lock was held.
    pub(super) fn end(&self, name: usize, call: CallId, guard: &dyn Proof, late: bool) -> bool {
        if !guard.is_lost() || late {
            self.write(name, guard, call);
        }
        let (at, held) = (self.now(), !guard.is_lost());
        self.note(&Event::Ended { call, at, held, writes: 2 });
        held
    }

    /// Writes to the protected resource, with the fence of the guard.
    fn write(&self, name: usize, guard: &dyn Proof, call: CallId) {
        self.resources[name].write(&ResourceWrite { fence: guard.fence(), client: self.number, call });
    }

    /// The present time, and the deadline of the guard (the time at which its hold expires). This method reads the
    /// clock first, and the remaining time of the guard second. So the returned deadline is never too late, even if the
    /// process is paused between the two reads.
    pub(super) fn deadline(&self, guard: &dyn Proof) -> (Nanos, Nanos) {
        let at = self.now();
        (at, at + nanos(guard.remaining()))
    }
}
