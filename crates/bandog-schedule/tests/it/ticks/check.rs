//! The laws that each history of jobs must obey, under all faults. A tick is a time at which a job is due.
//!
//! - `once`: no attempt of a tick starts twice, and a second attempt has a reason;
//! - `again`: a run that is complete does not start again after the store was emptied, unless its node was killed or
//!   paused meanwhile;
//! - `fences`: fences increase with each claim of a run;
//! - `early`: no run starts before its tick;
//! - `overlap`: in the whole cluster, a job never has more simultaneous runs than its policy allows;
//! - `accounts`: each tick runs, or the store counts it with the reason why it did not run;
//! - `takeover`: runs of a dead node are taken over in time;
//! - `sessions`: no run is claimed under an ended session, and a stopped node leaves no session.
//!
//! If the store was emptied, only `once`, `again` and `sessions` are checked: the numbers of runs and the counters are lost.

use std::collections::{HashMap, HashSet};

use super::history::{End, Harm, HarmKind, History, Job, Nanos, SECOND, Start, Tally};

/// Tolerance for a start before the tick, by the store's clock, in milliseconds.
const EARLY: i64 = 500;

/// The results of the checker.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<(&'static str, String)>,
    /// Number of ticks that were due while the jobs existed.
    pub(crate) ticks: u64,
    /// Number of ticks with a started run.
    pub(crate) ran: u64,
    /// Number of starts that repeated an attempt which had already started.
    pub(crate) duplicates: u64,
    /// Number of ticks that neither ran nor were counted by the store, and of ticks that were counted twice.
    pub(crate) unexplained: u64,
    /// The sums of the store's counters over all jobs.
    pub(crate) totals: Tally,
    /// Number of starts of second and later attempts.
    pub(crate) retries: u64,
    /// Number of overtaken runs. If a node is paused for too long, another node takes over its runs. When the pause has
    /// ended, the first node continues these runs for a short time. Such a continued run is an overtaken run.
    pub(crate) overtaken_runs: u64,
    /// The longest time for which an overtaken run continued after the pause and the takeover.
    pub(crate) longest_overtaken: Nanos,
    /// Times from the kill of a node to the next attempt of a run of this node.
    pub(crate) takeovers: Vec<Nanos>,
    /// For runs that a stopping node cancelled: times from the end of the run to its next attempt.
    pub(crate) handovers: Vec<Nanos>,
    /// Delays between a tick and the start of its first attempt, in milliseconds, on nodes without faults.
    pub(crate) lags: Vec<i64>,
}

/// Checks all laws.
pub(crate) fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    let mut by_job: Vec<Vec<&Start>> = vec![Vec::new(); history.jobs.len()];
    history.starts.iter().for_each(|start| by_job[start.job].push(start));
    let is_emptied = history.harms.iter().any(|harm| harm.kind == HarmKind::Emptied);
    for (starts, (job, tally)) in by_job.iter().zip(history.jobs.iter().zip(&history.tallies)) {
        once(history, job, starts, &mut findings);
        if is_emptied {
            again(history, job, starts, &mut findings);
            let ran: HashSet<i64> = starts.iter().map(|start| start.tick).collect();
            findings.ran += ran.len() as u64;
            findings.totals.add(tally);
            continue;
        }
        fences(history, job, starts, &mut findings);
        early(history, job, starts, &mut findings);
        overlap(history, job, starts, &mut findings);
        accounts(job, tally, starts, &mut findings);
        takeover(history, job, tally, starts, &mut findings);
    }
    sessions(history, &mut findings);
    findings.takeovers.sort_unstable();
    findings.handovers.sort_unstable();
    findings.lags.sort_unstable();
    findings
}

impl Findings {
    /// Adds the results of another history.
    pub(crate) fn add(&mut self, other: Self) {
        self.violations.extend(other.violations);
        self.ticks += other.ticks;
        self.ran += other.ran;
        self.duplicates += other.duplicates;
        self.unexplained += other.unexplained;
        self.retries += other.retries;
        self.overtaken_runs += other.overtaken_runs;
        self.longest_overtaken = self.longest_overtaken.max(other.longest_overtaken);
        self.totals.add(&other.totals);
        for (all, more) in [(&mut self.takeovers, other.takeovers), (&mut self.handovers, other.handovers)] {
            all.extend(more);
            all.sort_unstable();
        }
        self.lags.extend(other.lags);
        self.lags.sort_unstable();
    }

