//! Counts grants and losses. The workers report their holds here, and the rules of `bandog_judge` judge each grant.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bandog::{Error, ErrorKind, Guard, Result, SharedHold, backend::Kind};
use bandog_judge::{Breach, Grant, Ledger};

use super::plan::{self, Plan};

/// Maximum number of findings that are reported in words.
const FINDINGS: usize = 20;

/// The counts of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) grants: u64,
    pub(super) losses_reported: u64,
    pub(super) losses_not_reported: u64,
    pub(super) repeated_fences: u64,
    /// The longest wait for a short lock.
    pub(super) longest_wait: Duration,
    /// The longest time in which no short lock was granted, and its start after the start of the run.
    pub(super) longest_gap: (Duration, Duration),
    /// The longest time for which two holders believed that they held the same lock.
    pub(super) longest_overlap: Duration,
    /// Number of errors of each kind.
    pub(super) errors: BTreeMap<&'static str, u64>,
    /// The first broken promises: the time after the start of the run, the name, and the text.
    pub(super) findings: Vec<(Duration, String, String)>,
    /// Duration of the run.
    pub(super) duration: Duration,
}

impl Figures {
    /// Number of all errors.
    pub(super) fn all_errors(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// The number of a hold.
type HoldNumber = u64;

/// A worker that uses a lock now.
#[derive(Debug)]
struct Holder {
    worker: usize,
    guard: Arc<Guard<SharedHold>>,
    /// The time at which another worker got the lock, although this one was not notified of a loss.
    overtaken: Option<Instant>,
    behind: Option<Behind>,
}

impl Holder {
    /// Whether this worker still believes that it holds the lock, and no other worker has got it so far.
    fn is_undisturbed(&self) -> bool {
        self.overtaken.is_none() && !self.guard.is_lost()
    }
}

/// How the use of a lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The lock was held until the end.
    Held,
    /// The lock was lost, and the loss is counted already.
    Lost,
    /// An earlier holder had a greater fence. The answer of the release shows the reason: if this holder had lost the
    /// lock before it began to use it, the release says so. Otherwise the fences of the store did not increase.
    Behind(Behind),
}

/// A holder whose fence is smaller than that of an earlier holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Behind {
    name: usize,
    worker: usize,
    fence: u64,
    /// The fence of the earlier holder.
    before: u64,
}

/// The counts, and the present holders.
#[derive(Debug)]
pub(super) struct Tally {
    plan: Arc<Plan>,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// For each name, its grants.
    ledgers: Vec<Ledger<HoldNumber>>,
    holders: HashMap<HoldNumber, Holder>,
    last_number: HoldNumber,
    /// For each worker that waits for a short lock, the beginning of the wait.
    waits: HashMap<usize, Instant>,
    /// The last grant of a short lock.
    last_grant: Instant,
    /// Set when the run has ended. Later grants are not counted in the gaps.
    has_ended: bool,
    figures: Figures,
}

