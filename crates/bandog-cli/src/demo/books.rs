//! The shop's database, as the demo uses it: stock and orders at the start, who does what, the counts at the end.

use rusqlite::Row;

use super::{
    fault::Fault,
    plan::Plan,
    shop::{Shop, now_ms},
};

const ITEMS: [&str; 6] = ["collar", "leash", "bowl", "basket", "whistle", "chew bone"];

/// How many units of each item the shop owns.
const OWNED: u32 = 10_000;

/// What the shop's database says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Counts {
    pub(super) orders: u32,
    pub(super) closed: u32,
    /// Orders whose stock was given back at least once.
    pub(super) restored: u32,
    pub(super) restored_more_than_once: u32,
    /// Units that the shop offers and does not have.
    pub(super) phantom_units: u32,
    pub(super) sweeps: u32,
    pub(super) skipped: u32,
}

impl Shop {
    /// Fills the shop: from now on its orders fall overdue, one after another.
    pub(super) fn take_orders(&self, plan: &Plan) -> Result<(), Fault> {
        let tx = self.db.unchecked_transaction()?;
        for item in ITEMS {
            tx.execute(include_str!("sql/stock.sql"), (item, OWNED))?;
        }
        let start = now_ms();
        for (id, item) in (1..=plan.orders).zip(ITEMS.iter().cycle()) {
            let units = 1 + id % 3;
            let overdue = start + i64::try_from((plan.falling() * id / plan.orders).as_millis()).unwrap_or(i64::MAX);
            tx.prepare_cached(include_str!("sql/reserve.sql"))?.execute((item, units))?;
            tx.prepare_cached(include_str!("sql/order.sql"))?.execute((id, item, units, overdue))?;
        }
        Ok(tx.commit()?)
    }

    /// A replica is ready; `client` is its name among the owners of locks.
    pub(super) fn join(&self, replica: u16, client: &str) -> Result<(), Fault> {
        self.db.execute(include_str!("sql/join.sql"), (replica, client))?;
        Ok(())
    }

    /// Something went wrong for a replica.
    pub(super) fn note_trouble(&self, replica: u16, trouble: &str) -> Result<(), Fault> {
        self.db.execute(include_str!("sql/trouble.sql"), (replica, trouble))?;
        Ok(())
    }

    /// A sweep begins. Its row is the end's to change.
    pub(super) fn begin_sweep(&self, replica: u16) -> Result<i64, Fault> {
        self.db.prepare_cached(include_str!("sql/begin.sql"))?.execute([replica])?;
        Ok(self.db.last_insert_rowid())
    }

    pub(super) fn end_sweep(&self, sweep: i64) -> Result<(), Fault> {
        self.db.prepare_cached(include_str!("sql/end.sql"))?.execute([sweep])?;
        Ok(())
    }

    /// A replica did not get the lock, and leaves this tick to the one that did.
    pub(super) fn skip(&self, replica: u16) -> Result<(), Fault> {
        self.db.prepare_cached(include_str!("sql/skip.sql"))?.execute([replica])?;
        Ok(())
    }

    pub(super) fn ready(&self) -> Result<u16, Fault> {
        Ok(self.db.prepare_cached(include_str!("sql/ready.sql"))?.query_row([], |row| row.get(0))?)
    }

    pub(super) fn sweeping(&self) -> Result<Vec<u16>, Fault> {
        let mut sweeping = self.db.prepare_cached(include_str!("sql/sweeping.sql"))?;
        Ok(sweeping.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// What went wrong last, if anything did.
    pub(super) fn last_trouble(&self) -> Result<Option<String>, Fault> {
        let told =
            |row: &Row<'_>| Ok(format!("\n  replica {} says: {}", row.get::<_, u16>(0)?, row.get::<_, String>(1)?));
        Ok(self.db.prepare(include_str!("sql/troubles.sql"))?.query_map([], told)?.next().transpose()?)
    }

    pub(super) fn count(&self) -> Result<Counts, Fault> {
        Ok(self.db.prepare_cached(include_str!("sql/count.sql"))?.query_row([], |row| {
            Ok(Counts {
                orders: row.get(0)?,
                closed: row.get(1)?,
                restored: row.get(2)?,
                restored_more_than_once: row.get(3)?,
                phantom_units: row.get(4)?,
                sweeps: row.get(5)?,
                skipped: row.get(6)?,
            })
        })?)
    }
}
