//! Real file systems that are full, read-only or refused. A child process mounts them in its own mount namespace.

use std::{
    fs::{self, File},
    io::{self, Write},
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use bandog_core::{
    Backend, Error, ErrorKind, Inspect, Leases, Notifier, Records, Released, Renewal, Step, Swap,
    queues::{Delivered, DeliveryId, ElementId, NewElement, Push, Settle, SettleEnd, Settled, Take, TakeId},
};
use bandog_sqlite::{Sqlite, SqliteOptions};
use bandog_sync::Client;
use bandog_testkit::LogCapture;

use crate::{
    child::command,
    records::{get, key, put},
    support::{TTL, TestDir, claim, release, renew, step, take, take_eventually, try_take},
};

/// Runs a script and then a child, in namespaces in which both can mount file systems. The tests fail if this user has
/// no permission to create namespaces.
pub(crate) fn mounted(role: &str, path: &Path, namespaces: &[&str], script: &str) -> String {
    let child = command(role, path, TTL);
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-e", "-c", &format!("{script}\nexec \"$@\""), "sh"]);
    command.arg(child.get_program()).args(child.get_args());
    command.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let Output { status, stdout, stderr } = command.current_dir("/").output().unwrap();
    let text = format!("{}\n{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} (has this user the permission to create namespaces?)\n{text}");
    text
}

/// The options of `unshare` for a mount namespace. Root needs no user namespace. Without a user namespace, root can
/// mount more kinds of file systems.
fn mount_namespaces() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() { &["-m"] } else { &["-Urm"] }
}

pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

/// The path of a database on a new mount, and the script that mounts it.
fn mount(dir: &TestDir, options: &str) -> (PathBuf, String) {
    let disk = dir.path().with_file_name("disk");
    fs::create_dir(&disk).unwrap();
    (disk.join("locks.db"), format!("mount {options} none {}", quoted(&disk)))
}

// Promise: SQ16
#[test]
fn a_full_disk_grants_nothing_and_work_continues_when_space_is_free_again() {
    let dir = TestDir::new();
    let (path, script) = mount(&dir, "-t tmpfs -o size=2m");
    assert!(mounted("full", &path, mount_namespaces(), &script).contains("work continues"));
}

/// The role `full` of a child.
pub(crate) async fn full(path: &Path) {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let held: Vec<_> = (0..4).map(|n| claim(&format!("held{n}"), TTL)).collect();
    for each in &held {
        take(&store, each).await.unwrap();
    }
    let version = put(&store, "r", None, "before").await;
    let filler = path.with_file_name("filler");
    fill(&filler);
    assert_disk_full(&store.swap(&[Swap::new(key("r"), version, "x".repeat(1 << 20))]).await.unwrap_err());
    let connections = *store.profile().epoch.borrow();
    // Claims for which the log has space are still granted.
    let mut granted = 0;
    let error = loop {
        let ours = claim(&format!("new{granted}"), TTL);
        match try_take(&store, &ours).await {
            Ok(_) => granted += 1,
            Err(error) => break error,
        }
        assert!(granted < 10_000, "the disk is not full after 10,000 claims");
    };
    assert_disk_full(&error);
    assert_disk_full(&step(&store, Step::Release(held[0].clone())).await.unwrap_err());
    assert_disk_full(&store.renew(std::slice::from_ref(&held[1])).await.remove(0).unwrap_err());
    assert!(store.show(&held[2].key).await.unwrap().is_held(), "the query failed on the full disk");
    assert_eq!(get(&store, "r").await.unwrap().value, "before");
    assert_eq!(
        *store.profile().epoch.borrow(),
        connections,
        "the database was opened again, which makes all clients send requests at the same time"
    );
    let findings = store.check().await.unwrap();
    let space = findings.iter().find(|finding| finding.subject == "space").unwrap();
    assert_eq!(space.level, bandog_core::Level::Danger, "{space:?}");

    fs::remove_file(filler).unwrap();
    put(&store, "r", version, "after").await;
    assert_eq!(release(&store, &held[0]).await, Released::Freed { others: Some(0) });
    assert_eq!(renew(&store, &held[1]).await, Renewal::Extended { valid_for: TTL });
    assert!(take(&store, &claim("held2", TTL)).await.is_none(), "a lock that was held all the time was granted");
    take(&store, &claim("held0", TTL)).await.unwrap();
    let integrity = store.check().await.unwrap().remove(5);
    assert_eq!((integrity.subject.as_str(), integrity.level), ("integrity", bandog_core::Level::Fine));
    println!("work continues");
}

