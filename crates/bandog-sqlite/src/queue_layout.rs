//! The layouts of the tables of work queues. In the layout 2, `work_queue` has another name, and payloads may be envelopes.

use std::sync::LazyLock;

use bandog_core::queues::{LAYOUT, older_worker, read_worker_rows, unknown_layout};

use crate::{fault::Fault, sql, table::Table};

/// What the error of SQLite has, if the tables have a newer layout than the statement.
const NEWER: &str = "the work queues have the layout ";

/// What the error of SQLite has, if the tables have an older layout than the statement.
const NO_TABLE: &str = "no such table: work_queues";

/// The statements about queues.
pub(crate) struct Statements {
    pub(crate) queue: &'static str,
    pub(crate) add: &'static str,
    pub(crate) set: &'static str,
    pub(crate) names: &'static str,
}

static OLDER: Statements =
    Statements { queue: sql::WORK_QUEUE, add: sql::WORK_ADD_QUEUE, set: sql::WORK_SET_QUEUE, names: sql::WORK_QUEUES };

/// The texts of [`OLDER`], for the other name of the table.
static NEWER_TEXTS: LazyLock<[String; 4]> = LazyLock::new(|| {
    [OLDER.queue, OLDER.add, OLDER.set, OLDER.names].map(|text| text.replace("work_queue", "work_queues"))
});
static NEWER_STATEMENTS: LazyLock<Statements> = LazyLock::new(|| {
    let [queue, add, set, names] = NEWER_TEXTS.each_ref();
    Statements { queue, add, set, names }
});

/// The statements for tables of this layout.
pub(crate) fn statements(layout: u8) -> &'static Statements {
    if layout < 2 { &OLDER } else { &NEWER_STATEMENTS }
}

/// The layout of the tables, if the statement has failed because it is newer.
pub(crate) fn newer(error: &rusqlite::Error) -> Option<u8> {
    let text = error.to_string();
    let (_, rest) = text.split_once(NEWER)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Table<'_> {
    /// Runs a statement about queues. If another process has changed the layout since the last one, it runs again.
    pub(crate) fn in_layout<T>(
        &mut self,
        mut run: impl FnMut(&mut Self, &Statements) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        match run(self, statements(self.layout())) {
            Err(Fault::Sql(error)) => match newer(&error) {
                Some(layout) if layout > LAYOUT => Err(Fault::Refused(unknown_layout(layout))),
                Some(layout) if layout > self.layout() => {
                    self.set_layout(layout);
                    run(self, statements(layout))
                }
                // The transaction that has changed the layout was rolled back.
                None if self.layout() == 2 && error.to_string().contains(NO_TABLE) => {
                    self.set_layout(1);
                    run(self, statements(1))
                }
                _ => Err(Fault::Sql(error)),
            },
            done => done,
        }
    }

    /// Changes the tables to the layout 2, unless they have it.
    pub(crate) fn raise(&mut self, now: u64) -> Result<(), Fault> {
        if self.layout() >= 2 {
            return Ok(());
        }
        let read = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>(0);
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let texts: Vec<_> = self.statement(sql::WORK_ALL_WORKERS)?.query_map([now], read)?.collect::<Result<_, _>>()?;
        let texts = texts.iter().map(|text| String::from_utf8_lossy(text));
        let workers = texts.filter_map(|text| read_worker_rows([&*text]).ok()).flatten();
        if let Some(older) = workers.into_iter().find(|worker| worker.layout < 2) {
            return Err(Fault::Refused(older_worker(&older.place)));
        }
        self.write_batch(sql::QUEUE_LAYOUT)?;
        self.set_layout(2);
        Ok(())
    }
}
