//! The kinds of faults, and their effects on locks. A fault affects a worker, its wire (the connection between the
//! worker and the store), or the store.

use serde::Serialize;

use crate::{
    history::Nanos,
    settings::{Profile, StoreKind},
};

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(crate) enum FaultKind {
    /// A worker is killed with `kill -9`, and replaced by a new worker.
    Kill,
    /// A worker is ordered to end, ends, and is replaced by a new worker.
    Dismissed,
    /// A worker is stopped, in most cases for longer than its ttl.
    Stop,
    /// A worker is stopped while it has SQLite's write lock.
    StopInWrite,
    /// A worker is killed while it has SQLite's write lock.
    KillInWrite,
    /// A worker is killed, and replaced by a worker in its own time namespace.
    TimeNamespace,
    /// A worker is killed, and replaced by a worker with another boot id.
    OtherBoot,
    /// A worker's connections are reset.
    Cut,
    /// A worker's wire is slow.
    Slow,
    /// A worker's requests are lost.
    LoseRequests,
    /// A worker's requests are executed, and the answers are lost.
    LoseAnswers,
    /// A worker's wire holds all data, and delivers it later.
    Stall,
    /// A worker cannot connect.
    Refuse,
    /// A worker's wire has a low rate, and in some cases a delay of up to 200 ms.
    Narrow,
    /// No worker reaches the store: requests are lost, refused or delivered later.
    Outage,
    /// The data of a worker's open connections are held, and delivered later. New connections work.
    Overtaken,
    /// The server takes packets or values of at most 1 MiB.
    SmallPackets,
    /// The wall clock of the server is set back.
    ClockSetBack,
    /// About a third of the calls of a client are lost, refused or late.
    Lossy,
    /// A client's requests are held, and executed later.
    HoldRequests,
    /// A client's requests are executed, and the answers are held.
    HoldAnswers,
    /// A server is stopped, not for so long that another one takes over.
    ServerStop,
    /// The server is busy with one slow command.
    ServerSleep,
    /// The server delays writes.
    WritesPaused,
    /// The server closes every connection.
    ClientsKilled,
    /// The server loses its scripts.
    ScriptsFlushed,
    /// The server is killed, and starts again empty.
    ServerEmpty,
    /// The server is killed, and starts again with its data.
    ServerKilled,
    /// A server loses all its data.
    Flushed,
    /// A server is at its memory limit, and refuses writes that need memory.
    Full,
    /// The clients lack the right to one of the commands of objects.
    RightMissing,
    /// The runtime of a client ends, and another client replaces it.
    RuntimeEnded,
    /// Another session locks the table of the leases.
    TableLocked,
    /// One server of a quorum is killed, and starts again empty. The fault lasts until the server has a vote.
    NodeEmpty,
    /// A master is killed, and starts again as a replica when another server has taken over. In half of the cases, the
    /// replicas do not have its last writes.
    MasterKilled,
    /// A master is stopped, and continues when another server has taken over.
    MasterStopped,
    /// The sentinels replace a master in order. The old master does not know it at first.
    Failover,
    /// A replica of a cluster takes over in order. The old master stops before.
    HandedOver,
    /// A replica has taken over, because the machine did not run its master.
    Promoted,
    /// A sentinel is killed, and starts again.
    SentinelKilled,
    /// A sentinel is stopped.
    SentinelStopped,
    /// Slots move to another node of the cluster, key by key.
    SlotsMoved,
    /// The store loses one lock.
    Forget,
    /// SQLite's notification file is deleted.
    NotificationFileDeleted,
    /// SQLite's notification file is replaced by another file.
    NotificationFileReplaced,
    /// SQLite's log (`-wal`), the index of the log (`-shm`) or both are deleted while the workers have these files
    /// open.
    LogDeleted,
    /// A client took the lock by force.
    Evict,
    /// The server did not answer, because the machine was busy.
    Starved,
}

