//! The layout `shedlock`: mutexes as rows of the table of ShedLock.

use std::sync::LazyLock;

use bandog_core::{ErrorKind, Inspect, Leases};
use bandog_testkit::{MariaDb, MariaDbServer};

use super::SERVER;
use crate::suite::{
    claim, open,
    shedlock::{ShedLock, both_sides_exclude_each_other, operators_see_both_sides},
    take, try_take,
};

/// A database with the table, whose times have this type.
fn database(times: &str) -> ShedLock<MariaDb> {
    ShedLock::new(times)
}

/// Creates the table.
pub(super) fn table(times: &str, charset: &str) -> String {
    // MySQL requires the same precision of the type and its default.
    let precision = times.trim_start_matches(char::is_alphabetic);
    format!(
        "drop table if exists shedlock;
         create table shedlock (name varchar(64) not null, lock_until {times} not null,
            locked_at {times} not null default current_timestamp{precision}, locked_by varchar(255) not null, primary key (name))
         character set {charset}"
    )
}

/// ShedLock writes UTC times into columns that depend on the zone of its session, which is that of the JVM. The statements of
/// ShedLock are executed in sessions with the zone of the server.
// Promise: MY16
#[tokio::test]
async fn the_zone_of_the_sessions_makes_times_with_a_zone_equal() {
    static OTHER: LazyLock<MariaDbServer> = LazyLock::new(|| MariaDbServer::start_with(&["default-time-zone=+08:00"]));
    for (times, zone) in
        [("timestamp(3)", "&session_zone=%2B08:00"), ("datetime(3)", "&session_zone=+08:00"), ("datetime(3)", "")]
    {
        let in_zone = || {
            let java = ShedLock::on(&OTHER, times);
            ShedLock { url: format!("{}{zone}", java.url), ..java }
        };
        both_sides_exclude_each_other(&in_zone()).await;
        operators_see_both_sides(&in_zone()).await;
    }
}

// Promise: MY17
#[tokio::test]
async fn times_that_depend_on_an_unknown_zone_are_refused() {
    let refused = async |zone: &str, parts: &[&str]| {
        let error = open(&format!("{}{zone}", database("timestamp(3)").url)).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        parts.iter().for_each(|part| assert!(error.to_string().contains(part), "{error}"));
    };
    refused("", &["lock_until", "timestamp", "datetime(3)", "session_zone="]).await;
    refused("&session_zone=Asia/Nowhere", &["session_zone", "Asia/Nowhere"]).await;
}

/// The number of rows of tables that all sessions have read one after the other, without an index.
fn scanned() -> u64 {
    SERVER.status(&["Handler_read_rnd_next"])
}

#[tokio::test]
async fn a_read_of_named_locks_of_shedlock_uses_the_index() {
    let java = database("datetime(3)");
    let (store, ours) = (java.store(), claim("k"));
    take(&store, &ours).await;
    java.run(&format!(
        "insert into shedlock select concat('free ', seq), '2000-01-01', '2000-01-01', 'vm' from {};
         insert into bandog_lease (name) select concat('free ', seq) from {}",
        MariaDbServer::numbers(200_000),
        MariaDbServer::numbers(1000)
    ));
    let before = scanned();
    assert!(store.show(&ours.key).await.unwrap().is_held());
    assert!(store.show_all(&[]).await.unwrap().is_empty());
    // Other tests read tables of the same server at the same time. All of these tables are much smaller.
    let scanned = scanned() - before;
    assert!(scanned < 100_000, "{scanned} rows were read to find one");
}

/// A collation may not distinguish two names. Then the second one is refused, and is not granted as the first one.
// Promise: MY17
#[tokio::test]
async fn another_spelling_of_a_name_of_shedlock_is_refused() {
    let java = database("datetime(3)");
    // The default collation of MySQL distinguishes trailing blanks.
    java.run(&table("datetime(3)", "utf8mb4 collate utf8mb4_general_ci"));
    let store = java.store();
    take(&store, &claim("Job")).await;
    for name in ["job", "Job "] {
        let error = try_take(&store, &claim(name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("the spelling \"Job\""), "{error}");
    }
    assert_eq!(java.run("select name from shedlock"), "Job");
}

// Promise: MY17
#[tokio::test]
async fn names_that_a_character_set_lacks_are_refused() {
    let java = database("datetime(3)");
    java.run(&table("datetime(3)", "latin1"));
    let store = java.store();
    take(&store, &claim("plain")).await;
    assert!(!java.take("plain", "vm"));
    let error = try_take(&store, &claim("ä")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert_eq!(java.run("select name from shedlock"), "plain");
}

// Promise: MY17
#[tokio::test]
async fn a_table_that_cannot_have_locks_is_refused() {
    let database = SERVER.new_database();
    let refused = async |columns: &str, part: &str| {
        SERVER.sql(&database, "drop table if exists other");
        if !columns.is_empty() {
            SERVER.sql(&database, &format!("create table other ({columns})"));
        }
        let store = open(&format!("{}?layout=shedlock&table=other", SERVER.url(&database)));
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(part) && error.to_string().contains("other"), "{error}");
    };
    refused("", "does not exist").await;
    let with = |key: &str, times: &str, by: &str| {
        format!("name varchar(64) {key}, lock_until {times}, locked_at datetime(3), locked_by {by}")
    };
    refused(&with("primary key", "datetime", "text"), "without milliseconds").await;
    refused(&with("primary key", "bigint", "text"), "is no time").await;
    refused(&with("primary key", "datetime(3)", "varchar(50)"), "locked_by").await;
    refused(&with("", "datetime(3)", "text"), "primary key").await;
    // ShedLock would lock a name twice in these tables.
    let two = format!("{}, primary key (name, locked_at)", with("", "datetime(3)", "text"));
    refused(&two, "primary key").await;
    let prefix = format!("{}, primary key (name(10))", with("", "datetime(3)", "text"));
    refused(&prefix, "primary key").await;
    refused("name varchar(64) primary key, lock_until datetime(3)", "no column locked_by").await;
}
