//! Measurements without a server: SQLite against a plain loop, and re-entry.

use std::time::Instant;

use rusqlite::OptionalExtension;
use serde_json::json;

use crate::{
    cycles::Engine,
    measure::{Workers, count},
    report::{Report, median},
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
    for tasks in [1, 64] {
        let (mut own, mut current, mut floors) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..report.rounds {
            let floor = plain_loop(report);
            let on_own = our_cycles(report, Engine::OwnThread, tasks);
            let on_current = our_cycles(report, Engine::CurrentRuntime, tasks);
            report.raw(json!({
                "what": "sqlite", "round": round, "tasks": tasks,
                "own_thread": on_own, "current_runtime": on_current, "floor": floor,
            }));
            own.push(on_own / floor);
            current.push(on_current / floor);
            floors.push(floor);
        }
        let target = if tasks == 1 { "≥ 0.1" } else { "≥ 3" };
        let against = format!("plain loop {:.0}/s", median(floors));
        for (engine, ratios) in [(Engine::OwnThread, own), (Engine::CurrentRuntime, current)] {
            report.row(
                format!("SQLite, {tasks} tasks, {}", engine.name()),
                format!("×{:.2}", median(ratios)),
                against.clone(),
                target,
            );
        }
    }
}

/// Number of cycles (lock and release) per second.
fn our_cycles(report: &Report, engine: Engine, tasks: usize) -> f64 {
    Workers::Two.runtime().block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        let client = engine.connect(&url).await;
        let cycle = |number| {
            let mutex = client.mutex(format!("ours-{number}"));
            move || {
                let mutex = mutex.clone();
                async move { mutex.lock().await.expect("granted").release().await.expect("released") }
            }
        };
        let counted = count(tasks, report.span, cycle).await;
        client.close().await.expect("closed");
        counted.per_second
    })
}

fn plain_loop(report: &Report) -> f64 {
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
    while start.elapsed() < report.span {
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
    cycles as f64 / start.elapsed().as_secs_f64()
}

/// Measures an owner that locks again a lock that it holds, and a call of `is_lost`.
pub(crate) fn reentry(report: &mut Report) {
    let turns = report.size.pick(1_000_000, 10_000);
    let (mut entries, mut checks) = (Vec::new(), Vec::new());
    for round in 0..report.rounds {
        let (entry, check) = Workers::Current.runtime().block_on(async {
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
            (entry, start.elapsed().as_nanos() as f64 / f64::from(turns))
        });
        report.raw(json!({"what": "reentry", "round": round, "entry_ns": entry, "is_lost_ns": check}));
        entries.push(entry);
        checks.push(check);
    }
    report.row("re-entry, lock and drop", format!("{:.0} ns", median(entries)), String::new(), "≤ 120 ns");
    report.row("is_lost()", format!("{:.0} ns", median(checks)), String::new(), "");
}
