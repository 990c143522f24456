//! The history of jobs: the runs and their nodes, the faults, and the counters of the store.
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
    /// The number of the job.
    pub(crate) job: usize,
    /// The time at which the run was due.
    pub(crate) tick: Ms,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    /// The run's number.
    pub(crate) id: u64,
    pub(crate) fence: u64,
    pub(crate) node: u32,
    /// The time of the start by the clock that all nodes share.
    pub(crate) at: Nanos,
    /// The time of the start by the store's clock.
    pub(crate) store: Ms,
    /// The time and the kind of the end. `None` if the node was killed before the body ended.
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

/// The properties of a job. The time between two successive ticks of the job is always one period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) name: String,
    /// The time between two successive ticks.
    pub(crate) period: Ms,
    /// Maximum number of simultaneous runs.
    pub(crate) limit: usize,
    /// Whether a tick that is due during a run of the job waits until this run has ended.
    pub(crate) waits: bool,
    /// Whether another node takes over a run whose node has died.
    pub(crate) retry: bool,
}

/// The final record of a job in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The first tick of the job.
    pub(crate) first: Ms,
    /// The latest tick that was claimed. If no tick was claimed yet, the watermark is before the first tick.
    pub(crate) watermark: Ms,
    /// Number of ticks whose run was successful.
    pub(crate) ok: u64,
    /// Number of ticks whose run failed or was cancelled.
    pub(crate) failed: u64,
    /// Number of ticks that did not run because of another run of the job.
    pub(crate) skipped: u64,
    /// Number of ticks that no node claimed in time.
    pub(crate) missed: u64,
    /// Number of ticks whose node died during the run, and that were not retried.
    pub(crate) lost: u64,
    /// Number of ticks whose run has not ended yet.
    pub(crate) running: u64,
    /// Number of ticks that wait for another run of the job.
    pub(crate) queued: u64,
}

/// The time at which a node was killed or asked to stop. Both fields are `None` while the node is running. If a new
/// node replaces an ended node, the new node has another number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// The time at which the node was killed.
    pub(crate) killed: Option<Nanos>,
    /// The time at which the node was asked to stop.
    pub(crate) asked: Option<Nanos>,
}

/// A fault and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Harm {
    pub(crate) kind: HarmKind,
    /// The affected node. `None` if the store is affected.
    pub(crate) node: Option<u32>,
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HarmKind {
    Kill,
    Stop,
    /// The node's process was paused.
    Stall,
    /// The node recorded that it got no CPU time, because the machine was busy.
    Starved,
    /// The node could not reach the store.
    Cut,
    /// The store was killed and started again.
    Store,
    /// The database file was locked, either by another program or by a node that was stopped in the middle of a write.
    Locked,
    /// The log of the database, the index of the log, or both were deleted while the nodes had these files open.
    LogDeleted,
    /// All data of the store was deleted.
    Emptied,
    /// A node's session (its lease in the store) was removed by force. The node notices this at its next renewal.
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
            Self::Emptied => "store emptied",
            Self::Evicted => "session taken away",
        }
    }
}

/// A run that was recorded as running although the session of its node had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) job: usize,
    pub(crate) id: u64,
    /// The time at which the node claimed the run.
    pub(crate) claimed: Ms,
    /// The time at which the node's session ended.
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
    /// The time at which the faults had ended. Takeovers that were due later are not required.
    pub(crate) over: Nanos,
}

/// The whole history.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) jobs: Vec<Job>,
    pub(crate) tallies: Vec<Tally>,
    /// All runs, in the order of their starts.
    pub(crate) starts: Vec<Start>,
    /// The times at which nodes were killed or asked to stop, by the number of the node.
    pub(crate) lives: BTreeMap<u32, Life>,
    pub(crate) harms: Vec<Harm>,
    pub(crate) orphans: Vec<Orphan>,
    /// Number of sessions that the store still had after the last node had stopped.
    pub(crate) left: usize,
    pub(crate) terms: Terms,
}

impl Tally {
    /// Number of ticks up to the watermark.
    pub(crate) fn ticks(&self, period: Ms) -> u64 {
        if self.watermark < self.first { 0 } else { ((self.watermark - self.first) / period + 1).unsigned_abs() }
    }

    /// Adds the counters of another job or of another run of the storm.
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
    /// Total time between `from` and `to` in which faults affected this node or the store. If `node` is `None`, the
    /// faults of all nodes count.
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
