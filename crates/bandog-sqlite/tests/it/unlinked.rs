//! The files beside the database are deleted while processes have them open.

use std::fs;

use bandog_core::{Inspect, Leases, Level, Renewal};
use rusqlite::Connection;

use crate::{
    child::{SOON, start},
    remote_store::{RemoteStore, is_open},
    support::{TTL, TestDir, claim, eventually, release, renew, take},
};

/// The endings of the log and of its index.
const LOG_AND_INDEX: &[&str] = &["-wal", "-shm"];
/// The sets of files that the tests delete.
const DELETED_SETS: [&[&str]; 3] = [LOG_AND_INDEX, &["-wal"], &["-shm"]];

fn delete(dir: &TestDir, endings: &[&str]) {
    for ending in endings {
        fs::remove_file(dir.path().with_file_name(format!("locks.db{ending}"))).unwrap();
    }
}

async fn passes_check(dir: &TestDir) {
    let findings = dir.open().check().await.unwrap();
    assert!(findings.iter().all(|finding| finding.level != Level::Danger), "{findings:?}");
}

// Promise: SQ23
#[tokio::test]
async fn a_lock_has_one_holder_after_a_new_process_opened_the_files() {
    for files in DELETED_SETS {
        let dir = TestDir::new();
        let (mut first, mut second) = (RemoteStore::at(&dir.path()), RemoteStore::at(&dir.path()));
        let old = first.take("k").unwrap();
        second.take("j").unwrap();
        delete(&dir, files);
        let mut late = RemoteStore::at(&dir.path());
        let new = late.take("k");
        if files == ["-shm"] {
            assert_eq!(new, None, "the hold in the log was lost");
            assert_eq!(first.request("renew k"), "extended");
        } else {
            assert!(new.expect("the lock is held, although its hold was in the lost log") > old, "{files:?}");
            assert_eq!(first.request("renew k"), "gone", "{files:?}");
        }
        assert_eq!((first.epoch(), second.epoch()), (2, 1), "expected that only the first process has opened it again");
        // From now on all processes see the same state.
        for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
            let all = [&mut first, &mut second, &mut late];
            let mut granted: Vec<_> = all.into_iter().map(|other| other.take(name)).collect();
            granted.rotate_left(n);
            assert_eq!(granted.iter().flatten().count(), 1, "{files:?}: {granted:?}");
            assert_eq!(take(&dir.open(), &claim(name, TTL)).await, None);
        }
        assert_eq!(second.epoch(), 2);
        passes_check(&dir).await;
    }
}

// Promise: SQ23
#[tokio::test]
async fn a_record_is_swapped_once_after_a_new_process_opened_the_files() {
    for files in DELETED_SETS {
        let dir = TestDir::new();
        let mut first = RemoteStore::at(&dir.path());
        let old: u64 = first.request("put r 0 one").parse().unwrap();
        delete(&dir, files);
        let mut late = RemoteStore::at(&dir.path());
        if files == ["-shm"] {
            assert_eq!(late.request("put r 0 two"), "differs");
            assert!(late.request(&format!("put r {old} two")).parse::<u64>().unwrap() > old);
        } else {
            assert!(late.request("put r 0 two").parse::<u64>().unwrap() > old, "the version did not rise");
        }
        assert_eq!(first.request(&format!("put r {old} three")), "differs", "{files:?}");
        passes_check(&dir).await;
    }
}

// Promise: SQ22
#[tokio::test]
async fn nothing_is_lost_if_a_process_with_the_files_open_makes_the_first_request() {
    for files in DELETED_SETS {
        let dir = TestDir::new();
        let (mut first, mut second) = (RemoteStore::at(&dir.path()), RemoteStore::at(&dir.path()));
        first.take("k").unwrap();
        second.take("j").unwrap();
        let version = first.request("put r 0 one");
        delete(&dir, files);
        assert_eq!(first.request("renew k"), "extended", "{files:?}");
        let mut late = RemoteStore::at(&dir.path());
        assert_eq!((late.take("k"), late.take("j")), (None, None), "{files:?}");
        assert_eq!(late.request("put r 0 two"), "differs");
        assert_eq!(second.request("renew j"), "extended", "{files:?}");
        assert!(second.request(&format!("put r {version} two")).parse::<u64>().is_ok());
        assert_eq!(first.epoch(), 2, "the process did not detect the deletion at its request");
        passes_check(&dir).await;
    }
}

#[tokio::test]
async fn a_log_is_not_saved_if_a_process_has_the_new_files_open() {
    for files in [LOG_AND_INDEX, &["-wal"]] {
        let dir = TestDir::new();
        let mut first = RemoteStore::at(&dir.path());
        let raw = Connection::open(dir.path()).unwrap();
        raw.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
        drop(raw);
        first.take("k").unwrap();
        delete(&dir, files);
        let mut late = RemoteStore::at(&dir.path()); // The tables exist, so this process has written nothing.
        assert_eq!(first.request("renew k"), "gone", "{files:?}");
        assert!(late.take("k").is_some());
        assert_eq!((first.take("k"), late.epoch()), (None, 1), "{files:?}");
        passes_check(&dir).await;
    }
}

