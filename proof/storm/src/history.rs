//! The history: for each client a file of events, and for each lock name a log of the writes that the lock protects.
//! Several processes append to the log of one name. The kernel decides the order of the lines in this log.
//!
//! A process first records an event, and only then acts on the event. The line of the event is one `write` to an
//! append-only file. So the line survives `kill -9`, and an event without a line had no consequences.

use std::{
    fmt::{self, Write as _},
    fs::{File, OpenOptions},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    path::{Path, PathBuf},
    str::{FromStr, SplitWhitespace},
    time::Duration,
};

use bandog::backend::Clock;

use crate::{
    share::Share,
    step::{Reply, Step},
};

/// Nanoseconds of the machine's clock, which all processes of one boot share.
pub(crate) type Nanos = u64;

/// The number of a call. Each client counts its own calls.
pub(crate) type CallId = u64;

/// One line of a client's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A call for a share of the lock begins. `limit` is the time limit of the call. `watched` says whether a watchdog
    /// will renew the lock. If not, the lock has a fixed lease.
    Asked {
        call: CallId,
        at: Nanos,
        task: u32,
        name: usize,
        share: Share,
        verb: Verb,
        limit: Nanos,
        ttl: Nanos,
        watched: bool,
    },
    /// The lock is granted. From the time `at` on, the client believes that it holds the lock. If the lock is not
    /// renewed, this belief ends at the time `until`. `claim` stands for the id of the claim in the store: see
    /// [`claim_number`].
    Granted { call: CallId, at: Nanos, fence: u64, until: Nanos, claim: u64 },
    /// The holder checked its guard at the time `at`, and still held the lock. Before this check, the holder had made
    /// `writes` writes.
    Held { call: CallId, at: Nanos, until: Nanos, writes: u32 },
    /// The last check of the guard, directly before the guard is released or dropped. `held` is the result of
    /// the check.
    Ended { call: CallId, at: Nanos, held: bool, writes: u32 },
    /// The owner locked the same lock again while it held the lock, and got this fence.
    Reentered { call: CallId, at: Nanos, fence: u64 },
    /// The end of a call. Either the call ended without a grant, or the lock was granted and its release has ended.
    Answered { call: CallId, at: Nanos, outcome: Outcome },
    /// A client took a lock from its holder by force.
    Evicted { from: Nanos, to: Nanos, name: usize },
    /// The store was asked for the queue of a fair mutex, from the time `from` to the time `at`. The claim `claim` was at
    /// this position. Each claim of the queue has an event of its own, with the same `task` and the same times.
    Queued { task: u32, from: Nanos, at: Nanos, name: usize, position: u32, claim: u64 },
    /// A client changed the limit of a semaphore at some time between `from` and `to`. If `sure` is false, the change
    /// might also have failed.
    Limited { from: Nanos, to: Nanos, name: usize, limit: u32, sure: bool },
    /// A call for a latch or a barrier begins. `limit` is the time limit of the call.
    Began { call: CallId, at: Nanos, task: u32, name: usize, step: Step, limit: Nanos },
    /// The end of such a call.
    Returned { call: CallId, at: Nanos, reply: Reply },
    /// The leader of an election was reported between `from` and `at`. `follows` says whether an observer reported a
    /// change; else the present leader was asked for. The leader is the call `call` of `client` with this fence. The
    /// fence is 0 if there was no leader.
    Observed { task: u32, from: Nanos, at: Nanos, name: usize, follows: bool, fence: u64, client: u32, call: CallId },
    /// The whole process could not run, because of the machine or its disk.
    Stalled { from: Nanos, to: Nanos },
    /// A task blocked the runtime of the process.
    Blocked { from: Nanos, to: Nanos },
}

/// The method of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Lock,
    TryLock,
    TryLockFor,
    /// A `lock` whose future is dropped after a random time.
    Dropped,
    /// One of several locks that one call takes together.
    All,
    /// A writer becomes a reader. The call begins while the writer holds the lock.
    Downgrade,
}

impl Verb {
    /// Whether the call only waits for its own lock, until this lock is free.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Self::Lock | Self::TryLockFor)
    }
}

/// The result of a call that returned no guard, or the result of the release of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The lock was held by another call.
    Busy,
    /// The future of the call was dropped.
    Cancelled,
    /// The store did not answer in time.
    Unavailable,
    /// Too few replicas have acknowledged the lock in time.
    NotReplicated,
    /// The lock was lost before it was released.
    Lost,
    Released,
    /// The client had been closed.
    Closed,
    /// The semaphore has another limit than the call has named.
    OtherLimit,
    /// An error that a correct call must never get.
    Refused,
}

