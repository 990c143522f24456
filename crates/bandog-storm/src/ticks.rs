//! Runs scheduled jobs under faults, and checks that each tick runs once.
//!
//! A tick is a time at which a job is due. `jobs` declares the scheduled jobs. `cluster` runs nodes (`node`) as
//! processes over a real store and injects faults. `virtually` does the same with replicas in one process, on a virtual
//! clock. Both produce a `history`. `check` checks the history, and imports none of the modules that produce it.
//!
//! For comparison, `lock` measures a program that uses a named lock and no scheduler. The holder of this lock keeps the
//! lock for a minimum time.

mod check;
mod cluster;
mod history;
mod jobs;
mod lock;
mod node;
mod report;
#[cfg(test)]
mod tests;
mod virtually;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use bandog::schedule;
use clap::ValueEnum;

pub(crate) use self::node::{NodeArgs, run as node};
use self::report::Report;

/// Runs scheduled jobs under faults, and checks that each tick (each due time of a job) runs once.
///
/// Nodes run a hundred jobs with different policies. Each job fires once or ten times a second. The wall clocks of the
/// nodes are wrong by up to 90 seconds. Meanwhile nodes are stopped for longer than their lease, killed, shut down and
/// disconnected, and the store is killed. Each node records the start and the end of its runs. The history is checked:
/// no attempt of a tick started twice, fences increased, no run started early, the overlap policy held in the whole
/// cluster, each tick ran or the store counted it with the reason why it did not run, and runs of dead nodes were taken
/// over in time.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TicksArgs {
    /// The store or the kind of run
    #[arg(long, value_enum, default_value_t = StoreKind::Redis)]
    pub(crate) store: StoreKind,
    /// Number of nodes
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=50))]
    pub(crate) nodes: u32,
    /// Number of jobs [default: 100; 20 on a virtual clock]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Duration of the faults in seconds, for the stores `redis` and `sqlite`
    #[arg(long, default_value_t = 150, value_name = "N")]
    pub(crate) seconds: u64,
    /// Minimum number of ticks, for the kinds `virtual` and `lock`
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) ticks: u64,
    /// The seed of an earlier run; repeats its random choices, or on a virtual clock the complete run
    #[arg(long, value_name = "S", default_value_t = 2026)]
    pub(crate) seed: u64,
    /// Also empties the store, while a node is killed and another one is paused. Then the counters of the store are not
    /// checked. Only for the store `redis`
    #[arg(long)]
    pub(crate) empty: bool,
    /// Prints a JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "Examples:
  cargo xtask storm ticks --store redis --seconds 150      processes over a separate server
  cargo xtask storm ticks --store redis --empty            the server also loses all its data
  cargo xtask storm ticks --store virtual --ticks 1000000  replicas in memory on a virtual clock
  cargo xtask storm ticks --store lock                     a named lock with a minimum hold, for comparison

The exit code is 0 when nothing is wrong, 1 when a promise was broken. docs/PROOF.md has figures.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// Processes on a Redis server; each process has its own connection, which faults can cut
    Redis,
    /// Processes on one SQLite file
    Sqlite,
    /// Replicas (nodes in one process) on a virtual clock
    Virtual,
    /// A named lock instead of the scheduler, on a virtual clock; each holder keeps the lock for a minimum time
    Lock,
}

/// Maximum number of ticks of one run on a virtual clock. If more ticks are requested, there are several runs with
/// different seeds.
const CHUNK: u64 = 100_000;
/// Maximum number of ticks for one row of the table for `StoreKind::Lock`.
const LOCK_TICKS: u64 = 20_000;

impl TicksArgs {
    fn jobs(&self) -> usize {
        self.jobs.unwrap_or(if self.store == StoreKind::Virtual { 20 } else { 100 })
    }

    fn seed(&self) -> u64 {
        self.seed
    }
}

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
