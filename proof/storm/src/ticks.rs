//! Runs scheduled jobs under faults, and checks that each tick runs once.
//!
//! A tick is a time at which a job is due. `jobs` declares the scheduled jobs. `cluster` runs nodes (`node`) as
//! processes over a real store and injects faults. `virtually` does the same with replicas in one process, on a virtual
//! clock. Both produce a `history`. `check` checks the history, and imports none of the modules that produce it.
//!
//! `check`, `history`, `jobs` and `virtually` are modules of the tests of `bandog-schedule`, which run them for a minute of
//! virtual time.
//!
//! For comparison, `lock` measures a program that uses a named lock and no scheduler. The holder of this lock keeps the
//! lock for a minimum time.

mod args;
#[path = "../../../crates/bandog-schedule/tests/it/ticks/check.rs"]
mod check;
mod cluster;
#[path = "../../../crates/bandog-schedule/tests/it/ticks/history.rs"]
mod history;
#[path = "../../../crates/bandog-schedule/tests/it/ticks/jobs.rs"]
mod jobs;
mod lock;
mod node;
mod report;
#[cfg(test)]
mod tests;
#[path = "../../../crates/bandog-schedule/tests/it/ticks/virtually.rs"]
mod virtually;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use self::{args::StoreKind, report::Report};
pub(crate) use self::{
    args::TicksArgs,
    node::{NodeArgs, run as node},
};
use bandog::schedule;

/// Maximum number of ticks of one run on a virtual clock. If more ticks are requested, there are several runs with
/// different seeds.
const CHUNK: u64 = 100_000;
/// Maximum number of ticks for one row of the table for `StoreKind::Lock`.
const LOCK_TICKS: u64 = 20_000;

/// Runs the jobs, checks the history, and prints the report.
pub(crate) fn run(args: &TicksArgs) -> ExitCode {
    let is_well = match args.store {
        StoreKind::Redis | StoreKind::Sqlite => on_real_store(args),
        StoreKind::Virtual => Ok(in_virtual_time(args)),
        StoreKind::Lock => {
            measure_lock(args);
            Ok(true)
        }
    };
    match is_well {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("storm: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes one run of processes on Redis or SQLite. Returns whether nothing is wrong.
fn on_real_store(args: &TicksArgs) -> std::io::Result<bool> {
    let begin = Instant::now();
    // The directory is in memory if possible, because a busy disk would stop all processes at the same time.
    let mut dir = tempfile::Builder::new();
    let dir = dir.prefix("bandog-ticks-");
    let dir = dir.tempdir_in("/dev/shm").or_else(|_| dir.tempdir())?;
    let history = cluster::run(args, dir.path())?;
    let report = Report::new(args, args.seed, &history, begin.elapsed());
    report.print(args);
    if !report.is_well() {
        eprintln!("the records of the nodes: {}", dir.keep().display());
    }
    Ok(report.is_well())
}

/// Makes one or more runs on a virtual clock. Returns whether nothing is wrong.
fn in_virtual_time(args: &TicksArgs) -> bool {
    let nodes = usize::try_from(args.nodes).unwrap_or(usize::MAX);
    // Ten jobs have 91 ticks in a second: nine of them have ten ticks, and one has one tick.
    let per_second = (args.jobs() as u64 * 91).div_ceil(10);
    let (mut missing, mut seed, mut all) = (args.ticks, args.seed, None::<Report>);
    while missing > 0 {
        let ticks = missing.min(CHUNK);
        let begin = Instant::now();
        let size = virtually::Size { nodes, jobs: args.jobs(), seconds: ticks.div_ceil(per_second), seed };
        let history = virtually::run(size);
        let report = Report::new(args, seed, &history, begin.elapsed());
        missing -= ticks;
        seed += 1;
        eprintln!("{}", report.line());
        all = Some(match all {
            Some(all) => all.and(report),
            None => report,
        });
    }
    let Some(all) = all else { return true };
    all.print(args);
    all.is_well()
}

/// Measures a named lock without a scheduler. Prints one row for each deviation of the clocks and each minimum hold.
fn measure_lock(args: &TicksArgs) {
    let ticks = args.ticks.min(LOCK_TICKS);
    // The maximum deviation of the clocks, and the minimum time for which a holder keeps the lock, in seconds.
    for (skew, min) in [(0, 1), (2, 1), (2, 9), (90, 1), (90, 9)] {
        let (skew, min) = (Duration::from_secs(skew), Duration::from_secs(min));
        let outcome = lock::run(args.nodes, ticks, skew, min, args.seed);
        report::print_lock_row(args, skew, min, outcome);
    }
}
