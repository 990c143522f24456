//! Queries that must write nothing, and tables of another version.

use std::{fs, os::unix::fs::MetadataExt};

use bandog_core::{Claim, ErrorKind, Inspect, Key, Kind, Leases, Pattern, Records, Result, Verdict};
use bandog_sqlite::Sqlite;
use rusqlite::Connection;

use crate::{
    damage,
    records::{get, put},
    support::{TTL, TestDir, claim, take, try_take},
};

const VERSION_1: &str = include_str!("../../sql/schema.sql");

/// Creates a database with the tables of the first version and a held lock.
fn create_version_1(dir: &TestDir) {
    let conn = Connection::open(dir.path()).unwrap();
    conn.pragma_update(None, "journal_mode", "wal").unwrap();
    conn.execute_batch(VERSION_1).unwrap();
    conn.pragma_update(None, "application_id", 0x6264_6f67).unwrap();
    conn.pragma_update(None, "user_version", 1).unwrap();
    let row = "insert into lease (name, owner, fence, expires, ttl, stamp, boot)
        values ('old', 'somebody', 7, 1, 3600000000000, 1, 'another boot')";
    conn.execute(row, []).unwrap();
}

fn version(dir: &TestDir) -> (u32, u32) {
    let query = "select user_version, (select count(*) from sqlite_schema where name = 'client')
        from pragma_user_version";
    Connection::open(dir.path()).unwrap().query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

async fn every_query(store: &Sqlite, key: &str) -> [Result<usize>; 4] {
    let key = Key::new(key).unwrap();
    [
        store.list(&Pattern::all()).await.map(|rows| rows.len()),
        store.show(&key).await.map(|row| usize::from(row.is_held())),
        store.members().await.map(|members| members.len()),
        store.evict(&key).await.map(|freed| usize::from(freed.is_some())),
    ]
}

// Promise: SQ15
#[tokio::test]
async fn a_query_of_a_missing_database_creates_nothing_and_reports_it() {
    let dir = TestDir::new();
    let home = dir.path().parent().unwrap().to_owned();
    let deep = home.join("typo").join("locks.db");
    for path in [&dir.path(), &deep] {
        let options = || bandog_sqlite::SqliteOptions::at(path);
        for store in [Sqlite::new(options()).unwrap(), Sqlite::new(options().must_exist()).unwrap()] {
            for answer in every_query(&store, "k").await {
                let error = answer.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                let text = error.to_string();
                assert!(text.contains(path.to_str().unwrap()) && text.contains("no lock was ever taken"), "{text}");
            }
        }
    }
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "a query has created a file");
}