const VERBS: [(Verb, &str); 6] = [
    (Verb::Lock, "lock"),
    (Verb::TryLock, "try"),
    (Verb::TryLockFor, "for"),
    (Verb::Dropped, "drop"),
    (Verb::All, "all"),
    (Verb::Downgrade, "downgrade"),
];
const OUTCOMES: [(Outcome, &str); 9] = [
    (Outcome::NotReplicated, "not-replicated"),
    (Outcome::OtherLimit, "other-limit"),
    (Outcome::Busy, "busy"),
    (Outcome::Cancelled, "cancelled"),
    (Outcome::Unavailable, "unavailable"),
    (Outcome::Lost, "lost"),
    (Outcome::Released, "released"),
    (Outcome::Closed, "closed"),
    (Outcome::Refused, "refused"),
];

impl Verb {
    pub(crate) fn word(self) -> &'static str {
        word_of(&VERBS, self)
    }
}

impl Outcome {
    pub(crate) fn word(self) -> &'static str {
        word_of(&OUTCOMES, self)
    }
}

fn word_of<T: PartialEq + Copy>(words: &[(T, &'static str)], wanted: T) -> &'static str {
    words.iter().find(|(value, _)| *value == wanted).map_or("", |(_, word)| word)
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Asked { call, at, task, name, share, verb, limit, ttl, watched } => {
                let (verb, watched) = (verb.word(), u8::from(watched));
                write!(f, "asked {call} {at} {task} {name} {share} {verb} {limit} {ttl} {watched}")
            }
            Self::Granted { call, at, fence, until, claim } => {
                write!(f, "granted {call} {at} {fence} {until} {claim}")
            }
            Self::Held { call, at, until, writes } => write!(f, "held {call} {at} {until} {writes}"),
            Self::Ended { call, at, held, writes } => write!(f, "ended {call} {at} {} {writes}", u8::from(held)),
            Self::Reentered { call, at, fence } => write!(f, "reentered {call} {at} {fence}"),
            Self::Answered { call, at, outcome } => write!(f, "answered {call} {at} {}", outcome.word()),
            Self::Evicted { from, to, name } => write!(f, "evicted {from} {to} {name}"),
            Self::Queued { task, from, at, name, position, claim } => {
                write!(f, "queued {task} {from} {at} {name} {position} {claim}")
            }
            Self::Limited { from, to, name, limit, sure } => {
                write!(f, "limited {from} {to} {name} {limit} {}", u8::from(sure))
            }
            Self::Began { call, at, task, name, step, limit } => {
                write!(f, "began {call} {at} {task} {name} {step} {limit}")
            }
            Self::Returned { call, at, reply } => write!(f, "returned {call} {at} {reply}"),
            Self::Observed { task, from, at, name, follows, fence, client, call } => {
                let follows = u8::from(follows);
                write!(f, "observed {task} {from} {at} {name} {follows} {fence} {client} {call}")
            }
            Self::Stalled { from, to } => write!(f, "stalled {from} {to}"),
            Self::Blocked { from, to } => write!(f, "blocked {from} {to}"),
        }
    }
}

impl FromStr for Event {
    type Err = BadLine;

    fn from_str(line: &str) -> Result<Self, BadLine> {
        read(line).ok_or_else(|| BadLine(line.to_owned()))
    }
}

fn read(line: &str) -> Option<Event> {
    let mut words = line.split_whitespace();
    let event = match words.next()? {
        "asked" => Event::Asked {
            call: next(&mut words)?,
            at: next(&mut words)?,
            task: next(&mut words)?,
            name: next(&mut words)?,
            share: next(&mut words)?,
            verb: value_of(&VERBS, words.next()?)?,
            limit: next(&mut words)?,
            ttl: next(&mut words)?,
            watched: next::<u8>(&mut words)? == 1,
        },
        "granted" => Event::Granted {
            call: next(&mut words)?,
            at: next(&mut words)?,
            fence: next(&mut words)?,
            until: next(&mut words)?,
            claim: next(&mut words)?,
        },
        "held" => Event::Held {
            call: next(&mut words)?,
            at: next(&mut words)?,
            until: next(&mut words)?,
            writes: next(&mut words)?,
        },
        "ended" => Event::Ended {
            call: next(&mut words)?,
            at: next(&mut words)?,
            held: next::<u8>(&mut words)? == 1,
            writes: next(&mut words)?,
        },
        "reentered" => Event::Reentered { call: next(&mut words)?, at: next(&mut words)?, fence: next(&mut words)? },
        "answered" => Event::Answered {
            call: next(&mut words)?,
            at: next(&mut words)?,
            outcome: value_of(&OUTCOMES, words.next()?)?,
        },
        "evicted" => Event::Evicted { from: next(&mut words)?, to: next(&mut words)?, name: next(&mut words)? },
        "queued" => Event::Queued {
            task: next(&mut words)?,
            from: next(&mut words)?,
            at: next(&mut words)?,
            name: next(&mut words)?,
            position: next(&mut words)?,
            claim: next(&mut words)?,
        },
        "limited" => Event::Limited {
            from: next(&mut words)?,
            to: next(&mut words)?,
            name: next(&mut words)?,
            limit: next(&mut words)?,
            sure: next::<u8>(&mut words)? == 1,
        },
        "began" => Event::Began {
            call: next(&mut words)?,
            at: next(&mut words)?,
            task: next(&mut words)?,
            name: next(&mut words)?,
            step: next(&mut words)?,
            limit: next(&mut words)?,
        },
        "returned" => Event::Returned { call: next(&mut words)?, at: next(&mut words)?, reply: next(&mut words)? },
        "observed" => Event::Observed {
            task: next(&mut words)?,
            from: next(&mut words)?,
            at: next(&mut words)?,
            name: next(&mut words)?,
            follows: next::<u8>(&mut words)? == 1,
            fence: next(&mut words)?,
            client: next(&mut words)?,
            call: next(&mut words)?,
        },
        "stalled" => Event::Stalled { from: next(&mut words)?, to: next(&mut words)? },
        "blocked" => Event::Blocked { from: next(&mut words)?, to: next(&mut words)? },
        _ => return None,
    };
    words.next().is_none().then_some(event)
}

fn next<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

fn value_of<T: Copy>(words: &[(T, &str)], wanted: &str) -> Option<T> {
    words.iter().find(|(_, word)| *word == wanted).map(|(value, _)| *value)
}

/// A line that cannot be parsed.
#[derive(Debug)]
pub(crate) struct BadLine(String);

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an event: {:?}", self.0)
    }
}

