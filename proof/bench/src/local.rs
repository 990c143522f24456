//! Measurements without a server: SQLite against a plain loop, and re-entry.

use std::time::{Duration, Instant};

use rusqlite::OptionalExtension;
use serde_json::{Value, json};

use crate::{
    cycles::{Load, ours},
    driver::Row,
    kinds::Kind,
    measure::Workers,
    report::{Report, Wanted},
};

// The statements of bandog. The plain loop executes each statement in its own transaction.
const SCHEMA: &str = include_str!("../../../crates/bandog-sqlite/sql/schema.sql");
const TAKE: &str = include_str!("../../../crates/bandog-sqlite/sql/take.sql");
const READ: &str = include_str!("../../../crates/bandog-sqlite/sql/lease.sql");
const GRANT: &str = include_str!("../../../crates/bandog-sqlite/sql/grant.sql");
const RELEASE: &str = include_str!("../../../crates/bandog-sqlite/sql/free.sql");
/// The boot id in the statements of the plain loop.
const BOOT: &str = "00000000-0000-4000-8000-000000000000";
/// The ttl of the plain loop, in nanoseconds.
const TTL: i64 = 30_000_000_000;

/// Compares the tasks of one process, which lock different names, with a plain loop over the same prepared statements.
pub(crate) fn sqlite(report: &mut Report) {
    let span = report.span;
    for (tasks, wanted) in [(1, 0.1), (64, 3.0)] {
        Row::new(json!({"what": "sqlite", "tasks": tasks}), &["per_second"])
            .engines(|engine| {
                let folder = tempfile::tempdir().expect("a folder");
                let url = format!("sqlite:{}", folder.path().join("locks.db").display());
                ours(&url, (Workers::Two, engine), Kind::Mutex, Load::own_names(tasks), span)
            })
            .wanted("per_second_ratio", [Some(Wanted::AtLeast(wanted)); 2])
            .beside("plain loop", || plain_loop(span))
            .measure(report);
    }
}

fn plain_loop(span: Duration) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let db = rusqlite::Connection::open(folder.path().join("plain.db")).expect("a database");
    db.execute_batch("pragma journal_mode = wal; pragma synchronous = normal").expect("pragmas");
    db.execute_batch(SCHEMA).expect("a schema");
    let mut take = db.prepare(TAKE).expect("a statement");
    let mut read = db.prepare(READ).expect("a statement");
    let mut grant = db.prepare(GRANT).expect("a statement");
    let mut release = db.prepare(RELEASE).expect("a statement");
    let start = Instant::now();
    let mut cycles = 0i64;
    while start.elapsed() < span {
        let (name, owner) = (format!("name-{}", cycles % 64), format!("00000000-0000-8000-8000-000000000000:{cycles}"));
        let fence = cycles + 1;
        if take.execute((&name, &owner, fence, cycles + TTL, TTL, BOOT, fence)).expect("a try") == 0 {
            let holder: Option<Option<String>> =
                read.query_row((&name, BOOT), |row| row.get(0)).optional().expect("a row");
            assert!(holder.flatten().is_none(), "another client uses the loop's names");
            assert_eq!(
                grant.execute((&name, &owner, fence, cycles + TTL, TTL, BOOT, 0)).expect("granted"),
                1,
                "not granted"
            );
        }
        assert_eq!(release.execute((&name, &owner, BOOT, cycles)).expect("released"), 1, "not released");
        cycles += 1;
    }
    json!({"per_second": cycles as f64 / start.elapsed().as_secs_f64()})
}

/// Measures an owner that locks again a lock that it holds, and a call of `is_lost`.
pub(crate) fn reentry(report: &mut Report) {
    let turns = report.size.pick(1_000_000, 10_000);
    Row::new(json!({"what": "reentry"}), &["entry_ns", "is_lost_ns"])
        .side("lock and drop, and is_lost()", || Workers::Current.runtime().block_on(enter(turns)))
        .wanted("entry_ns", [Some(Wanted::AtMost(120.0))])
        .measure(report);
}

async fn enter(turns: u32) -> Value {
    let client = bandog::connect("memory:").await.expect("memory answers");
    let owner = client.owner();
    let mutex = client.mutex("again").by(&owner);
    let guard = mutex.lock().await.expect("granted");
    let start = Instant::now();
    for _ in 0..turns {
        drop(mutex.lock().await.expect("granted again"));
    }
    let entry = start.elapsed().as_nanos() as f64 / f64::from(turns);
    let start = Instant::now();
    for _ in 0..turns {
        assert!(!std::hint::black_box(&guard).is_lost(), "the guard is lost");
    }
    json!({"entry_ns": entry, "is_lost_ns": start.elapsed().as_nanos() as f64 / f64::from(turns)})
}