use FaultKind::{
    ClientsKilled, ClockSetBack, Cut, Dismissed, Evict, Failover, Flushed, Forget, Full, HandedOver, HoldAnswers,
    HoldRequests, Kill, KillInWrite, LogDeleted, LoseAnswers, LoseRequests, Lossy, MasterKilled, MasterStopped, Narrow,
    NodeEmpty, NotificationFileDeleted, NotificationFileReplaced, OtherBoot, Outage, Overtaken, Promoted, Refuse,
    RightMissing, RuntimeEnded, ScriptsFlushed, SentinelKilled, SentinelStopped, ServerEmpty, ServerKilled,
    ServerSleep, ServerStop, SlotsMoved, Slow, SmallPackets, Stall, Starved, Stop, StopInWrite, TableLocked,
    TimeNamespace, WritesPaused,
};

/// Each kind of fault, its name in the history, the stores that can have the fault, and the profile of the fault. If a
/// fault has no profile, the workers or the machine cause this fault, or only some kinds of traffic have it
/// (`FaultKind::of_…`). The nemesis causes all other faults.
const KINDS: [(FaultKind, &str, &[StoreKind], Option<Profile>); 48] = {
    use StoreKind::{
        Cluster as C, Mariadb as D, Memory as M, Postgres as P, Quorum as Q, Redis as R, Sentinel as N, Sqlite as S,
        Zookeeper as Z, ZookeeperEnsemble as E,
    };
    [
        (Kill, "kill", &[S, R, N, C, Q, P, D, Z, E], Some(Profile::Pauses)),
        (Stop, "stop", &[M, S, R, N, C, Q, P, D, Z, E], Some(Profile::Pauses)),
        (StopInWrite, "stop-in-write", &[S], Some(Profile::Pauses)),
        (KillInWrite, "kill-in-write", &[S], Some(Profile::Pauses)),
        (TimeNamespace, "time-namespace", &[S, R, N, C, Q, P, D, Z, E], Some(Profile::Clocks)),
        (OtherBoot, "other-boot", &[S], Some(Profile::Clocks)),
        (Cut, "cut", &[R, Q, P, D, Z, E], Some(Profile::Network)),
        (Slow, "slow", &[R, Q, P, D, Z, E], Some(Profile::Network)),
        (LoseRequests, "lose-requests", &[R, Q, P, D, Z, E], Some(Profile::Network)),
        (LoseAnswers, "lose-answers", &[R, Q, P, D, Z, E], Some(Profile::Network)),
        (Stall, "stall", &[R, Q, P, D, Z, E], Some(Profile::Network)),
        (Refuse, "refuse", &[R, Q, P, D, Z, E], Some(Profile::Network)),
        (Lossy, "lossy", &[M], Some(Profile::Network)),
        (HoldRequests, "hold-requests", &[M], Some(Profile::Network)),
        (HoldAnswers, "hold-answers", &[M], Some(Profile::Network)),
        (ServerStop, "server-stop", &[R, N, C, Q, Z, E], Some(Profile::Server)),
        (ServerSleep, "server-sleep", &[R, Q], Some(Profile::Server)),
        (WritesPaused, "writes-paused", &[R, Q], Some(Profile::Server)),
        (ClientsKilled, "clients-killed", &[R, N, C, Q, P, D], Some(Profile::Server)),
        (ScriptsFlushed, "scripts-flushed", &[R, N, C, Q], Some(Profile::Server)),
        (ServerEmpty, "server-empty", &[R], Some(Profile::Server)),
        (ServerKilled, "server-killed", &[P, D, Z, E], Some(Profile::Server)),
        (TableLocked, "table-locked", &[P, D], Some(Profile::Server)),
        (NodeEmpty, "node-empty", &[Q], Some(Profile::Server)),
        (MasterKilled, "master-killed", &[N, C], Some(Profile::Server)),
        (MasterStopped, "master-stopped", &[N, C], Some(Profile::Server)),
        (Failover, "failover", &[N], Some(Profile::Server)),
        (HandedOver, "handed-over", &[C], Some(Profile::Server)),
        (SentinelKilled, "sentinel-killed", &[N], Some(Profile::Server)),
        (SentinelStopped, "sentinel-stopped", &[N], Some(Profile::Server)),
        (SlotsMoved, "slots-moved", &[C], Some(Profile::Moves)),
        (Forget, "forget", &[M], Some(Profile::Server)),
        (NotificationFileDeleted, "notification-file-deleted", &[S], Some(Profile::Server)),
        (NotificationFileReplaced, "notification-file-replaced", &[S], Some(Profile::Server)),
        (LogDeleted, "log-deleted", &[S], Some(Profile::Server)),
        (Dismissed, "dismissed", &[], None),
        (Flushed, "flushed", &[], None),
        (Full, "full", &[], None),
        (RightMissing, "right-missing", &[], None),
        (RuntimeEnded, "runtime-ended", &[], None),
        (Narrow, "narrow", &[], None),
        (Outage, "outage", &[], None),
        (Overtaken, "overtaken", &[], None),
        (SmallPackets, "small-packets", &[], None),
        (ClockSetBack, "clock-set-back", &[], None),
        (Promoted, "promoted", &[], None),
        (Evict, "evict", &[], None),
        (Starved, "starved", &[], None),
    ]
};