    /// Adds a violation.
    fn broken(&mut self, law: &'static str, job: &Job, what: String) {
        self.violations.push((law, format!("{}: {what}", job.name)));
    }
}

/// Each attempt of a tick starts at most once. A second or later attempt requires a policy that allows takeovers, and a
/// reason.
fn once(history: &History, job: &Job, starts: &[&Start], findings: &mut Findings) {
    let mut seen: HashMap<(i64, u32), &Start> = HashMap::new();
    for start in starts {
        if let Some(first) = seen.insert((start.tick, start.attempt), start)
            && !(job.retry && start.attempt > 1 && was_cut_short(history, first, start))
        {
            findings.duplicates += 1;
            let (tick, attempt) = (start.tick, start.attempt);
            findings.broken(
                "once",
                job,
                format!("tick {tick}, attempt {attempt} started twice: {first:?} and {start:?}"),
            );
        }
    }
    for start in starts.iter().filter(|start| start.attempt > 1) {
        findings.retries += 1;
        if !job.retry {
            findings.broken(
                "once",
                job,
                format!("a tick was retried, although the policy is to abandon it: {start:?}"),
            );
        } else if !has_reason(history, seen.get(&(start.tick, start.attempt - 1)).copied(), start) {
            findings.broken("once", job, format!("a tick was taken over from a live node: {start:?}"));
        }
    }
}

/// A run that is complete does not start again. Its node remembers the end, unless it was killed. If the node was paused
/// when the store was emptied, another node can have restored an older copy.
fn again(history: &History, job: &Job, starts: &[&Start], findings: &mut Findings) {
    let mut complete: HashMap<i64, (Nanos, u32)> = HashMap::new();
    for start in starts {
        if let Some((ended, node)) = complete.get(&start.tick).copied().filter(|(ended, _)| *ended < start.at) {
            let is_paused = |harm: &Harm| {
                let pauses = matches!(harm.kind, HarmKind::Stall | HarmKind::Starved | HarmKind::Cut);
                pauses && harm.node == Some(node) && harm.from <= start.at && harm.to + SECOND >= ended
            };
            if !history.ended_between(node, ended, start.at) && !history.harms.iter().any(is_paused) {
                let ago = (start.at - ended) / 1_000_000;
                findings.broken("again", job, format!("complete {ago} ms before, on node {node}: {start:?}"));
            }
        }
        if let Some((ended, End::Ok)) = start.end {
            complete.insert(start.tick, (ended, start.node));
        }
    }
}

/// Whether the store was emptied during this attempt, so that no copy of the record has it. Then another attempt can have
/// the same number.
fn was_cut_short(history: &History, first: &Start, later: &Start) -> bool {
    let during = first.at.saturating_sub(SECOND)..later.at;
    let is_loss = |harm: &Harm| harm.kind == HarmKind::Emptied && during.contains(&harm.from);
    !matches!(first.end, Some((_, End::Ok))) && history.harms.iter().any(is_loss)
}

/// Whether a takeover had a reason. There are three possible reasons:
/// - the node of the previous attempt was killed or asked to stop;
/// - this node might have lost its session;
/// - faults prevented the renewal of this node's lease for at least a third of the lease.
///
/// If the previous attempt never started, its node is unknown. In this case, the end or a fault of any node is a
/// reason.
fn has_reason(history: &History, before: Option<&Start>, start: &Start) -> bool {
    let enough = history.terms.lease / 3;
    if let Some(before) = before {
        let from = before.at.saturating_sub(history.terms.lease);
        let is_hindered = history.hindered(Some(before.node), from, start.at) >= enough;
        let is_evicted = |harm: &Harm| {
            matches!(harm.kind, HarmKind::Evicted | HarmKind::Emptied) && (from..=start.at).contains(&harm.from)
        };
        // A node that was asked to stop can still start a run that it claimed before.
        return history.ended_between(before.node, 0, start.at) || is_hindered || history.harms.iter().any(is_evicted);
    }
    // The delay of the start after the tick.
    let late = u64::try_from(start.store - start.tick).unwrap_or(0).saturating_mul(1_000_000);
    let from = start.at.saturating_sub(late + history.terms.lease);
    // Whether any node ended in this time.
    let gone = history.lives.keys().any(|node| history.ended_between(*node, from, start.at));
    gone || history.hindered(None, from, start.at) >= enough
}

