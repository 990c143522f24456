//! The options of `storm ticks`.

use clap::ValueEnum;

use crate::{calls::PlayArgs, settings};

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
    /// Duration of the faults in seconds, for the stores with processes
    #[arg(long, default_value_t = 150, value_name = "N")]
    pub(crate) seconds: u64,
    /// Minimum number of ticks, for the kinds `virtual` and `lock`
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) ticks: u64,
    /// Also empties the store, while a node is killed and another one is paused. Then the counters of the store are not
    /// checked. Only for the store `redis`
    #[arg(long)]
    pub(crate) empty: bool,
    #[command(flatten)]
    pub(crate) plays: PlayArgs,
}

/// The seed of a run that names none.
const SEED: u64 = 2026;

const EXAMPLES: &str = "Examples:
  cargo xtask storm ticks --store redis --seconds 150      processes over a separate server
  cargo xtask storm ticks --store redis --empty            the server also loses all its data
  cargo xtask storm ticks --store postgres --profile server  also sqlite and mariadb; only faults of the server
  cargo xtask storm ticks --store virtual --ticks 1000000  replicas in memory on a virtual clock
  cargo xtask storm ticks --store lock                     a named lock with a minimum hold, for comparison

Without --seed, the seed is 2026. On a virtual clock, a seed repeats the complete run.
The exit code is 0 when nothing is wrong, 1 when a promise was broken. docs/PROOF.md has figures.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// Processes on a Redis server; each process has its own connection, which faults can cut
    Redis,
    /// Processes on one SQLite file
    Sqlite,
    /// Processes on a PostgreSQL server
    Postgres,
    /// Processes on a MariaDB server
    Mariadb,
    /// Replicas (nodes in one process) on a virtual clock
    Virtual,
    /// A named lock instead of the scheduler, on a virtual clock; each holder keeps the lock for a minimum time
    Lock,
}

impl TicksArgs {
    pub(super) fn jobs(&self) -> usize {
        self.jobs.unwrap_or(if self.store == StoreKind::Virtual { 20 } else { 100 })
    }

    pub(super) fn seed(&self) -> u64 {
        self.plays.seed.unwrap_or(SEED)
    }
}

impl StoreKind {
    /// The store of processes. `None` for the kinds of runs on a virtual clock.
    pub(super) fn of_processes(self) -> Option<settings::StoreKind> {
        match self {
            Self::Redis => Some(settings::StoreKind::Redis),
            Self::Sqlite => Some(settings::StoreKind::Sqlite),
            Self::Postgres => Some(settings::StoreKind::Postgres),
            Self::Mariadb => Some(settings::StoreKind::Mariadb),
            Self::Virtual | Self::Lock => None,
        }
    }
}
