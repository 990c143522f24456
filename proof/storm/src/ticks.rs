//! Runs scheduled jobs under faults, and checks that each tick runs once: `storm ticks`.
//!
//! A tick is a time at which a job is due. `jobs` declares the scheduled jobs. `worker` is a node: a process over a real
//! store. `virtually` makes replicas in one process, on a virtual clock. Both produce a `history`. `check` checks the
//! history, and imports none of the modules that produce it.
//!
//! `check`, `history`, `jobs` and `virtually` are modules of the tests of `bandog-schedule`, which run them for a minute of
//! virtual time.
//!
//! For comparison, `lock` measures a program that uses a named lock and no scheduler. The holder of this lock keeps the
//! lock for a minimum time.

mod args;
#[path = "../../../crates/bandog-schedule/tests/it/ticks/check.rs"]
mod check;
#[path = "../../../crates/bandog-schedule/tests/it/ticks/history.rs"]
mod history;
#[path = "../../../crates/bandog-schedule/tests/it/ticks/jobs.rs"]
mod jobs;
mod lock;
mod recorded;
mod report;
mod tallies;
#[cfg(test)]
mod tests;
#[path = "../../../crates/bandog-schedule/tests/it/ticks/virtually.rs"]
mod virtually;
mod worker;

use std::{
    collections::BTreeMap,
    io,
    process::ExitCode,
    time::{Duration, Instant},
};

use bandog::{Result, schedule};

pub(crate) use self::args::TicksArgs;
use self::{args::StoreKind, check::check, history::Terms, worker::Calls};
use crate::{
    calls::{self, Played, Plays, Report, Until},
    fault::FaultKind,
    history::nanos,
    nemesis::Target,
    settings::{self, TrafficKind, WorkerArgs, name},
    worker_pool::Size,
};

/// The lease of a node. It is short, so that many leases are lost.
const LEASE: Duration = Duration::from_secs(2);
/// Tolerance for delays on a machine with fewer cores than nodes.
const SLACK: Duration = Duration::from_secs(1);
/// Nodes are paused for shorter and longer times than their lease. A new node also takes over the runs of dead nodes. If a
/// new node always started early, the test would not notice that the other nodes take over no runs. So the delay is
/// sometimes longer than a takeover.
const TARGET: Target = Target {
    ttl: LEASE,
    stops: (0.05, 2.25),
    replaces_within: Duration::from_secs(8),
    before_empty: &[FaultKind::Stop, FaultKind::Kill],
    table: "bandog_record",
    has_long_outages: false,
};
/// Maximum number of ticks of one run on a virtual clock. If more ticks are requested, there are several runs with
/// different seeds.
const CHUNK: u64 = 100_000;
/// Maximum number of ticks for one row of the table for `StoreKind::Lock`.
const LOCK_TICKS: u64 = 20_000;

/// Runs the jobs, checks the history, and prints the report.
pub(crate) fn run(args: &TicksArgs) -> ExitCode {
    if args.store == StoreKind::Lock {
        measure_lock(args);
        return ExitCode::SUCCESS;
    }
    let Some(store) = args.store.of_processes() else {
        let report = in_virtual_time(args);
        report.print(args.plays.json);
        return if report.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    };
    calls::run_each(vec![store], &args.plays, |store, _| run_on(store, args))
}

/// Runs a node.
pub(crate) fn work(args: &WorkerArgs) -> Result<()> {
    calls::run::<Calls>(args)
}

/// Makes one run of processes.
fn run_on(store: settings::StoreKind, args: &TicksArgs) -> io::Result<Report> {
    let size = Size { processes: args.nodes, clients: 1, tasks: 0, ttl: LEASE, place: LEASE };
    let faults = FaultKind::of_ticks(store, args.plays.profile, args.empty);
    let plays = Plays {
        size,
        target: TARGET,
        args: vec!["--jobs".to_owned(), args.jobs().to_string()],
        // In this time, the nodes take over the remaining runs of dead nodes.
        rests: LEASE + SLACK * 3,
        ..Plays::of(
            TrafficKind::Ticks,
            store,
            faults,
            Until::Elapsed(Duration::from_secs(args.seconds)),
            args.plays.profile,
        )
    };
    let mut played = Played::play(plays, store, args.seed(), &args.plays)?;
    let mut read = Err(io::Error::other("the store was not read"));
    played.drain(async |client, _| {
        read = tallies::read(client, args.jobs()).await;
        Vec::new()
    });
    let (tallies, left) = read?;
    let terms = Terms { lease: nanos(LEASE), check_interval: history::SECOND, slack: nanos(SLACK), over: played.over };
    let recorded = played.read()?;
    let history = recorded::history(&recorded, &played, tallies, left, terms);
    let figures = report::figures(&recorded, history.lives.len(), &check(&history));
    played.report(figures)
}

/// Makes one or more runs on a virtual clock.
fn in_virtual_time(args: &TicksArgs) -> Report {
    let nodes = usize::try_from(args.nodes).unwrap_or(usize::MAX);
    // Ten jobs have 91 ticks in a second: nine of them have ten ticks, and one has one tick.
    let per_second = (args.jobs() as u64 * 91).div_ceil(10);
    let (mut missing, mut seed, begin) = (args.ticks, args.seed(), Instant::now());
    let (mut findings, mut lives, mut faults) = (check::Findings::default(), 0, BTreeMap::new());
    while missing > 0 {
        let ticks = missing.min(CHUNK);
        let size = virtually::Size { nodes, jobs: args.jobs(), seconds: ticks.div_ceil(per_second), seed };
        let history = virtually::run(size);
        lives += history.lives.len();
        history.harms.iter().for_each(|harm| *faults.entry(harm.kind.word()).or_default() += 1);
        findings.add(check(&history));
        let (ticks, violations) = (findings.ticks, findings.violations.len());
        eprintln!("seeds to {seed}: {ticks} ticks, {violations} violations, {:.1?}", begin.elapsed());
        missing = missing.saturating_sub(CHUNK);
        seed += 1;
    }
    let mut figures = report::figures(&calls::Recorded::default(), lives, &findings);
    figures.faults = faults;
    let (mode, store, took) = (name(&TrafficKind::Ticks), name(&args.store), (begin.elapsed(), Duration::ZERO));
    let repeat = format!("cargo xtask storm ticks --store {store} --ticks {} --seed {}", args.ticks, args.seed());
    Report { mode, store, seed: args.seed(), figures, took, wrong: Vec::new(), repeat, kept: None }
}

/// Measures a named lock without a scheduler. Prints one row for each deviation of the clocks and each minimum hold.
fn measure_lock(args: &TicksArgs) {
    let ticks = args.ticks.min(LOCK_TICKS);
    // The maximum deviation of the clocks, and the minimum time for which a holder keeps the lock, in seconds.
    for (skew, min) in [(0, 1), (2, 1), (2, 9), (90, 1), (90, 9)] {
        let (skew, min) = (Duration::from_secs(skew), Duration::from_secs(min));
        let outcome = lock::run(args.nodes, ticks, skew, min, args.seed());
        report::print_lock_row(args.plays.json, skew, min, outcome);
    }
}
