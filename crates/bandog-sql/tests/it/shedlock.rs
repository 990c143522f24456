//! The layout `shedlock`: mutexes as rows of the table of ShedLock.

use bandog_core::{Answer, ErrorKind, Leases, Step, Verdict};

use crate::{
    claims::shedlock::{
        ShedLock, a_contended_counter_is_exact, a_release_as_the_first_call_is_answered, both_sides_exclude_each_other,
        long_names_are_refused, operators_see_both_sides,
    },
    support::{SERVER, claim, open, release, take, try_take, url},
};

/// A database with the table, whose times have this type.
fn database(times: &str) -> ShedLock {
    let database = SERVER.new_database();
    SERVER.sql(
        &database,
        &format!(
            "create table public.shedlock (name varchar(64) primary key, lock_until {times} not null,
                locked_at {times} not null, locked_by varchar(255) not null);
             grant select, insert, update on public.shedlock to locks"
        ),
    );
    ShedLock {
        sql: |database, statements| SERVER.sql(database, statements),
        url: format!("{}?layout=shedlock", url(&SERVER, &database)),
        database,
        now: "timezone('utc', CURRENT_TIMESTAMP)",
        later: "timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => 30.000)",
        changed: ["", " returning 1"],
        ignore: ["", "on conflict (name) do nothing"],
    }
}

// Promise: PG21
#[tokio::test]
async fn shedlock_and_ours_exclude_each_other() {
    for times in ["timestamp", "timestamp(3)"] {
        both_sides_exclude_each_other(&database(times)).await;
    }
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
            let ShedLock { database, .. } = &java;
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
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_under_a_contended_lock_of_shedlock_is_exact() {
    a_contended_counter_is_exact(&database("timestamp")).await;
}

// Promise: PG21
#[tokio::test]
async fn operators_see_and_evict_holds_of_shedlock() {
    operators_see_both_sides(&database("timestamp")).await;
}

// Promise: PG21
#[tokio::test]
async fn a_release_as_the_first_call_for_a_lock_of_shedlock_is_answered() {
    a_release_as_the_first_call_is_answered(&database("timestamp")).await;
}

// Promise: PG22
#[tokio::test]
async fn names_that_are_too_long_for_shedlock_are_refused() {
    long_names_are_refused(&database("timestamp")).await;
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

// Promise: PG21
#[tokio::test]
async fn a_row_of_shedlock_that_another_transaction_locks_delays_no_other_lock() {
    let java = database("timestamp");
    let (store, stuck, free) = (java.store(), claim("stuck"), claim("free"));
    take(&store, &stuck).await;
    release(&store, &stuck).await;
    let config =
        format!("host={} port={} user=postgres dbname={}", SERVER.directory().display(), SERVER.port(), java.database);
    let (raw, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    raw.batch_execute("begin; select from shedlock where name = 'stuck' for update").await.unwrap();
    let answers = store.apply(&[Step::Claim(stuck.clone()), Step::Claim(free.clone())]).await;
    let is_granted: Vec<_> =
        answers.into_iter().map(|answer| matches!(answer.unwrap(), Answer::Claimed(Verdict::Granted { .. }))).collect();
    assert_eq!(is_granted, [false, true]);
    raw.batch_execute("rollback").await.unwrap();
    take(&store, &stuck).await;
}

// Promise: PG22
#[tokio::test]
async fn a_table_that_cannot_have_locks_is_refused() {
    let database = SERVER.new_database();
    let refused = async |table: &str, part: &str| {
        SERVER.sql(&database, &format!("drop table if exists public.other; {table}"));
        let store = open(&format!("{}?layout=shedlock&table=public.other", url(&SERVER, &database)));
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