/// Each claim has a different fence. A run with a greater number has a greater fence, and so has a later attempt of the
/// same run. If only one run is allowed at a time, runs also start in the order of their fences.
fn fences(history: &History, job: &Job, starts: &[&Start], findings: &mut Findings) {
    let mut claims: Vec<&Start> = starts.to_vec();
    claims.sort_unstable_by_key(|start| (start.attempt, start.id));
    let first = claims.iter().filter(|start| start.attempt == 1).collect::<Vec<_>>();
    for pair in first.windows(2).filter(|pair| pair[0].fence >= pair[1].fence || pair[0].tick >= pair[1].tick) {
        findings.broken("fences", job, format!("fence or tick did not increase: {:?}, {:?}", pair[0], pair[1]));
    }
    claims.sort_unstable_by_key(|start| (start.id, start.attempt));
    for pair in claims.windows(2).filter(|pair| pair[0].id == pair[1].id && pair[0].fence >= pair[1].fence) {
        findings.broken("fences", job, format!("the fence did not increase: {:?}, {:?}", pair[0], pair[1]));
    }
    let mut all = HashSet::new();
    for start in starts.iter().filter(|start| !all.insert(start.fence)) {
        findings.broken("fences", job, format!("a fence was used twice: {start:?}"));
    }
    if job.limit > 1 {
        return;
    }
    for pair in starts.windows(2).filter(|pair| pair[0].at < pair[1].at && pair[0].fence > pair[1].fence) {
        if pieces(history, pair[1]).first().is_some_and(|(from, _)| *from == pair[1].at) {
            findings.broken(
                "fences",
                job,
                format!("{:?} has a greater fence than the later run {:?}", pair[0], pair[1]),
            );
        }
    }
}

/// No run starts before its tick.
fn early(history: &History, job: &Job, starts: &[&Start], findings: &mut Findings) {
    for start in starts {
        if start.store < start.tick - EARLY {
            findings.broken("early", job, format!("started {} ms too early: {start:?}", start.tick - start.store));
        }
        let from = start.at.saturating_sub(history.terms.lease);
        if start.attempt == 1 && !job.waits && history.hindered(Some(start.node), from, start.at) == 0 {
            findings.lags.push((start.store - start.tick).max(0));
        }
    }
}

/// The time spans in which a run counts as running. If a pause of the node was so long that the node might have lost
/// its lease, the pause does not count. A short time after the pause does not count either, because in this time the
/// node notices the loss.
fn pieces(history: &History, start: &Start) -> Vec<(Nanos, Nanos)> {
    let killed = history.lives.get(&start.node).and_then(|life| life.killed);
    let end = start.end.map(|(at, _)| at).or(killed).unwrap_or(Nanos::MAX);
    let mut pieces = vec![(start.at, end)];
    let paused = |harm: &&Harm| match harm.kind {
        HarmKind::Stall | HarmKind::Starved => {
            harm.node == Some(start.node) && harm.to - harm.from >= history.terms.lease / 3
        }
        // It is not known which node had the session, so it might have been this node.
        HarmKind::Evicted | HarmKind::Emptied => start.at < harm.from,
        HarmKind::Kill | HarmKind::Stop | HarmKind::Cut | HarmKind::Store | HarmKind::Locked | HarmKind::LogDeleted => {
            false
        }
    };
    for harm in history.harms.iter().filter(paused) {
        if harm.to + history.terms.slack < start.at || harm.from > end {
            continue;
        }
        let (from, to) = (harm.from, harm.to + history.terms.slack);
        pieces = (pieces.into_iter()).flat_map(|(begin, end)| [(begin, end.min(from)), (begin.max(to), end)]).collect();
    }
    // A run without duration overlaps nothing.
    pieces.retain(|(begin, end)| begin < end);
    pieces
}