#[test]
fn a_full_disk_refuses_pushes_and_loses_no_element() {
    let dir = TestDir::new();
    let (path, script) = mount(&dir, "-t tmpfs -o size=4m");
    assert!(mounted("full-queue", &path, mount_namespaces(), &script).contains("work continues"));
}

/// The role `full-queue` of a child.
pub(crate) async fn full_queue(path: &Path) {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let (store, name) = (Backend::queues(&store).unwrap(), key("q"));
    let push = async |numbers: Range<u64>| {
        let element = |number| NewElement::new(ElementId { client: 1, number }, vec![1; 1000]);
        let push = Push { queue: name.clone(), elements: numbers.map(element).collect() };
        store.push(&[push]).await.remove(0)
    };
    let take = async |number, at_most| {
        let id = TakeId { taker: 7, number };
        let take = Take {
            queue: name.clone(),
            id,
            is_repeated: false,
            at_most,
            bytes: 1 << 20,
            rest_after: Duration::ZERO,
            lease: TTL * 100,
            deliveries: 2,
        };
        store.take(&[take]).await.remove(0).map(|taken| taken.elements)
    };
    let done = async |elements: &[Delivered]| {
        let done = |of: &Delivered| Settle {
            delivery: DeliveryId { id: of.id, fence: of.fence },
            end: SettleEnd::Done(Vec::new()),
        };
        store.settle(&name, &elements.iter().map(done).collect::<Vec<_>>()).await
    };
    push(0..100).await.unwrap();
    let held = take(1, 10).await.unwrap();
    let filler = path.with_file_name("filler");
    fill(&filler);
    // The log has space for some.
    let mut pushed = 100;
    let error = loop {
        match push(pushed..pushed + 100).await {
            Ok(_) => pushed += 100,
            Err(error) => break error,
        }
    };
    assert_disk_full(&error);
    let refused = done(&held).await;
    if let Err(error) = &refused {
        assert_disk_full(error);
    }
    let before = store.status(&name).await.unwrap();
    let left = pushed - if refused.is_ok() { 10 } else { 0 };
    assert_eq!(before.counts.values().sum::<u64>(), left, "an element is half done: {before:?}");

    fs::remove_file(filler).unwrap();
    assert!(done(&held).await.unwrap().iter().all(|settled| *settled != Settled::Lost));
    push(pushed..pushed + 100).await.unwrap();
    let mut ids: Vec<_> = held.iter().map(|element| element.id.number).collect();
    for number in 2.. {
        let elements = take(number, 100).await.unwrap();
        if elements.is_empty() {
            break;
        }
        assert!(elements.iter().all(|element| element.attempt == 1), "{elements:?}");
        assert!(done(&elements).await.unwrap().iter().all(|settled| *settled == Settled::Applied));
        ids.extend(elements.iter().map(|element| element.id.number));
    }
    assert_eq!(ids, (0..pushed + 100).collect::<Vec<_>>());
    assert_eq!(store.status(&name).await.unwrap().counts.values().sum::<u64>(), 0);
    println!("work continues");
}

fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for size in [64 << 10, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

fn assert_disk_full(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains("no space left") && text.contains("free some"), "{text}");
}

#[test]
fn a_disk_without_space_for_a_database_is_reported() {
    let dir = TestDir::new();
    let (path, script) = mount(&dir, "-t tmpfs -o size=8k");
    let text = mounted("ping", &path, mount_namespaces(), &script);
    assert!(text.contains("no space left") && text.contains("Unavailable"), "{text}");
}

#[test]
fn a_disk_that_is_mounted_read_only_is_reported() {
    let dir = TestDir::new();
    let (path, script) = mount(&dir, "-t tmpfs");
    let disk = quoted(path.parent().unwrap());
    let text = mounted("ping", &path, mount_namespaces(), &format!("{script}\nmount -o remount,ro {disk}"));
    assert!(text.contains("mounted read-only") && text.contains("Denied"), "{text}");
}

