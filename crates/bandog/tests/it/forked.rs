//! A process that forks after it has connected, as servers with worker processes and daemons do. The child has a copy of
//! the client, and none of its threads.

use std::{
    env, fs,
    path::Path,
    process::{Command, exit},
    thread,
    time::{Duration, Instant},
};

use bandog::blocking::connect;
use bandog_testkit::{Process, RedisServer};
use fork::{Fork, fork};

const ROLE: &str = "BANDOG_TEST_FORKS";
const URL: &str = "BANDOG_TEST_FORKS_URL";
/// Maximum time for a fact that does not depend on time.
const SOON: Duration = Duration::from_secs(30);

/// Starts a process that connects and forks.
fn start(role: &str, url: &str) -> Process {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["forked::the_process_that_forks", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(URL, url);
    Process::spawn(&command)
}

/// This is not a test, but the entry point of a process. It does nothing if no environment variable selects a role.
#[test]
fn the_process_that_forks() {
    let Ok(role) = env::var(ROLE) else { return };
    let url = env::var(URL).unwrap();
    match role.as_str() {
        "blocking" => forks_without_async(&url),
        "current runtime" => forks_in_a_runtime(&url),
        _ => panic!("no such role: {role}"),
    }
}

/// Forks. The parent waits until the child has written what it saw into a file, and returns it. The child never returns.
fn in_a_child(seen: impl FnOnce() -> Vec<String>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (part, whole) = (folder.path().join("part"), folder.path().join("seen"));
    match fork().unwrap() {
        Fork::Child => {
            fs::write(&part, seen().join("\n")).unwrap();
            fs::rename(&part, &whole).unwrap();
            exit(0)
        }
        Fork::Parent(child) => {
            if !appears(&whole) {
                Command::new("kill").args(["-9", &child.to_string()]).status().unwrap();
                panic!("a call in the child hangs");
            }
            fs::read_to_string(whole).unwrap().lines().map(str::to_owned).collect()
        }
    }
}

fn appears(path: &Path) -> bool {
    let start = Instant::now();
    while start.elapsed() < SOON {
        if path.exists() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// The kind and the message of an error, in one line.
fn words<T>(result: bandog::Result<T>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

fn forks_without_async(url: &str) {
    let client = connect(url).unwrap();
    let (guard, other) = (client.mutex("orders").lock().unwrap(), client.mutex("stock").lock().unwrap());
    let lost = guard.lost();
    let (same, kept, mut other) = (client.clone(), &guard, Some(other));
    let other_in_child = &mut other;
    let seen = in_a_child(move || {
        let mut seen = vec![kept.is_lost().to_string(), kept.remaining().is_zero().to_string(), words(lost.wait())];
        seen.push(words(same.mutex("orders").lock()));
        seen.push(words(same.mutex("orders").try_lock_for(Duration::from_secs(60))));
        seen.push(words(same.ready()));
        seen.push(words(same.show("orders")));
        seen.push(words(same.latch("start").wait()));
        seen.push(words(other_in_child.take().unwrap().release()));
        seen.push(words(same.close()));
        drop(same);
        // A client of the child's own works.
        seen.push(words(connect("memory:").and_then(|own| own.mutex("orders").lock()?.release())));
        seen
    });
    let closed = |line: &String| line.starts_with("Closed: ") && line.contains("was forked from it");
    assert_eq!(seen[..3], ["true", "true", "ok"]);
    assert!(seen[3..9].iter().all(closed), "{seen:#?}");
    assert_eq!(seen[9..], ["ok", "ok"], "the close of a client that has nothing here, and a client of the child");
    // The parent keeps its locks, and works on.
    assert!(!guard.is_lost());
    let stranger = connect(url).unwrap();
    assert!(stranger.mutex("orders").try_lock().unwrap().is_none());
    assert!(stranger.mutex("stock").try_lock().unwrap().is_none());
    guard.release().unwrap();
    assert!(stranger.mutex("orders").try_lock().unwrap().is_some());
    client.close().unwrap();
    println!("the parent is done");
}

fn forks_in_a_runtime(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, guard) = runtime.block_on(async {
        let options = bandog::ConnectOptions::parse(url).unwrap().on_current_runtime();
        let client = options.connect().await.unwrap();
        let guard = client.mutex("orders").lock().await.unwrap();
        (client, guard)
    });
    let seen = in_a_child(|| {
        // A runtime of the child's own: that of the parent shares its poller with the parent.
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        own.block_on(async {
            let lost = tokio::time::timeout(SOON, guard.lost()).await.is_ok();
            vec![guard.is_lost().to_string(), lost.to_string(), words(client.mutex("orders").lock().await)]
        })
    });
    assert_eq!(seen[..2], ["true", "true"]);
    assert!(seen[2].starts_with("Closed: "), "{seen:?}");
    runtime.block_on(async {
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
        client.close().await.unwrap();
    });
    println!("the parent is done");
}

// Promise: L32
#[test]
fn calls_in_a_forked_child_fail_at_once_and_the_parent_keeps_its_locks() {
    let server = RedisServer::start();
    let database = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}", database.path().join("locks.db").display());
    let cases = ["memory:forks", &server.url(), &file].map(|url| ("blocking", url.to_owned()));
    for (role, url) in cases.into_iter().chain([("current runtime", server.url())]) {
        start(role, &url).stdout_line("the parent is done", SOON + SOON);
    }
}
