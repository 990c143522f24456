//! The shop's database, as the demo uses it: stock and orders at the start, sweeps, and the counts at the end. In a
//! sweep, a replica searches the database once for overdue orders, closes these orders and returns their stock.

use bandog::Fence;
use rusqlite::{OptionalExtension, Row};

use super::{
    fault::DemoFault,
    plan::Plan,
    shop::{Shop, now_ms},
};

const ITEMS: [&str; 6] = ["collar", "leash", "bowl", "basket", "whistle", "chew bone"];

/// Number of units of each item in the shop.
const OWNED: u32 = 10_000;

/// The numbers that the demo counts in the shop's database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Counts {
    /// All orders: the unpaid orders and the closed orders.
    pub(super) orders: u32,
    /// Orders that a sweep has closed.
    pub(super) closed: u32,
    /// Orders whose stock was returned at least once.
    pub(super) restored: u32,
    /// Orders whose stock was returned more than once.
    pub(super) restored_more_than_once: u32,
    /// Units that the shop offers but does not have.
    pub(super) phantom_units: u32,
    /// Ticks with at least one sweep.
    pub(super) ticks: u32,
    /// Sweeps that have begun.
    pub(super) sweeps: u32,
    /// Number of replicas that swept.
    pub(super) swept_by: u32,
    /// Sweeps that took over a tick: an earlier replica died in its sweep for this tick, so the scheduler started a
    /// second or later attempt.
    pub(super) taken_over: u32,
    /// Orders whose customers were notified at least once that the order is closed.
    pub(super) notified: u32,
    /// Orders whose customers were notified more than once.
    pub(super) notified_more_than_once: u32,
}

/// The tick for which a replica sweeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tick {
    /// Time of the tick, in ms since the Unix epoch.
    pub(super) at: i64,
    /// The attempt number of the scheduler's run. None if the replica's own timer started the sweep.
    pub(super) attempt: Option<u32>,
    /// The fence of the scheduler's run. None if the replica's own timer started the sweep.
    pub(super) fence: Option<Fence>,
}

/// The scheduler's latest run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Latest {
    pub(super) replica: u16,
    pub(super) fence: i64,
    /// Whether the sweep of this run has not ended yet.
    pub(super) is_running: bool,
}

impl Shop {
    /// Fills the shop with stock and with unpaid orders. From now on, the orders become overdue, one after another.
    pub(super) fn take_orders(&self, plan: &Plan) -> Result<(), DemoFault> {
        let tx = self.db.unchecked_transaction()?;
        for item in ITEMS {
            tx.execute(include_str!("sql/stock.sql"), (item, OWNED))?;
        }
        let start = now_ms();
        for (id, item) in (1..=plan.orders).zip(ITEMS.iter().cycle()) {
            let units = 1 + id % 3;
            let overdue =
                start + i64::try_from((plan.overdue_within() * id / plan.orders).as_millis()).unwrap_or(i64::MAX);
            tx.prepare_cached(include_str!("sql/reserve.sql"))?.execute((item, units))?;
            tx.prepare_cached(include_str!("sql/order.sql"))?.execute((id, item, units, overdue))?;
        }
        Ok(tx.commit()?)
    }

    /// Records that this replica is ready. The demo waits until all replicas are ready.
    pub(super) fn join(&self, replica: u16) -> Result<(), DemoFault> {
        self.db.execute(include_str!("sql/join.sql"), [replica])?;
        Ok(())
    }

    /// Records an error of a replica.
    pub(super) fn note_trouble(&self, replica: u16, trouble: &str) -> Result<(), DemoFault> {
        self.db.execute(include_str!("sql/trouble.sql"), (replica, trouble))?;
        Ok(())
    }

    /// Records the start of a sweep as a new row, and returns the number of the row. `end_sweep` records the end of the
    /// sweep in this row.
    pub(super) fn begin_sweep(&self, replica: u16, tick: Tick) -> Result<i64, DemoFault> {
        let fence = tick.fence.map(Fence::as_i64);
        self.db.prepare_cached(include_str!("sql/begin.sql"))?.execute((replica, tick.at, tick.attempt, fence))?;
        Ok(self.db.last_insert_rowid())
    }

    /// Records the end of a sweep. `sweep` is the number of its row.
    pub(super) fn end_sweep(&self, sweep: i64) -> Result<(), DemoFault> {
        self.db.prepare_cached(include_str!("sql/end.sql"))?.execute([sweep])?;
        Ok(())
    }

    /// Number of replicas that are ready.
    pub(super) fn ready(&self) -> Result<u16, DemoFault> {
        Ok(self.db.prepare_cached(include_str!("sql/ready.sql"))?.query_row([], |row| row.get(0))?)
    }

    /// The replicas that are sweeping now.
    pub(super) fn sweeping(&self) -> Result<Vec<u16>, DemoFault> {
        let mut sweeping = self.db.prepare_cached(include_str!("sql/sweeping.sql"))?;
        Ok(sweeping.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// The scheduler's latest run, if there was one.
    pub(super) fn latest(&self) -> Result<Option<Latest>, DemoFault> {
        let latest = |row: &Row<'_>| Ok(Latest { replica: row.get(0)?, fence: row.get(1)?, is_running: row.get(2)? });
        Ok(self.db.prepare_cached(include_str!("sql/last.sql"))?.query_row([], latest).optional()?)
    }

    /// The latest error that a replica has recorded, as a text that is added to the end of a message. The text begins
    /// with a line break. None if no replica has recorded an error.
    pub(super) fn last_trouble(&self) -> Result<Option<String>, DemoFault> {
        let text =
            |row: &Row<'_>| Ok(format!("\n  replica {} reported: {}", row.get::<_, u16>(0)?, row.get::<_, String>(1)?));
        Ok(self.db.prepare(include_str!("sql/troubles.sql"))?.query_map([], text)?.next().transpose()?)
    }

    /// Counts what is in the database now.
    pub(super) fn count(&self) -> Result<Counts, DemoFault> {
        Ok(self.db.prepare_cached(include_str!("sql/count.sql"))?.query_row([], |row| {
            Ok(Counts {
                orders: row.get(0)?,
                closed: row.get(1)?,
                restored: row.get(2)?,
                restored_more_than_once: row.get(3)?,
                phantom_units: row.get(4)?,
                ticks: row.get(5)?,
                sweeps: row.get(6)?,
                swept_by: row.get(7)?,
                taken_over: row.get(8)?,
                notified: row.get(9)?,
                notified_more_than_once: row.get(10)?,
            })
        })?)
    }
}
