//! The shop's database, as the order service uses it.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bandog::Fence;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::fault::Fault;

/// Ten replicas write at once, and each write takes well under a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

/// One connection to the shop's database.
pub(super) struct Shop {
    pub(super) db: Connection,
}

/// An order that was not paid in time.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) id: u32,
    pub(super) item: String,
    pub(super) units: u32,
}

/// Who writes, and for which run of the scheduler's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    pub(super) replica: u16,
    pub(super) fence: Option<Fence>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Write {
    Done,
    /// Somebody with a greater fence was here before.
    Refused,
}

impl Shop {
    /// A new and empty shop.
    pub(super) fn create(path: &Path) -> Result<Self, Fault> {
        let shop = Self::open(path)?;
        shop.db.pragma_update(None, "journal_mode", "wal")?;
        shop.db.execute_batch(include_str!("sql/schema.sql"))?;
        Ok(shop)
    }

    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        let db = Connection::open(path)?;
        db.busy_timeout(PATIENCE)?;
        db.pragma_update(None, "synchronous", "off")?; // A demo's shop need not survive a power cut.
        Ok(Self { db })
    }

    /// The orders that are overdue now; none if somebody with a greater fence was here before.
    ///
    /// Who comes with a fence leaves it here before it looks: from then on no earlier run can change what it sees, and
    /// so it may finish what a replica has left that was killed between two steps.
    pub(super) fn overdue(&self, by: Writer) -> Result<Option<Vec<Order>>, Fault> {
        if by.fence.is_none() {
            return orders(&self.db, include_str!("sql/overdue.sql")).map(Some);
        }
        let mut found = Vec::new();
        let write = self.write(by, |tx| {
            found = orders(tx, include_str!("sql/unfinished.sql"))?;
            Ok(())
        })?;
        Ok((write == Write::Done).then_some(found))
    }

    /// Closes an order.
    pub(super) fn close(&self, order: &Order, by: Writer) -> Result<Write, Fault> {
        self.write(by, |tx| {
            tx.prepare_cached(include_str!("sql/close.sql"))?.execute([order.id])?;
            Ok(())
        })
    }

    /// Gives the stock of a closed order back.
    pub(super) fn give_back(&self, order: &Order, by: Writer) -> Result<Write, Fault> {
        self.write(by, |tx| {
            tx.prepare_cached(include_str!("sql/give_back.sql"))?.execute((&order.item, order.units))?;
            let fence = by.fence.map(Fence::as_i64);
            tx.prepare_cached(include_str!("sql/restored.sql"))?.execute((order.id, by.replica, fence))?;
            Ok(())
        })
    }

    /// A write that is refused if it comes from the past.
    ///
    /// A scheduler cannot stop a replica that was stopped itself: a process that stands still for longer than its lease
    /// wakes up in the middle of its sweep, and its next write is on its way before it can look at any clock. The fence
    /// travels with the write, and here, where the write happens, it is compared with the greatest that was seen. Equal
    /// is fine, since one run writes many times.
    fn write(&self, by: Writer, work: impl FnOnce(&Transaction<'_>) -> Result<(), Fault>) -> Result<Write, Fault> {
        let tx = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate)?;
        if let Some(fence) = by.fence
            && tx.prepare_cached(include_str!("sql/fence.sql"))?.execute([fence.as_i64()])? == 0
        {
            return Ok(Write::Refused);
        }
        work(&tx)?;
        tx.commit()?;
        Ok(Write::Done)
    }
}

fn orders(db: &Connection, sql: &str) -> Result<Vec<Order>, Fault> {
    let mut found = db.prepare_cached(sql)?;
    let order = |row: &rusqlite::Row<'_>| Ok(Order { id: row.get(0)?, item: row.get(1)?, units: row.get(2)? });
    Ok(found.query_map([now_ms()], order)?.collect::<Result<_, _>>()?)
}

/// Milliseconds of the Unix epoch: the clock that replicas of a service share.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
