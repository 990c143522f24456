//! Looks that must leave no trace, and tables of another version.

use std::{fs, os::unix::fs::MetadataExt};

use bandog_core::{ErrorKind, Inspect, Key, Leases, Pattern, Records, Result};
use bandog_sqlite::Sqlite;
use rusqlite::Connection;

use crate::{
    records::{get, put},
    support::{Place, TTL, claim, take, try_take},
};

const VERSION_1: &str = include_str!("../../sql/schema.sql");

/// A database as the first version made it, with a lock that is held.
fn old(place: &Place) {
    let conn = Connection::open(place.path()).unwrap();
    conn.pragma_update(None, "journal_mode", "wal").unwrap();
    conn.execute_batch(VERSION_1).unwrap();
    conn.pragma_update(None, "application_id", 0x6264_6f67).unwrap();
    conn.pragma_update(None, "user_version", 1).unwrap();
    let row = "insert into lease (name, owner, fence, expires, ttl, stamp, boot)
        values ('old', 'somebody', 7, 1, 3600000000000, 1, 'another boot')";
    conn.execute(row, []).unwrap();
}

fn version(place: &Place) -> (u32, u32) {
    let query = "select user_version, (select count(*) from sqlite_schema where name = 'client')
        from pragma_user_version";
    Connection::open(place.path()).unwrap().query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

async fn every_look(store: &Sqlite, key: &str) -> [Result<usize>; 4] {
    let key = Key::new(key).unwrap();
    [
        store.list(&Pattern::all()).await.map(|rows| rows.len()),
        store.show(&key).await.map(|row| usize::from(row.held)),
        store.members().await.map(|members| members.len()),
        store.evict(&key).await.map(|freed| usize::from(freed.is_some())),
    ]
}

#[tokio::test]
async fn a_look_at_a_database_that_is_not_there_creates_nothing_and_says_so() {
    let place = Place::new();
    let home = place.path().parent().unwrap().to_owned();
    let deep = home.join("typo").join("locks.db");
    for path in [&place.path(), &deep] {
        let options = || bandog_sqlite::SqliteOptions::at(path);
        for store in [Sqlite::new(options()).unwrap(), Sqlite::new(options().must_exist()).unwrap()] {
            for answer in every_look(&store, "k").await {
                let error = answer.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                let said = error.to_string();
                assert!(said.contains(path.to_str().unwrap()) && said.contains("no lock was ever taken"), "{said}");
            }
        }
    }
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "a look has made something");
}

#[tokio::test]
async fn a_look_at_an_empty_file_leaves_it_empty() {
    let place = Place::new();
    fs::write(place.path(), "").unwrap();
    for answer in every_look(&place.open(), "k").await {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(fs::metadata(place.path()).unwrap().size(), 0);
}

#[tokio::test]
async fn a_store_that_must_exist_is_not_made_and_works_once_somebody_else_has() {
    let place = Place::new();
    let store = Sqlite::new(place.options().must_exist()).unwrap();
    let ours = claim("k", TTL);
    assert_eq!(store.ping().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(try_take(&store, &ours).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(!place.path().exists());
    place.open().ping().await.unwrap();
    store.ping().await.unwrap();
    assert!(take(&store, &ours).await.is_some());
}

#[tokio::test]
async fn a_store_that_was_used_tells_of_a_file_that_has_gone_that_nothing_is_held() {
    let place = Place::new();
    let (store, ours) = (place.open(), claim("k", TTL));
    take(&store, &ours).await.unwrap();
    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(place.path().with_file_name(format!("locks.db{ending}"))).unwrap();
    }
    assert!(!store.show(&ours.key).await.unwrap().held);
}

#[tokio::test]
async fn a_look_leaves_an_older_version_as_it_is() {
    let place = Place::new();
    old(&place);
    for store in [place.open(), Sqlite::new(place.options().must_exist()).unwrap()] {
        let [listed, shown, members, _] = every_look(&store, "old").await;
        assert_eq!((listed.unwrap(), members.unwrap()), (shown.unwrap(), 0));
        assert_eq!(version(&place), (1, 0));
    }
    let store = Sqlite::new(place.options().must_exist()).unwrap();
    store.ping().await.unwrap();
    assert_eq!(version(&place), (1, 0), "a ping by somebody who only looks has changed the tables");
}

#[tokio::test]
async fn an_older_version_is_brought_up_to_date_with_its_holds() {
    let place = Place::new();
    old(&place);
    let store = place.open();
    assert!(store.show(&Key::new("old").unwrap()).await.unwrap().held);
    assert!(take(&store, &claim("old", TTL)).await.is_none(), "it is held");
    assert_eq!(version(&place), (3, 1));
    assert_eq!(store.members().await.unwrap(), []);
    assert!(store.show(&Key::new("old").unwrap()).await.unwrap().held);
}

#[tokio::test]
async fn many_may_bring_it_up_to_date_at_once() {
    for _ in 0..20 {
        let place = Place::new();
        old(&place);
        let tasks: Vec<_> =
            (0..8).map(|_| place.open()).map(|store| tokio::spawn(async move { store.ping().await })).collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(version(&place), (3, 1));
    }
}

#[tokio::test]
async fn an_older_version_has_no_records_until_somebody_is_here_to_do_more_than_look() {
    for version in [1, 2] {
        let place = Place::new();
        old(&place);
        if version == 2 {
            let raw = Connection::open(place.path()).unwrap();
            raw.execute_batch(include_str!("../../sql/registry.sql")).unwrap();
            raw.pragma_update(None, "user_version", 2).unwrap();
        }
        let tables = || {
            let query = "select user_version, (select count(*) from sqlite_schema where name in ('record', 'line'))
                from pragma_user_version";
            let raw = Connection::open(place.path()).unwrap();
            raw.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        let (looking, name) = (Sqlite::new(place.options().must_exist()).unwrap(), Key::new("r").unwrap());
        assert_eq!(looking.names(&Pattern::all()).await.unwrap(), []);
        assert_eq!(looking.history(&name).await.unwrap(), []);
        let reading = looking.read(std::slice::from_ref(&name), &[]).await.unwrap();
        assert!(matches!(reading.records[..], [Ok(None)]), "{reading:?}");
        assert_eq!(tables(), (version, 0));
        let record = put(&looking, "r", None, "new").await;
        assert!(record.is_some());
        assert_eq!(tables(), (3, 2));
        assert!(looking.show(&Key::new("old").unwrap()).await.unwrap().held, "its holds are kept");
        assert_eq!(get(&place.open(), "r").await.unwrap().value, "new");
    }
}