impl FaultKind {
    /// The faults of this store in this profile.
    pub(crate) fn of(store: StoreKind, profile: Profile) -> Vec<Self> {
        let is_in_profile = |of: &Option<Profile>| of.is_some_and(|of| of == profile || profile == Profile::Everything);
        KINDS
            .iter()
            .filter(|(_, _, stores, of)| stores.contains(&store) && is_in_profile(of))
            .map(|(kind, ..)| *kind)
            .collect()
    }

    /// The faults of objects of the grid on this store in this profile.
    pub(crate) fn of_objects(store: StoreKind, profile: Profile) -> Vec<Self> {
        let mut kinds = Self::of_queues(store, profile);
        if kinds.contains(&Flushed) {
            kinds.push(RightMissing);
        }
        kinds
    }

    /// The faults of work queues on this store in this profile. If a right is missing, a script can be applied in part, so
    /// this is not among them.
    pub(crate) fn of_queues(store: StoreKind, profile: Profile) -> Vec<Self> {
        let mut kinds = Self::of(store, profile);
        // A server keeps its data when it is killed: the fault `Flushed` is the one that loses them.
        kinds.retain(|kind| !matches!(kind, TimeNamespace | OtherBoot | ServerEmpty | Forget));
        let has_wires = matches!(store, StoreKind::Redis | StoreKind::Postgres | StoreKind::Mariadb);
        if profile.has(Profile::Wires) && has_wires {
            kinds.push(Narrow);
        }
        if profile.has(Profile::Outages) && (has_wires || matches!(store, StoreKind::Memory | StoreKind::Sqlite)) {
            kinds.push(Outage);
        }
        if profile.has(Profile::Outages) && has_wires {
            kinds.push(Overtaken);
        }
        if profile.has(Profile::Packets)
            && matches!(store, StoreKind::Redis | StoreKind::Sentinel | StoreKind::Cluster | StoreKind::Mariadb)
        {
            kinds.push(SmallPackets);
        }
        if profile.has(Profile::Clocks) && has_wires {
            kinds.push(ClockSetBack);
        }
        if profile.has(Profile::Pauses) && store == StoreKind::Memory {
            kinds.push(RuntimeEnded);
        }
        let is_redis = matches!(store, StoreKind::Redis | StoreKind::Sentinel | StoreKind::Cluster);
        if profile.has(Profile::Server) && is_redis {
            kinds.extend([Flushed, Full]);
            if store == StoreKind::Redis {
                kinds.push(ServerKilled);
            }
        }
        kinds
    }

