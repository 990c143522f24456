//! The findings of `check`.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    process::Command,
    time::Duration,
};

use bandog_core::{Finding, Inspect, Leases, Level, Notifier};
use bandog_sqlite::Sqlite;
use rusqlite::Connection;

use crate::{
    child::{SOON, start},
    remote_store::RemoteStore,
    support::{TTL, TestDir, claim, eventually, release, take},
};

async fn found(store: &Sqlite, subject: &str) -> Finding {
    let mut findings = store.check().await.unwrap();
    findings.retain(|finding| finding.subject == subject);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

/// Checks the level of a finding, and that its text contains these words.
fn assert_finding(finding: &Finding, level: Level, words: &[&str]) {
    let text = format!("{} {}", finding.says, finding.cure.as_deref().unwrap_or_default());
    assert!(finding.level == level && words.iter().all(|word| text.contains(word)), "{finding:?}");
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_new_database_passes_all_checks() {
    let dir = TestDir::new();
    let (store, ours) = (dir.open(), claim("k", TTL));
    let _subscription = store.subscribe(&ours, Notifier::new(|| {})).await.unwrap();
    take(&store, &ours).await.unwrap();
    let findings = store.check().await.unwrap();
    let subjects: Vec<_> = findings.iter().map(|finding| finding.subject.as_str()).collect();
    let all = ["filesystem", "space", "rights", "users", "inotify", "integrity", "writer", "version", "wal"];
    assert_eq!(subjects, all);
    for finding in &findings {
        // The levels of these findings depend on the machine.
        let depends = ["filesystem", "space", "inotify"].contains(&finding.subject.as_str());
        assert!(depends || finding.level == Level::Fine, "{finding:?}");
        assert_eq!(finding.cure.is_some(), finding.level != Level::Fine, "{finding:?}");
    }
}

#[tokio::test]
async fn a_missing_database_is_reported_and_not_created() {
    let dir = TestDir::new();
    let finding = found(&dir.open(), "integrity").await;
    assert_finding(&finding, Level::Advice, &["no lock was ever taken", dir.path().to_str().unwrap()]);
    assert!(!dir.path().exists());
}

#[tokio::test]
async fn permissions_of_others_are_reported_with_a_command_that_removes_them() {
    let dir = TestDir::new();
    let store = dir.open();
    store.ping().await.unwrap();
    let directory = dir.path().parent().unwrap().to_owned();
    let cured = async |finding: Finding| {
        assert_finding(&finding, Level::Advice, &["every user of the machine", "chmod"]);
        let cure = finding.cure.unwrap();
        let cure = cure.split(", or").next().unwrap();
        assert!(Command::new("sh").args(["-c", cure]).status().unwrap().success(), "{cure}");
        assert_eq!(found(&store, "rights").await.level, Level::Fine);
    };
    allow(&dir.path(), 0o666);
    cured(found(&store, "rights").await).await;
    allow(&directory, 0o777);
    cured(found(&store, "rights").await).await;
    allow(&directory, 0o1777);
    assert_eq!(
        found(&store, "rights").await.level,
        Level::Fine,
        "a directory with the sticky bit was reported, although other users cannot delete the file"
    );
}

#[tokio::test]
async fn other_processes_are_named_and_the_check_releases_no_lock_of_sqlite() {
    let dir = TestDir::new();
    let (store, ours) = (dir.open(), claim("ours", TTL));
    take(&store, &ours).await.unwrap();
    // The locks are counted for each descriptor, because the kernel's list of all locks may change while it is read.
    let locks = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| Some(entry.ok()?.file_name()));
        let ours = open.filter(|fd| {
            fs::read_link(Path::new("/proc/self/fd").join(fd))
                .is_ok_and(|file| file.starts_with(dir.path().parent().unwrap()))
        });
        let infos = ours.filter_map(|fd| fs::read_to_string(Path::new("/proc/self/fdinfo").join(fd)).ok());
        infos.map(|info| info.lines().filter(|line| line.starts_with("lock:")).count()).sum::<usize>()
    };
    let before = locks();
    assert!(before > 0, "the open database has no locks");
    let other = start("hold", &dir.path(), TTL);
    other.stdout_line("held", SOON);
    assert_finding(&found(&store, "users").await, Level::Fine, &[&other.pid().to_string()]);
    assert_eq!(locks(), before);

    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(dir.path().with_file_name(format!("locks.db{ending}"))).unwrap();
    }
    store.ping().await.unwrap();
    assert_finding(&found(&store, "users").await, Level::Danger, &[&other.pid().to_string(), "deleted or replaced"]);
}

