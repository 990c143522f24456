//! The same measurements on every backend: cycles, a hand-off between two clients, and the time after which the lock of a
//! process that was killed is free.

use std::{
    any::Any,
    time::{Duration, Instant},
};

use bandog_testkit::{RedisServer, ZooKeeperServer};
use serde_json::json;
use tokio::task::{JoinSet, block_in_place};

use crate::{
    again::{Again, input_ends},
    cycles::{Engine, Load, ours},
    driver::Row,
    handoff::hand_offs,
    kinds::Kind,
    measure::Workers,
    report::Report,
    sql,
};

/// Time from the call of a waiter until the lock is released, in a hand-off.
const PAUSE: Duration = Duration::from_millis(20);
/// The name of the lock whose holder is killed.
const LOCK: &str = "killed";

/// A backend, with its server.
struct Store {
    name: &'static str,
    url: String,
    /// The server or the folder of this store. It is stopped or removed when this value is dropped.
    _owned: Box<dyn Any>,
}

impl Store {
    /// All backends that several processes can share. No commit waits for the disk.
    fn start_all() -> Vec<Self> {
        let store = |name, url, owned: Box<dyn Any>| Self { name, url, _owned: owned };
        let (redis, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
        let folder = tempfile::tempdir().expect("a folder");
        let [postgres, mariadb] = sql::FAST.each_ref().map(sql::Server::empty_url);
        vec![
            store("Redis", redis.url(), Box::new(redis)),
            store("PostgreSQL", postgres, Box::new(())),
            store("MariaDB", mariadb, Box::new(())),
            store("ZooKeeper", format!("zookeeper://{}/bench", zookeeper.addr()), Box::new(zookeeper)),
            store("SQLite", format!("sqlite:{}", folder.path().join("locks.db").display()), Box::new(folder)),
        ]
    }
}

/// Cycles of a lock and its release.
pub(crate) fn cycles(report: &mut Report) {
    let (span, side) = (report.span, (Workers::Two, Engine::OwnThread));
    for Store { name, url, .. } in &Store::start_all() {
        for load in Load::ALL {
            Row::new(json!({"what": "backends-cycles", "backend": name, "load": load.name()}), &["per_second"])
                .side(side.1.name(), || ours(url, side, Kind::Mutex, load, span))
                .measure(report);
        }
    }
}

/// The time from one client's release until the waiting client has the lock.
pub(crate) fn hand_off(report: &mut Report) {
    let turns = report.size.pick(100, 5);
    for Store { name, url, .. } in &Store::start_all() {
        Row::new(json!({"what": "backends-handoff", "backend": name}), &["p50_ms", "p99_ms"])
            .side("own thread", || hand_offs(url, Kind::Mutex, Engine::OwnThread, turns, PAUSE))
            .measure(report);
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
    let mut holder = block_in_place(|| Again::start(&["holder", url]));
    block_in_place(|| holder.wait_for("held"));
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
    holder.kill();
    let at = waiting.await.expect("no panic");
    client.close().await.expect("closed");
    at.duration_since(start).as_secs_f64()
}

/// The main function of a holder's process: it holds the lock until its standard input ends.
pub(crate) fn run_holder(url: &str) {
    Workers::Two.runtime().block_on(async {
        let client = Engine::OwnThread.connect(url).await;
        let guard = client.mutex(LOCK).lock().await.expect("granted");
        println!("held");
        input_ends().await;
        drop(guard);
        client.close().await.expect("closed");
    });
}