impl Tally {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        let began = Instant::now();
        let ledgers = plan.names.iter().map(|_| Ledger::new(Plan::permits())).collect();
        let state = State {
            ledgers,
            holders: HashMap::new(),
            last_number: 0,
            waits: HashMap::new(),
            last_grant: began,
            has_ended: false,
            figures: Figures::default(),
        };
        Self { plan, began, state: Mutex::new(state) }
    }

    /// Counts an error.
    pub(super) fn failed(&self, error: &Error) {
        *self.state().figures.errors.entry(word(error.kind())).or_default() += 1;
    }

    /// This worker begins to wait for a short lock.
    pub(super) fn waits(&self, worker: usize) {
        self.state().waits.insert(worker, Instant::now());
    }

    /// Counts the wait of this worker, which has ended. After the end of the run, the wait is counted already.
    pub(super) fn waited(&self, worker: usize) {
        let mut state = self.state();
        if let Some(began) = state.waits.remove(&worker) {
            state.figures.longest_wait = state.figures.longest_wait.max(began.elapsed());
        }
    }

    /// Counts a grant, and judges it. The caller must report the end of the use, and must not drop the guard before.
    pub(super) fn granted(
        &self,
        name: usize,
        worker: usize,
        kind: Kind,
        guard: Guard<SharedHold>,
    ) -> (HoldNumber, Arc<Guard<SharedHold>>) {
        let guard = Arc::new(guard);
        let mut state = self.state();
        let state = &mut *state;
        state.figures.grants += 1;
        state.last_number += 1;
        let number = state.last_number;
        if !self.plan.names[name].is_long {
            state.end_gap(self.began);
        }
        // A hold can be lost before the worker gets it, for example because the process was paused.
        if !guard.is_lost() {
            let newer = Grant { part: plan::part(kind), fence: guard.fence().get(), of: number };
            let is_held = |of: &HoldNumber| state.holders.get(of).is_some_and(Holder::is_undisturbed);
            let breaches = state.ledgers[name].enter(newer, is_held, |_| Plan::permits());
            state.holders.insert(number, Holder { worker, guard: Arc::clone(&guard), overtaken: None, behind: None });
            // The earlier holders believed a moment ago that they held the lock. If the new holder believes it now, it
            // did so then, too.
            if !guard.is_lost() {
                self.judge(state, name, &newer, breaches);
            }
        }
        (number, guard)
    }

    /// Counts the breaches of a grant.
    fn judge(&self, state: &mut State, name: usize, newer: &Grant<HoldNumber>, breaches: Vec<Breach<HoldNumber>>) {
        for breach in breaches {
            match breach {
                Breach::Overlap { older } => self.lose(state, name, vec![older, *newer], 1),
                Breach::TooMany { held, limit, mut older } => {
                    older.push(*newer);
                    self.lose(state, name, older, held - limit);
                }
                Breach::Fence { before } if before.fence == newer.fence => {
                    state.figures.repeated_fences += 1;
                    self.find(&mut state.figures, name, format!("two workers have the fence {}", newer.fence));
                }
                Breach::Fence { before } => {
                    if let Some(holder) = state.holders.get_mut(&newer.of) {
                        let (worker, fence) = (holder.worker, newer.fence);
                        holder.behind = Some(Behind { name, worker, fence, before: before.fence });
                    }
                }
            }
        }
    }

    /// Counts the losses among grants that are held at the same time: those with the smallest fences, which together
    /// have at least this number of permits. A holder without permits counts as one.
    fn lose(&self, state: &mut State, name: usize, mut grants: Vec<Grant<HoldNumber>>, mut permits: u32) {
        grants.sort_by_key(|grant| grant.fence);
        let newest = grants.last().map_or(0, |grant| grant.fence);
        for loser in grants {
            if permits == 0 {
                return;
            }
            permits = permits.saturating_sub(loser.part.permits().max(1));
            let Some(holder) = state.holders.get_mut(&loser.of).filter(|holder| holder.overtaken.is_none()) else {
                continue;
            };
            holder.overtaken = Some(Instant::now());
            state.figures.losses_not_reported += 1;
            let says = format!(
                "worker {} with the fence {} was not notified of its loss before another worker got the lock with the fence {newest}",
                holder.worker, loser.fence
            );
            self.find(&mut state.figures, name, says);
        }
    }

    /// Adds a finding in words.
    fn find(&self, figures: &mut Figures, name: usize, says: String) {
        if figures.findings.len() < FINDINGS {
            figures.findings.push((self.began.elapsed(), self.plan.names[name].text.clone(), says));
        }
    }

    /// The worker does not use the lock any more.
    pub(super) fn ended(&self, number: HoldNumber, guard: &Guard<SharedHold>) -> Use {
        let mut state = self.state();
        let holder = state.holders.remove(&number);
        let figures = &mut state.figures;
        if let Some(since) = holder.as_ref().and_then(|holder| holder.overtaken) {
            figures.longest_overlap = figures.longest_overlap.max(since.elapsed());
            Use::Lost
        } else if let Some(behind) = holder.and_then(|holder| holder.behind) {
            Use::Behind(behind)
        } else if guard.is_lost() {
            figures.losses_reported += 1;
            Use::Lost
        } else {
            Use::Held
        }
    }

    /// Counts the answer of a release.
    pub(super) fn released(&self, ended: Use, answer: Result<()>) {
        if let Use::Behind(behind) = ended {
            self.released_behind(behind, answer.is_ok());
        }
        match answer {
            Ok(()) => {}
            // No other worker had the lock before the holder was notified.
            Err(error) if error.kind() == ErrorKind::Lost => {
                self.state().figures.losses_reported += u64::from(ended == Use::Held);
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Counts the use of a lock with a fence that was too small.
    fn released_behind(&self, behind: Behind, was_held: bool) {
        let Behind { name, worker, fence, before } = behind;
        let mut state = self.state();
        let figures = &mut state.figures;
        let reason = if was_held {
            figures.repeated_fences += 1;
            "and held the lock"
        } else {
            figures.losses_not_reported += 1;
            "because it was not notified that it had lost the lock before"
        };
        let says = format!("worker {worker} used the lock with the fence {fence} after the fence {before}, {reason}");
        self.find(figures, name, says);
    }

    /// The traffic ends now.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.end_gap(self.began);
        state.has_ended = true;
        // A wait that a fault has made endless counts, too.
        let longest = std::mem::take(&mut state.waits).values().map(Instant::elapsed).max().unwrap_or_default();
        state.figures.longest_wait = state.figures.longest_wait.max(longest);
        state.figures.duration = self.began.elapsed();
    }

    /// The counts so far. A time without a grant that has not ended yet counts, too.
    pub(super) fn figures(&self) -> Figures {
        let state = self.state();
        let mut figures = state.figures.clone();
        if !state.has_ended {
            figures.longest_gap = figures.longest_gap.max(state.gap(self.began));
        }
        figures
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Ends a time without a grant of a short lock.
    fn end_gap(&mut self, began: Instant) {
        if !self.has_ended {
            self.figures.longest_gap = self.figures.longest_gap.max(self.gap(began));
            self.last_grant = Instant::now();
        }
    }

    /// The time since the last grant of a short lock, and its start after the start of the run.
    fn gap(&self, began: Instant) -> (Duration, Duration) {
        (self.last_grant.elapsed(), self.last_grant - began)
    }
}

/// The kind of an error as a word.
fn word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Denied => "denied",
        ErrorKind::Misused => "misused",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Lost => "lost",
        ErrorKind::Closed => "closed",
        ErrorKind::NotReplicated => "not replicated",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::Deadlock => "deadlock",
        // A later version of `ErrorKind` can have kinds that this code does not know.
        _ => "other",
    }
}

#[cfg(test)]
mod tests;
