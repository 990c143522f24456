//! The kinds of requests that the writer executes.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{
    Answer, Claim, ClientId, Holding, IfUnused, Key, Kind, Line, Member, NamesPage, Pattern, Reading, Renewal, Result,
    Row, Step, Swap, Swaps, Usage,
};

use crate::{fault::Fault, open::Purpose, subscribers::Topic, table::Table};

/// The way in which a request accesses the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessMode {
    /// The request never writes and may take a long time. So it has its own transaction, which blocks no other process.
    Read,
    /// The request often has nothing to write. So it first runs without the write lock. If it has to write, it runs
    /// again with the write lock.
    ReadFirst,
    /// The request writes.
    Write,
    /// The same as `ReadFirst`, but the writes must survive a power failure. Such a request waits for the disk, so it
    /// shares a transaction only with requests of the same mode.
    DurableWrite,
}

/// The work of a request, in one transaction. It might run twice: first in a read-only transaction, and then in a
/// transaction that can write.
pub(crate) trait Work: Send + 'static {
    type Answer: Send + 'static;

    fn access_mode(&self) -> AccessMode;

    /// The purpose for which the database is opened, if it is not open yet.
    fn purpose(&self) -> Purpose {
        Purpose::Use
    }

    /// The size of the work in steps. The steps limit the size of a transaction.
    fn steps(&self) -> usize {
        1
    }

    /// Whether the notification file must be watched before the work runs.
    fn needs_watch(&self) -> bool {
        false
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Self::Answer, Fault>;
}

pub(crate) struct Apply(pub(crate) Vec<Step>);
pub(crate) struct Renew(pub(crate) Vec<Claim>);
/// Changes the number of permits of a semaphore.
pub(crate) struct SetLimit(pub(crate) Key, pub(crate) NonZeroU32);
/// Sets the waiters' marks of these locks. A process that frees a lock with this mark notifies the waiters.
pub(crate) struct Subscribe(pub(crate) Vec<Topic>);
/// Starts the watch of the notification file. Records have no waiters' marks.
pub(crate) struct SubscribeToRecords;
/// Does no work. But before each request, the writer checks whether the files of the database are in place. So this
/// request causes such a check.
pub(crate) struct CheckFiles;
/// Writes the row of this client into the registry. The row expires after this ttl.
pub(crate) struct Register(pub(crate) Member, pub(crate) Duration);
/// Deletes the row of this client from the registry.
pub(crate) struct Deregister(pub(crate) ClientId);
/// Checks that the database can be read. Opens it for this purpose, if it is not open yet.
pub(crate) struct Ping(pub(crate) Purpose);
pub(crate) struct List(pub(crate) Pattern);
pub(crate) struct Show(pub(crate) Key);
pub(crate) struct Members;
pub(crate) struct Evict(pub(crate) Key);
/// Deletes the rows of a free lock.
pub(crate) struct Forget(pub(crate) Key);
/// Reads a part of all names. The text is the last name of the part before.
pub(crate) struct ReadFences(pub(crate) Pattern, pub(crate) Duration, pub(crate) String);
/// Checks which names are unused, and deletes their rows if the caller asks for it.
pub(crate) struct CheckUsage(pub(crate) Vec<Key>, pub(crate) Duration, pub(crate) IfUnused);
pub(crate) struct SwapRecords(pub(crate) Vec<Swap>);
pub(crate) struct ReadRecords {
    pub(crate) keys: Vec<Key>,
    pub(crate) holdings: Vec<Holding>,
    pub(crate) purpose: Purpose,
}
pub(crate) struct RecordNames(pub(crate) Pattern, pub(crate) Purpose);
pub(crate) struct RecordHistory(pub(crate) Key, pub(crate) Purpose);

impl Work for Apply {
    type Answer = Vec<Result<Answer>>;

    /// A claim of a held lock writes nothing, unless it gets a place. Many waiters may claim the same lock. So claims
    /// without a place read first.
    fn access_mode(&self) -> AccessMode {
        if self.0.iter().all(may_write_nothing) { AccessMode::ReadFirst } else { AccessMode::Write }
    }

    fn steps(&self) -> usize {
        self.0.len()
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Self::Answer, Fault> {
        self.0.iter().map(|step| table.one_row(|table| table.apply(step))).collect()
    }
}

/// Whether the step often has nothing to write.
fn may_write_nothing(step: &Step) -> bool {
    match step {
        Step::Claim(claim) => match claim.kind {
            Kind::Mutex | Kind::Read => true,
            Kind::Fair | Kind::Write | Kind::Permits { .. } => !claim.joins,
        },
        Step::Release(_) | Step::Pass { .. } => false,
    }
}

impl Work for Renew {
    type Answer = Vec<Result<Renewal>>;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Write
    }

    fn steps(&self) -> usize {
        self.0.len()
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Self::Answer, Fault> {
        self.0.iter().map(|claim| table.one_row(|table| table.renew(claim))).collect()
    }
}

impl Work for SetLimit {
    /// The number of permits before the change. None if the semaphore is new.
    type Answer = Result<Option<u32>>;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Write
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Self::Answer, Fault> {
        table.one_row(|table| table.set_limit(&self.0, self.1))
    }
}

impl Work for Subscribe {
    /// Whether the notification file is watched. If it is not watched, no mark is set.
    type Answer = bool;

