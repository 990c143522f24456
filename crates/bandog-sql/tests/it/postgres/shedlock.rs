//! The layout `shedlock`: mutexes as rows of the table of ShedLock.

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::Postgres;

use super::SERVER;
use crate::suite::{
    claim, open,
    shedlock::{ShedLock, both_sides_exclude_each_other, operators_see_both_sides},
    take, try_take,
};

/// A database with the table, whose times have this type.
fn database(times: &str) -> ShedLock<Postgres> {
    ShedLock::new(times)
}

/// ShedLock writes UTC times into columns that depend on the zone of its session, which is that of the JVM.
// Promise: PG21
#[tokio::test]
async fn the_zone_of_the_sessions_makes_times_with_a_zone_equal() {
    for (times, session, zone) in [
        ("timestamptz", "Asia/Shanghai", "Asia/Shanghai"),
        ("timestamptz(3)", "America/St_Johns", "America/St_Johns"),
        ("timestamptz", "Asia/Shanghai", "+08:00"),
        ("timestamptz", "UTC", "UTC"),
        ("timestamp", "Asia/Shanghai", "Asia/Shanghai"),
    ] {
        let in_zone = || {
            let java = database(times);
            let database = &java.place.database;
            SERVER.sql(database, &format!("alter role postgres in database {database} set timezone to '{session}'"));
            ShedLock { url: format!("{}&session_zone={zone}", java.url), ..java }
        };
        both_sides_exclude_each_other(&in_zone()).await;
        let both = in_zone();
        operators_see_both_sides(&both).await;
        let near = both.run("select max(locked_at) - min(locked_at) < interval '10 min' from shedlock");
        assert_eq!(near, "t", "{times} {session} {zone}: the two sides write different times");
    }
}

// Promise: PG22
#[tokio::test]
async fn times_that_depend_on_an_unknown_zone_are_refused() {
    let refused = async |times: &str, zone: &str, parts: &[&str]| {
        let error = open(&format!("{}{zone}", database(times).url)).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        parts.iter().for_each(|part| assert!(error.to_string().contains(part), "{error}"));
    };
    refused("timestamptz", "", &["lock_until", "timestamptz", "timestamp(3)", "session_zone="]).await;
    refused("timestamptz", "&session_zone=Asia/Nowhere", &["session_zone", "Asia/Nowhere"]).await;
    // One such column is enough.
    for column in ["lock_until", "locked_at"] {
        let java = database("timestamp");
        java.run(&format!("alter table public.shedlock alter column {column} type timestamptz"));
        let error = open(&java.url).ping().await.unwrap_err();
        assert!(error.to_string().contains(column) && error.to_string().contains("session_zone="), "{error}");
    }
}

// Promise: PG21
#[tokio::test]
async fn an_infinite_time_of_shedlock_is_a_hold() {
    let java = database("timestamp");
    java.run("insert into shedlock values ('held', 'infinity', now(), 'vm'), ('free', '-infinity', now(), 'vm')");
    let store = java.store();
    assert!(try_take(&store, &claim("held")).await.unwrap().is_none());
    take(&store, &claim("free")).await;
}

// Promise: PG22
#[tokio::test]
async fn a_table_that_cannot_have_locks_is_refused() {
    let database = SERVER.new_database();
    let refused = async |table: &str, part: &str| {
        SERVER.sql(&database, &format!("drop table if exists public.other; {table}"));
        let store = open(&format!("{}?layout=shedlock&table=public.other", SERVER.url(&database)));
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(part) && error.to_string().contains("other"), "{error}");
    };
    refused("", "does not exist").await;
    let with = |name: &str, times: &str, by: &str| {
        format!("create table public.other (name {name}, lock_until {times}, locked_at timestamp, locked_by {by})")
    };
    refused(&with("varchar(64) primary key", "timestamp(0)", "text"), "without milliseconds").await;
    refused(&with("varchar(64) primary key", "bigint", "text"), "is no time").await;
    refused(&with("varchar(64) primary key", "timestamp", "varchar(50)"), "locked_by").await;
    refused(&with("varchar(64)", "timestamp", "text"), "primary key").await;
    refused("create table public.other (name text primary key, lock_until timestamp)", "no column locked_by").await;
}