// Promise: SQ16
#[test]
fn a_database_on_a_disk_that_became_read_only_is_shown_and_grants_no_lock() {
    let dir = TestDir::new();
    let (path, script) = mount(&dir, "-t tmpfs");
    let exe = quoted(&std::env::current_exe().unwrap());
    // The first child leaves a log behind, as after a crash. Without a log, SQLite cannot read a database on a
    // read-only file system.
    let first =
        format!("BANDOG_TEST_CHILD=private BANDOG_TEST_UMASK=77 {exe} child::the_child_s_part --exact >/dev/null");
    let remount = format!("mount -o remount,ro {}", quoted(path.parent().unwrap()));
    let text = mounted("read-only", &path, mount_namespaces(), &format!("{script}\n{first}\n{remount}"));
    assert!(text.contains("held true"), "{text}");
    assert_eq!(text.matches("mounted read-only").count(), 3, "{text}");
    assert_eq!(text.matches("Denied").count(), 2, "{text}");
}

/// The role `read-only` of a child.
pub(crate) async fn read_only(path: &Path) {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let ours = claim("k", TTL);
    println!("held {}", store.show(&ours.key).await.unwrap().is_held());
    println!("{}", try_take(&store, &ours).await.unwrap_err());
    println!("{}", Sqlite::new(SqliteOptions::at(path)).unwrap().ping().await.unwrap_err());
    let findings = store.check().await.unwrap();
    println!("{}", findings.into_iter().find(|finding| finding.subject == "space").unwrap().says);
}

// Promise: SQ17
#[tokio::test]
async fn a_file_with_two_names_is_refused_under_both() {
    let dir = TestDir::new();
    let (path, other) = (dir.path(), dir.path().with_file_name("other.db"));
    Sqlite::new(SqliteOptions::at(&path)).unwrap().ping().await.unwrap();
    fs::hard_link(&path, &other).unwrap();
    for name in [&path, &other] {
        let error = Sqlite::new(SqliteOptions::at(name)).unwrap().ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("2 names"), "{error}");
    }
    fs::remove_file(&other).unwrap();
    Sqlite::new(SqliteOptions::at(&path)).unwrap().ping().await.unwrap();
}

// Promise: SQ17
#[test]
fn a_file_that_is_mounted_by_itself_is_refused() {
    let dir = TestDir::new();
    let (path, script) = mount(&dir, "-t tmpfs");
    let there = quoted(&path);
    let text =
        mounted("ping", &path, mount_namespaces(), &format!("{script}\n: > {there}\nmount --bind {there} {there}"));
    assert!(text.contains("mounted by itself") && text.contains("Unsupported"), "{text}");
}

#[test]
fn an_overlay_is_logged_once_and_a_tmpfs_is_not() {
    let dir = TestDir::new();
    let (path, script) = mount(&dir, "-t tmpfs");
    let disk = quoted(path.parent().unwrap());
    let text = mounted("warned", &path, mount_namespaces(), &script);
    assert!(text.contains("warnings 0") && text.contains("filesystem Advice") && text.contains("tmpfs"), "{text}");

    let layers = format!("cd {disk}; mkdir l u w m\nmount -t overlay -o lowerdir=l,upperdir=u,workdir=w none m");
    let path = path.with_file_name("m").join("locks.db");
    let text = mounted("warned", &path, mount_namespaces(), &format!("{script}\n{layers}"));
    assert!(text.contains("warnings 1") && text.contains("filesystem Advice") && text.contains("overlay"), "{text}");
}

/// The role `warned` of a child. It prints the number of warnings that two handles have logged, and a finding of
/// `check`.
pub(crate) async fn warned(path: &Path) {
    let log = LogCapture::of_process("");
    for _ in 0..2 {
        Sqlite::new(SqliteOptions::at(path)).unwrap().ping().await.unwrap();
    }
    let finding = Sqlite::new(SqliteOptions::at(path)).unwrap().check().await.unwrap().remove(0);
    println!("warnings {} {} {:?} {}", log.take("WARN").len(), finding.subject, finding.level, finding.says);
}

