//! The command line of the storm.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::{
    exits::ExitsArgs,
    grid::GridArgs,
    plan::Kind,
    settings::{Profile, StoreKind, WorkerArgs},
    ticks::{NodeArgs, TicksArgs},
    work::WorkArgs,
};

/// Makes random calls on locks under faults, and checks the history of the calls.
///
/// Worker processes use a few locks of every kind as fast as they can: they lock, try to lock, wait, cancel calls, lock
/// again as the same owner, downgrade, and release. They also use latches, barriers and elections. Meanwhile the nemesis,
/// which injects the faults, kills and stops the workers, breaks their connections and disturbs the store. Each process
/// records its events. At the end all faults are removed, and the history is checked: no two clients believed at the
/// same time that they hold what only one of them can hold, fences increased, fair mutexes were granted in the order of
/// their queues, latches and barriers opened neither too early nor too late, each call ended in time, no client waited
/// at a free lock, and no data of clients was left in the store.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask storm", bin_name = "cargo xtask storm", after_help = EXAMPLES)]
pub(crate) struct Args {
    // `None` for a run on locks.
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
    /// The stores to test, one after the other [default: memory sqlite redis]
    #[arg(value_enum)]
    pub(crate) stores: Vec<StoreKind>,
    /// Minimum number of calls on each store
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) ops: u64,
    /// The seed of an earlier run, to repeat its calls and its faults. The scheduling of the threads is not repeated
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// The kinds of faults
    #[arg(long, value_enum, default_value_t = Profile::Everything)]
    pub(crate) profile: Profile,
    /// The kinds of calls: all of them, unless this option names some, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::ALL, hide_default_value = true)]
    pub(crate) kinds: Vec<Kind>,
    /// Keeps the whole history in this directory; without this option, the history is kept only after a violation
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Prints one JSON object per store instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "Examples:
  cargo xtask storm                                       a million calls on each store under every fault
  cargo xtask storm redis --ops 20000 --seed 7            a short run that can be repeated
  cargo xtask storm redis --kinds fair,read-write         only these kinds of calls
  cargo xtask storm sentinel cluster quorum --ops 500000  Redis with several servers, which fail
  cargo xtask storm postgres mariadb zookeeper            other servers, also zookeeper-ensemble
  cargo xtask storm sqlite --profile pauses --keep /tmp/h  keep the history
  cargo xtask storm ticks --store redis --seconds 150     jobs instead of locks: `storm ticks --help`
  cargo xtask storm grid redis --ops 100000               the data grid: `storm grid --help`
  cargo xtask storm work redis --ops 100000               work queues: `storm work --help`

The exit code is 0 when nothing is wrong, 1 when a promise of docs/GUARANTEES.md was broken.
docs/PROOF.md says what is checked, what is not, and what was found.";

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// A worker process, which the storm itself starts
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// Runs scheduled jobs under faults, and checks that each tick (each due time of a job) runs once
    Ticks(TicksArgs),
    /// Plays the data grid with random calls under faults, and checks the history of the calls
    Grid(GridArgs),
    /// Plays work queues with random calls and handlers under faults, and checks the history
    Work(WorkArgs),
    /// Ends real programs in every possible way, and checks how each program exits
    Exits(ExitsArgs),
    /// A worker of the command `grid`, which the storm itself starts
    #[command(hide = true)]
    GridWorker(WorkerArgs),
    /// A worker of the command `work`, which the storm itself starts
    #[command(hide = true)]
    WorkWorker(WorkerArgs),
    /// A node of the command `ticks`, which the storm itself starts
    #[command(hide = true)]
    TicksNode(NodeArgs),
}
