//! The history of calls on objects: for each client a file of lines.
//!
//! As in the history of locks, a line is written before the client acts on it, so it survives `kill -9`. The content of
//! the store at the end is a part of the history, too: the calls of the client [`JUDGE`].

mod lines;

use std::{
    collections::{BTreeMap, HashMap},
    fmt, fs, io,
    path::Path,
    str::FromStr,
};

pub(super) use self::lines::Event;
use crate::{
    fault::{Fault, FaultKind},
    history::{CallId, Files, Nanos},
    worker_pool::Life,
};

/// The client that reads the objects at the end, when all faults are removed and all other clients have ended.
pub(super) const JUDGE: u32 = 1_000_000;

/// What an object is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Queue,
    Deque,
    /// A sorted set whose members are popped.
    Sorted,
    /// A set whose members are popped.
    Bag,
    /// A map whose keys belong to one task each.
    Map,
    /// A set whose members belong to one task each.
    Members,
    /// A multimap whose keys belong to one task each.
    Multimap,
    /// A bit set whose bits belong to one task each.
    Bits,
    /// A map whose entries all tasks change with compare and set.
    Shared,
    /// A value that all tasks change with compare and set.
    Value,
    Counter,
    ExactCounter,
    Ids,
    Bloom,
    Topic,
    Sharded,
}

const KINDS: [(Kind, &str); 16] = [
    (Kind::Queue, "queue"),
    (Kind::Deque, "deque"),
    (Kind::Sorted, "sorted"),
    (Kind::Bag, "bag"),
    (Kind::Map, "map"),
    (Kind::Members, "members"),
    (Kind::Multimap, "multimap"),
    (Kind::Bits, "bits"),
    (Kind::Shared, "shared"),
    (Kind::Value, "value"),
    (Kind::Counter, "counter"),
    (Kind::ExactCounter, "exact-counter"),
    (Kind::Ids, "ids"),
    (Kind::Bloom, "bloom"),
    (Kind::Topic, "topic"),
    (Kind::Sharded, "sharded"),
];

impl Kind {
    /// All kinds.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|(kind, _)| *kind)
    }

    /// Whether elements are taken out of the object.
    pub(super) fn has_elements(self) -> bool {
        matches!(self, Self::Queue | Self::Deque | Self::Sorted | Self::Bag)
    }

    pub(super) fn word(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}

/// An object: its kind and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Object(pub(super) Kind, pub(super) u32);

impl Object {
    /// The name in the store.
    pub(super) fn name(self) -> String {
        format!("storm:{self}")
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.word(), self.1)
    }
}

impl FromStr for Object {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (word, number) = text.split_once('.').ok_or(())?;
        let (kind, _) = KINDS.iter().find(|(_, other)| *other == word).ok_or(())?;
        Ok(Self(*kind, number.parse().map_err(drop)?))
    }
}

/// What a call does. Each element, version and item is a number that is written once in a run; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Push(u64),
    ExactPush(u64),
    /// Takes out an element, which is done when the call has returned it.
    Pop,
    /// Takes out an element with a lease.
    Take,
    /// Ends the element that the call `of` has taken. `held`: the holder had checked that it was not lost.
    Settle {
        of: CallId,
        how: How,
        held: bool,
    },
    /// Writes a value that belongs to this task.
    Write {
        key: u64,
        value: u64,
    },
    Read {
        key: u64,
    },
    /// Writes `to` if the value is `from`. `None`: the call has found the value itself.
    Swap {
        key: u64,
        from: Option<u64>,
        to: u64,
    },
    Add(u64),
    /// Reads a counter.
    Sum,
    /// Asks for a unique number.
    Next,
    Insert(u64),
    Contains(u64),
    /// Publishes the message with this number of this publisher.
    Publish {
        publisher: u64,
        number: u64,
    },
}

/// How a holder ends an element that it has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Done,
    Release,
    Drop,
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Done, or true.
    Ok,
    /// No: nothing was there, or the value was another one.
    No,
    /// An element, a value, a sum or a number. For a swap that has found the value itself: this value.
    Found(u64),
    Taken {
        element: u64,
        fence: u64,
        delivery: u32,
    },
    /// The lease of the element was over.
    Lost,
    /// An error. Nothing was applied.
    Refused,
    /// An error. The call may have been applied.
    Unclear,
    /// The future was dropped.
    Cancelled,
    /// The store has refused a command.
    Denied,
    /// An error that a correct call must never get.
    Broken,
}

impl Outcome {
    /// Whether a write with this outcome may have been applied, or may be applied later, without an answer.
    pub(super) fn is_unclear(self) -> bool {
        matches!(self, Self::Unclear | Self::Cancelled | Self::Denied)
    }
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) client: u32,
    pub(super) id: CallId,
    pub(super) task: u32,
    pub(super) object: Object,
    pub(super) op: Op,
    pub(super) begin: Nanos,
    /// Maximum duration.
    pub(super) limit: Nanos,
    /// The end, or the time at which the client was killed.
    pub(super) end: Nanos,
    /// `None` if the client was killed before.
    pub(super) outcome: Option<Outcome>,
}

impl Call {
    /// Whether the store has confirmed the write.
    pub(super) fn is_ok(&self) -> bool {
        self.outcome == Some(Outcome::Ok)
    }

