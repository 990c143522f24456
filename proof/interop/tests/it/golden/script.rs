//! The steps of a script.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use crate::objects::LockKind;

/// An owner: a client and one of its threads or owners, such as `A:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Caller(pub(crate) &'static str);

impl Caller {
    pub(crate) fn client(self) -> &'static str {
        self.parts().0
    }

    /// The client, and its thread or owner.
    pub(crate) fn parts(self) -> (&'static str, &'static str) {
        self.0.split_once(':').expect("a client and a thread")
    }
}

/// Executes the actions of callers. All actions use one name, [`NAME`].
///
/// The clients are `A`, `B` and `C`. Each client has at most one action that waits.
pub(crate) trait Side {
    /// Begins an action of this caller. A caller has at most one action at a time.
    fn begin(&mut self, caller: Caller, action: &Action);

    /// Returns when the caller's action waits, and no further command changes a key.
    fn wait_until_blocked(&mut self, caller: Caller);

    /// Waits for the answer of the caller's action.
    fn answer(&mut self, caller: Caller) -> Answer;
}

/// The name of the lock, the semaphore or the latch.
pub(crate) const NAME: &str = "orders";

/// The ttl of locks without a fixed lease, and the lease of all permits.
pub(crate) const TTL: Duration = Duration::from_secs(60);

/// A part of a script, which begins with an empty server.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// One step. The keys and messages are written after it.
pub(crate) struct Step {
    pub(crate) start: Option<Start>,
    /// The callers whose waiting actions end in this step.
    pub(crate) ended: Vec<Caller>,
}

/// The begin of an action.
pub(crate) enum Start {
    /// The action answers in this step.
    Answered { caller: Caller, action: Action },
    /// The action waits at the end of this step.
    Waiting { caller: Caller, action: Action },
}

impl Step {
    /// All callers that take part in this step. If several callers of one client do, the one that waited comes first,
    /// because it can appear in this step for the first time.
    pub(crate) fn callers(&self) -> Vec<Caller> {
        let starts = self.start.iter().map(|(Start::Answered { caller, .. } | Start::Waiting { caller, .. })| *caller);
        self.ended.iter().copied().chain(starts).collect()
    }

    /// In this step, waiting actions of these callers end too.
    pub(crate) fn ends(mut self, callers: &[&'static str]) -> Self {
        self.ended = callers.iter().map(|caller| Caller(caller)).collect();
        self
    }
}

/// An action that answers at once.
pub(crate) fn does(caller: &'static str, action: Action) -> Step {
    Step { start: Some(Start::Answered { caller: Caller(caller), action }), ended: Vec::new() }
}

/// An action that waits.
pub(crate) fn waits(caller: &'static str, action: Action) -> Step {
    Step { start: Some(Start::Waiting { caller: Caller(caller), action }), ended: Vec::new() }
}

/// The waiting action of this caller ends because its time is up.
pub(crate) fn gives_up(caller: &'static str) -> Step {
    Step { start: None, ended: vec![Caller(caller)] }
}

/// An action of a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Lock(LockKind, LockAction),
    /// The caller holds the write lock, and holds the read lock instead afterwards.
    Downgrade,
    Leased(LeasedAction),
    Semaphore(SemaphoreAction),
    Latch(LatchAction),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LockAction {
    Lock,
    LockForLease(Duration),
    TryLock,
    TryLockFor(Duration),
    Unlock,
    ForceUnlock,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LeasedAction {
    /// Sets the limit.
    Set(u32),
    Acquire(u32),
    TryAcquire(u32),
    /// Releases all permits of the caller.
    Release,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SemaphoreAction {
    /// Sets the number of permits if it is not set.
    SetIfAbsent(u32),
    Add(i32),
    Acquire(u32),
    TryAcquire(u32),
    TryAcquireFor(u32, Duration),
    Release(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LatchAction {
    Set(u64),
    CountDown,
    Await,
    AwaitFor(Duration),
    Count,
    Delete,
}

/// The answer of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Held,
    Busy,
    Freed,
    /// A forced unlock of a free lock.
    FreeAlready,
    Set,
    SetAlready,
    Counted,
    Open,
    Closed,
    Number(u64),
    Deleted,
    Absent,
}

impl Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(kind, action) => {
                let kind = match kind {
                    LockKind::Plain => "plain",
                    LockKind::Fair => "fair",
                    LockKind::Read => "read",
                    LockKind::Write => "write",
                    LockKind::Leader => "leader",
                };
                match action {
                    LockAction::Lock => write!(f, "{kind} lock"),
                    LockAction::LockForLease(lease) => write!(f, "{kind} lock with a lease of {lease:?}"),
                    LockAction::TryLock => write!(f, "{kind} try_lock"),
                    LockAction::TryLockFor(wait) => write!(f, "{kind} try_lock_for {wait:?}"),
                    LockAction::Unlock => write!(f, "{kind} unlock"),
                    LockAction::ForceUnlock => write!(f, "{kind} forced unlock"),
                }
            }
            Self::Downgrade => f.write_str("downgrade"),
            Self::Leased(action) => match action {
                LeasedAction::Set(limit) => write!(f, "set the limit {limit}"),
                LeasedAction::Acquire(take) => write!(f, "acquire {take}"),
                LeasedAction::TryAcquire(take) => write!(f, "try_acquire {take}"),
                LeasedAction::Release => f.write_str("release all"),
            },
            Self::Semaphore(action) => match action {
                SemaphoreAction::SetIfAbsent(permits) => write!(f, "set {permits} if absent"),
                SemaphoreAction::Add(permits) => write!(f, "add {permits}"),
                SemaphoreAction::Acquire(take) => write!(f, "acquire {take}"),
                SemaphoreAction::TryAcquire(take) => write!(f, "try_acquire {take}"),
                SemaphoreAction::TryAcquireFor(take, wait) => write!(f, "try_acquire {take} for {wait:?}"),
                SemaphoreAction::Release(permits) => write!(f, "release {permits}"),
            },
            Self::Latch(action) => match action {
                LatchAction::Set(count) => write!(f, "set the count {count}"),
                LatchAction::CountDown => f.write_str("count down"),
                LatchAction::Await => f.write_str("wait"),
                LatchAction::AwaitFor(wait) => write!(f, "wait for {wait:?}"),
                LatchAction::Count => f.write_str("count"),
                LatchAction::Delete => f.write_str("delete"),
            },
        }
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::Busy => "busy",
            Self::Freed => "freed",
            Self::FreeAlready => "free already",
            Self::Set => "set",
            Self::SetAlready => "set already",
            Self::Counted => "counted",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Number(number) => return write!(f, "{number}"),
            Self::Deleted => "deleted",
            Self::Absent => "absent",
        })
    }
}
