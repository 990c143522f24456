//! What the storm understands.

use std::{fmt, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};

use crate::ticks::{NodeArgs, TicksArgs};

/// Random traffic on locks under faults, with a history that is checked.
///
/// Worker processes lock, try, wait, cancel, re-enter and release a handful of names as fast as they can, while a
/// nemesis kills and stops them, breaks their wires and hurts the store. Everybody writes down what they saw. In the
/// end everything heals, and the history is checked: no two believed at the same time that they hold one lock,
/// fences rose, every call ended in its time, nobody waited at a free lock, nothing was left behind.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask storm", bin_name = "cargo xtask storm", after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
    /// The stores to try, one after the other [default: memory sqlite redis]
    #[arg(value_enum)]
    pub(crate) stores: Vec<StoreKind>,
    /// How many calls are made on each store, at least
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) ops: u64,
    /// Repeats the choices of an earlier run: what is called and which faults come; what the scheduler does is its own
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Which faults come
    #[arg(long, value_enum, default_value_t = Profile::Everything)]
    pub(crate) profile: Profile,
    /// Keeps the whole history in this directory; else it is kept only if something is wrong
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Prints one JSON object a store to standard output instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "Examples:
  cargo xtask storm                                       a million calls on each store under every fault
  cargo xtask storm redis --ops 20000 --seed 7            a short run, to be repeated with the same choices
  cargo xtask storm sqlite --profile pauses --keep /tmp/h  look at the history afterwards
  cargo xtask storm ticks --store redis --seconds 150     jobs instead of locks: `storm ticks --help`

The exit code is 0 when nothing is wrong, 1 when a promise of docs/GUARANTEES.md was broken.
docs/PROOF.md says what is checked, what is not, and what was found.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// Several clients in one process, behind a wire that can lose and hold calls
    Memory,
    /// Several processes on one file
    Sqlite,
    /// Several processes on a server of its own, each behind a wire that can be cut
    Redis,
}

impl StoreKind {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Sqlite, Self::Redis];
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// No faults
    Calm,
    /// Connections are cut, delayed, stalled and made to lose things
    Network,
    /// Processes are killed, and stopped for longer than their ttl
    Pauses,
    /// Workers live in time namespaces of their own, or think that they are another boot
    Clocks,
    /// The store is stopped, slowed, made to forget; locks are taken by force
    Server,
    /// All of these
    Everything,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Calm => "calm",
            Self::Network => "network",
            Self::Pauses => "pauses",
            Self::Clocks => "clocks",
            Self::Server => "server",
            Self::Everything => "everything",
        })
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// A worker process: started by the storm itself
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// Jobs under faults: does each tick run once?
    Ticks(TicksArgs),
    /// A node of `ticks`: started by the storm itself
    #[command(hide = true)]
    TicksNode(NodeArgs),
}

/// What a worker process is told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkerArgs {
    /// The store; `memory:` is one in this process
    #[arg(long)]
    pub(crate) url: String,
    /// Where the history is
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// The number of the first client
    #[arg(long)]
    pub(crate) first: u32,
    /// How many clients this process has
    #[arg(long)]
    pub(crate) clients: u32,
    /// How many tasks each client has
    #[arg(long)]
    pub(crate) tasks: u32,
    /// How many names are locked
    #[arg(long)]
    pub(crate) names: usize,
    #[arg(long)]
    pub(crate) seed: u64,
    /// The watchdog's ttl, in milliseconds
    #[arg(long)]
    pub(crate) ttl: u64,
    /// The request timeout, in milliseconds
    #[arg(long)]
    pub(crate) timeout: u64,
    /// How far this process's clock is ahead of the machine's, in seconds
    #[arg(long, default_value_t = 0)]
    pub(crate) ahead: u64,
    /// Takes locks by force, rarely
    #[arg(long)]
    pub(crate) evicts: bool,
}

impl WorkerArgs {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout)
    }
}
