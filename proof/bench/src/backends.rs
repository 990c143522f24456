//! The same measurements on every backend: cycles, a hand-off between two clients, and the time after which the lock of a
//! process that was killed is free.

use std::{
    any::Any,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use bandog_testkit::{MariaDbServer, PostgresServer, RedisServer, ZooKeeperServer};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    contend,
    cycles::{self, Engine},
    kinds::{Kind, passes},
    measure::Workers,
    report::{Report, median, quantile},
};

/// The database of the locks.
const DATABASE: &str = "bench";
/// Time from the call of a waiter until the lock is released, in a hand-off.
const PAUSE: Duration = Duration::from_millis(20);

/// A backend, with its server.
struct Store {
    name: &'static str,
    url: String,
    /// The server or the folder of this store. It is stopped or removed when this value is dropped.
    _owned: Box<dyn Any>,
}

impl Store {
    /// All backends that several processes can share.
    fn start_all() -> Vec<Self> {
        let (postgres, mariadb) = (PostgresServer::start(), MariaDbServer::start());
        postgres.create_database(DATABASE);
        mariadb.create_database(DATABASE);
        let (redis, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
        let folder = tempfile::tempdir().expect("a folder");
        let postgres_url = format!("postgres://{}@{}/{DATABASE}", PostgresServer::LOCKS, postgres.addr());
        let mariadb_url = format!("mysql://{}@{}/{DATABASE}", MariaDbServer::LOCKS, mariadb.addr());
        vec![
            Self { name: "Redis", url: redis.url(), _owned: Box::new(redis) },
            Self { name: "PostgreSQL", url: postgres_url, _owned: Box::new(postgres) },
            Self { name: "MariaDB", url: mariadb_url, _owned: Box::new(mariadb) },
            Self {
                name: "ZooKeeper",
                url: format!("zookeeper://{}/bench", zookeeper.addr()),
                _owned: Box::new(zookeeper),
            },
            Self {
                name: "SQLite",
                url: format!("sqlite:{}", folder.path().join("locks.db").display()),
                _owned: Box::new(folder),
            },
        ]
    }
}

/// Cycles of a lock and its release.
pub(crate) fn cycles(report: &mut Report) {
    for Store { name, url, .. } in Store::start_all() {
        let (mut alone, mut own_names, mut one_name) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..report.rounds {
            let one = cycles::ours(report, &url, Workers::Two, 1, Engine::OwnThread);
            let many = cycles::ours(report, &url, Workers::Two, 64, Engine::OwnThread);
            let together = Workers::Two.runtime().block_on(async {
                let client = Engine::OwnThread.connect(&url).await;
                let counted = contend::together(&client, 64, report.span).await;
                client.close().await.expect("closed");
                counted.per_second
            });
            report.raw(json!({"what": "backends-cycles", "backend": name, "round": round, "one_task": one,
                "own_names": many, "one_name": together}));
            alone.push(one);
            own_names.push(many);
            one_name.push(together);
        }
        let [one, many, together] = [alone, own_names, one_name].map(median);
        let ours = format!("1 task {one:.0}/s; 64 tasks, a name each {many:.0}/s; on one name {together:.0}/s");
        report.row(format!("{name}, cycles"), ours, String::new(), "");
    }
}

/// The time from one client's release until the waiting client has the lock.
pub(crate) fn hand_off(report: &mut Report) {
    let turns = report.size.pick(100, 5);
    for Store { name, url, .. } in Store::start_all() {
        let (mut p50s, mut p99s) = (Vec::new(), Vec::new());
        for round in 0..report.rounds {
            let run = passes(&url, Kind::Mutex, Engine::OwnThread, turns, PAUSE);
            let mut seconds = Workers::Two.runtime().block_on(run);
            let [p50, p99] = [0.5, 0.99].map(|share| quantile(&mut seconds, share) * 1e3);
            report.raw(json!({"what": "backends-handoff", "backend": name, "round": round, "p50_ms": p50,
                "p99_ms": p99}));
            p50s.push(p50);
            p99s.push(p99);
        }
        let ours = format!("p50 {:.1}, p99 {:.1} ms", median(p50s), median(p99s));
        report.row(format!("{name}, hand-off"), ours, String::new(), "");
    }
}

/// The time from the death of the holder until a waiter has the lock, on all backends at the same time.
pub(crate) fn killed(report: &mut Report) {
    let stores = Store::start_all();
    for round in 0..report.size.pick(3, 1) {
        let killed = Workers::Two.runtime().block_on(async {
            let mut running = JoinSet::new();
            for Store { name, url, .. } in &stores {
                // In each round, the holder dies at another time after a renewal.
                let held = report.size.pick(Duration::from_secs(3) * round, Duration::ZERO);
                let terms = match (report.size.pick(true, false), *name) {
                    (true, _) => "",
                    (false, "ZooKeeper") => "?session=1s",
                    (false, _) => "?watchdog=1s",
                };
                let (name, url) = (*name, format!("{url}{terms}"));
                running.spawn(async move { (name, free_after(&url, held).await) });
            }
            running.join_all().await
        });
        for (name, seconds) in killed {
            report.raw(json!({"what": "backends-killed", "backend": name, "round": round, "seconds": seconds}));
            let what = format!("{name}, the holder was killed, round {round}");
            report.row(what, format!("free after {seconds:.1} s"), String::new(), "");
        }
    }
}

/// Time from the death of a holder until a waiter has its lock. The holder dies when it has held the lock for `held`.
async fn free_after(url: &str, held: Duration) -> f64 {
    let mut holder = Holder::start(url).await;
    let client = Engine::OwnThread.connect(url).await;
    let mutex = client.mutex(LOCK);
    let waiting = tokio::spawn(async move {
        let guard = mutex.lock().await.expect("granted");
        let at = Instant::now();
        guard.release().await.expect("released");
        at
    });
    tokio::time::sleep(held).await;
    assert!(!waiting.is_finished(), "the holder has the lock");
    let start = Instant::now();
    holder.0.kill().expect("killed");
    let at = waiting.await.expect("no panic");
    client.close().await.expect("closed");
    at.duration_since(start).as_secs_f64()
}

/// The name of the lock whose holder is killed.
const LOCK: &str = "killed";

/// A process that holds the lock.
struct Holder(Child);

impl Holder {
    async fn start(url: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.args(["--holder", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program starts again");
        let out = child.stdout.take().expect("the holder has an output");
        let said = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(out).read_line(&mut line).map(|_| line)
        });
        let line = said.await.expect("no panic").expect("the holder prints that it has the lock");
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The process might have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The main function of a holder's process: it holds the lock until its standard input ends.
pub(crate) fn run_holder(url: &str) {
    Workers::Two.runtime().block_on(async {
        let client = Engine::OwnThread.connect(url).await;
        let guard = client.mutex(LOCK).lock().await.expect("granted");
        println!("held");
        let end = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
        end.await.expect("no panic").expect("an input");
        drop(guard);
        client.close().await.expect("closed");
    });
}