    fn access_mode(&self) -> AccessMode {
        AccessMode::ReadFirst
    }

    fn needs_watch(&self) -> bool {
        true
    }

    fn run(&self, table: &mut Table<'_>) -> Result<bool, Fault> {
        if !table.is_watched() {
            return Ok(false);
        }
        self.0.iter().try_for_each(|topic| table.mark_waiting(topic))?;
        Ok(true)
    }
}

impl Work for SubscribeToRecords {
    /// Whether the notification file is watched.
    type Answer = bool;

    fn access_mode(&self) -> AccessMode {
        AccessMode::ReadFirst
    }

    fn needs_watch(&self) -> bool {
        true
    }

    fn run(&self, table: &mut Table<'_>) -> Result<bool, Fault> {
        Ok(table.is_watched())
    }
}

impl Work for CheckFiles {
    type Answer = ();

    fn access_mode(&self) -> AccessMode {
        AccessMode::ReadFirst
    }

    fn purpose(&self) -> Purpose {
        Purpose::Inspect
    }

    /// The writer checks the files before it runs any request.
    fn run(&self, _: &mut Table<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

impl Work for Register {
    type Answer = Result<()>;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Write
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Result<()>, Fault> {
        table.one_row(|table| table.register(&self.0, self.1))
    }
}

impl Work for Deregister {
    type Answer = ();

    fn access_mode(&self) -> AccessMode {
        AccessMode::Write
    }

    fn run(&self, table: &mut Table<'_>) -> Result<(), Fault> {
        table.deregister(self.0)
    }
}

impl Work for Ping {
    type Answer = ();

    fn access_mode(&self) -> AccessMode {
        AccessMode::Read
    }

    fn purpose(&self) -> Purpose {
        self.0
    }

    fn run(&self, table: &mut Table<'_>) -> Result<(), Fault> {
        table.ping()
    }
}

impl Work for List {
    type Answer = Vec<Row>;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Read
    }

    fn purpose(&self) -> Purpose {
        Purpose::Inspect
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<Row>, Fault> {
        table.list(&self.0)
    }
}

impl Work for Show {
    type Answer = Row;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Read
    }

    fn purpose(&self) -> Purpose {
        Purpose::Inspect
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Row, Fault> {
        table.show(&self.0)
    }
}

impl Work for Members {
    type Answer = Vec<Member>;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Read
    }

    fn purpose(&self) -> Purpose {
        Purpose::Inspect
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<Member>, Fault> {
        table.members()
    }
}

impl Work for Evict {
    type Answer = Result<Option<Row>>;

    /// The eviction of a free lock writes nothing. So an eviction reads first.
    fn access_mode(&self) -> AccessMode {
        AccessMode::ReadFirst
    }

    fn purpose(&self) -> Purpose {
        Purpose::Inspect
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Result<Option<Row>>, Fault> {
        table.one_row(|table| table.evict(&self.0))
    }
}

impl Work for Forget {
    type Answer = Result<bool>;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Write
    }

    fn purpose(&self) -> Purpose {
        Purpose::Inspect
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Result<bool>, Fault> {
        table.one_row(|table| table.forget(&self.0))
    }
}

impl Work for ReadFences {
    type Answer = NamesPage;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Read
    }

    fn purpose(&self) -> Purpose {
        Purpose::Inspect
    }

    fn run(&self, table: &mut Table<'_>) -> Result<NamesPage, Fault> {
        table.fences(&self.0, self.1, &self.2)
    }
}

impl Work for CheckUsage {
    type Answer = Result<Vec<Usage>>;

    fn access_mode(&self) -> AccessMode {
        match self.2 {
            IfUnused::Keep => AccessMode::Read,
            IfUnused::Forget => AccessMode::Write,
        }
    }

    fn purpose(&self) -> Purpose {
        Purpose::Inspect
    }

    fn steps(&self) -> usize {
        self.0.len()
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Self::Answer, Fault> {
        self.0.iter().map(|key| table.one_row(|table| table.usage(key, self.1, self.2))).collect()
    }
}

impl Work for SwapRecords {
    type Answer = Swaps;

    fn access_mode(&self) -> AccessMode {
        AccessMode::DurableWrite
    }

    /// Each line of history is written by one more statement.
    fn steps(&self) -> usize {
        self.0.iter().map(|swap| 1 + swap.lines.len()).sum()
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Swaps, Fault> {
        table.swap_all(&self.0)
    }
}

impl Work for ReadRecords {
    type Answer = Reading;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Read
    }

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Reading, Fault> {
        table.read(&self.keys, &self.holdings)
    }
}

impl Work for RecordNames {
    type Answer = Vec<Key>;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Read
    }

    fn purpose(&self) -> Purpose {
        self.1
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<Key>, Fault> {
        table.names(&self.0)
    }
}

impl Work for RecordHistory {
    type Answer = Vec<Line>;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Read
    }

    fn purpose(&self) -> Purpose {
        self.1
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<Line>, Fault> {
        table.history(&self.0)
    }
}
