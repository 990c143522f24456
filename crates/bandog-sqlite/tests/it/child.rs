//! Child processes of the tests. A child runs this test binary again, and an environment variable selects its role.

use std::{
    env,
    fs::{self, OpenOptions},
    io::Write,
    path::Path,
    process::Command,
    sync::Arc,
    time::Duration,
};

use bandog_core::{Claim, Clock, Kind, Leases, Notifier};
use bandog_sqlite::{Sqlite, SqliteOptions};
use bandog_testkit::Process;
use rusqlite::Connection;
use tokio::sync::Notify;

use crate::{
    disks, kinds, power, records, remote_store,
    support::{claim, release, take},
};

const ROLE: &str = "BANDOG_TEST_CHILD";
const PATH: &str = "BANDOG_TEST_PATH";
const TTL: &str = "BANDOG_TEST_TTL_MS";

/// Timeout for the next line that a child prints.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Starts a child with this role on the database.
pub(crate) fn start(role: &str, path: &Path, ttl: Duration) -> Process {
    Process::spawn(&command(role, path, ttl))
}

pub(crate) fn command(role: &str, path: &Path, ttl: Duration) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["child::the_child_s_part", "--exact", "--nocapture"]);
    command.env(ROLE, role).env(PATH, path).env(TTL, ttl.as_millis().to_string());
    command
}

/// This is not a test, but the entry point of a child process. It does nothing if no environment variable selects a
/// role.
#[tokio::test]
async fn the_child_s_part() {
    let Ok(role) = env::var(ROLE) else {
        return;
    };
    let path = env::var_os(PATH).unwrap();
    let path = Path::new(&path);
    let ttl = Duration::from_millis(env::var(TTL).unwrap().parse().unwrap());
    match role.as_str() {
        "ping" => println!("answer {:?}", open(path).ping().await),
        "hold" => hold(path, ttl).await,
        "lock" => lock(path),
        "commit" => commit(path),
        "count" => count(path, ttl, Kind::Mutex).await,
        "count fair" => count(path, ttl, Kind::Fair).await,
        "count write" => count(path, ttl, Kind::Write).await,
        "count permits" => count(path, ttl, kinds::permits(2, 3)).await,
        "wait" => wait(path, ttl).await,
        "increment" => records::increment(&open(path)).await,
        "traffic" => records::traffic(&open(path)).await,
        "serve" => remote_store::serve(path).await,
        "power" => power::power(path).await,
        "full" => disks::full(path).await,
        "full-queue" => disks::full_queue(path).await,
        "read-only" => disks::read_only(path).await,
        "warned" => disks::warned(path).await,
        "private" => disks::private(path).await,
        "starving" => disks::starving(path).await,
        "without inotify" => disks::without_inotify(path).await,
        _ => panic!("unknown role {role}"),
    }
}

fn open(path: &Path) -> Sqlite {
    Sqlite::new(SqliteOptions::at(path).timeout(Duration::from_secs(10))).unwrap()
}

pub(crate) fn now() -> u64 {
    Clock::system().now().as_nanos()
}

/// Takes the lock `k` and keeps running.
async fn hold(path: &Path, ttl: Duration) {
    let (store, asked) = (open(path), now());
    let fences = take(&store, &claim("k", ttl)).await.unwrap();
    println!("held {asked} {}", fences.last());
    std::future::pending::<()>().await;
}

/// Stays in the middle of a write transaction.
fn lock(path: &Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("begin immediate").unwrap();
    println!("locked");
    loop {
        std::thread::park();
    }
}

/// Writes in a transaction, and commits it when the next line comes from the standard input.
fn commit(path: &Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("begin immediate; update lease set wanted = 1").unwrap();
    println!("writing");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    conn.execute_batch("commit").unwrap();
    println!("written");
}

/// Repeatedly waits for the lock `k`, and prints the time of each grant. The child never polls, so only notifications
/// wake it.
async fn wait(path: &Path, ttl: Duration) {
    let (store, notified) = (open(path), Arc::new(Notify::new()));
    let notifier = {
        let notified = Arc::clone(&notified);
        Notifier::new(move || notified.notify_one())
    };
    let subscription = store.subscribe(&claim("k", ttl), notifier).await.unwrap();
    assert!(!subscription.is_silent());
    println!("subscribed");
    loop {
        let ours = claim("k", ttl);
        while take(&store, &ours).await.is_none() {
            notified.notified().await;
        }
        println!("granted {}", now());
        release(&store, &ours).await;
        notified.notified().await; // The notification of our own release must not wake the next claim.
    }
}

/// Increments a counter under the lock as fast as possible, and logs each grant and each release.
async fn count(path: &Path, ttl: Duration, kind: Kind) {
    let store = open(path);
    let counter = path.with_file_name("counter");
    let mut log = OpenOptions::new().create(true).append(true).open(path.with_file_name("log")).unwrap();
    let mut write = |line: String| log.write_all(line.as_bytes()).unwrap();
    let mut ours = claim("k", ttl);
    while !path.with_file_name("stop").exists() {
        ours = Claim { kind, joins: kind == Kind::Fair, ..ours };
        let asked = now();
        let Some(fences) = take(&store, &ours).await else {
            // The interval is long, because 64 processes that poll all the time would leave no CPU time for work.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let fence = fences.last();
        write(format!("granted {fence} {asked} {}\n", now()));
        let before: u64 = fs::read_to_string(&counter).map_or(0, |text| text.parse().unwrap());
        let draft = path.with_file_name(format!("counter-{}", std::process::id()));
        fs::write(&draft, (before + 1).to_string()).unwrap();
        fs::rename(draft, &counter).unwrap();
        write(format!("releasing {fence} {} 0\n", now()));
        release(&store, &ours).await;
        ours = claim("k", ttl);
    }
}