// Promise: SQ10
#[tokio::test]
async fn a_process_that_keeps_a_write_transaction_open_is_named() {
    let dir = TestDir::new();
    let store = Sqlite::new(dir.options().timeout(Duration::from_millis(1200))).unwrap();
    store.ping().await.unwrap();
    let other = start("lock", &dir.path(), TTL);
    other.stdout_line("locked", SOON);
    let pid = other.pid().to_string();
    assert_finding(&found(&store, "writer").await, Level::Danger, &[&pid, "has kept the database locked"]);
    other.stop();
    assert_finding(&found(&store, "writer").await, Level::Danger, &[&pid, "is stopped", "kill -CONT"]);
    assert_eq!(found(&store, "integrity").await.level, Level::Fine, "the writer blocked a reader");
    other.kill();
    eventually("no process blocks it", async || found(&store, "writer").await.level == Level::Fine).await;
}

#[tokio::test]
async fn a_damaged_page_is_found() {
    let dir = TestDir::new();
    let store = dir.open();
    for n in 0..200 {
        let ours = claim(&format!("k{n}"), TTL);
        take(&store, &ours).await.unwrap();
        release(&store, &ours).await;
    }
    drop(store);
    let conn = Connection::open(dir.path()).unwrap();
    conn.execute_batch("pragma wal_checkpoint(truncate)").unwrap();
    drop(conn);
    eventually("the database is closed", async || !dir.path().with_file_name("locks.db-wal").exists()).await;
    let file = OpenOptions::new().write(true).open(dir.path()).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    file.write_all_at(&[0xa5; 2048], (pages - 1) * 4096).unwrap();
    drop(file);
    assert_finding(&found(&dir.open(), "integrity").await, Level::Danger, &["damaged", "move it"]);
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_a_finding_and_not_an_error() {
    let dir = TestDir::new();
    fs::write(dir.path(), "dear diary, ".repeat(1000)).unwrap();
    assert_finding(&found(&dir.open(), "integrity").await, Level::Danger, &["not a SQLite database", "another file"]);
}

#[tokio::test]
async fn a_write_ahead_log_that_is_never_reset_is_reported() {
    let dir = TestDir::new();
    let store = dir.open();
    take(&store, &claim("k", TTL)).await.unwrap();
    let log = OpenOptions::new().write(true).open(dir.path().with_file_name("locks.db-wal")).unwrap();
    log.set_len(65 << 20).unwrap(); // SQLite reads nothing after the last frame.
    assert_finding(&found(&store, "wal").await, Level::Advice, &["66560 KiB", "keeps a read transaction open"]);
}

#[tokio::test]
async fn processes_whose_log_or_index_was_deleted_are_named_and_the_check_does_not_harm_them() {
    for ending in ["-wal", "-shm"] {
        let dir = TestDir::new();
        let mut other = RemoteStore::at(&dir.path());
        other.take("k").unwrap();
        fs::remove_file(dir.path().with_file_name(format!("locks.db{ending}"))).unwrap();
        let pid = other.process().pid().to_string();
        for _ in 0..2 {
            assert_finding(&found(&dir.open(), "users").await, Level::Danger, &[&pid, "-wal or -shm was deleted"]);
        }
        assert_eq!(other.request("renew k"), "extended", "{ending}");
        assert_finding(&found(&dir.open(), "users").await, Level::Fine, &[&pid]);
    }
}
