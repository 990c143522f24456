//! Three processes of the daemon over one file, one of which is killed.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bandog_testkit::{Process, eventually};
use rusqlite::Connection;

/// Timeout for expected events. The test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(90);

/// A row of the table of runs.
struct Row {
    /// In seconds.
    tick: i64,
    fence: i64,
    pid: u32,
}

/// The rows of the job `rotate`, in their order.
fn rows(path: &Path) -> Vec<Row> {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(SOON).unwrap();
    let query =
        "select cast(strftime('%s', tick) as integer), fence, pid from runs where job = 'rotate' order by rowid";
    let mut rows = db.prepare(query).unwrap();
    let rows = rows.query_map((), |row| Ok(Row { tick: row.get(0)?, fence: row.get(1)?, pid: row.get(2)? }));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn each_tick_runs_once_although_a_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (store, runs) = (folder.path().join("cron.db"), folder.path().join("runs.db"));
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bandog-example-cron-sqlite"));
        let process = Process::spawn(command.args([&store, &runs]));
        process.stdout_line("ready", SOON);
        process
    };
    let mut daemons = vec![start(), start(), start()];
    eventually(SOON, || rows(&runs).len() >= 3);
    // The process that has run the last tick.
    let last = rows(&runs).pop().unwrap();
    let killed = daemons.iter().position(|daemon| daemon.pid() == last.pid).expect("a row of a daemon");
    daemons.remove(killed).kill();

    // All ticks from the first one until some time after the death are there. One that the killed process had begun
    // comes after its lease.
    let (first, end) = (rows(&runs)[0].tick, last.tick + 6);
    eventually(SOON, || {
        let rows = rows(&runs);
        let missing: Vec<_> = (first..=end).filter(|tick| rows.iter().all(|row| row.tick != *tick)).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    });
    daemons.iter().for_each(Process::term);
    for daemon in &mut daemons {
        assert!(daemon.wait(SOON).success());
    }

    let mut ticks: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    rows(&runs).into_iter().for_each(|row| ticks.entry(row.tick).or_default().push(row));
    for (tick, rows) in ticks {
        match &rows[..] {
            [_] => {}
            // Its process was killed after it had written the row, and before the scheduler knew the end of the run.
            [first, second] if first.pid == last.pid && second.pid != last.pid => assert!(first.fence < second.fence),
            _ => panic!("the tick {tick} has run {} times", rows.len()),
        }
    }
}
