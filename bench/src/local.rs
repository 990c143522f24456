//! What needs no server: SQLite against a plain loop, and re-entry.

use std::time::Instant;

use serde_json::json;

use crate::{
    cycles::Engine,
    measure::{Workers, count},
    report::{Report, median},
};

const SCHEMA: &str = "
    create table lease (name text primary key, owner text, fence integer not null, expires integer not null) \
    without rowid, strict";
const TAKE: &str = "
    insert into lease values (?1, ?2, ?3, ?4) on conflict (name) do update \
    set owner = excluded.owner, fence = max(fence + 1, excluded.fence), expires = excluded.expires \
    where owner is null or expires < ?5 returning fence";
const FREE: &str = "update lease set owner = null where name = ?1 and owner = ?2";

/// One process: tasks on names of their own, against the same statements one by one in a plain loop.
pub(crate) fn sqlite(report: &mut Report) {
    for tasks in [1, 64] {
        let (mut ratios, mut floors) = (Vec::new(), Vec::new());
        for round in 0..report.rounds {
            let floor = plain_loop(report);
            let ours = Workers::Two.runtime().block_on(async {
                let folder = tempfile::tempdir().expect("a folder");
                let url = format!("sqlite:{}", folder.path().join("locks.db").display());
                let client = Engine::OwnThread.connect(&url).await;
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
            });
            report.raw(json!({"what": "sqlite", "round": round, "tasks": tasks, "ours": ours, "floor": floor}));
            ratios.push(ours / floor);
            floors.push(floor);
        }
        let target = if tasks == 1 { "≥ 0.1" } else { "≥ 3" };
        let against = format!("plain loop {:.0}/s", median(floors));
        report.row(format!("SQLite, {tasks} tasks"), format!("×{:.2}", median(ratios)), against, target);
    }
}

fn plain_loop(report: &Report) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let db = rusqlite::Connection::open(folder.path().join("plain.db")).expect("a database");
    db.execute_batch("pragma journal_mode = wal; pragma synchronous = normal").expect("pragmas");
    db.execute_batch(SCHEMA).expect("a schema");
    let mut take = db.prepare(TAKE).expect("a statement");
    let mut free = db.prepare(FREE).expect("a statement");
    let start = Instant::now();
    let mut cycles = 0i64;
    while start.elapsed() < report.span {
        let owner = format!("00000000-0000-8000-8000-000000000000:{cycles}");
        let fence: i64 = take
            .query_row((format!("name-{}", cycles % 64), &owner, cycles, i64::MAX, 0), |row| row.get(0))
            .expect("taken");
        assert!(fence >= 0, "a fence");
        assert_eq!(free.execute((format!("name-{}", cycles % 64), &owner)).expect("freed"), 1, "freed");
        cycles += 1;
    }
    cycles as f64 / start.elapsed().as_secs_f64()
}

/// An owner that takes again what it holds, and a look at a guard.
pub(crate) fn reentry(report: &mut Report) {
    const TURNS: u32 = 1_000_000;
    let (mut entries, mut looks) = (Vec::new(), Vec::new());
    for round in 0..report.rounds {
        let (entry, look) = Workers::Current.runtime().block_on(async {
            let client = bandog::connect("memory:").await.expect("memory answers");
            let owner = client.owner();
            let mutex = client.mutex("again").by(&owner);
            let guard = mutex.lock().await.expect("granted");
            let start = Instant::now();
            for _ in 0..TURNS {
                drop(mutex.lock().await.expect("granted again"));
            }
            let entry = start.elapsed().as_nanos() as f64 / f64::from(TURNS);
            let start = Instant::now();
            for _ in 0..TURNS {
                assert!(!std::hint::black_box(&guard).is_lost(), "held");
            }
            (entry, start.elapsed().as_nanos() as f64 / f64::from(TURNS))
        });
        report.raw(json!({"what": "reentry", "round": round, "entry_ns": entry, "is_lost_ns": look}));
        entries.push(entry);
        looks.push(look);
    }
    report.row("re-entry, lock and drop", format!("{:.0} ns", median(entries)), String::new(), "≤ 120 ns");
    report.row("is_lost()", format!("{:.0} ns", median(looks)), String::new(), "");
}