/// A job never has more simultaneous runs than its policy allows.
fn overlap(history: &History, job: &Job, starts: &[&Start], findings: &mut Findings) {
    let mut edges: Vec<(Nanos, i32, &Start)> = Vec::new();
    for start in starts {
        for (from, to) in pieces(history, start) {
            edges.push((from, 1, start));
            edges.push((to, -1, start));
        }
    }
    // If one run ends at the moment when another run starts, the two runs do not overlap.
    edges.sort_unstable_by_key(|(at, edge, _)| (*at, *edge));
    let mut alive: Vec<&Start> = Vec::new();
    for (_, edge, start) in edges {
        if edge < 0 {
            alive.retain(|other| !std::ptr::eq(*other, start));
            continue;
        }
        alive.push(start);
        if alive.len() > job.limit {
            let what = format!("{} runs at the same time, allowed: {}: {alive:?}", alive.len(), job.limit);
            findings.broken("overlap", job, what);
        }
    }
    overtaken_runs(history, starts, findings);
}

/// Counts the overtaken runs: their nodes continued them after a pause, although another node had taken them over.
fn overtaken_runs(history: &History, starts: &[&Start], findings: &mut Findings) {
    let mut next: HashMap<(u64, u32), &Start> = HashMap::new();
    next.extend(starts.iter().map(|start| ((start.id, start.attempt), *start)));
    for start in starts {
        let Some(after) = next.get(&(start.id, start.attempt + 1)) else { continue };
        let Some((end, _)) = start.end.filter(|(end, _)| *end > after.at) else { continue };
        // The end of the last fault of the node before the end of the run.
        let woken = history.harms.iter().filter(|harm| harm.node == Some(start.node) && harm.to <= end);
        let woken = woken.map(|harm| harm.to).max().unwrap_or(after.at);
        findings.overtaken_runs += 1;
        findings.longest_overtaken = findings.longest_overtaken.max(end.saturating_sub(woken.max(after.at)));
    }
}

/// The store counts each tick once: as a run, or as skipped or missed. The counters of the store match the records of
/// the nodes.
fn accounts(job: &Job, tally: &Tally, starts: &[&Start], findings: &mut Findings) {
    let ticks = tally.ticks(job.period);
    let counted = tally.runs() + tally.skipped + tally.missed;
    if ticks != counted {
        findings.unexplained += ticks.abs_diff(counted);
        findings.broken("accounts", job, format!("{ticks} ticks were due, the store counted {counted}: {tally:?}"));
    }
    let began: HashSet<i64> = starts.iter().map(|start| start.tick).collect();
    // Ticks that were not due, or were not claimed yet.
    let off =
        |tick: &&i64| (**tick - tally.first) % job.period != 0 || **tick > tally.watermark || **tick < tally.first;
    for tick in began.iter().filter(off) {
        findings.broken("accounts", job, format!("tick {tick} ran, but was not due: {tally:?}"));
    }
    let seen = began.len() as u64;
    // A node can die after it has claimed a run and before the body of the run starts. Then the store counts the run as
    // lost, running or queued. If the node was asked to stop in this time, the store counts the run as failed.
    if seen > tally.runs() || tally.runs() > seen + tally.lost + tally.failed + tally.running + tally.queued {
        findings.unexplained += tally.runs().abs_diff(seen);
        findings.broken("accounts", job, format!("{seen} ticks ran, but the store counted {tally:?}"));
    }
    // Ticks with a successful run, according to the records of the nodes.
    let well: HashSet<i64> =
        starts.iter().filter(|start| matches!(start.end, Some((_, End::Ok)))).map(|start| start.tick).collect();
    if tally.ok > well.len() as u64 {
        findings.broken(
            "accounts",
            job,
            format!("{} ticks were successful, but the store counted {tally:?}", well.len()),
        );
    }
    findings.ticks += ticks;
    findings.ran += seen;
    findings.totals.add(tally);
}

