//! Checks of the database itself.

use std::{fs, path::Path};

use bandog_core::{Clock, Error, Finding, Level, Moment, rounded};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{
    SqliteOptions,
    busy_wait::{self, WriterProcess},
    fault::{Fault, MOVE_IT_AWAY},
    open::Store,
};

/// Minimum size, in bytes, of a write-ahead log that a finding reports as too long. SQLite resets a log that has
/// reached 4 MiB, unless a reader prevents the reset.
const LONG_WAL: u64 = 64 << 20;
/// The latest SQLite version with the following bug: if a process reset the WAL while another process used it, the
/// database could be damaged. Some older versions have the fix already: see [`REPAIRED`].
const LAST_AFFECTED_VERSION: i32 = 3_051_002;
/// Ranges of older SQLite versions that have the fix. The end of each range is not included.
const REPAIRED: [std::ops::Range<i32>; 2] = [3_044_006..3_045_000, 3_050_007..3_051_000];

/// The cure for a version with that bug.
const REPAIRED_BUILD: &str = "build with rusqlite 0.39 or later, whose SQLite is 3.51.3 or later; if another crate, such \
    as sqlx 0.8, requires an older one, build with LIBSQLITE3_SYS_USE_PKG_CONFIG=1 against a newer SQLite of the system";

/// Number of steps of SQLite's virtual machine between two checks of the clock.
const CLOCK_STEPS: i32 = 10_000;

/// Does all checks of an open database. The check of the integrity ends at `until` at the latest.
pub(super) fn all(store: &mut Store, options: &SqliteOptions, until: Moment) -> Vec<Finding> {
    let version = version(rusqlite::version_number(), store.is_current());
    vec![integrity(store, options, until), writer(store, options), version, wal(options)]
}

/// Checks whether every page and row can be read. The check is one transaction, which blocks no other process. The
/// check is stopped at `until`, even if it is not finished.
pub(crate) fn integrity(store: &mut Store, options: &SqliteOptions, until: Moment) -> Finding {
    const SUBJECT: &str = "integrity";
    // Older versions of rusqlite return nothing here. Newer versions return a result that is never an error.
    let _ = store.conn.progress_handler(CLOCK_STEPS, Some(move || Clock::system().now() >= until));
    let found = quick_check(&store.conn);
    let _ = store.conn.progress_handler(0, None::<fn() -> bool>);
    let cure = format!("{MOVE_IT_AWAY}: a new one is created, and fences continue to rise");
    match found {
        Ok(found) if found == "ok" => Finding::fine(SUBJECT, "every page of the database can be read"),
        Ok(found) => Finding::danger(SUBJECT, format!("the database is damaged: {found}"), cure),
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => Finding::advice(
            SUBJECT,
            "the database is too large to be checked in half the request timeout",
            format!("sqlite3 {:?} 'pragma quick_check'", options.path),
        ),
        Err(error) => {
            let error: Error = Fault::from(error).error(&options.path);
            Finding::danger(SUBJECT, format!("the database cannot be checked: {error}"), cure)
        }
    }
}

/// The result of `quick_check`: "ok", or the first damage.
fn quick_check(conn: &Connection) -> rusqlite::Result<String> {
    let reading = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
    reading.query_row("pragma quick_check(1)", [], |row| row.get(0))
}

/// Checks whether a process keeps a write transaction open. The process may be stopped or running.
fn writer(store: &Store, options: &SqliteOptions) -> Finding {
    let found = stopped_writer(&options.path);
    if found.level != Level::Fine {
        return found;
    }
    let wait = options.timeout / 4;
    busy_wait::set_deadline(Clock::system().now() + wait);
    match Transaction::new_unchecked(&store.conn, TransactionBehavior::Immediate).map_err(Fault::from) {
        Err(fault) if fault.is_busy() => {
            let again = stopped_writer(&options.path);
            if again.level != Level::Fine {
                return again;
            }
            let process = busy_wait::locking_process(&options.path);
            let says = format!(
                "{process} has kept the database locked for {}: no other process can lock or release",
                rounded(wait)
            );
            Finding::danger("writer", says, "let it finish its transaction, or kill it")
        }
        // If the transaction began, it has written nothing, and is rolled back here. Other errors are not caused by a
        // writer.
        Ok(_) | Err(_) => found,
    }
}

/// Checks whether a process is stopped in the middle of a write. The check does not access the database.
pub(super) fn stopped_writer(database: &Path) -> Finding {
    match WriterProcess::of_database(database) {
        Some(WriterProcess { pid, name, is_stopped: true }) => Finding::danger(
            "writer",
            format!(
                "process {pid}, {name:?}, is stopped in the middle of a write: no other process can lock or release"
            ),
            format!("continue it (kill -CONT {pid}), or kill it (kill -KILL {pid})"),
        ),
        Some(_) | None => Finding::fine("writer", "no process is stopped in the middle of a write"),
    }
}

/// Checks whether SQLite has a known bug, and whether the tables are current. `number` is the number of the SQLite
/// version. `is_current` says whether the tables have the version that this program writes.
pub(crate) fn version(number: i32, is_current: bool) -> Finding {
    const SUBJECT: &str = "version";
    let name = rusqlite::version();
    if number <= LAST_AFFECTED_VERSION && !REPAIRED.iter().any(|repaired| repaired.contains(&number)) {
        let says = format!("SQLite {name} may, very rarely, damage a database that several processes write");
        return Finding::advice(SUBJECT, says, REPAIRED_BUILD);
    }
    if !is_current {
        let says = format!("SQLite {name}; the tables have an older version, without newer features");
        return Finding::advice(
            SUBJECT,
            says,
            "the next program of this version that takes a lock upgrades them; update the other programs first",
        );
    }
    Finding::fine(SUBJECT, format!("SQLite {name}, and tables of this version"))
}

/// Checks whether a reader keeps the write-ahead log from being reset.
fn wal(options: &SqliteOptions) -> Finding {
    let bytes = fs::metadata(options.beside("-wal")).map_or(0, |file| file.len());
    let says = format!("the write-ahead log has {} KiB", bytes >> 10);
    if bytes < LONG_WAL {
        return Finding::fine("wal", says);
    }
    let cure = "find the process that keeps a read transaction open, such as a forgotten sqlite3 shell, and end it";
    Finding::advice("wal", format!("{says}: a process keeps a read transaction open, so the log cannot be reset"), cure)
}
