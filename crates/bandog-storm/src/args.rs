//! The command line of the storm.

use std::{fmt, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    plan::Kind,
    ticks::{NodeArgs, TicksArgs},
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
  cargo xtask storm postgres mariadb zookeeper            other servers
  cargo xtask storm sqlite --profile pauses --keep /tmp/h  keep the history
  cargo xtask storm ticks --store redis --seconds 150     jobs instead of locks: `storm ticks --help`

The exit code is 0 when nothing is wrong, 1 when a promise of docs/GUARANTEES.md was broken.
docs/PROOF.md says what is checked, what is not, and what was found.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// Several clients in one process; faults lose some of their calls to the store, or make them late
    Memory,
    /// Several processes on one file
    Sqlite,
    /// Several processes on a separate server; faults cut their connections
    Redis,
    /// A master, two replicas and three sentinels; faults replace the master
    Sentinel,
    /// Three masters with a replica each; faults replace masters, and slots move
    Cluster,
    /// A majority of three servers; one at a time loses its data. Mutexes and read-write locks only
    Quorum,
    /// Several processes on a server; faults kill it, end its sessions and lock its table
    Postgres,
    /// The same on MariaDB
    Mariadb,
    /// Several processes on a server; faults kill it and stop it, and sessions expire. No semaphores
    Zookeeper,
}

impl StoreKind {
    /// The stores of a run that names none.
    pub(crate) const DEFAULT: [Self; 3] = [Self::Memory, Self::Sqlite, Self::Redis];

    /// Whether the store has this kind of traffic. A quorum has no other kinds of locks, and no records.
    pub(crate) fn has(self, kind: Kind) -> bool {
        match self {
            Self::Memory
            | Self::Sqlite
            | Self::Redis
            | Self::Sentinel
            | Self::Cluster
            | Self::Postgres
            | Self::Mariadb => true,
            Self::Zookeeper => kind != Kind::Semaphore,
            Self::Quorum => matches!(kind, Kind::Mutex | Kind::ReadWrite | Kind::All),
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::Quorum => "quorum",
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Zookeeper => "zookeeper",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// No faults
    Calm,
    /// Connections are cut, delayed and stalled, and lose data
    Network,
    /// Processes are killed, and stopped for longer than their ttl
    Pauses,
    /// Workers run in their own time namespaces, or with another boot id
    Clocks,
    /// The store is stopped and slowed, and loses data; masters are replaced; locks are taken by force
    Server,
    /// Slots of a cluster move to other nodes
    Moves,
    /// The faults of all other profiles
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
            Self::Moves => "moves",
            Self::Everything => "everything",
        })
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// A worker process, which the storm itself starts
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// Runs scheduled jobs under faults, and checks that each tick (each due time of a job) runs once
    Ticks(TicksArgs),
    /// A node of the command `ticks`, which the storm itself starts
    #[command(hide = true)]
    TicksNode(NodeArgs),
}

/// The arguments of a worker process.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkerArgs {
    /// The URL of the store; `memory:` is a store in this process
    #[arg(long)]
    pub(crate) url: String,
    /// The directory of the history
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// The number of the first client of this process
    #[arg(long)]
    pub(crate) first: u32,
    /// Number of clients of this process
    #[arg(long)]
    pub(crate) clients: u32,
    /// Number of tasks of each client
    #[arg(long)]
    pub(crate) tasks: u32,
    /// Number of lock names
    #[arg(long)]
    pub(crate) names: usize,
    #[arg(long)]
    pub(crate) seed: u64,
    /// The kinds of calls
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) kinds: Vec<Kind>,
    /// The watchdog's ttl, in milliseconds
    #[arg(long)]
    pub(crate) ttl: u64,
    /// The request timeout, in milliseconds
    #[arg(long)]
    pub(crate) timeout: u64,
    /// Number of seconds by which the clock of this process is ahead of the machine's clock
    #[arg(long, default_value_t = 0)]
    pub(crate) ahead: u64,
    /// Whether the tasks sometimes take locks away from their holders by force
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
