//! What is done to workers and stores, and what a lock may do then.

use std::fmt;

use crate::{
    args::{Profile, StoreKind},
    history::Nanos,
};

/// A kind of harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// `kill -9` of a worker; a fresh one takes its place.
    Kill,
    /// A worker stands still for longer than its ttl.
    Stop,
    /// A worker is stopped while it has SQLite's write lock.
    StopInWrite,
    /// A worker is killed while it has SQLite's write lock.
    KillInWrite,
    /// A worker is killed; the fresh one lives in a time namespace of its own.
    TimeNamespace,
    /// A worker is killed; the fresh one thinks that it is another boot.
    OtherBoot,
    /// A worker's connections are reset.
    Cut,
    /// A worker's wire is slow.
    Slow,
    /// A worker's requests are lost.
    LoseRequests,
    /// A worker's requests are done, and the answers are lost.
    LoseAnswers,
    /// A worker's wire passes nothing, and delivers all of it later.
    Stall,
    /// A worker cannot dial.
    Refuse,
    /// A client's calls are lost, refused or late, one in three.
    Lossy,
    /// A client's requests are held back, and done later.
    HoldRequests,
    /// A client's requests are done, and the answers are held back.
    HoldAnswers,
    /// The server stands still.
    ServerStop,
    /// The server is busy with one slow command.
    ServerSleep,
    /// The server holds writes back.
    WritesPaused,
    /// The server closes every connection.
    ClientsKilled,
    /// The server forgets its scripts.
    ScriptsFlushed,
    /// The server is killed, and starts again empty.
    ServerEmpty,
    /// The store forgets one lock.
    Forget,
    /// SQLite's bell file is deleted.
    BellDeleted,
    /// SQLite's bell file is replaced by another.
    BellReplaced,
    /// SQLite's log, its index or both are deleted while the workers have them open.
    LogDeleted,
    /// Somebody took the lock by force.
    Evict,
}

use Kind::{
    BellDeleted, BellReplaced, ClientsKilled, Cut, Evict, Forget, HoldAnswers, HoldRequests, Kill, KillInWrite,
    LogDeleted, LoseAnswers, LoseRequests, Lossy, OtherBoot, Refuse, ScriptsFlushed, ServerEmpty, ServerSleep,
    ServerStop, Slow, Stall, Stop, StopInWrite, TimeNamespace, WritesPaused,
};

/// Each kind, its word in the history, and where and when it comes.
const KINDS: [(Kind, &str, &[StoreKind], Option<Profile>); 26] = {
    use StoreKind::{Memory as M, Redis as R, Sqlite as S};
    [
        (Kill, "kill", &[S, R], Some(Profile::Pauses)),
        (Stop, "stop", &[M, S, R], Some(Profile::Pauses)),
        (StopInWrite, "stop-in-write", &[S], Some(Profile::Pauses)),
        (KillInWrite, "kill-in-write", &[S], Some(Profile::Pauses)),
        (TimeNamespace, "time-namespace", &[S, R], Some(Profile::Clocks)),
        (OtherBoot, "other-boot", &[S], Some(Profile::Clocks)),
        (Cut, "cut", &[R], Some(Profile::Network)),
        (Slow, "slow", &[R], Some(Profile::Network)),
        (LoseRequests, "lose-requests", &[R], Some(Profile::Network)),
        (LoseAnswers, "lose-answers", &[R], Some(Profile::Network)),
        (Stall, "stall", &[R], Some(Profile::Network)),
        (Refuse, "refuse", &[R], Some(Profile::Network)),
        (Lossy, "lossy", &[M], Some(Profile::Network)),
        (HoldRequests, "hold-requests", &[M], Some(Profile::Network)),
        (HoldAnswers, "hold-answers", &[M], Some(Profile::Network)),
        (ServerStop, "server-stop", &[R], Some(Profile::Server)),
        (ServerSleep, "server-sleep", &[R], Some(Profile::Server)),
        (WritesPaused, "writes-paused", &[R], Some(Profile::Server)),
        (ClientsKilled, "clients-killed", &[R], Some(Profile::Server)),
        (ScriptsFlushed, "scripts-flushed", &[R], Some(Profile::Server)),
        (ServerEmpty, "server-empty", &[R], Some(Profile::Server)),
        (Forget, "forget", &[M], Some(Profile::Server)),
        (BellDeleted, "bell-deleted", &[S], Some(Profile::Server)),
        (BellReplaced, "bell-replaced", &[S], Some(Profile::Server)),
        (LogDeleted, "log-deleted", &[S], Some(Profile::Server)),
        (Evict, "evict", &[], None),
    ]
};

impl Kind {
    /// Those that come to this store in this profile.
    pub(crate) fn of(store: StoreKind, profile: Profile) -> Vec<Self> {
        let comes = |of: &Option<Profile>| of.is_some_and(|of| of == profile || profile == Profile::Everything);
        KINDS.iter().filter(|(_, _, stores, of)| stores.contains(&store) && comes(of)).map(|(kind, ..)| *kind).collect()
    }

    /// Whether the store does not know of a hold any more, although its time is not up.
    pub(crate) fn forgets(self) -> bool {
        // A log that was deleted is lost if a fresh worker opens the files before any of the others asks for something.
        matches!(self, ServerEmpty | Forget | LogDeleted | Evict)
    }

    /// Whether the worker stands still meanwhile.
    pub(crate) fn stops_the_worker(self) -> bool {
        matches!(self, Stop | StopInWrite)
    }

    /// Whether it is done to one client, and not to the store.
    pub(crate) fn is_of_one_client(self) -> bool {
        match self {
            Kill | Stop | StopInWrite | KillInWrite | TimeNamespace | OtherBoot | Cut | Slow | LoseRequests
            | LoseAnswers | Stall | Refuse | Lossy | HoldRequests | HoldAnswers => true,
            ServerStop | ServerSleep | WritesPaused | ClientsKilled | ScriptsFlushed | ServerEmpty | Forget
            | BellDeleted | BellReplaced | LogDeleted | Evict => false,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, word, ..)| word)
    }
}

/// Harm that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Before it began.
    pub(crate) from: Nanos,
    /// After it was undone.
    pub(crate) to: Nanos,
    /// To which client; none: to all.
    pub(crate) client: Option<u32>,
    /// Under which name; none: under all.
    pub(crate) name: Option<usize>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.kind.word(), self.from, self.to)?;
        let client = self.client.map_or("*".to_owned(), |client| client.to_string());
        let name = self.name.map_or("*".to_owned(), |name| name.to_string());
        write!(f, "{client} {name}")
    }
}
