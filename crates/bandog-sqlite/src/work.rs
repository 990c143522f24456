//! What the writer can be asked to do.

use bandog_core::{Answer, Claim, Key, Pattern, Renewal, Result, Row, Step};

use crate::{fault::Fault, table::Table};

/// How work gets at the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It never writes and may take long, so it is done alone and keeps nobody out.
    Read,
    /// It has often nothing to write, so it looks first.
    Look,
    /// It writes.
    Write,
}

/// Something to do in one transaction. It may be run twice: to look, and then to write.
pub(crate) trait Work: Send + 'static {
    type Answer: Send + 'static;

    fn way(&self) -> Way;

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
pub(crate) struct Ping;
pub(crate) struct List(pub(crate) Pattern);
pub(crate) struct Show(pub(crate) Key);

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

impl Work for Ping {
    type Answer = ();

    fn way(&self) -> Way {
        Way::Read
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

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<Row>, Fault> {
        table.list(&self.0)
    }
}

impl Work for Show {
    type Answer = Row;

    fn way(&self) -> Way {
        Way::Read
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Row, Fault> {
        table.show(&self.0)
    }
}
