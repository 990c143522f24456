//! Processes of their own: this test binary again, told by variables what to do.

use std::{
    env,
    fs::{self, OpenOptions},
    io::Write,
    path::Path,
    process::Command,
    sync::Arc,
    time::Duration,
};

use bandog_core::{Clock, Key, Leases, Notifier};
use bandog_sqlite::{Sqlite, SqliteOptions};
use bandog_testkit::Process;
use rusqlite::Connection;
use tokio::sync::Notify;

use crate::{
    disks, obeying, power, records,
    support::{claim, release, take},
};

const WHAT: &str = "BANDOG_TEST_CHILD";
const PATH: &str = "BANDOG_TEST_PATH";
const TTL: &str = "BANDOG_TEST_TTL_MS";

/// How long a child's line may take to come.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Starts a child that does this on the database.
pub(crate) fn start(what: &str, path: &Path, ttl: Duration) -> Process {
    Process::spawn(&command(what, path, ttl))
}

pub(crate) fn command(what: &str, path: &Path, ttl: Duration) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["child::the_child_s_part", "--exact", "--nocapture"]);
    command.env(WHAT, what).env(PATH, path).env(TTL, ttl.as_millis().to_string());
    command
}

/// Not a test: what a child does. Without the variable it does nothing.
#[tokio::test]
async fn the_child_s_part() {
    let Ok(what) = env::var(WHAT) else {
        return;
    };
    let path = env::var_os(PATH).unwrap();
    let path = Path::new(&path);
    let ttl = Duration::from_millis(env::var(TTL).unwrap().parse().unwrap());
    match what.as_str() {
        "ping" => println!("answer {:?}", open(path).ping().await),
        "hold" => hold(path, ttl).await,
        "lock" => lock(path),
        "commit" => commit(path),
        "count" => count(path, ttl).await,
        "wait" => wait(path, ttl).await,
        "increment" => records::increment(&open(path)).await,
        "traffic" => records::traffic(&open(path)).await,
        "obey" => obeying::obey(path).await,
        "power" => power::power(path).await,
        "full" => disks::full(path).await,
        "read-only" => disks::read_only(path).await,
        "warned" => disks::warned(path).await,
        "private" => disks::private(path).await,
        "starving" => disks::starving(path).await,
        "deaf" => disks::deaf(path).await,
        _ => panic!("{what}?"),
    }
}

fn open(path: &Path) -> Sqlite {
    Sqlite::new(SqliteOptions::at(path).timeout(Duration::from_secs(10))).unwrap()
}

pub(crate) fn now() -> u64 {
    Clock::system().now().as_nanos()
}

/// Takes `k` and lives on.
async fn hold(path: &Path, ttl: Duration) {
    let (store, asked) = (open(path), now());
    let fences = take(&store, &claim("k", ttl)).await.unwrap();
    println!("held {asked} {}", fences.last());
    std::future::pending::<()>().await;
}

/// Stays in the middle of a transaction.
fn lock(path: &Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("begin immediate").unwrap();
    println!("locked");
    loop {
        std::thread::park();
    }
}

/// Writes in a transaction that ends when it is told to.
fn commit(path: &Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("begin immediate; update lease set wanted = 1").unwrap();
    println!("writing");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    conn.execute_batch("commit").unwrap();
    println!("written");
}

/// Waits for `k` with nothing but the bell, again and again, and says when it had it.
async fn wait(path: &Path, ttl: Duration) {
    let (store, key, rung) = (open(path), Key::new("k").unwrap(), Arc::new(Notify::new()));
    let notifier = {
        let rung = Arc::clone(&rung);
        Notifier::new(move || rung.notify_one())
    };
    let bell = store.subscribe(&key, notifier).await.unwrap();
    assert!(!bell.is_silent());
    println!("listening");
    loop {
        let ours = claim("k", ttl);
        while take(&store, &ours).await.is_none() {
            rung.notified().await;
        }
        println!("granted {}", now());
        release(&store, &ours).await;
        rung.notified().await; // By our own release, so that the next claim waits.
    }
}

/// Increments a counter under the lock as fast as it can, and writes down each grant and each release.
async fn count(path: &Path, ttl: Duration) {
    let store = open(path);
    let counter = path.with_file_name("counter");
    let mut log = OpenOptions::new().create(true).append(true).open(path.with_file_name("log")).unwrap();
    let mut say = |line: String| log.write_all(line.as_bytes()).unwrap();
    while !path.with_file_name("stop").exists() {
        let (ours, asked) = (claim("k", ttl), now());
        let Some(fences) = take(&store, &ours).await else {
            // Not sooner: 64 processes that ask all the time leave no time for work.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let fence = fences.last();
        say(format!("granted {fence} {asked} {}\n", now()));
        let before: u64 = fs::read_to_string(&counter).map_or(0, |text| text.parse().unwrap());
        let draft = path.with_file_name(format!("counter-{}", std::process::id()));
        fs::write(&draft, (before + 1).to_string()).unwrap();
        fs::rename(draft, &counter).unwrap();
        say(format!("releasing {fence} {} 0\n", now()));
        release(&store, &ours).await;
    }
}
