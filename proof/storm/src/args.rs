//! The command line of the storm.

use clap::{Parser, Subcommand};

use crate::{
    exits::ExitsArgs, grid::GridArgs, locks::LocksArgs, settings::WorkerArgs, ticks::TicksArgs, work::WorkArgs,
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
    #[command(flatten)]
    pub(crate) locks: LocksArgs,
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
}
