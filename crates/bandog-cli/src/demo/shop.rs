//! The shop's database, as the order service uses it.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bandog::Fence;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::fault::DemoFault;

/// Timeout of a write. Many replicas write at the same time, so a write might wait for others. Each write takes well
/// under a millisecond.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

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

/// The replica that writes, and the fence of its run. The fence is none if the replica sweeps without a scheduler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    pub(super) replica: u16,
    pub(super) fence: Option<Fence>,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Write {
    Done,
    /// Nothing was written, because a writer with a greater fence has written before.
    Refused,
}

impl Shop {
    /// A new and empty shop.
    pub(super) fn create(path: &Path) -> Result<Self, DemoFault> {
        let shop = Self::open(path)?;
        shop.db.pragma_update(None, "journal_mode", "wal")?;
        shop.db.execute_batch(include_str!("sql/schema.sql"))?;
        Ok(shop)
    }

    pub(super) fn open(path: &Path) -> Result<Self, DemoFault> {
        let db = Connection::open(path)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.pragma_update(None, "synchronous", "off")?; // After a power failure, nobody needs the shop of a demo.
        Ok(Self { db })
    }

    /// The orders that are overdue now. None if a writer with a greater fence has written before.
    ///
    /// A writer with a fence stores its fence before the read. After that, writes of earlier runs are refused. So the
    /// present run can safely finish the work of a replica that was killed between two steps.
    pub(super) fn overdue(&self, writer: Writer) -> Result<Option<Vec<Order>>, DemoFault> {
        if writer.fence.is_none() {
            return orders(&self.db, include_str!("sql/overdue.sql")).map(Some);
        }
        let mut found = Vec::new();
        let write = self.write(writer, |tx| {
            found = orders(tx, include_str!("sql/unfinished.sql"))?;
            Ok(())
        })?;
        Ok((write == Write::Done).then_some(found))
    }

    /// Closes an order.
    pub(super) fn close(&self, order: &Order, writer: Writer) -> Result<Write, DemoFault> {
        self.write(writer, |tx| {
            tx.prepare_cached(include_str!("sql/close.sql"))?.execute([order.id])?;
            Ok(())
        })
    }

    /// Returns the stock of a closed order.
    pub(super) fn give_back(&self, order: &Order, writer: Writer) -> Result<Write, DemoFault> {
        self.write(writer, |tx| {
            tx.prepare_cached(include_str!("sql/give_back.sql"))?.execute((&order.item, order.units))?;
            let fence = writer.fence.map(Fence::as_i64);
            tx.prepare_cached(include_str!("sql/restored.sql"))?.execute((order.id, writer.replica, fence))?;
            Ok(())
        })
    }

    /// Notifies the customer that the order is closed. Each call sends a mail.
    pub(super) fn notify(&self, order: u32, replica: u16) -> Result<(), DemoFault> {
        self.db.prepare_cached(include_str!("sql/notify.sql"))?.execute((order, replica))?;
        Ok(())
    }

    /// As [`Shop::notify`], for an element of a queue, which may come again after its worker died: the mail has an id,
    /// so a repetition is not sent.
    pub(super) fn notify_once(&self, order: u32, replica: u16) -> Result<(), DemoFault> {
        self.db.prepare_cached(include_str!("sql/notify_once.sql"))?.execute((order, replica))?;
        Ok(())
    }

    /// Calls `work` in a transaction, unless a run with a greater fence has written before.
    ///
    /// A scheduler cannot stop a paused replica. A process that is paused for longer than its lease resumes in the
    /// middle of its sweep, and sends its next write before it can check any clock. So each write contains the fence of
    /// its run, and the database compares this fence with the greatest fence so far. An equal fence is accepted,
    /// because one run writes many times.
    fn write(
        &self,
        writer: Writer,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), DemoFault>,
    ) -> Result<Write, DemoFault> {
        let tx = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate)?;
        if let Some(fence) = writer.fence
            && tx.prepare_cached(include_str!("sql/fence.sql"))?.execute([fence.as_i64()])? == 0
        {
            return Ok(Write::Refused);
        }
        work(&tx)?;
        tx.commit()?;
        Ok(Write::Done)
    }
}

/// The orders that the query `sql` finds. The parameter of the query is the present time.
fn orders(db: &Connection, sql: &str) -> Result<Vec<Order>, DemoFault> {
    let mut found = db.prepare_cached(sql)?;
    let order = |row: &rusqlite::Row<'_>| Ok(Order { id: row.get(0)?, item: row.get(1)?, units: row.get(2)? });
    Ok(found.query_map([now_ms()], order)?.collect::<Result<_, _>>()?)
}

/// Milliseconds since the Unix epoch. All replicas use the same clock, because they run on the same machine.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
