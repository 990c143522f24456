//! Locks, semaphores and latches as typed handles: each belongs to one thread of one neighbour.
//!
//! A function panics if the answer is an error. A function that returns a [`PendingAnswer`] does not wait.

use std::time::Duration;

use crate::neighbour::{Neighbour, PendingAnswer, SOON};

/// The kinds of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Plain,
    Fair,
    Read,
    Write,
    /// A candidate of an election: `LeaderLatch` of Curator.
    Leader,
}

/// One object, used by one thread.
#[derive(Clone)]
struct Object {
    neighbour: Neighbour,
    thread: String,
    kind: &'static str,
    name: String,
}

impl Neighbour {
    fn object(&self, kind: &'static str, thread: &str, name: &str) -> Object {
        Object { neighbour: self.clone(), thread: thread.to_owned(), kind, name: name.to_owned() }
    }

    pub(crate) fn lock(&self, kind: LockKind, thread: &str, name: &str) -> Lock {
        let kind = match kind {
            LockKind::Plain => "lock",
            LockKind::Fair => "fair",
            LockKind::Read => "read",
            LockKind::Write => "write",
            LockKind::Leader => "leader",
        };
        Lock(self.object(kind, thread, name))
    }

    /// `RFencedLock`.
    pub(crate) fn fenced(&self, thread: &str, name: &str) -> FencedLock {
        FencedLock(self.object("fenced", thread, name))
    }

    /// `RPermitExpirableSemaphore`, or a semaphore of bandog. Only bandog names the limit in each call.
    pub(crate) fn leased(&self, thread: &str, name: &str, limit: u32) -> LeasedSemaphore {
        LeasedSemaphore { object: self.object("leased", thread, name), limit: limit.to_string() }
    }

    /// `RSemaphore`, or a semaphore of bandog with `?semaphores=plain`. Only bandog names the limit in each call.
    pub(crate) fn semaphore(&self, thread: &str, name: &str, limit: u32) -> Semaphore {
        Semaphore { object: self.object("semaphore", thread, name), limit: limit.to_string() }
    }

    /// `InterProcessSemaphoreV2` of Curator, or a semaphore of bandog on ZooKeeper.
    pub(crate) fn permits(&self, thread: &str, name: &str, take: u32, limit: u32) -> Permits {
        let object = self.object("permits", thread, name);
        Permits { object, take: take.to_string(), limit: limit.to_string() }
    }

    /// `RCountDownLatch`.
    pub(crate) fn latch(&self, thread: &str, name: &str) -> Latch {
        Latch(self.object("latch", thread, name))
    }
}

impl Object {
    fn send(&self, verb: &str, args: &[&str]) -> PendingAnswer {
        self.neighbour.command(&self.thread, &[&[self.kind, verb, &self.name], args].concat())
    }

    fn ask(&self, verb: &str, args: &[&str]) -> String {
        self.send(verb, args).answer(SOON)
    }

    /// Asks a question that has two answers.
    #[track_caller]
    fn ask_whether(&self, verb: &str, args: &[&str], yes: &str, no: &str) -> bool {
        let answer = self.ask(verb, args);
        assert!(answer == yes || answer == no, "{verb} of {}: {answer}", self.name);
        answer == yes
    }

    /// Gives a command that can only succeed.
    #[track_caller]
    fn order(&self, verb: &str, args: &[&str], done: &str) {
        assert_eq!(self.ask(verb, args), done, "{verb} of {}", self.name);
    }

    #[track_caller]
    fn number(&self, verb: &str, args: &[&str]) -> u64 {
        let answer = self.ask(verb, args);
        answer.parse().unwrap_or_else(|_| panic!("{verb} of {}: {answer}", self.name))
    }
}

/// A plain lock, a fair lock, or one half of a read-write lock.
#[derive(Clone)]
pub(crate) struct Lock(Object);

impl Lock {
    #[track_caller]
    pub(crate) fn lock(&self) {
        self.0.order("lock", &[], "held");
    }

