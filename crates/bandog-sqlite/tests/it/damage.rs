//! Files that other programs overwrite, truncate or replace, or read for a long time.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

use bandog_core::{ErrorKind, Inspect, Key, Leases, Pattern, Records, Renewal, Step, Swap, Swapped, Verdict};
use bandog_sqlite::Sqlite;
use rusqlite::Connection;

use crate::{
    child::command,
    records::put,
    support::{TTL, TestDir, claim, eventually, release, renew, take, try_take},
};

/// Runs a script in another process. Such a script opens and closes the database. If this process did so, it would
/// release its own locks on the file.
fn shell(script: &str) {
    let status = Command::new("sh").args(["-e", "-c", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

fn overwrite(path: &Path, from_page: u64, pages: u64) {
    let target = path.display();
    shell(&format!(
        "yes | tr '\\n' '\\245' | dd of='{target}' bs=4096 seek={from_page} count={pages} conv=notrunc iflag=fullblock 2>/dev/null"
    ));
}

fn beside(dir: &TestDir, ending: &str) -> std::path::PathBuf {
    dir.path().with_file_name(format!("locks.db{ending}"))
}

/// Takes hundreds of locks, and copies the log into the database file.
async fn take_many_locks(store: &Sqlite, dir: &TestDir) -> Vec<bandog_core::Claim> {
    let claims: Vec<_> = (0..300).map(|n| claim(&format!("k{n}"), TTL)).collect();
    for each in &claims {
        take(store, each).await.unwrap();
    }
    let raw = Connection::open(dir.path()).unwrap();
    raw.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    claims
}

/// Checks that no held lock is granted to another claim. Returns the number of errors.
async fn assert_nothing_is_granted_twice(store: &Sqlite, held: &[bandog_core::Claim]) -> usize {
    let mut faults = 0;
    for each in held.iter().step_by(7) {
        match try_take(store, &claim(each.key.as_str(), TTL)).await {
            Ok(verdict) => assert!(matches!(verdict, Verdict::Busy { .. }), "{} was granted twice", each.key),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert_eq!(error.to_string().matches("Corrupt").count(), 1, "{error}");
                faults += 1;
            }
        }
    }
    faults
}

/// Moves the damaged files away, and checks that the stores continue with a new database without holds.
async fn assert_new_database_after_moving_the_files_away(stores: &[&Sqlite], dir: &TestDir, held: &bandog_core::Claim) {
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::rename(beside(dir, ending), beside(dir, &format!("-old{ending}")));
    }
    for (n, store) in stores.iter().enumerate() {
        take(*store, &claim(&format!("new{n}"), TTL)).await.unwrap();
    }
    assert_eq!(renew(stores[0], held).await, Renewal::Gone, "the hold is in the new file");
}

// Promise: SQ13
#[tokio::test]
async fn overwritten_pages_are_corrupt_and_nothing_is_granted_twice() {
    let dir = TestDir::new();
    let store = dir.open();
    let held = take_many_locks(&store, &dir).await;
    let pages = fs::metadata(dir.path()).unwrap().size() / 4096;
    assert!(pages > 8);
    overwrite(&dir.path(), 1, pages - 1);
    let late = dir.open();
    assert!(assert_nothing_is_granted_twice(&late, &held).await > 0, "the new handle did not detect the damage");
    assert_nothing_is_granted_twice(&store, &held).await;
    let error = try_take(&late, &claim("k0", TTL)).await.unwrap_err();
    assert!(error.to_string().contains("is damaged") && error.to_string().contains("move it"), "{error}");
    assert_new_database_after_moving_the_files_away(&[&store, &late], &dir, &held[0]).await;
}

// Promise: SQ13
#[tokio::test]
async fn a_file_with_an_overwritten_header_is_reported_as_not_a_database() {
    let dir = TestDir::new();
    let store = dir.open();
    let held = take_many_locks(&store, &dir).await;
    overwrite(&dir.path(), 0, 1);
    let late = dir.open();
    assert!(assert_nothing_is_granted_twice(&late, &held).await > 0);
    assert_nothing_is_granted_twice(&store, &held).await;
    let error = late.ping().await.unwrap_err();
    assert!(error.to_string().contains("not a SQLite database"), "{error}");
    assert_new_database_after_moving_the_files_away(&[&store, &late], &dir, &held[0]).await;
}

// Promise: SQ13
#[tokio::test]
async fn a_truncated_log_is_corrupt_and_nothing_is_granted_twice() {
    let dir = TestDir::new();
    let (store, other) = (dir.open(), dir.open());
    let held: Vec<_> = (0..20).map(|n| claim(&format!("k{n}"), TTL)).collect();
    for each in &held {
        take(&store, each).await.unwrap();
    }
    other.ping().await.unwrap();
    shell(&format!(": > '{}'", beside(&dir, "-wal").display()));
    for _ in 0..3 {
        // A handle that read the pages before the damage might continue to use them, and writes after the gap.
        let _ = store.renew(&held).await;
        assert_nothing_is_granted_twice(&other, &held).await;
        assert!(
            assert_nothing_is_granted_twice(&dir.open(), &held).await > 0,
            "the handle that opened the files did not detect the damage"
        );
    }
    assert_new_database_after_moving_the_files_away(&[&store, &other], &dir, &held[0]).await;
}

#[tokio::test]
async fn a_database_that_was_deleted_without_its_log_is_created_again() {
    let dir = TestDir::new();
    let (store, ours) = (dir.open(), claim("k", TTL));
    let old = take(&store, &ours).await.unwrap().last();
    fs::remove_file(dir.path()).unwrap();
    let mut new = take(&dir.open(), &claim("k", TTL)).await.expect("the lock is held in the new file");
    assert!(new.take().unwrap() > old);
    assert_eq!(renew(&store, &ours).await, Renewal::Gone);
    assert!(dir.open().check().await.unwrap().iter().all(|finding| finding.level != bandog_core::Level::Danger));
}

// Promise: SQ12
#[tokio::test]
async fn a_database_that_was_replaced_with_its_log_is_used() {
    let (dir, elsewhere) = (TestDir::new(), TestDir::new());
    let (store, ours, theirs) = (dir.open(), claim("k", TTL), claim("k", TTL));
    take(&store, &ours).await.unwrap();
    let there = elsewhere.open();
    take(&there, &theirs).await.unwrap();
    drop(there);
    eventually("the database is closed", async || !beside(&elsewhere, "-wal").exists()).await;
    let replace = |by: &Path| {
        // The old log must be deleted first, because SQLite would apply it to the new file.
        for ending in ["-wal", "-shm"] {
            fs::remove_file(beside(&dir, ending)).unwrap();
        }
        fs::rename(by, dir.path()).unwrap();
    };
    replace(&elsewhere.path());
    assert_eq!(renew(&store, &ours).await, Renewal::Gone);
    let row = store.show(&ours.key).await.unwrap();
    assert_eq!(row.owner(), Some(theirs.id.to_string().as_str()), "the hold of the new file was not used");
    assert_eq!(release(&store, &theirs).await, bandog_core::Released::Freed { others: Some(0) });

    let garbage = beside(&dir, "-garbage");
    fs::write(&garbage, "dear diary, ".repeat(1000)).unwrap();
    replace(&garbage);
    assert_eq!(try_take(&store, &ours).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_database_that_may_only_be_read_is_shown_and_grants_no_lock() {
    let dir = TestDir::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = dir.open();
    // The store stays open, so that the files beside the database are not deleted.
    runtime.block_on(take(&store, &claim("k", TTL))).unwrap();
    let text = read_only_by_permissions(&dir);
    assert!(text.contains("held true"), "{text}");
    assert_eq!(text.matches("this process may not write").count(), 2, "{text}");
    assert_eq!(text.matches("Denied").count(), 2, "{text}");
}

/// The output of a child with the role `read-only` that may only read the database.
pub(crate) fn read_only_by_permissions(dir: &TestDir) -> String {
    const NOBODY: u32 = 65534;
    let directory = dir.path().parent().unwrap().to_owned();
    for (path, mode) in
        [(directory, 0o555), (dir.path(), 0o444), (beside(dir, "-wal"), 0o444), (beside(dir, "-shm"), 0o444)]
    {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut child = command("read-only", &dir.path(), TTL);
    if rustix::process::geteuid().is_root() {
        child.uid(NOBODY).gid(NOBODY); // Root can write in spite of the permissions.
    }
    let output = child.current_dir("/").output().unwrap();
    let text = format!("{} {}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    fs::set_permissions(dir.path().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    text
}

#[tokio::test]
async fn a_long_reader_sees_one_state_and_the_log_is_reset_after_it() {
    let dir = TestDir::new();
    let (store, reader) = (dir.open(), Connection::open(dir.path()).unwrap());
    let (a, b) = (claim("a", TTL), claim("b", TTL));
    take(&store, &claim("always", TTL)).await.unwrap();
    let names = || {
        let mut held = reader.prepare("select name from lease where owner is not null order by name").unwrap();
        held.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    let rounds = async |count: u32| {
        for n in 0..count {
            store.apply(&[Step::Claim(a.clone()), Step::Claim(b.clone())]).await;
            if n % 100 == 0 {
                // Two locks that are always taken and released together are always listed together.
                let rows = dir.open().list(&Pattern::new("?")).await.unwrap();
                assert_eq!(rows.len(), 2);
            }
            store.apply(&[Step::Release(a.clone()), Step::Release(b.clone())]).await;
        }
    };
    let log = || fs::metadata(beside(&dir, "-wal")).unwrap().size();
    reader.execute_batch("begin").unwrap();
    assert_eq!(names(), ["always"]);
    rounds(1500).await;
    assert_eq!(names(), ["always"]);
    let long = log();
    assert!(long > 8 << 20, "{long}");
    reader.execute_batch("commit").unwrap();
    rounds(1500).await;
    assert!(log() < long + (2 << 20), "{} after {long}: the log was not reset", log());
    assert!(store.show(&Key::new("always").unwrap()).await.unwrap().is_held());
    assert!(dir.open().check().await.unwrap().iter().all(|finding| finding.level != bandog_core::Level::Danger));
}

// Promise: SQ13
#[tokio::test]
async fn records_on_overwritten_pages_are_corrupt_and_none_is_created_twice() {
    let dir = TestDir::new();
    let store = dir.open();
    let mut versions = Vec::new();
    for n in 0..100 {
        versions.push(put(&store, &format!("r{n}"), None, &n.to_string().repeat(300)).await);
    }
    let raw = Connection::open(dir.path()).unwrap();
    raw.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    let pages = fs::metadata(dir.path()).unwrap().size() / 4096;
    overwrite(&dir.path(), pages / 3, pages);
    let late = dir.open();
    let mut faults = 0;
    for (n, version) in versions.into_iter().enumerate() {
        let key = Key::new(format!("r{n}")).unwrap();
        for from in [None, version] {
            match late.swap(&[Swap::new(key.clone(), from, "changed")]).await {
                Ok(mut swaps) => match swaps.each.remove(0) {
                    Ok(Swapped::Done(_)) => assert!(from.is_some(), "{key} was created twice"),
                    Ok(Swapped::Differs(found)) => assert_eq!(found.map(|found| found.version), version, "{key}"),
                    other => panic!("{other:?}"),
                },
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    faults += 1;
                }
            }
        }
    }
    assert!(faults > 0, "no handle detected the damage");
}
