//! The files of a database: their permissions, and faults.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
};

use bandog_core::{Error, ErrorKind, Leases, Notifier};
use bandog_sqlite::{Sqlite, SqliteOptions};
use rusqlite::Connection;

use crate::{
    child::command,
    remote_store::is_open,
    support::{TTL, TestDir, claim, eventually, release, renew, take},
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{path:?}: {error}")).mode() & 0o777
}

async fn error_at(path: &Path) -> Error {
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let error = store.ping().await.unwrap_err();
    let step = store.apply(&[bandog_core::Step::Claim(claim("k", TTL))]).await.remove(0).unwrap_err();
    assert_eq!((step.kind(), step.verb(), step.maybe_applied()), (error.kind(), Some("claim"), false), "{step}");
    error
}

// Promise: SQ20
#[tokio::test]
async fn all_files_are_for_their_owner_only() {
    let dir = TestDir::new();
    let path = dir.path().with_file_name("new").join("deep").join("locks.db");
    let store = Sqlite::new(SqliteOptions::at(&path)).unwrap();
    assert!(!path.parent().unwrap().exists(), "the new handle has created a directory");
    let ours = claim("k", TTL);
    let _subscription = store.subscribe(&ours, Notifier::new(|| {})).await.unwrap();
    take(&store, &ours).await.unwrap();
    for ending in ["", "-wal", "-shm", "-bell"] {
        let file = path.with_file_name(format!("locks.db{ending}"));
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
    for directory in [path.parent().unwrap(), path.parent().unwrap().parent().unwrap()] {
        assert_eq!(mode(directory), 0o700, "{directory:?}");
    }
}

#[tokio::test]
async fn the_files_beside_a_shared_database_are_shared_as_well() {
    let dir = TestDir::new();
    fs::write(dir.path(), "").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o660)).unwrap();
    let store = dir.open();
    let _subscription = store.subscribe(&claim("k", TTL), Notifier::new(|| {})).await.unwrap();
    for ending in ["", "-wal", "-shm", "-bell"] {
        assert_eq!(mode(&dir.path().with_file_name(format!("locks.db{ending}"))), 0o660, "{ending}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_corrupt_and_not_changed() {
    let dir = TestDir::new();
    let text = "dear diary, ".repeat(1000);
    fs::write(dir.path(), &text).unwrap();
    let error = error_at(&dir.path()).await;
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(fs::read_to_string(dir.path()).unwrap(), text);
}

// Promise: SQ19
#[tokio::test]
async fn a_database_of_another_program_is_not_changed() {
    let dir = TestDir::new();
    let conn = Connection::open(dir.path()).unwrap();
    conn.execute_batch("create table bones (x)").unwrap();
    let before = fs::read(dir.path()).unwrap();
    let error = error_at(&dir.path()).await;
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(fs::read(dir.path()).unwrap(), before);
}

// Promise: SQ19
#[tokio::test]
async fn a_newer_version_of_the_tables_is_unsupported() {
    let dir = TestDir::new();
    dir.open().ping().await.unwrap();
    Connection::open(dir.path()).unwrap().pragma_update(None, "user_version", 6).unwrap();
    let error = error_at(&dir.path()).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("version 6") && error.to_string().contains("update"), "{error}");
}

#[tokio::test]
async fn a_path_that_is_not_a_file_path_is_misused() {
    let dir = TestDir::new();
    for path in ["", "/", "..", ":memory:"] {
        assert_eq!(Sqlite::new(SqliteOptions::at(path)).unwrap_err().kind(), ErrorKind::Misused, "{path:?}");
    }
    fs::write(dir.path(), "").unwrap();
    assert_eq!(error_at(&dir.path().join("locks.db")).await.kind(), ErrorKind::Misused, "the parent is a file");
    let directory = dir.path().with_file_name("directory");
    fs::create_dir(&directory).unwrap();
    assert_eq!(error_at(&directory).await.kind(), ErrorKind::Misused);
}

#[test]
fn a_directory_without_write_permission_is_denied() {
    const NOBODY: u32 = 65534;
    let dir = TestDir::new();
    let sealed = dir.path().with_file_name("sealed");
    fs::create_dir(&sealed).unwrap();
    let mut child = command("ping", &sealed.join("locks.db"), TTL);
    if rustix::process::geteuid().is_root() {
        // Root can write in spite of the permissions, so the child runs as another user.
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        open(dir.path().parent().unwrap());
        chown(&sealed, Some(NOBODY), Some(NOBODY)).unwrap();
        child.uid(NOBODY).gid(NOBODY);
    }
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o500)).unwrap();
    let output = child.current_dir("/").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Denied"), "{text} {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_handle_works_again_after_the_damaged_file_was_removed() {
    let dir = TestDir::new();
    fs::write(dir.path(), "dear diary, ".repeat(1000)).unwrap();
    let store = dir.open();
    assert_eq!(store.ping().await.unwrap_err().kind(), ErrorKind::Corrupt);
    fs::remove_file(dir.path()).unwrap();
    store.ping().await.unwrap();
}

// Promise: SQ11
#[tokio::test]
async fn a_deleted_file_is_detected_and_its_holds_are_lost() {
    let dir = TestDir::new();
    let (store, ours) = (dir.open(), claim("k", TTL));
    let mut epoch = store.profile().epoch;
    let old = take(&store, &ours).await.unwrap().last();
    epoch.mark_unchanged();
    for ending in ["", "-wal", "-shm", "-bell"] {
        let _ = fs::remove_file(dir.path().with_file_name(format!("locks.db{ending}")));
    }
    let other = dir.open();
    let mut new = take(&other, &claim("k", TTL)).await.expect("the lock is held in the new file");
    assert!(new.take().unwrap() > old, "the fence did not rise after the file was lost");
    assert_eq!(renew(&store, &ours).await, bandog_core::Renewal::Gone);
    assert!(epoch.has_changed().unwrap());
}

#[tokio::test]
async fn several_handles_may_create_the_database_at_the_same_time() {
    for _ in 0..20 {
        let dir = TestDir::new();
        let tasks: Vec<_> =
            (0..8).map(|_| dir.open()).map(|store| tokio::spawn(async move { store.ping().await })).collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn the_last_handle_closes_the_database() {
    let dir = TestDir::new();
    let is_open = || is_open(&dir.path());
    let (store, ours) = (dir.open(), claim("k", TTL));
    let (again, subscription) = (store.clone(), store.subscribe(&ours, Notifier::new(|| {})).await.unwrap());
    drop(store);
    take(&again, &ours).await.unwrap();
    release(&again, &ours).await;
    assert!(is_open());
    drop((again, subscription));
    eventually("the database is closed", async || !is_open()).await;
}