    #[track_caller]
    pub(crate) fn lock_for_lease(&self, lease: Duration) {
        self.0.order("lease", &[&ms(lease)], "held");
    }

    /// Begins to wait for the lock. The answer is `held`.
    pub(crate) fn waits(&self) -> PendingAnswer {
        self.0.send("lock", &[])
    }

    #[track_caller]
    pub(crate) fn try_lock(&self) -> bool {
        self.0.ask_whether("try", &[], "held", "busy")
    }

    /// Begins to wait for the lock. The answer is `held` or `busy`.
    pub(crate) fn waits_for(&self, wait: Duration) -> PendingAnswer {
        self.0.send("try-for", &[&ms(wait)])
    }

    #[track_caller]
    pub(crate) fn unlock(&self) {
        self.0.order("unlock", &[], "freed");
    }

    /// The error of an attempt to lock that must fail.
    #[track_caller]
    pub(crate) fn refused_lock(&self) -> String {
        let answer = self.0.ask("try", &[]);
        answer.strip_prefix("error ").unwrap_or_else(|| panic!("the lock was not refused: {answer}")).to_owned()
    }

    /// The error of an unlock that must fail.
    #[track_caller]
    pub(crate) fn refused_unlock(&self) -> String {
        let answer = self.0.ask("unlock", &[]);
        answer.strip_prefix("error ").unwrap_or_else(|| panic!("the unlock succeeded: {answer}")).to_owned()
    }

    /// The write lock becomes a read lock. Java's thread takes the read lock before it frees the write lock.
    #[track_caller]
    pub(crate) fn downgrade(&self) {
        let Object { neighbour, thread, name, .. } = &self.0;
        if !neighbour.program.is_java() {
            return self.0.order("downgrade", &[], "held");
        }
        neighbour.lock(LockKind::Read, thread, name).lock();
        self.unlock();
    }

    /// Begins to wait for the loss of the lock, which only bandog reports. The answer is `lost`.
    pub(crate) fn reports_loss(&self) -> PendingAnswer {
        self.0.send("lost", &[])
    }

    /// Whether the lock was held.
    #[track_caller]
    pub(crate) fn force_unlock(&self) -> bool {
        self.0.ask_whether("force", &[], "freed", "free already")
    }

    /// Begins to add one to the counter in a file repeatedly, each time under the lock. The answer is `times`.
    pub(crate) fn counts(&self, file: &str, times: u64) -> PendingAnswer {
        self.0.send("count", &[file, &times.to_string()])
    }

    /// Begins to check repeatedly that nothing adds to the counter while the lock is held. The answer is `times`.
    pub(crate) fn checks(&self, file: &str, times: u64) -> PendingAnswer {
        self.0.send("check", &[file, &times.to_string()])
    }
}

/// The functions of `RFencedLock` that use the token.
pub(crate) struct FencedLock(Object);

impl FencedLock {
    /// Takes the lock, and returns the token.
    #[track_caller]
    pub(crate) fn lock(&self) -> u64 {
        self.0.number("lock", &[])
    }

    /// Begins to wait for the lock. The answer is the token.
    pub(crate) fn waits(&self) -> PendingAnswer {
        self.0.send("lock", &[])
    }

    /// The last token.
    #[track_caller]
    pub(crate) fn token(&self) -> u64 {
        self.0.number("token", &[])
    }
}

/// The ids of permits that were taken together.
#[derive(Clone, Debug)]
pub(crate) struct PermitIds(Vec<String>);

