//! Measures the backend without the engine of bandog-sync:
//! `cargo run --release -p bandog-sqlite --example measure -- floor|callers|processes|notifications|idle|queue`.
#![allow(clippy::unwrap_used, reason = "a failed measurement may panic")]

use std::{
    env,
    io::{BufRead, BufReader, Write},
    num::NonZeroU32,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Answer, Claim, ClaimId, ClientId, Key, Kind, Leases, Notifier, Renewal, Step, Verdict};
use bandog_sqlite::{Sqlite, SqliteOptions};
use rusqlite::{Connection, params};
use tokio::sync::Notify;

const SECONDS: Duration = Duration::from_secs(3);

fn main() {
    let mut builder = match env::var("MEASURE_ON").as_deref() {
        Ok("one thread") => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build().unwrap().block_on(run());
}

async fn run() {
    let args: Vec<String> = env::args().skip(1).collect();
    let dir = tempfile::tempdir_in(env::var("MEASURE_IN").unwrap_or("/tmp".into())).unwrap();
    let path = dir.path().join("locks.db");
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["floor"] => floor(&path).await,
        ["callers", n] => println!("{n} callers: {:.0} cycles/s", callers(&path, n.parse().unwrap()).await),
        ["processes", n] => processes(&path, n.parse().unwrap()),
        ["cycles", path, name] => cycles(Path::new(path), name).await,
        ["notifications"] => notifications(&path),
        ["holder", path, n] => hold(Path::new(path), n.parse().unwrap()).await,
        ["waiter", path, name] => wait(Path::new(path), name).await,
        ["idle", n] => idle(&path, n.parse().unwrap()).await,
        ["queue", n] => queue(&path, n.parse().unwrap()).await,
        _ => panic!("floor | callers N | processes N | notifications | idle N | queue N"),
    }
}

/// Measures the same SQL statements on one connection, without the backend.
async fn floor(path: &Path) {
    Sqlite::new(SqliteOptions::at(path)).unwrap().ping().await.unwrap();
    let conn = Connection::open(path).unwrap();
    conn.pragma_update(None, "synchronous", "normal").unwrap();
    let run = |sql, params: &[&dyn rusqlite::ToSql]| conn.prepare_cached(sql).unwrap().execute(params).unwrap();
    let read = || {
        let mut lease = conn.prepare_cached(include_str!("../sql/lease.sql")).unwrap();
        let _ = lease.query_row(["k"], |row| row.get::<_, Option<String>>(0));
    };
    let (start, mut cycles) = (Instant::now(), 0);
    while start.elapsed() < SECONDS {
        run("begin immediate", &[]);
        read();
        let owner = format!("{}:{cycles}", "0".repeat(36));
        run(include_str!("../sql/grant.sql"), params![&"k", &owner, &cycles, &1, &1, &"boot"]);
        run("commit", &[]);
        run("begin immediate", &[]);
        run(include_str!("../sql/free.sql"), params![&"k", &owner, &"boot", &0]);
        run("commit", &[]);
        cycles += 1;
    }
    println!("floor: {:.0} cycles/s", f64::from(cycles) / start.elapsed().as_secs_f64());
}

/// Measures `count` tasks of one handle that take and release locks. Each task has its own lock.
async fn callers(path: &Path, count: usize) -> f64 {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    store.ping().await.unwrap();
    let start = Instant::now();
    let tasks: Vec<_> = (0..count)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let (claim, mut cycles) = (claim(&format!("k{n}")), 0u32);
                while start.elapsed() < SECONDS {
                    assert!(take(&store, &claim).await);
                    release(&store, &claim).await;
                    cycles += 1;
                }
                cycles
            })
        })
        .collect();
    let mut cycles = 0;
    for task in tasks {
        cycles += task.await.unwrap();
    }
    f64::from(cycles) / start.elapsed().as_secs_f64()
}

/// Measures many processes that only take and release locks. Each process has its own lock.
fn processes(path: &Path, count: usize) {
    let children: Vec<_> = (0..count).map(|n| start(&["cycles", path.to_str().unwrap(), &format!("k{n}")])).collect();
    let mut micros = Vec::new();
    for child in children {
        micros.extend(lines(child).map(|line| line.parse::<u64>().unwrap()));
    }
    println!("{count} processes: {:.0} cycles/s", micros.len() as f64 / SECONDS.as_secs_f64());
    print_shares("one take", micros);
}

/// The child process of `processes`. It prints how long each claim took, in microseconds.
async fn cycles(path: &Path, name: &str) {
    let store = Sqlite::new(SqliteOptions::at(path).timeout(Duration::from_secs(10))).unwrap();
    let (claim, mut taken, start) = (claim(name), Vec::new(), Instant::now());
    while start.elapsed() < SECONDS {
        let asked = Instant::now();
        assert!(take(&store, &claim).await);
        taken.push(asked.elapsed().as_micros());
        release(&store, &claim).await;
    }
    let mut out = std::io::stdout().lock();
    taken.iter().for_each(|micros| writeln!(out, "{micros}").unwrap());
}

/// Measures the time between a release and the grant to a waiter in another process.
fn notifications(path: &Path) {
    let waiter = start(&["waiter", path.to_str().unwrap(), "k"]);
    let holder = start(&["holder", path.to_str().unwrap(), "300"]);
    let released: Vec<u64> = lines(holder).map(|line| line.parse().unwrap()).collect();
    let taken: Vec<u64> = lines(waiter).map(|line| line.parse().unwrap()).collect();
    let late = released.iter().filter_map(|at| taken.iter().find(|taken| *taken > at).map(|taken| (taken - at) / 1000));
    print_shares("release to grant", late.collect());
}

