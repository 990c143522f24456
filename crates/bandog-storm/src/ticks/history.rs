//! What happened to jobs: which runs began and ended where, what was done to whom, and what the store counted.
//!
//! It knows nothing of schedulers: the same history comes from processes over a real store and from virtual time.

use std::collections::BTreeMap;

/// Nanoseconds of a clock that all nodes share.
pub(crate) type Nanos = u64;
/// Milliseconds since 1970, by the store's clock.
pub(crate) type Ms = i64;

/// One second.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// A run that began.
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
    /// None if its node was killed before.
    pub(crate) end: Option<(Nanos, End)>,
}

/// How a run's body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Ok,
    Failed,
    /// It was told to stop, and did.
    Cancelled,
    /// It was dropped where it stood.
    Dropped,
}

/// A job as it was declared: its ticks stand on a grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) period: Ms,
    /// How many of its runs there may be at a time.
    pub(crate) limit: usize,
    /// Whether its ticks wait for the run before them.
    pub(crate) waits: bool,
    /// Whether others take over what a dead node ran.
    pub(crate) retry: bool,
}

/// What the store says of a job in the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The first tick of its grid.
    pub(crate) first: Ms,
    /// The newest tick that was claimed; before the first if there was none.
    pub(crate) watermark: Ms,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) missed: u64,
    pub(crate) lost: u64,
    pub(crate) running: u64,
    pub(crate) queued: u64,
}

/// The life of a node; one that comes back is another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) killed: Option<Nanos>,
    /// When it was asked to stop.
    pub(crate) asked: Option<Nanos>,
}

/// What was done, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Harm {
    pub(crate) kind: Kind,
    /// Whom it was done to; none for the store.
    pub(crate) node: Option<u32>,
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Kill,
    Stop,
    /// The node stood still.
    Stall,
    /// The node stood still since the machine had no time for it: it notes so itself.
    Starved,
    /// The node had no way to the store.
    Cut,
    /// The store was killed and started again.
    Store,
    /// Another program, or a node that stood still in the middle of a write, kept the file locked.
    Locked,
    /// The log of the file, its index or both were deleted while the nodes had them open.
    LogDeleted,
    /// A node's session was taken away, which it learns at its next renewal.
    Evicted,
}

impl Kind {
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

/// A run that the store had as running though the session of its node had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) job: usize,
    pub(crate) id: u64,
    /// When it was claimed, and when the session had ended.
    pub(crate) claimed: Ms,
    pub(crate) ended: Ms,
}

/// What was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) lease: Nanos,
    /// How often nodes look at each other.
    pub(crate) look: Nanos,
    /// How late anything may be on this machine.
    pub(crate) slack: Nanos,
    /// When the harm ended: what should have followed after that is not waited for.
    pub(crate) over: Nanos,
}

/// Everything.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) jobs: Vec<Job>,
    pub(crate) tallies: Vec<Tally>,
    /// By when they began.
    pub(crate) starts: Vec<Start>,
    pub(crate) lives: BTreeMap<u32, Life>,
    pub(crate) harms: Vec<Harm>,
    pub(crate) orphans: Vec<Orphan>,
    /// The sessions that were there when the last node had stopped.
    pub(crate) left: usize,
    pub(crate) terms: Terms,
}

impl Tally {
    /// How many ticks there were up to the watermark.
    pub(crate) fn ticks(&self, period: Ms) -> u64 {
        if self.watermark < self.first { 0 } else { ((self.watermark - self.first) / period + 1).unsigned_abs() }
    }

    /// Adds the counters of another.
    pub(crate) fn add(&mut self, other: &Self) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.missed += other.missed;
        self.lost += other.lost;
        self.running += other.running;
        self.queued += other.queued;
    }

    /// How many of them the store has counted as runs.
    pub(crate) fn runs(&self) -> u64 {
        self.ok + self.failed + self.lost + self.running + self.queued
    }
}

impl History {
    /// For how long, in all, something stood in the way of this node between these moments; of any node if none is given.
    pub(crate) fn hindered(&self, node: Option<u32>, from: Nanos, to: Nanos) -> Nanos {
        let concerns = |harm: &&Harm| harm.node.is_none() || node.is_none() || harm.node == node;
        let lasting = |harm: &&Harm| !matches!(harm.kind, Kind::Kill | Kind::Stop);
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

    /// Whether this node was killed or asked to stop between these moments.
    pub(crate) fn went(&self, node: u32, from: Nanos, to: Nanos) -> bool {
        let Some(life) = self.lives.get(&node) else { return false };
        [life.killed, life.asked].into_iter().flatten().any(|at| (from..=to).contains(&at))
    }
}