impl PermitIds {
    /// Reads an answer. `None` means that not enough permits were available.
    #[track_caller]
    pub(crate) fn read(answer: &str) -> Option<Self> {
        assert!(!answer.starts_with("error "), "{answer}");
        (answer != "busy").then(|| Self(answer.split(' ').map(str::to_owned).collect()))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

#[derive(Clone)]
pub(crate) struct LeasedSemaphore {
    object: Object,
    limit: String,
}

impl LeasedSemaphore {
    /// Sets the number of permits, whether it was set before or not.
    #[track_caller]
    pub(crate) fn set(&self, permits: u32) {
        self.object.order("set", &[&permits.to_string()], "set");
    }

    /// Sets the number of permits if it was not set before. Returns whether it was set now.
    #[track_caller]
    pub(crate) fn set_if_absent(&self, permits: u32) -> bool {
        self.object.ask_whether("set-if-absent", &[&permits.to_string()], "set", "set already")
    }

    /// Begins to wait for permits. The answer has the ids of the permits; see [`PermitIds::read`].
    pub(crate) fn waits(&self, take: u32, lease: Lease) -> PendingAnswer {
        self.object.send("acquire", &[&take.to_string(), &lease.ms(), &self.limit])
    }

    #[track_caller]
    pub(crate) fn acquire(&self, take: u32, lease: Lease) -> PermitIds {
        PermitIds::read(&self.waits(take, lease).answer(SOON)).expect("granted")
    }

    #[track_caller]
    pub(crate) fn try_acquire(&self, take: u32, lease: Lease) -> Option<PermitIds> {
        PermitIds::read(&self.object.ask("try", &[&take.to_string(), &lease.ms(), &self.limit]))
    }

    /// Begins to wait for permits. The answer has their ids, or says that the time is up; see [`PermitIds::read`].
    pub(crate) fn waits_for(&self, take: u32, lease: Lease, wait: Duration) -> PendingAnswer {
        self.object.send("try-for", &[&take.to_string(), &lease.ms(), &self.limit, &ms(wait)])
    }

    #[track_caller]
    pub(crate) fn release(&self, permits: &PermitIds) {
        let ids: Vec<&str> = permits.0.iter().map(String::as_str).collect();
        // Redisson publishes another number if one permit is released as a list.
        self.object.order(if ids.len() == 1 { "release-one" } else { "release" }, &ids, "freed");
    }

    /// Number of permits that are not held.
    #[track_caller]
    pub(crate) fn available(&self) -> u64 {
        self.object.number("available", &[])
    }

    /// Number of all permits.
    #[track_caller]
    pub(crate) fn limit(&self) -> u64 {
        self.object.number("limit", &[])
    }

    /// Begins to take and release permits repeatedly. The answer is the highest number of permits that were in use at
    /// once, according to the counter with the name `in_use` on the server.
    pub(crate) fn crowds(&self, take: u32, in_use: &str, times: u32) -> PendingAnswer {
        self.object.send("crowd", &[&take.to_string(), in_use, &times.to_string(), &self.limit])
    }
}

/// The lease of permits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lease {
    Endless,
    Of(Duration),
}

impl Lease {
    fn ms(self) -> String {
        match self {
            Self::Endless => "-1".into(),
            Self::Of(lease) => ms(lease),
        }
    }
}

/// The last argument of each command is the limit, which Java does not read.
#[derive(Clone)]
pub(crate) struct Semaphore {
    object: Object,
    limit: String,
}

impl Semaphore {
    /// Sets the number of permits if it was not set before. Returns whether it was set now.
    #[track_caller]
    pub(crate) fn set_if_absent(&self, permits: u32) -> bool {
        self.object.ask_whether("set-if-absent", &[&permits.to_string(), &self.limit], "set", "set already")
    }

    /// Adds permits, or removes permits if the number is negative.
    #[track_caller]
    pub(crate) fn add(&self, permits: i32) {
        self.object.order("add", &[&permits.to_string(), &self.limit], "set");
    }

    /// Begins to wait for permits. The answer is `held`.
    pub(crate) fn waits(&self, take: u32) -> PendingAnswer {
        self.object.send("acquire", &[&take.to_string(), &self.limit])
    }

    #[track_caller]
    pub(crate) fn acquire(&self, take: u32) {
        self.object.order("acquire", &[&take.to_string(), &self.limit], "held");
    }