/// The request waits for the write lock of the old files. When it gets the lock, these files have been deleted.
#[tokio::test]
async fn a_request_that_waits_while_the_files_are_deleted_is_executed_in_the_new_files() {
    for files in DELETED_SETS {
        let dir = TestDir::new();
        let mut first = RemoteStore::at(&dir.path());
        let version = first.request("put r 0 one");
        let writer = start("lock", &dir.path(), TTL);
        writer.stdout_line("locked", SOON);
        first.send("take k");
        first.wait_until_blocked();
        delete(&dir, files);
        let mut late = RemoteStore::at(&dir.path());
        late.take("k").unwrap();
        late.send("put r 0 two");
        late.answer();
        writer.kill();
        assert_eq!(first.answer(), "busy", "{files:?}");
        let _ = first.request(&format!("put r {version} three"));
        passes_check(&dir).await;
    }
}

#[tokio::test]
async fn a_request_waits_for_a_process_that_is_stopped_in_a_write_to_a_deleted_log_and_names_it() {
    let dir = TestDir::new();
    let mut first = RemoteStore::at(&dir.path());
    first.take("k").unwrap();
    let writer = start("lock", &dir.path(), TTL);
    writer.stdout_line("locked", SOON);
    delete(&dir, LOG_AND_INDEX);
    let answer = first.request("renew k");
    let pid = writer.pid().to_string();
    assert!(answer.contains(&pid) && answer.contains("deleted or replaced"), "{answer}");
    writer.kill();
    assert_eq!(first.request("renew k"), "extended");
    assert_eq!(RemoteStore::at(&dir.path()).take("k"), None, "the hold in the deleted log was lost");
}

// Promise: SQ23
#[tokio::test]
async fn a_process_that_exits_does_not_delete_the_new_files_of_other_processes() {
    for files in DELETED_SETS {
        let dir = TestDir::new();
        let mut idle = RemoteStore::at(&dir.path());
        idle.take("k").unwrap();
        delete(&dir, files);
        let mut late = RemoteStore::at(&dir.path());
        late.take("k");
        late.take("j").unwrap();
        late.end();
        idle.end();
        let mut last = RemoteStore::at(&dir.path());
        assert_eq!((last.take("k"), last.take("j")), (None, None), "{files:?}");
        passes_check(&dir).await;
    }
}

// Promise: SQ22
#[tokio::test]
async fn handles_of_one_process_continue_after_their_files_were_deleted() {
    for files in DELETED_SETS {
        let dir = TestDir::new();
        let (first, second) = (dir.open(), dir.open());
        let (ours, theirs) = (claim("k", TTL), claim("j", TTL));
        take(&first, &ours).await.unwrap();
        take(&second, &theirs).await.unwrap();
        delete(&dir, files);
        assert!(matches!(renew(&first, &ours).await, Renewal::Extended { .. }), "{files:?}");
        let mut late = RemoteStore::at(&dir.path());
        assert_eq!((late.take("k"), late.take("j")), (None, None), "{files:?}");
        let new = late.take("new");
        assert!(new.is_some());
        for store in [&first, &second] {
            assert_eq!(take(store, &claim("new", TTL)).await, None, "{files:?}");
        }
        assert!(matches!(renew(&second, &theirs).await, Renewal::Extended { .. }), "{files:?}");
        assert_eq!((*first.profile().epoch.borrow(), *second.profile().epoch.borrow()), (2, 2));
        passes_check(&dir).await;
    }
}

#[tokio::test]
async fn a_database_that_was_deleted_without_its_log_and_index_is_new_to_every_process() {
    let dir = TestDir::new();
    let mut first = RemoteStore::at(&dir.path());
    let old = first.take("k").unwrap();
    delete(&dir, &[""]);
    let mut late = RemoteStore::at(&dir.path());
    assert!(late.take("k").expect("the lock is held in the new file") > old);
    assert_eq!(first.request("renew k"), "gone");
    assert_eq!(first.take("k"), None);
    passes_check(&dir).await;
}

// Promise: SQ23
#[tokio::test]
async fn files_deleted_while_no_process_had_them_open_lose_commits_that_were_not_in_the_database() {
    for files in DELETED_SETS {
        let dir = TestDir::new();
        let mut killed = RemoteStore::at(&dir.path());
        let old = killed.take("k").unwrap();
        killed.process().kill();
        killed.process().wait(SOON);
        delete(&dir, files);
        let mut late = RemoteStore::at(&dir.path());
        let new = late.take("k");
        assert_eq!(new.is_none(), files == ["-shm"], "{files:?}");
        assert!(new.is_none_or(|new| new > old));
        passes_check(&dir).await;
    }
}

// Promise: SQ22
#[tokio::test]
async fn checkpoints_and_vacuum_by_sqlite_cause_no_reconnection() {
    let dir = TestDir::new();
    let (mut other, ours) = (RemoteStore::at(&dir.path()), claim("k", TTL));
    for round in 0..5 {
        let store = dir.open();
        take(&store, &ours).await.unwrap();
        other.take(&format!("n{round}")).unwrap();
        let raw = Connection::open(dir.path()).unwrap();
        for pragma in ["wal_checkpoint(passive)", "wal_checkpoint(restart)", "wal_checkpoint(truncate)"] {
            raw.query_row(&format!("pragma {pragma}"), [], |_| Ok(())).unwrap();
            release(&store, &ours).await;
            take(&store, &ours).await.unwrap();
        }
        raw.execute_batch("vacuum").unwrap();
        release(&store, &ours).await;
        assert_eq!((*store.profile().epoch.borrow(), other.epoch()), (1, 1));
    }
    eventually("this process has closed the database", async || !is_open(&dir.path())).await;
    other.end();
    assert!(!dir.path().with_file_name("locks.db-wal").exists(), "the last process did not delete the log");
    let mut again = RemoteStore::at(&dir.path());
    assert_eq!((again.take("n0"), again.epoch()), (None, 1));
}