#[tokio::test]
async fn a_query_of_an_empty_file_leaves_it_empty() {
    let dir = TestDir::new();
    fs::write(dir.path(), "").unwrap();
    for answer in every_query(&dir.open(), "k").await {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(fs::metadata(dir.path()).unwrap().size(), 0);
}

#[tokio::test]
async fn a_store_that_must_exist_is_not_created_and_works_once_it_exists() {
    let dir = TestDir::new();
    let store = Sqlite::new(dir.options().must_exist()).unwrap();
    let ours = claim("k", TTL);
    assert_eq!(store.ping().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(try_take(&store, &ours).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(!dir.path().exists());
    dir.open().ping().await.unwrap();
    store.ping().await.unwrap();
    assert!(take(&store, &ours).await.is_some());
}

#[tokio::test]
async fn a_used_store_reports_no_holds_after_its_file_was_deleted() {
    let dir = TestDir::new();
    let (store, ours) = (dir.open(), claim("k", TTL));
    take(&store, &ours).await.unwrap();
    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(dir.path().with_file_name(format!("locks.db{ending}"))).unwrap();
    }
    assert!(!store.show(&ours.key).await.unwrap().is_held());
}

// Promise: SQ14
#[tokio::test]
async fn a_query_does_not_upgrade_an_older_version() {
    let dir = TestDir::new();
    create_version_1(&dir);
    for store in [dir.open(), Sqlite::new(dir.options().must_exist()).unwrap()] {
        let [listed, shown, members, _] = every_query(&store, "old").await;
        assert_eq!((listed.unwrap(), members.unwrap()), (shown.unwrap(), 0));
        assert_eq!(version(&dir), (1, 0));
    }
    let store = Sqlite::new(dir.options().must_exist()).unwrap();
    store.ping().await.unwrap();
    assert_eq!(version(&dir), (1, 0), "a ping that must not create the database has upgraded the tables");
}

// Promise: SQ14
#[tokio::test]
async fn an_older_version_is_upgraded_with_its_holds() {
    let dir = TestDir::new();
    create_version_1(&dir);
    let store = dir.open();
    assert!(store.show(&Key::new("old").unwrap()).await.unwrap().is_held());
    assert!(take(&store, &claim("old", TTL)).await.is_none(), "the upgrade freed the held lock");
    assert_eq!(version(&dir), (5, 1));
    assert_eq!(store.members().await.unwrap(), []);
    assert!(store.show(&Key::new("old").unwrap()).await.unwrap().is_held());
}

#[tokio::test]
async fn several_handles_may_upgrade_the_tables_at_the_same_time() {
    for _ in 0..20 {
        let dir = TestDir::new();
        create_version_1(&dir);
        let tasks: Vec<_> =
            (0..8).map(|_| dir.open()).map(|store| tokio::spawn(async move { store.ping().await })).collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(version(&dir), (5, 1));
    }
}

// Promise: SQ14
#[tokio::test]
async fn an_older_version_has_no_records_until_a_request_upgrades_it() {
    for version in [1, 2] {
        let dir = TestDir::new();
        create_version_1(&dir);
        if version == 2 {
            let raw = Connection::open(dir.path()).unwrap();
            raw.execute_batch(include_str!("../../sql/registry.sql")).unwrap();
            raw.pragma_update(None, "user_version", 2).unwrap();
        }
        let tables = || {
            let query = "select user_version, (select count(*) from sqlite_schema where name in ('record', 'line'))
                from pragma_user_version";
            let raw = Connection::open(dir.path()).unwrap();
            raw.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        let (store, name) = (Sqlite::new(dir.options().must_exist()).unwrap(), Key::new("r").unwrap());
        assert_eq!(store.names(&Pattern::all()).await.unwrap(), []);
        assert_eq!(store.history(&name).await.unwrap(), []);
        let reading = store.read(std::slice::from_ref(&name), &[]).await.unwrap();
        assert!(matches!(reading.records[..], [Ok(None)]), "{reading:?}");
        assert_eq!(tables(), (version, 0));
        let record = put(&store, "r", None, "new").await;
        assert!(record.is_some());
        assert_eq!(tables(), (5, 2));
        assert!(store.show(&Key::new("old").unwrap()).await.unwrap().is_held(), "the upgrade freed the held lock");
        assert_eq!(get(&dir.open(), "r").await.unwrap().value, "new");
    }
}

/// Creates a database with the tables of version 3.
fn create_version_3(dir: &TestDir) {
    let conn = Connection::open(dir.path()).unwrap();
    conn.pragma_update(None, "journal_mode", "wal").unwrap();
    conn.execute_batch(include_str!("../samples/version-3.sql")).unwrap();
}

#[tokio::test]
async fn an_upgrade_from_version_3_keeps_every_hold_and_fence_and_record() {
    let dir = TestDir::new();
    create_version_3(&dir);
    let (reader, held) = (Sqlite::new(dir.options().must_exist()).unwrap(), Key::new("held").unwrap());
    assert!(reader.show(&held).await.unwrap().is_held());
    assert_eq!(reader.list(&Pattern::all()).await.unwrap().len(), 1);
    assert_eq!(version(&dir), (3, 1), "a query has upgraded the tables");

    let store = dir.open();
    let of_kind = |kind, key| Claim { kind, joins: true, ..claim(key, TTL) };
    let error = try_take(&store, &of_kind(Kind::Read, "held")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert_eq!(version(&dir), (5, 1));
    let verdict = try_take(&store, &of_kind(Kind::Fair, "held")).await.unwrap();
    assert!(matches!(verdict, Verdict::Busy { ahead: Some(0), .. }), "{verdict:?}");
    let mut fences = take(&store, &of_kind(Kind::Write, "freed")).await.unwrap();
    assert!(fences.take().unwrap().get() > 1_795_291_227_368_307, "the fence has not risen");
    assert_eq!(get(&store, "job/one").await.unwrap().value, "value");
    assert!(reader.evict(&held).await.unwrap().is_some());
    assert_eq!(reader.show(&Key::new("freed").unwrap()).await.unwrap().kind, Some(Kind::Write));
}

#[test]
fn a_file_of_version_3_that_may_only_be_read_is_shown_and_not_upgraded() {
    let dir = TestDir::new();
    create_version_3(&dir);
    let raw = Connection::open(dir.path()).unwrap(); // Keeps the files beside the database.
    raw.execute("update lease set name = 'k' where name = 'held'", []).unwrap();
    let text = damage::read_only_by_permissions(&dir);
    assert!(text.contains("held true"), "{text}");
    assert_eq!(text.matches("this process may not write").count(), 2, "{text}");
    assert_eq!(version(&dir), (3, 1));
}