// Promise: SQ18
#[test]
fn a_file_system_that_another_program_serves_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root may mount a FUSE file system in the name of another user");
        return;
    }
    let dir = TestDir::new();
    let (path, script) = mount(&dir, "-i -t fuse -o fd=9,rootmode=40000,user_id=65534,group_id=65534");
    let text = mounted("ping", &path, mount_namespaces(), &format!("exec 9<>/dev/fuse\n{script}"));
    assert!(text.contains("is on fuse") && text.contains("Unsupported") && text.contains("server"), "{text}");
    assert_eq!(text.matches("is on fuse").count(), 1, "{text}");
}

// Promise: SQ20
#[test]
fn files_are_private_with_every_umask() {
    for umask in ["0", "777"] {
        let dir = TestDir::new();
        let path = dir.path().with_file_name("new").join("deep").join("locks.db");
        let mut child = command("private", &path, TTL);
        let output = child.env("BANDOG_TEST_UMASK", umask).output().unwrap();
        assert!(output.status.success(), "{umask}: {output:?}");
        for ending in ["", "-wal", "-shm", "-bell"] {
            let file = path.with_file_name(format!("locks.db{ending}"));
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600, "{file:?} with umask {umask}");
        }
        for directory in path.ancestors().skip(1).take(2) {
            assert_eq!(fs::metadata(directory).unwrap().mode() & 0o7777, 0o700, "{directory:?} with umask {umask}");
        }
    }
}

/// The role `private` of a child: it creates all files and exits without closing them, so that they remain.
pub(crate) async fn private(path: &Path) {
    let umask = u32::from_str_radix(&std::env::var("BANDOG_TEST_UMASK").unwrap(), 8).unwrap();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let ours = claim("k", TTL);
    let _subscription = store.subscribe(&ours, Notifier::new(|| {})).await.unwrap();
    take(&store, &ours).await.unwrap();
    io::stdout().flush().unwrap();
    std::process::exit(0);
}

// Promise: SQ6
#[test]
fn without_inotify_waiters_poll_and_are_warned_once() {
    let dir = TestDir::new();
    let script = "echo 0 > /proc/sys/user/max_inotify_instances";
    let text = mounted("without inotify", &dir.path(), &["-Ur"], script);
    assert!(text.contains("warnings 1") && text.contains("inotify Advice"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_without_inotify_gets_the_lock_in_spite_of_four_busy_tasks() {
    let dir = TestDir::new();
    let busy = Client::options().over(dir.open()).unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let mutex = busy.mutex("k");
            tokio::spawn(async move {
                loop {
                    let guard = mutex.lock().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    drop(guard);
                }
            })
        })
        .collect();
    let path = dir.path();
    let script = "echo 0 > /proc/sys/user/max_inotify_instances";
    let text = tokio::task::spawn_blocking(move || mounted("starving", &path, &["-Ur"], script)).await.unwrap();
    assert_eq!(text.matches("granted").count(), 3, "{text}");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The role `starving` of a child.
pub(crate) async fn starving(path: &Path) {
    let client = Client::options().over(Sqlite::new(SqliteOptions::at(path)).unwrap()).unwrap();
    for _ in 0..3 {
        match client.mutex("k").try_lock_for(Duration::from_secs(40)).await.unwrap() {
            Some(guard) => guard.release().await.unwrap(),
            None => return println!("not granted within 40 s"),
        }
        println!("granted");
    }
}

/// The role `without inotify` of a child.
pub(crate) async fn without_inotify(path: &Path) {
    let log = LogCapture::of_process("");
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let (ours, theirs) = (claim("k", TTL), claim("k", TTL));
    take(&store, &ours).await.unwrap();
    for _ in 0..3 {
        assert!(store.subscribe(&ours, Notifier::new(|| {})).await.unwrap().is_silent());
    }
    assert_eq!(release(&store, &ours).await, Released::Freed { others: Some(0) });
    take_eventually(&store, &theirs).await;
    let findings = store.check().await.unwrap();
    let finding = findings.iter().find(|finding| finding.subject == "inotify").unwrap();
    println!("warnings {} {} {:?}", log.take("WARN").len(), finding.subject, finding.level);
}
