//! What the writer can be asked to do.

use std::time::Duration;

use bandog_core::{
    Answer, Claim, ClientId, Holding, Key, Line, Member, Pattern, Reading, Renewal, Result, Row, Step, Swap, Swaps,
};

use crate::{fault::Fault, open::Purpose, table::Table};

/// How work gets at the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It never writes and may take long, so it is done alone and keeps nobody out.
    Read,
    /// It has often nothing to write, so it looks first.
    Look,
    /// It writes.
    Write,
    /// It looks first, and writes what must outlive a power failure. It shares its transactions with its like only:
    /// they wait for the disk.
    Durable,
}

/// Something to do in one transaction. It may be run twice: to look, and then to write.
pub(crate) trait Work: Send + 'static {
    type Answer: Send + 'static;

    fn way(&self) -> Way;

    /// What the database is opened for, if it is not open yet.
    fn purpose(&self) -> Purpose {
        Purpose::Use
    }

    /// How much it is, in steps.
    fn steps(&self) -> usize {
        1
    }

    /// Whether the bell must be heard before it is done.
    fn listens(&self) -> bool {
        false
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Self::Answer, Fault>;
}

pub(crate) struct Apply(pub(crate) Vec<Step>);
pub(crate) struct Renew(pub(crate) Vec<Claim>);
pub(crate) struct Listen(pub(crate) Vec<Key>);
pub(crate) struct Hear;
pub(crate) struct Look;
pub(crate) struct Announce(pub(crate) Member, pub(crate) Duration);
pub(crate) struct Withdraw(pub(crate) ClientId);
pub(crate) struct Ping(pub(crate) Purpose);
pub(crate) struct List(pub(crate) Pattern);
pub(crate) struct Show(pub(crate) Key);
pub(crate) struct Members;
pub(crate) struct Evict(pub(crate) Key);
pub(crate) struct SwapRecords(pub(crate) Vec<Swap>);
pub(crate) struct ReadRecords {
    pub(crate) keys: Vec<Key>,
    pub(crate) holdings: Vec<Holding>,
    pub(crate) purpose: Purpose,
}
pub(crate) struct Names(pub(crate) Pattern, pub(crate) Purpose);
pub(crate) struct History(pub(crate) Key, pub(crate) Purpose);

impl Work for Apply {
    type Answer = Vec<Result<Answer>>;

    /// A claim that is busy has nothing to write, and many may wait for one key.
    fn way(&self) -> Way {
        if self.0.iter().all(|step| matches!(step, Step::Claim(_))) { Way::Look } else { Way::Write }
    }

    fn steps(&self) -> usize {
        self.0.len()
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Self::Answer, Fault> {
        self.0.iter().map(|step| table.one_row(|table| table.apply(step))).collect()
    }
}

impl Work for Renew {
    type Answer = Vec<Result<Renewal>>;

    fn way(&self) -> Way {
        Way::Write
    }

    fn steps(&self) -> usize {
        self.0.len()
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Self::Answer, Fault> {
        self.0.iter().map(|claim| table.one_row(|table| table.renew(claim))).collect()
    }
}

impl Work for Listen {
    /// Whether the bell can be heard. If not, no mark is left either.
    type Answer = bool;

    fn way(&self) -> Way {
        Way::Look
    }

    fn listens(&self) -> bool {
        true
    }

    fn run(&self, table: &mut Table<'_>) -> Result<bool, Fault> {
        if !table.is_heard() {
            return Ok(false);
        }
        self.0.iter().try_for_each(|key| table.want(key))?;
        Ok(true)
    }
}

impl Work for Hear {
    /// Whether the bell can be heard.
    type Answer = bool;

    fn way(&self) -> Way {
        Way::Look
    }

    fn listens(&self) -> bool {
        true
    }

    fn run(&self, table: &mut Table<'_>) -> Result<bool, Fault> {
        Ok(table.is_heard())
    }
}

impl Work for Look {
    type Answer = ();

    fn way(&self) -> Way {
        Way::Look
    }

    fn purpose(&self) -> Purpose {
        Purpose::Look
    }

    /// Before anything is done, it is looked whether the files are still there.
    fn run(&self, _: &mut Table<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

impl Work for Announce {
    type Answer = Result<()>;

    fn way(&self) -> Way {
        Way::Write
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Result<()>, Fault> {
        table.one_row(|table| table.announce(&self.0, self.1))
    }
}

impl Work for Withdraw {
    type Answer = ();

    fn way(&self) -> Way {
        Way::Write
    }

    fn run(&self, table: &mut Table<'_>) -> Result<(), Fault> {
        table.withdraw(self.0)
    }
}

impl Work for Ping {
    type Answer = ();

    fn way(&self) -> Way {
        Way::Read
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

    fn way(&self) -> Way {
        Way::Read
    }

    fn purpose(&self) -> Purpose {
        Purpose::Look
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<Row>, Fault> {
        table.list(&self.0)
    }
}

impl Work for Show {
    type Answer = Row;

    fn way(&self) -> Way {
        Way::Read
    }

    fn purpose(&self) -> Purpose {
        Purpose::Look
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Row, Fault> {
        table.show(&self.0)
    }
}

impl Work for Members {
    type Answer = Vec<Member>;

    fn way(&self) -> Way {
        Way::Read
    }

    fn purpose(&self) -> Purpose {
        Purpose::Look
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<Member>, Fault> {
        table.members()
    }
}

impl Work for Evict {
    type Answer = Result<Option<Row>>;

    /// A lock that is free has nothing to write.
    fn way(&self) -> Way {
        Way::Look
    }

    fn purpose(&self) -> Purpose {
        Purpose::Look
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Result<Option<Row>>, Fault> {
        table.one_row(|table| table.evict(&self.0))
    }
}

impl Work for SwapRecords {
    type Answer = Swaps;

    fn way(&self) -> Way {
        Way::Durable
    }

    /// A line is a statement of its own.
    fn steps(&self) -> usize {
        self.0.iter().map(|swap| 1 + swap.lines.len()).sum()
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Swaps, Fault> {
        table.swap_all(&self.0)
    }
}

impl Work for ReadRecords {
    type Answer = Reading;

    fn way(&self) -> Way {
        Way::Read
    }

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Reading, Fault> {
        table.read(&self.keys, &self.holdings)
    }
}

impl Work for Names {
    type Answer = Vec<Key>;

    fn way(&self) -> Way {
        Way::Read
    }

    fn purpose(&self) -> Purpose {
        self.1
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<Key>, Fault> {
        table.names(&self.0)
    }
}

impl Work for History {
    type Answer = Vec<Line>;

    fn way(&self) -> Way {
        Way::Read
    }

    fn purpose(&self) -> Purpose {
        self.1
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<Line>, Fault> {
        table.history(&self.0)
    }
}