    /// The faults of scheduled jobs on this store in this profile. `empties`: the store also loses all its data.
    pub(crate) fn of_ticks(store: StoreKind, profile: Profile, empties: bool) -> Vec<Self> {
        let mut kinds = Self::of(store, profile);
        kinds.retain(|kind| {
            !matches!(
                kind,
                TimeNamespace | OtherBoot | ServerEmpty | NotificationFileDeleted | NotificationFileReplaced
            )
        });
        if matches!(profile, Profile::Pauses | Profile::Everything) {
            kinds.extend([Dismissed, Dismissed, Kill, Stop]);
        }
        if matches!(profile, Profile::Server | Profile::Everything) {
            kinds.push(if store == StoreKind::Sqlite { TableLocked } else { ServerKilled });
            if empties && store == StoreKind::Redis {
                // A quarter of all faults.
                kinds.extend(vec![Flushed; kinds.len() / 3]);
            }
        }
        kinds
    }

    /// Whether the fault can make the store lose writes of objects that it has confirmed.
    pub(crate) fn loses_objects(self) -> bool {
        matches!(self, Flushed | LogDeleted | MasterKilled | MasterStopped | Failover | Promoted)
    }

    /// Whether the fault can make the store lose a hold (a granted lock) before the hold expires.
    pub(crate) fn forgets(self) -> bool {
        // A deleted log loses holds only if a new worker opens the files before another worker makes a request.
        matches!(self, ServerEmpty | Forget | LogDeleted | Evict)
    }

    /// Whether the store can lose the latest writes that no call has confirmed with the replicas: operations on
    /// latches, swaps of records, places of waiters, and limits of semaphores. No grant is among them, because each grant
    /// waits for the replicas.
    pub(crate) fn undoes(self) -> bool {
        self.forgets() && self != Evict || matches!(self, MasterKilled | MasterStopped | Failover | Promoted)
    }

    /// Whether the nemesis replaces masters with this fault.
    pub(crate) fn promotes(self) -> bool {
        matches!(self, MasterKilled | MasterStopped | Failover | HandedOver)
    }

    /// Whether a server does not answer while the fault lasts.
    pub(crate) fn stops_a_server(self) -> bool {
        matches!(self, ServerStop | ServerSleep | ServerEmpty | ServerKilled | NodeEmpty) || self.promotes()
    }

    /// Whether the worker cannot run while the fault lasts. If a busy machine does not run the server, it does not run
    /// the workers well either.
    pub(crate) fn stops_the_worker(self) -> bool {
        matches!(self, Stop | StopInWrite | Starved)
    }

    /// Whether the fault affects one client, and not the store.
    pub(crate) fn is_of_one_client(self) -> bool {
        match self {
            Kill | Dismissed | Stop | StopInWrite | KillInWrite | TimeNamespace | OtherBoot | Cut | Slow
            | LoseRequests | LoseAnswers | Stall | Refuse | Narrow | Overtaken | Lossy | HoldRequests | HoldAnswers
            | RuntimeEnded => true,
            ServerStop
            | ServerSleep
            | WritesPaused
            | ClientsKilled
            | ScriptsFlushed
            | ServerEmpty
            | ServerKilled
            | Flushed
            | Full
            | RightMissing
            | TableLocked
            | NodeEmpty
            | MasterKilled
            | MasterStopped
            | Failover
            | HandedOver
            | Promoted
            | SentinelKilled
            | SentinelStopped
            | SlotsMoved
            | Forget
            | NotificationFileDeleted
            | NotificationFileReplaced
            | LogDeleted
            | Evict
            | Starved
            | Outage
            | SmallPackets
            | ClockSetBack => false,
        }
    }

    /// The name in the history.
    pub(crate) fn word(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, word, ..)| word)
    }
}

/// A past fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// A time shortly before the fault began.
    pub(crate) from: Nanos,
    /// A time shortly after the fault was removed.
    pub(crate) to: Nanos,
    /// The affected client. `None` if all clients are affected.
    pub(crate) client: Option<u32>,
    /// The affected lock name. `None` if all names are affected.
    pub(crate) name: Option<usize>,
}
