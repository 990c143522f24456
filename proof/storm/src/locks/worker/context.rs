//! State that the tasks of one client share: the client, its history, and the resources that the locks protect.

use bandog::{Client, Error, ErrorKind};

use super::handle::Proof;
use crate::{
    calls::{self, Outcome, Process, Recorder},
    history::{CallId, Log, Nanos, nanos, now},
    locks::history::{Locks, Name, Note, ResourceWrite, claim_number},
    plan::RESOURCES,
    settings::WorkerArgs,
};

/// One client and its files.
///
/// Async tasks write the files directly. A write takes only microseconds, and a task must record an event before it
/// acts on the event.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) number: u32,
    pub(super) args: WorkerArgs,
    pub(super) recorder: Recorder<Locks>,
    /// For each lock and each election, the log of the resource that it protects.
    resources: Vec<Log>,
}

impl Context {
    pub(super) fn open(client: &Client, number: u32, process: &Process) -> Self {
        let (recorder, files) = (Recorder::open(&process.path(number)), process.files());
        let resources = (0..RESOURCES).map(|name| Log::open(&files.resource(name))).collect();
        Self { client: client.clone(), number, args: process.args.clone(), recorder, resources }
    }

    /// Records a grant, and writes to the protected resource.
    pub(super) fn begin(&self, name: usize, call: CallId, guard: &dyn Proof) {
        let (_, until) = deadline(guard);
        let (fence, claim) = (guard.fence(), claim_number(&guard.claim().to_string()));
        self.recorder.end(call, Outcome::Granted { fence, until, claim });
        self.write(name, guard, call);
    }

    /// Writes to the resource for the second time, and records the last check of the guard. If the lock is lost, this
    /// method writes only if `late` is true. Returns whether the lock was held.
    pub(super) fn end(&self, name: usize, call: CallId, guard: &dyn Proof, late: bool) -> bool {
        if !guard.is_lost() || late {
            self.write(name, guard, call);
        }
        let (at, held) = (now(), !guard.is_lost());
        self.recorder.note(Note::Left { call, name: Name(name), at, held, writes: 2 });
        held
    }

    /// Writes to the protected resource, with the fence of the guard.
    fn write(&self, name: usize, guard: &dyn Proof, call: CallId) {
        self.resources[name].write(&ResourceWrite { fence: guard.fence(), client: self.number, call });
    }
}

impl calls::Context for Context {
    type Words = Locks;

    fn client(&self) -> u32 {
        self.number
    }

    fn recorder(&self) -> &Recorder<Locks> {
        &self.recorder
    }

    fn outcome(_: Name, error: &Error) -> Outcome {
        match error.kind() {
            ErrorKind::Unavailable if error.maybe_applied() => Outcome::Unclear,
            ErrorKind::Unavailable => Outcome::Refused,
            ErrorKind::NotReplicated => Outcome::NotReplicated,
            ErrorKind::Lost => Outcome::Lost,
            // The checker knows whether the semaphore can have had another limit.
            ErrorKind::Misused => Outcome::OtherLimit,
            _ => Outcome::Broken,
        }
    }
}

/// The present time, and the deadline of the guard (the time at which its hold expires). This function reads the clock
/// first, and the remaining time of the guard second. So the returned deadline is never too late, even if the process is
/// paused between the two reads.
pub(super) fn deadline(guard: &dyn Proof) -> (Nanos, Nanos) {
    let at = now();
    (at, at + nanos(guard.remaining()))
}