    /// Whether the write may have been applied although it was not confirmed.
    pub(super) fn is_unclear(&self) -> bool {
        self.outcome.is_none_or(Outcome::is_unclear)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, id, object, op, begin, end, outcome, .. } = self;
        write!(f, "call {id} of client {client} at {object}: {op:?} from {begin} to {end}: {outcome:?}")
    }
}

/// What a subscriber of a topic has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The subscription has begun.
    Subscribed,
    Message {
        publisher: u64,
        number: u64,
    },
    Gap,
    /// The subscriber has not got its own last message.
    Deaf,
}

/// The events of one subscription, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Subscription {
    pub(super) events: Vec<(Nanos, Heard)>,
}

/// The whole history.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// All calls, in the order of their beginnings.
    pub(super) calls: Vec<Call>,
    pub(super) subscriptions: BTreeMap<(Object, u32, CallId), Subscription>,
    /// The times at which clients were killed.
    pub(super) killed: BTreeMap<u32, Nanos>,
    pub(super) faults: Vec<Fault>,
    /// Times in which a client could not run, because of the machine. `None`: all clients.
    pub(super) stalls: Vec<(Option<u32>, Nanos, Nanos)>,
    /// Whether messages of topics that are not sharded go from server to server, which can lose and delay them.
    pub(super) relays: bool,
    /// What was left in the store at the end, besides the objects.
    pub(super) left: Vec<String>,
}

impl History {
    /// Reads the files of all clients. `is_one_process`: all clients run in one process, so faults concern all of them.
    ///
    /// # Errors
    /// If a file cannot be read, or a line cannot be parsed.
    pub(super) fn read(files: &Files, lives: &[Life], faults: &[Fault], is_one_process: bool) -> io::Result<Self> {
        let mut history = Self { faults: faults.to_vec(), ..Self::default() };
        for life in lives {
            history.killed.extend(life.killed.map(|at| (life.client, at)));
        }
        for entry in fs::read_dir(files.dir())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(client) = name.strip_prefix("client-").and_then(|number| number.parse().ok()) else { continue };
            history.read_client(client, &path, is_one_process)?;
        }
        if is_one_process {
            history.faults.iter_mut().for_each(|fault| fault.client = None);
        }
        for call in history.calls.iter_mut().filter(|call| call.outcome.is_none()) {
            call.end = history.killed.get(&call.client).copied().unwrap_or(Nanos::MAX);
        }
        history.calls.sort_by_key(|call| (call.begin, call.client, call.id));
        Ok(history)
    }

    fn read_client(&mut self, client: u32, path: &Path, is_one_process: bool) -> io::Result<()> {
        let mut open: HashMap<CallId, usize> = HashMap::new();
        for line in fs::read_to_string(path)?.lines() {
            let event: Event =
                line.parse().map_err(|()| io::Error::other(format!("client {client} wrote {line:?}")))?;
            match event {
                Event::Began { call: id, at, task, object, op, limit } => {
                    open.insert(id, self.calls.len());
                    let (begin, end) = (at, at);
                    self.calls.push(Call { client, id, task, object, op, begin, limit, end, outcome: None });
                }
                Event::Ended { call, at, outcome } => {
                    let Some(index) = open.remove(&call) else { continue };
                    (self.calls[index].end, self.calls[index].outcome) = (at, Some(outcome));
                }
                Event::Heard { subscription, at, object, heard } => {
                    let events = &mut self.subscriptions.entry((object, client, subscription)).or_default().events;
                    events.push((at, heard));
                }
                Event::Killed { at } => _ = self.killed.insert(client, at),
                Event::Stalled { from, to } => self.stalls.push(((!is_one_process).then_some(client), from, to)),
            }
        }
        Ok(())
    }

    /// The faults that concern this client, or the store.
    pub(super) fn faults_of(&self, client: u32) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(move |fault| fault.client.is_none_or(|other| other == client))
    }

    /// Whether a fault or a stall has disturbed this client, or the store, between these times.
    pub(super) fn is_disturbed(&self, client: u32, from: Nanos, to: Nanos) -> bool {
        let faults = self.faults_of(client).map(|fault| (fault.from, fault.to));
        faults.chain(self.stalls_of(client)).any(|(begin, end)| begin <= to && end >= from)
    }

    fn stalls_of(&self, client: u32) -> impl Iterator<Item = (Nanos, Nanos)> {
        let stalls = self.stalls.iter().filter(move |(of, ..)| of.is_none_or(|of| of == client));
        stalls.map(|(_, from, to)| (*from, *to))
    }

    /// The total time between `from` and `to` in which this client could not run.
    pub(super) fn stopped(&self, client: u32, from: Nanos, to: Nanos) -> Nanos {
        let stops = self.faults_of(client).filter(|fault| {
            // The calls of a memory store have no timeout while they are held.
            fault.kind.stops_the_worker() || matches!(fault.kind, FaultKind::HoldRequests | FaultKind::HoldAnswers)
        });
        let mut spans: Vec<_> = stops.map(|fault| (fault.from, fault.to)).chain(self.stalls_of(client)).collect();
        spans.retain(|(begin, end)| *begin <= to && *end >= from);
        spans.sort_unstable();
        let (mut sum, mut seen) = (0, from);
        for (begin, end) in spans {
            sum += end.min(to).saturating_sub(begin.max(seen));
            seen = seen.max(end);
        }
        sum
    }
}
