//! The history of jobs: the runs with their nodes, the faults, and the counters of the store.
//!
//! The history does not depend on how the nodes ran: processes over a real store and replicas on a virtual clock
//! produce the same history.

use std::collections::BTreeMap;

/// Nanoseconds of a clock that all nodes share.
pub(crate) type Nanos = u64;
/// Milliseconds since 1970, by the store's clock.
pub(crate) type Ms = i64;

/// One second.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// A started run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) job: usize,
    pub(crate) tick: Ms,
    pub(crate) attempt: u32,
    /// The run's number.
    pub(crate) id: u64,
    pub(crate) fence: u64,
    pub(crate) node: u32,
    pub(crate) at: Nanos,
    /// The same moment by the store's clock.
    pub(crate) store: Ms,
    /// None if its node was killed first.
    pub(crate) end: Option<(Nanos, End)>,
}

/// The end of a run's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Ok,
    Failed,
    /// The body ended after it was cancelled.
    Cancelled,
    /// The body's future was dropped.
    Dropped,
}

/// The declaration of a job. Its ticks are a multiple of the period after the first tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) period: Ms,
    /// Maximum number of simultaneous runs.
    pub(crate) limit: usize,
    /// Whether its ticks wait for the previous run.
    pub(crate) waits: bool,
    /// Whether other nodes take over runs of a dead node.
    pub(crate) retry: bool,
}

/// The final record of a job in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The first tick of the job.
    pub(crate) first: Ms,
    /// The newest claimed tick. If no tick was claimed, it is before the first one.
    pub(crate) watermark: Ms,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) missed: u64,
    pub(crate) lost: u64,
    pub(crate) running: u64,
    pub(crate) queued: u64,
}

/// The life of a node. A node that replaces an ended one has another number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) killed: Option<Nanos>,
    /// The time of its stop request.
    pub(crate) asked: Option<Nanos>,
}

/// A fault and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Harm {
    pub(crate) kind: HarmKind,
    /// The affected node; none for the store.
    pub(crate) node: Option<u32>,
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HarmKind {
    Kill,
    Stop,
    /// The node was stopped.
    Stall,
    /// The node did not run because the machine was busy, as recorded by the node itself.
    Starved,
    /// The node could not reach the store.
    Cut,
    /// The store was killed and started again.
    Store,
    /// Another program, or a node that was stopped in the middle of a write, kept the file locked.
    Locked,
    /// The log of the file, its index or both were deleted while the nodes had them open.
    LogDeleted,
    /// A node's session was taken away by force. The node notices at its next renewal.
    Evicted,
}

impl HarmKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Stop => "clean stop",
            Self::Stall => "SIGSTOP",
            Self::Starved => "starved by the machine",
            Self::Cut => "cut off",
            Self::Store => "store killed",
            Self::Locked => "file locked",
            Self::LogDeleted => "log deleted",
            Self::Evicted => "session taken away",
        }
    }
}

/// A run that was recorded as running although the session of its node had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) job: usize,
    pub(crate) id: u64,
    /// The times of its claim and of the end of the session.
    pub(crate) claimed: Ms,
    pub(crate) ended: Ms,
}

/// The bounds of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) lease: Nanos,
    /// Interval at which nodes check each other.
    pub(crate) check_interval: Nanos,
    /// Tolerance for delays on this machine.
    pub(crate) slack: Nanos,
    /// End of the faults. A takeover that was not due by then is not required.
    pub(crate) over: Nanos,
}

/// The whole history.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) jobs: Vec<Job>,
    pub(crate) tallies: Vec<Tally>,
    /// In the order of their starts.
    pub(crate) starts: Vec<Start>,
    pub(crate) lives: BTreeMap<u32, Life>,
    pub(crate) harms: Vec<Harm>,
    pub(crate) orphans: Vec<Orphan>,
    /// The number of sessions after the last node has stopped.
    pub(crate) left: usize,
    pub(crate) terms: Terms,
}

impl Tally {
    /// Number of ticks up to the watermark.
    pub(crate) fn ticks(&self, period: Ms) -> u64 {
        if self.watermark < self.first { 0 } else { ((self.watermark - self.first) / period + 1).unsigned_abs() }
    }

    /// Adds other counters.
    pub(crate) fn add(&mut self, other: &Self) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.missed += other.missed;
        self.lost += other.lost;
        self.running += other.running;
        self.queued += other.queued;
    }

    /// Number of ticks that the store has counted as runs.
    pub(crate) fn runs(&self) -> u64 {
        self.ok + self.failed + self.lost + self.running + self.queued
    }
}

impl History {
    /// Total duration of the faults that affected this node between these times; of any node if none is given.
    pub(crate) fn hindered(&self, node: Option<u32>, from: Nanos, to: Nanos) -> Nanos {
        let concerns = |harm: &&Harm| harm.node.is_none() || node.is_none() || harm.node == node;
        let lasting = |harm: &&Harm| !matches!(harm.kind, HarmKind::Kill | HarmKind::Stop);
        let mut spans: Vec<(Nanos, Nanos)> = (self.harms.iter().filter(concerns).filter(lasting))
            .map(|harm| (harm.from.max(from), harm.to.min(to)))
            .filter(|(from, to)| from < to)
            .collect();
        spans.sort_unstable();
        let (mut sum, mut seen) = (0, from);
        for (from, to) in spans {
            sum += to.saturating_sub(from.max(seen));
            seen = seen.max(to);
        }
        sum
    }

    /// Whether this node was killed or asked to stop between these times.
    pub(crate) fn ended_between(&self, node: u32, from: Nanos, to: Nanos) -> bool {
        let Some(life) = self.lives.get(&node) else { return false };
        [life.killed, life.asked].into_iter().flatten().any(|at| (from..=to).contains(&at))
    }
}