/// Checks that runs are taken over in time. After a kill, the limit is the sum of the lease, one check interval and the
/// tolerance. After a stop, the limit is a second plus the tolerance. Faults of the store, or of the node that takes
/// over, extend the limit. If the policy allows takeovers, no run is lost. At the end of the test, no run is running.
fn takeover(history: &History, job: &Job, tally: &Tally, starts: &[&Start], findings: &mut Findings) {
    if tally.running > 0 {
        findings.broken(
            "takeover",
            job,
            format!("all nodes have stopped, but a run is recorded as running: {tally:?}"),
        );
    }
    if !job.retry {
        return;
    }
    if tally.lost > 0 {
        findings.broken("takeover", job, format!("a run was lost instead of retried: {tally:?}"));
    }
    let mut by_run: HashMap<u64, Vec<&Start>> = HashMap::new();
    starts.iter().for_each(|start| by_run.entry(start.id).or_default().push(start));
    for start in starts {
        let Some((from, within, is_kill)) = node_end(history, start) else { continue };
        let later = by_run[&start.id].iter().filter(|next| next.attempt > start.attempt);
        let next = later.min_by_key(|next| next.attempt);
        let until = next.map_or(history.terms.over, |next| next.at);
        let extra = extra(history, start, next.copied(), (from, until));
        if until.saturating_sub(from) > within + extra + history.terms.slack {
            let took = until.saturating_sub(from) / 1_000_000;
            findings.broken(
                "takeover",
                job,
                format!("no takeover for {took} ms after the node ended: {start:?}, next: {next:?}"),
            );
        }
        if let (Some(next), 0) = (next, extra) {
            let times = if is_kill { &mut findings.takeovers } else { &mut findings.handovers };
            times.push(next.at.saturating_sub(from));
        }
    }
}

/// If the node of a run ended before the run: the time at which the node ended, the time limit of the takeover, and
/// whether the node was killed. Otherwise `None`.
fn node_end(history: &History, start: &Start) -> Option<(Nanos, Nanos, bool)> {
    let life = history.lives.get(&start.node)?;
    match start.end {
        None => Some((life.killed?, history.terms.lease + history.terms.check_interval, true)),
        Some((at, End::Dropped | End::Cancelled)) if life.asked? <= at => Some((at, SECOND, false)),
        Some(_) => None,
    }
}

/// The time by which faults of other nodes or of the store extend the limit of a takeover.
fn extra(history: &History, start: &Start, next: Option<&Start>, (from, until): (Nanos, Nanos)) -> Nanos {
    let is_in_the_way = |harm: &&Harm| match (harm.node, next) {
        (Some(node), _) if node == start.node => false,
        // If attempts are missing between these two attempts, unknown nodes claimed the missing attempts, and ended
        // before the body started. So a fault of any node counts.
        (Some(node), Some(next)) if next.attempt == start.attempt + 1 => {
            harm.kind == HarmKind::Starved || node == next.node
        }
        (Some(_) | None, _) => true,
    };
    let harms = history.harms.iter().filter(is_in_the_way).filter(|harm| is_near(harm, from, until));
    harms.map(|harm| (harm.to - harm.from) + history.terms.lease + history.terms.check_interval).sum()
}

/// No run is claimed under an ended session, and a stopped node leaves no session.
fn sessions(history: &History, findings: &mut Findings) {
    for orphan in history.orphans.iter().filter(|orphan| orphan.claimed > orphan.ended) {
        findings.broken(
            "sessions",
            &history.jobs[orphan.job],
            format!("a run was claimed under an ended session: {orphan:?}"),
        );
    }
    if history.left > 0 {
        findings
            .violations
            .push(("sessions", format!("{} sessions are left although all nodes have stopped", history.left)));
    }
}

/// Whether the fault could have an effect between these times. A fault has effects for up to a second after its end.
fn is_near(harm: &Harm, from: Nanos, to: Nanos) -> bool {
    harm.from <= to && harm.to + SECOND >= from
}
