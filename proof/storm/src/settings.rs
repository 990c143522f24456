//! The stores and the profiles of faults, and the settings of the workers.

use std::{fmt, path::PathBuf, time::Duration};

use clap::ValueEnum;

use crate::plan::Kind;

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
    /// Several processes on a server; faults kill it and stop it, and sessions expire
    Zookeeper,
    /// Several processes on three servers; faults kill and stop the leader
    ZookeeperEnsemble,
}

impl StoreKind {
    /// The stores of a run on locks that names none.
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
            | Self::Mariadb
            | Self::Zookeeper
            | Self::ZookeeperEnsemble => true,
            Self::Quorum => matches!(kind, Kind::Mutex | Kind::ReadWrite | Kind::All),
        }
    }

    /// Whether a client that is stopped or cut off can have locks of the store for which the others wait.
    pub(crate) fn has_locks(self) -> bool {
        matches!(self, Self::Sqlite | Self::Postgres | Self::Mariadb)
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
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
    /// Workers run in their own time namespaces, or with another boot id; of queues and objects, the clock of the server is
    /// set back
    Clocks,
    /// The store is stopped and slowed, and loses data; masters are replaced; locks are taken by force
    Server,
    /// Slots of a cluster move to other nodes
    Moves,
    /// Large values, on connections of 1 to 100 Mbit/s and of up to 200 ms
    Wires,
    /// No client reaches the store for seconds; with `--long-outages` for up to 65 s
    Outages,
    /// Large values, and for some time a server whose limit of packets is 1 MiB
    Packets,
    /// No faults, but values of up to the largest that is allowed
    Sizes,
    /// No faults, but the code of the user panics wherever it is called
    Panics,
    /// No faults, but objects whose ttl is some milliseconds
    Ttls,
    /// No faults, but copies of maps that are taken and dropped while the maps change
    Copies,
    /// No faults, but another program that writes to keys of objects
    Strangers,
    /// All of the other profiles
    Everything,
}

impl Profile {
    /// Whether the profile has no faults.
    pub(crate) fn is_calm(self) -> bool {
        use Profile::{
            Calm, Clocks, Copies, Everything, Moves, Network, Outages, Packets, Panics, Pauses, Server, Sizes,
            Strangers, Ttls, Wires,
        };
        match self {
            Calm | Sizes | Panics | Ttls | Copies | Strangers => true,
            Network | Pauses | Clocks | Server | Moves | Wires | Outages | Packets | Everything => false,
        }
    }

    /// Whether a run with this profile has the weather of the other one.
    pub(crate) fn has(self, other: Self) -> bool {
        match self {
            Self::Everything => true,
            // Small values feel nothing of them.
            Self::Wires | Self::Packets => other == self || other == Self::Sizes,
            _ => self == other,
        }
    }
}

/// The name of a value on the command line.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What the clients of a run call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrafficKind {
    Locks,
    Ticks,
    Grid,
    Work,
}

/// The arguments of a worker process.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkerArgs {
    /// What the clients call
    #[arg(long, value_enum)]
    pub(crate) traffic: TrafficKind,
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
    #[arg(long)]
    pub(crate) seed: u64,
    /// The watchdog's ttl, in milliseconds
    #[arg(long)]
    pub(crate) ttl: u64,
    /// Number of seconds by which the clock of this process is ahead of the machine's clock
    #[arg(long, default_value_t = 0)]
    pub(crate) ahead: u64,
    /// What the clients do besides their usual calls
    #[arg(long, value_enum, default_value_t = Profile::Calm)]
    pub(crate) profile: Profile,
    /// The kinds of calls on locks
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) kinds: Vec<Kind>,
    /// Whether the tasks sometimes take locks away from their holders by force
    #[arg(long)]
    pub(crate) evicts: bool,
    /// Number of scheduled jobs
    #[arg(long, default_value_t = 0)]
    pub(crate) jobs: usize,
}

impl WorkerArgs {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl)
    }
}