/// Takes the lock, sleeps so that the other process waits for it, releases it, and prints the time of the release.
async fn hold(path: &Path, rounds: usize) {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    for _ in 0..rounds {
        let ours = claim("k");
        while !take(&store, &ours).await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        let before = now();
        release(&store, &ours).await;
        println!("{before}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The lock `done` ends the waiter.
    let done = claim("done");
    take(&store, &done).await;
}

/// Waits for the lock as the engine does, and prints the time of each grant.
async fn wait(path: &Path, name: &str) {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let notified = Arc::new(Notify::new());
    let notifier = {
        let notified = notified.clone();
        Notifier::new(move || notified.notify_one())
    };
    let _subscription = store.subscribe(&claim(name), notifier).await.unwrap();
    let done = Key::new("done").unwrap();
    while !bandog_core::Inspect::show(&store, &done).await.unwrap().is_held() {
        let ours = claim(name);
        if take(&store, &ours).await {
            println!("{}", now());
            release(&store, &ours).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        } else {
            let _ = tokio::time::timeout(Duration::from_secs(1), notified.notified()).await;
        }
    }
}

/// Measures the CPU time of processes that wait for locks that are never released.
async fn idle(path: &Path, count: usize) {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let names: Vec<String> = (0..count).map(|n| format!("idle{n}")).collect();
    for name in &names {
        assert!(take(&store, &claim(name)).await);
    }
    let mut children: Vec<Child> = names.iter().map(|name| start(&["waiter", path.to_str().unwrap(), name])).collect();
    std::thread::sleep(Duration::from_secs(1));
    let (before, from) = (children.iter().map(ticks).sum::<u64>(), Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let used = children.iter().map(ticks).sum::<u64>() - before;
    println!("{count} idle waiters: {:.2} % of a core", used as f64 / from.elapsed().as_secs_f64());
    children.iter_mut().for_each(|child| child.kill().unwrap());
    children.iter_mut().for_each(|child| drop(child.wait()));
}

/// Measures `count` waiters of one fair mutex in one process: their claims, the renewal of all their places, and their
/// turns.
async fn queue(path: &Path, count: usize) {
    let store = Sqlite::new(SqliteOptions::at(path).timeout(Duration::from_secs(60))).unwrap();
    let claims: Vec<Claim> = (0..=count).map(|_| Claim { kind: Kind::Fair, joins: true, ..claim("queue") }).collect();
    // Renews the places of these claims, if the last heartbeat is older than a second.
    let mut last = Instant::now();
    let mut heartbeats = Vec::new();
    let mut beat = async |claims: &[Claim]| {
        if last.elapsed() > Duration::from_secs(1) {
            let start = Instant::now();
            assert!(
                store.renew(claims).await.into_iter().all(|renewal| matches!(renewal, Ok(Renewal::Extended { .. })))
            );
            heartbeats.push(start.elapsed());
            last = Instant::now();
        }
    };
    let start = Instant::now();
    for (n, steps) in claims.chunks(32).enumerate() {
        let steps: Vec<_> = steps.iter().cloned().map(Step::Claim).collect();
        store.apply(&steps).await;
        beat(&claims[..n * 32]).await;
    }
    println!("{count} claims: {:?}", start.elapsed());
    let start = Instant::now();
    for (n, pair) in claims.windows(2).enumerate() {
        beat(&claims[n..]).await;
        let answers = store.apply(&[Step::Release(pair[0].clone()), Step::Claim(pair[1].clone())]).await;
        assert!(matches!(answers[1], Ok(Answer::Claimed(Verdict::Granted { .. }))), "{answers:?}");
    }
    println!(
        "{count} turns: {:?}, with {} heartbeats, the slowest {:?}",
        start.elapsed(),
        heartbeats.len(),
        heartbeats.iter().max()
    );
}

/// The CPU time of a process, in hundredths of a second.
fn ticks(child: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn claim(name: &str) -> Claim {
    let id = ClaimId { client: ClientId::random(), number: 1 };
    let fences = NonZeroU32::new(64).unwrap();
    Claim { fences, ..Claim::new(Key::new(name).unwrap(), id, Kind::Mutex, Duration::from_secs(30)) }
}

async fn take(store: &Sqlite, claim: &Claim) -> bool {
    let answer = store.apply(&[Step::Claim(claim.clone())]).await.remove(0).unwrap();
    matches!(answer, Answer::Claimed(Verdict::Granted { .. }))
}

async fn release(store: &Sqlite, claim: &Claim) {
    store.apply(&[Step::Release(claim.clone())]).await.remove(0).unwrap();
}

fn start(args: &[&str]) -> Child {
    let ourselves: PathBuf = env::current_exe().unwrap();
    Command::new(ourselves).args(args).stdout(Stdio::piped()).spawn().unwrap()
}

fn lines(mut child: Child) -> impl Iterator<Item = String> {
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    child.wait().unwrap();
    lines.into_iter()
}

fn now() -> u64 {
    bandog_core::Clock::system().now().as_nanos()
}

fn print_shares(what: &str, mut micros: Vec<u64>) {
    micros.sort_unstable();
    let at = |per_mille: usize| micros[(micros.len() - 1) * per_mille / 1000];
    let (p50, p99, p999, worst) = (at(500), at(990), at(999), at(1000));
    println!("{what}: {} times, p50 {p50} us, p99 {p99} us, p99.9 {p999} us, worst {worst} us", micros.len());
}
