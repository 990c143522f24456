//! Measures swaps of records:
//! `cargo run --release -p bandog-sqlite --example records -- floor|batch|callers|beside|processes`.
#![allow(clippy::unwrap_used, reason = "a failed measurement may panic")]

use std::{
    env,
    num::NonZeroU32,
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, Key, Kind, Leases, Records, Step, Swap, Swapped, Verdict, Version,
};
use bandog_sqlite::{Sqlite, SqliteOptions};
use rusqlite::{Connection, params};

const SECONDS: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let dir = tempfile::tempdir_in(env::var("MEASURE_IN").unwrap_or("/tmp".into())).unwrap();
    let path = dir.path().join("locks.db");
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["floor", n] => floor(&path, n.parse().unwrap()).await,
        ["batch", n] => println!("{n} in a call: {:.0} swaps/s", swaps(&path, 1, n.parse().unwrap()).await),
        ["callers", n] => println!("{n} callers: {:.0} swaps/s", swaps(&path, n.parse().unwrap(), 1).await),
        ["beside", callers] => beside(&path, callers.parse().unwrap()).await,
        ["processes", n] => processes(&path, n.parse().unwrap()).await,
        ["swapping", path, name] => swapping(Path::new(path), name).await,
        _ => panic!("floor N | batch N | callers N | beside CALLERS | processes N"),
    }
}

/// Measures the same SQL statements on one connection, without the backend. A transaction has `count` swaps.
async fn floor(path: &Path, count: usize) {
    Sqlite::new(SqliteOptions::at(path)).unwrap().ping().await.unwrap();
    let conn = Connection::open(path).unwrap();
    conn.pragma_update(None, "synchronous", "full").unwrap();
    let run = |sql, params: &[&dyn rusqlite::ToSql]| conn.prepare_cached(sql).unwrap().execute(params).unwrap();
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < SECONDS {
        run("begin immediate", &[]);
        for n in 0..count {
            let (name, value) = (format!("r{n}"), format!("{:0>200}", done + n));
            let mut record = conn.prepare_cached(include_str!("../sql/record.sql")).unwrap();
            let _ = record.query_row([&name], |row| row.get::<_, i64>(0));
            run(include_str!("../sql/put.sql"), params![&name, &1, &value]);
        }
        run("commit", &[]);
        done += count;
    }
    println!("floor, {count} in a transaction: {:.0} swaps/s", done as f64 / start.elapsed().as_secs_f64());
}

/// Measures `tasks` tasks. Each call has `each` swaps.
async fn swaps(path: &Path, tasks: usize, each: usize) -> f64 {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    store.ping().await.unwrap();
    let start = Instant::now();
    let tasks: Vec<_> = (0..tasks).map(|task| tokio::spawn(swap(store.clone(), format!("r{task}-"), each))).collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    done as f64 / start.elapsed().as_secs_f64()
}

async fn swap(store: Sqlite, name: String, each: usize) -> usize {
    let keys: Vec<Key> = (0..each).map(|n| Key::new(format!("{name}{n}")).unwrap()).collect();
    let mut versions: Vec<Option<Version>> = vec![None; each];
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < SECONDS {
        let value = format!("{done:0>200}");
        let swaps: Vec<Swap> =
            keys.iter().zip(&versions).map(|(key, from)| Swap::new(key.clone(), *from, &*value)).collect();
        for (answer, version) in store.swap(&swaps).await.unwrap().each.into_iter().zip(&mut versions) {
            let Swapped::Done(now) = answer.unwrap() else { panic!("another process has swapped it") };
            *version = now;
        }
        done += each;
    }
    done
}

/// Measures the duration of lease steps while `callers` tasks of the same handle swap records.
async fn beside(path: &Path, callers: usize) {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let swapping: Vec<_> = (0..callers).map(|n| tokio::spawn(swap(store.clone(), format!("r{n}-"), 1))).collect();
    leases(&store, &format!("a lease's step beside {callers} callers that swap")).await;
    let mut done = 0;
    for task in swapping {
        done += task.await.unwrap();
    }
    println!("  {done} swaps in the same time");
}

/// Measures the duration of lease steps while other processes swap records. Each process has its own records.
async fn processes(path: &Path, count: usize) {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    store.ping().await.unwrap();
    let start = |n| {
        let args = ["swapping".to_owned(), path.to_str().unwrap().to_owned(), format!("r{n}")];
        Command::new(env::current_exe().unwrap()).args(args).spawn().unwrap()
    };
    let children: Vec<Child> = (0..count).map(start).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    leases(&store, &format!("a lease's step beside {count} processes that swap")).await;
    for mut child in children {
        child.wait().unwrap();
    }
}

/// The child process of `processes`. It swaps records and prints the number of swaps.
async fn swapping(path: &Path, name: &str) {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    println!("  {} swaps by {name}", swap(store, name.into(), 1).await);
}

/// Measures the duration of claims and releases. `what` is the name of this measurement in the output.
async fn leases(store: &Sqlite, what: &str) {
    let id = ClaimId { client: ClientId::random(), number: 1 };
    let (key, ttl, fences) = (Key::new("k").unwrap(), Duration::from_secs(30), NonZeroU32::MIN);
    let claim = Claim { fences, ..Claim::new(key, id, Kind::Mutex, ttl) };
    let (start, mut micros) = (Instant::now(), Vec::new());
    while start.elapsed() < SECONDS - Duration::from_millis(200) {
        for step in [Step::Claim(claim.clone()), Step::Release(claim.clone())] {
            let asked = Instant::now();
            let answer = store.apply(&[step]).await.remove(0).unwrap();
            micros.push(asked.elapsed().as_micros());
            assert!(!matches!(answer, Answer::Claimed(Verdict::Busy { .. })));
        }
    }
    micros.sort_unstable();
    let at = |per_mille: usize| micros[(micros.len() - 1) * per_mille / 1000];
    let (p50, p99, p999, worst) = (at(500), at(990), at(999), at(1000));
    println!("{what}: {} steps, p50 {p50} us, p99 {p99} us, p99.9 {p999} us, worst {worst} us", micros.len());
}