/// An append-only file of lines.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().append(true).create(true).open(path).map(Self)
    }

    /// Appends a line. Each line is one `write`, so that lines of several threads and processes never mix.
    ///
    /// # Panics
    /// If the line cannot be written, for example because the disk is full. Without a complete history, nothing can be
    /// checked.
    pub(crate) fn write(&self, line: &impl fmt::Display) {
        let mut text = String::with_capacity(96);
        let written = writeln!(text, "{line}").map_err(io::Error::other).and_then(|()| {
            let mut file = &self.0;
            file.write_all(text.as_bytes())
        });
        written.expect("the history can be written");
    }
}

/// The directory that contains the history's files.
#[derive(Debug, Clone)]
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }

    /// The events of one client.
    pub(crate) fn client(&self, client: u32) -> PathBuf {
        self.0.join(format!("client-{client}"))
    }

    /// The times of the heartbeats of one process. A heartbeat shows that the process can run and can write.
    pub(crate) fn pulse(&self, process: u32) -> PathBuf {
        self.0.join(format!("pulse-{process}"))
    }

    /// The writes that were made under the lock with this name, in the order in which they were made.
    pub(crate) fn resource(&self, name: usize) -> PathBuf {
        self.0.join(format!("resource-{name}"))
    }

    /// The faults of the run.
    pub(crate) fn faults(&self) -> PathBuf {
        self.0.join("faults")
    }
}

/// One write to the resource that a lock protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResourceWrite {
    pub(crate) fence: u64,
    pub(crate) client: u32,
    pub(crate) call: CallId,
}

impl fmt::Display for ResourceWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.fence, self.client, self.call)
    }
}

impl FromStr for ResourceWrite {
    type Err = BadLine;

    fn from_str(line: &str) -> Result<Self, BadLine> {
        let mut words = line.split_whitespace();
        let write = (|| Some(Self { fence: next(&mut words)?, client: next(&mut words)?, call: next(&mut words)? }))();
        write.ok_or_else(|| BadLine(line.to_owned()))
    }
}

/// A number that stands for the id of a claim. The text of an id is long, and only its equality matters.
pub(crate) fn claim_number(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// The time of the machine's clock.
pub(crate) fn now() -> Nanos {
    Clock::system().now().as_nanos()
}
