//! The rows of the tables.

use std::time::Duration;

use bandog_core::{Inspect, Renewal, Row};
use bandog_testkit::{PostgresServer, eventually_async};

use crate::claims::full;
use crate::support::{SERVER, SOON, claim, open, release, renew, take, try_take, url};

/// The test has a server of its own: while a transaction is open in any database of a server, sessions remove old versions
/// of rows late.
// Promise: PG9
#[tokio::test]
async fn renewals_write_no_index() {
    let server = PostgresServer::start();
    let database = server.new_database();
    let store = open(&url(&server, &database));
    let claims: Vec<_> = (0..50).map(|n| claim(&format!("name {n}"))).collect();
    for claim in &claims {
        take(&store, claim).await;
    }
    for _ in 0..40 {
        for renewal in bandog_core::Leases::renew(&store, &claims).await {
            assert!(matches!(renewal.unwrap(), Renewal::Extended { .. }));
        }
    }
    // The statistics arrive after the session has been idle for a moment.
    let query =
        "select n_tup_upd - n_tup_hot_upd, n_tup_upd >= 2000 from pg_stat_user_tables where relname = 'bandog_lease'";
    let all_hot = async || match server.sql(&database, query) {
        found if found.ends_with("|t") => Ok(found),
        found => Err(found),
    };
    let found = eventually_async(SOON, all_hot).await;
    let cold: u32 = found.split('|').next().unwrap().parse().unwrap();
    assert!(cold <= 40, "{cold} of more than 2000 updates were not HOT");
}

// Promise: PG7
#[tokio::test]
async fn a_release_without_waiters_notifies_no_one() {
    let database = SERVER.new_database();
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    take(&store, &ours).await;
    assert!(try_take(&store, &claim("k")).await.unwrap().is_none());
    let wanted = "select wanted from bandog.bandog_lease";
    assert_eq!(SERVER.sql(&database, wanted), "f", "a try_lock has asked for a notification");
    release(&store, &ours).await;
}

// Promise: PG13
#[tokio::test]
async fn names_that_differ_little_are_different_locks() {
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    let long = "x".repeat(1024);
    for name in ["a", "A", "a ", " a", "ä", "a\u{308}", "🐕", "'; drop table bandog_lease; --", &long, &long[1..]] {
        let claim = claim(name);
        take(&store, &claim).await;
        assert_eq!(store.show(&claim.key).await.unwrap().name, name);
    }
}

// Promise: PG2, PG6
#[tokio::test]
async fn an_expired_lease_is_free() {
    let database = SERVER.new_database();
    let (store, mut ours, theirs) = (open(&url(&SERVER, &database)), claim("k"), claim("k"));
    ours.ttl = Duration::from_millis(200);
    let mut old = take(&store, &ours).await;
    let mut new = eventually_async(SOON, async || try_take(&store, &theirs).await.unwrap()).await;
    assert!(new.take() > old.take());
    assert_eq!(renew(&store, &ours).await.unwrap(), Renewal::Gone);
    release(&store, &theirs).await;
    assert_eq!(store.show(&ours.key).await.unwrap(), Row::free(&ours.key));
}

#[tokio::test]
async fn the_names_of_records_are_found_by_their_beginning() {
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    crate::claims::expect_names_by_their_beginning(&store).await;
}

/// Rows of one lock in a table of many.
#[tokio::test]
async fn a_read_of_named_locks_uses_the_index() {
    let database = SERVER.new_database();
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    take(&store, &ours).await;
    let fill = "insert into bandog.bandog_fence select 'free ' || n, 1 from generate_series(1, 5000) n;
                insert into bandog.bandog_lease (name) select 'free ' || n from generate_series(1, 5000) n";
    SERVER.sql(&database, fill);
    let read = async || {
        for _ in 0..3 {
            assert!(store.show(&ours.key).await.unwrap().is_held());
        }
        // The statistics of a session arrive when it ends.
        SERVER.end_sessions(&database);
    };
    read().await;
    let rows = "select seq_tup_read + coalesce(idx_tup_fetch, 0) < 1000 from pg_stat_user_tables \
                where relname = 'bandog_lease' and idx_tup_fetch > 2";
    eventually_async(SOON, async || SERVER.sql(&database, rows) == "t").await;
}

/// The planner must not decide for a scan, also if it knows little about the tables.
#[tokio::test]
async fn no_call_reads_the_rows_of_other_clients() {
    let database = SERVER.new_database();
    full::create(&url(&SERVER, &database)).await;
    let others = full::ROWS;
    SERVER.sql(
        &database,
        &format!(
            "set search_path = bandog;
            insert into bandog_fence select 'other/' || n, n from generate_series(1, {others}) n;
            insert into bandog_lease select 'other/' || n, 'other:1', now() + '1 hour' from generate_series(1, {others}) n;
            insert into bandog_record select 'other/' || n, n, 'text' from generate_series(1, {others}) n;
            insert into bandog_line select 'other/' || n, 'slot', 'text' from generate_series(1, {others}) n"
        ),
    );
    for statistics in ["", "analyze"] {
        SERVER.sql(&database, statistics);
        let read =
            || -> u64 { SERVER.sql(&database, "select sum(seq_tup_read) from pg_stat_user_tables").parse().unwrap() };
        let before = read();
        full::use_all(&url(&SERVER, &database)).await;
        // A session reports what it has read when it ends, at the latest.
        let sessions =
            format!("select count(*) from pg_stat_activity where datname = '{database}' and usename = 'locks'");
        eventually_async(SOON, async || SERVER.sql("postgres", &sessions) == "0").await;
        let rows = read() - before;
        assert!(rows < u64::from(others), "{rows} rows were read by scans, {statistics:?}");
    }
}
