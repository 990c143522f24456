//! What the database itself says.

use std::{fs, path::Path};

use bandog_core::{Clock, Error, Finding, Level, Moment};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{
    SqliteOptions,
    fault::{Fault, MOVE_IT_AWAY},
    open::Store,
    patience::{self, Writing},
};

/// SQLite writes 4 MiB into a WAL before it begins anew, if no reader keeps it.
const LONG_WAL: u64 = 64 << 20;
/// Up to here two processes could damage a database when one began the WAL anew; 3.44.6 and 3.50.7 have the repair too.
const WAL_RESET: i32 = 3_051_002;
const REPAIRED: [std::ops::Range<i32>; 2] = [3_044_006..3_045_000, 3_050_007..3_051_000];

/// How many steps of SQLite's machine go between two looks at the clock.
const STEPS: i32 = 10_000;

pub(super) fn all(store: &mut Store, options: &SqliteOptions, until: Moment) -> Vec<Finding> {
    let version = version(rusqlite::version_number(), store.is_current());
    vec![integrity(store, options, until), writer(store, options), version, wal(options)]
}

/// Whether every page and row can be read, in one transaction that keeps nobody out.
pub(crate) fn integrity(store: &mut Store, options: &SqliteOptions, until: Moment) -> Finding {
    const SUBJECT: &str = "integrity";
    // Older versions of rusqlite answer with nothing, newer ones with what cannot fail.
    let _ = store.conn.progress_handler(STEPS, Some(move || Clock::system().now() >= until));
    let found = quick_check(&store.conn);
    let _ = store.conn.progress_handler(0, None::<fn() -> bool>);
    let cure = format!("{MOVE_IT_AWAY}: a new one is made, and fences go on rising");
    match found {
        Ok(found) if found == "ok" => Finding::fine(SUBJECT, "every page of the database can be read"),
        Ok(found) => Finding::danger(SUBJECT, format!("the database is damaged: {found}"), cure),
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => Finding::advice(
            SUBJECT,
            "the database is too large to be looked through in half the request timeout",
            format!("sqlite3 {:?} 'pragma quick_check'", options.path),
        ),
        Err(error) => {
            let error: Error = Fault::from(error).error(&options.path);
            Finding::danger(SUBJECT, format!("the database cannot be looked through: {error}"), cure)
        }
    }
}

fn quick_check(conn: &Connection) -> rusqlite::Result<String> {
    let reading = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
    reading.query_row("pragma quick_check(1)", [], |row| row.get(0))
}

/// Whether somebody stands still in the middle of a write, stopped or not.
fn writer(store: &Store, options: &SqliteOptions) -> Finding {
    let seen = stopped_writer(&options.path);
    if seen.level != Level::Fine {
        return seen;
    }
    let wait = options.timeout / 4;
    patience::wait_until(Clock::system().now() + wait);
    match Transaction::new_unchecked(&store.conn, TransactionBehavior::Immediate).map_err(Fault::from) {
        Err(fault) if fault.is_busy() => {
            let again = stopped_writer(&options.path);
            if again.level != Level::Fine {
                return again;
            }
            let who = patience::who_locks(&options.path);
            let says = format!("{who} has kept the database locked for {wait:?}: nobody else can lock or release");
            Finding::danger("writer", says, "let it end its transaction, or end it")
        }
        // Nothing was written, and a transaction that cannot begin for another reason is not the writers' fault.
        Ok(_) | Err(_) => seen,
    }
}

/// Whether somebody is stopped in the middle of a write, without asking the database.
pub(super) fn stopped_writer(database: &Path) -> Finding {
    match Writing::to(database) {
        Some(Writing { pid, name, is_stopped: true }) => Finding::danger(
            "writer",
            format!("process {pid}, {name:?}, is stopped in the middle of a write: nobody else can lock or release"),
            format!("let it go on (kill -CONT {pid}), or end it (kill -KILL {pid})"),
        ),
        Some(_) | None => Finding::fine("writer", "nobody stands still in the middle of a write"),
    }
}

/// Whether SQLite has a known fault, and which tables are there.
pub(crate) fn version(number: i32, is_current: bool) -> Finding {
    const SUBJECT: &str = "version";
    let name = rusqlite::version();
    if number <= WAL_RESET && !REPAIRED.iter().any(|repaired| repaired.contains(&number)) {
        let says = format!("SQLite {name} may, very rarely, damage a database that several processes write");
        return Finding::advice(SUBJECT, says, "build with rusqlite 0.39 or later, whose SQLite is 3.51.3 or later");
    }
    if !is_current {
        let says = format!("SQLite {name}; the tables are an older version's, and lack what is new");
        return Finding::advice(
            SUBJECT,
            says,
            "the next program of this version that locks something updates them; update the others first",
        );
    }
    Finding::fine(SUBJECT, format!("SQLite {name}, and tables of this version"))
}

/// Whether somebody reads without an end.
fn wal(options: &SqliteOptions) -> Finding {
    let bytes = fs::metadata(options.beside("-wal")).map_or(0, |file| file.len());
    let says = format!("the write-ahead log has {} KiB", bytes >> 10);
    if bytes < LONG_WAL {
        return Finding::fine("wal", says);
    }
    let cure = "look for a process that keeps a read transaction open, such as a forgotten sqlite3 shell, and end it";
    Finding::advice("wal", format!("{says}: somebody reads without an end, so it cannot begin anew"), cure)
}