    #[track_caller]
    pub(crate) fn try_acquire(&self, take: u32) -> bool {
        self.object.ask_whether("try", &[&take.to_string(), &self.limit], "held", "busy")
    }

    /// Begins to wait for permits. The answer is `held` or `busy`.
    pub(crate) fn waits_for(&self, take: u32, wait: Duration) -> PendingAnswer {
        self.object.send("try-for", &[&take.to_string(), &ms(wait), &self.limit])
    }

    /// Releases permits. bandog releases permits that this thread has taken together.
    #[track_caller]
    pub(crate) fn release(&self, permits: u32) {
        self.object.order("release", &[&permits.to_string(), &self.limit], "freed");
    }

    /// Number of permits that are not held. Only Java answers this.
    #[track_caller]
    pub(crate) fn available(&self) -> u64 {
        self.object.number("available", &[])
    }

    /// Begins to take and release permits repeatedly. The answer is the highest number of permits that were in use at
    /// once, according to the counter with the name `in_use` on the server.
    pub(crate) fn crowds(&self, take: u32, in_use: &str, times: u32) -> PendingAnswer {
        self.object.send("crowd", &[&take.to_string(), in_use, &times.to_string(), &self.limit])
    }
}

/// Some permits of a semaphore on ZooKeeper.
#[derive(Clone)]
pub(crate) struct Permits {
    object: Object,
    take: String,
    limit: String,
}

impl Permits {
    #[track_caller]
    pub(crate) fn acquire(&self) {
        self.object.order("lock", &[&self.take, &self.limit], "held");
    }

    /// Begins to wait for the permits. The answer is `held`.
    pub(crate) fn waits(&self) -> PendingAnswer {
        self.object.send("lock", &[&self.take, &self.limit])
    }

    #[track_caller]
    pub(crate) fn try_acquire(&self) -> bool {
        self.object.ask_whether("try", &[&self.take, &self.limit], "held", "busy")
    }

    #[track_caller]
    pub(crate) fn release(&self) {
        self.object.order("unlock", &[], "freed");
    }

    /// The error of a release that must fail.
    #[track_caller]
    pub(crate) fn refused_release(&self) -> String {
        let answer = self.object.ask("unlock", &[]);
        answer.strip_prefix("error ").unwrap_or_else(|| panic!("the release succeeded: {answer}")).to_owned()
    }

    /// Begins to take and release the permits repeatedly. While they are held, the file has one more plus than minus for
    /// each permit. The answer is the number of turns.
    pub(crate) fn crowds(&self, file: &str, times: u32) -> PendingAnswer {
        self.object.send("crowd", &[&self.take, &self.limit, file, &times.to_string()])
    }
}

#[derive(Clone)]
pub(crate) struct Latch(Object);

impl Latch {
    /// Sets the count if the latch is open. Returns whether it was set.
    #[track_caller]
    pub(crate) fn set(&self, count: u64) -> bool {
        self.0.ask_whether("set", &[&count.to_string()], "set", "set already")
    }

    #[track_caller]
    pub(crate) fn count_down(&self) {
        self.0.order("down", &[], "counted");
    }

    /// Begins to wait until the latch is open. The answer is `open`.
    pub(crate) fn waits(&self) -> PendingAnswer {
        self.0.send("await", &[])
    }

    /// Begins to wait until the latch is open. The answer is `open` or `closed`.
    pub(crate) fn waits_for(&self, wait: Duration) -> PendingAnswer {
        self.0.send("await-for", &[&ms(wait)])
    }

    #[track_caller]
    pub(crate) fn count(&self) -> u64 {
        self.0.number("count", &[])
    }

    /// Whether the latch existed.
    #[track_caller]
    pub(crate) fn delete(&self) -> bool {
        self.0.ask_whether("delete", &[], "deleted", "absent")
    }
}

fn ms(duration: Duration) -> String {
    duration.as_millis().to_string()
}
