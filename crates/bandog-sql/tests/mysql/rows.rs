//! The rows of the tables.

use std::time::Duration;

use bandog_core::{Answer, ClientId, Inspect, Leases, Member, Pattern, Records, Renewal, Row, Step, Swap, Verdict};
use bandog_testkit::{MariaDbServer, eventually_async};
use mysql_async::prelude::Queryable;

use crate::claims::full;
use crate::support::{SERVER, SOON, claim, lock_waits, open, release, renew, take, try_take, url};

// Promise: MY7
#[tokio::test]
async fn a_release_without_waiters_notifies_no_one() {
    let database = SERVER.new_database();
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    take(&store, &ours).await;
    assert!(try_take(&store, &claim("k")).await.unwrap().is_none());
    release(&store, &ours).await;
    assert_eq!(SERVER.sql(&database, "select count(*) from bandog_channel"), "0", "a try_lock was notified");
}

#[tokio::test]
async fn the_settings_of_the_server_do_not_matter() {
    let server = MariaDbServer::start_with(&[
        "autocommit=0",
        "completion-type=1",
        "transaction-isolation=SERIALIZABLE",
        "sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT",
        "default-time-zone=-07:00",
        "default-storage-engine=MyISAM",
        "character-set-server=latin1",
        "init-connect=set sql_safe_updates = 1, sql_select_limit = 1",
    ]);
    let database = "shop";
    // The variable has one name in MariaDB and another in MySQL. Each server executes one of the comments.
    let read_only = "set global /*M! tx_read_only *//*!80000 transaction_read_only */ = 1";
    server.sql("mysql", &format!("create database shop; grant all on shop.* to locks@'%'; {read_only}"));
    let (store, other) = (open(&url(&server, database)), open(&url(&server, database)));
    let claims: Vec<_> = ["ä", "b", "c"].map(claim).to_vec();
    for claim in &claims {
        take(&store, claim).await;
        assert!(try_take(&other, &claim.clone()).await.unwrap().is_some(), "a repeated claim");
    }
    assert_eq!(other.list(&Pattern::all()).await.unwrap().len(), claims.len());
    let record = Swap::new(claims[0].key.clone(), None, "text 'ä' \\ \"");
    assert!(store.swap(std::slice::from_ref(&record)).await.unwrap().each[0].is_ok());
    let reading = other.read(std::slice::from_ref(&record.key), &[]).await.unwrap();
    assert_eq!(Some(reading.records[0].clone().unwrap().unwrap().value), record.to);
    for claim in &claims {
        assert!(matches!(renew(&other, claim).await.unwrap(), Renewal::Extended { .. }));
        release(&other, claim).await;
    }
    assert!(store.list(&Pattern::all()).await.unwrap().is_empty());
}

#[tokio::test]
async fn long_lists_lock_no_other_rows() {
    const NAMES: usize = 1500;
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    let claims: Vec<_> = (0..NAMES).map(|n| claim(&format!("name {n}"))).collect();
    let steps: Vec<_> = claims.iter().cloned().map(Step::Claim).collect();
    assert!(
        store.apply(&steps).await.iter().all(|answer| matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. }))))
    );
    let others: Vec<_> = ["a", "name 15x", "z"].map(claim).to_vec();
    for other in &others {
        take(&store, other).await;
    }
    let opts = mysql_async::OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(SERVER.port());
    let opts = opts.user(Some("locks")).pass(Some("PASSWORD")).db_name(Some(&database));
    let mut raw = mysql_async::Conn::new(opts).await.unwrap();
    let locks = "start transaction; select * from bandog_lease where name in ('a', 'name 15x', 'z') for update";
    raw.query_drop(locks).await.unwrap();
    for renewal in store.renew(&claims).await {
        assert!(matches!(renewal.unwrap(), Renewal::Extended { .. }));
    }
    assert_eq!(lock_waits(&database), "");
    raw.query_drop("rollback").await.unwrap();
}

// Promise: MY2
#[tokio::test]
async fn the_time_zones_of_the_server_do_not_matter() {
    // The setting changes the locks in ShedLock's layout, so no other test uses this server.
    let server = MariaDbServer::start();
    let database = server.new_database();
    let (store, ours) = (open(&url(&server, &database)), claim("k"));
    take(&store, &ours).await;
    let utc =
        "select expires > utc_timestamp() + interval 50 second and expires < utc_timestamp() + interval 61 second";
    assert_eq!(server.sql(&database, &format!("{utc} from bandog_lease")), "1");
    server.sql(&database, "set global time_zone = '+11:00'");
    let (later, theirs) = (open(&url(&server, &database)), claim("k"));
    assert!(try_take(&later, &theirs).await.unwrap().is_none(), "the lock was granted twice");
    assert!(matches!(renew(&later, &ours).await.unwrap(), Renewal::Extended { .. }));
    assert_eq!(server.sql(&database, &format!("{utc} from bandog_lease")), "1");
}

// Promise: MY13
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

// Promise: MY2, MY6
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

/// Fair mutexes leave a row for each call that was next. Their deletion neither scans the table nor fails a request.
#[tokio::test]
async fn old_channels_are_deleted_in_portions_and_without_a_scan() {
    let database = SERVER.new_database();
    let (store, member) = (open(&url(&SERVER, &database)), Member::here(ClientId::random()));
    let register = async || store.register(&member, Duration::from_secs(60)).await;
    register().await.unwrap();
    let numbers = MariaDbServer::numbers(1500);
    SERVER.sql(&database, &format!("insert into bandog_channel select concat('old ', seq), seq from {numbers}"));
    SERVER.sql(
        &database,
        "insert into bandog_channel select 'new', timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))",
    );
    let rows = || SERVER.sql(&database, "select count(*) from bandog_channel");
    let opts = mysql_async::OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(SERVER.port());
    let opts = opts.user(Some("locks")).pass(Some("PASSWORD")).db_name(Some(&database));
    let mut raw = mysql_async::Conn::new(opts).await.unwrap();
    raw.query_drop("start transaction; select * from bandog_channel where name = 'old 1' for update").await.unwrap();
    register().await.unwrap();
    assert_eq!(rows(), "1501", "the row that another transaction has locked was deleted");
    raw.query_drop("rollback").await.unwrap();
    register().await.unwrap();
    assert_eq!(rows(), "501");
    register().await.unwrap();
    assert_eq!(rows(), "1", "the new row was deleted");
    let old =
        "select count(*) from information_schema.statistics where table_schema = database() and index_name = 'number'";
    assert_eq!(SERVER.sql(&database, old), "1", "the deletion scans the table");
}

#[tokio::test]
async fn the_names_of_records_are_found_by_their_beginning() {
    let database = SERVER.new_database();
    let store = open(&url(&SERVER, &database));
    crate::claims::expect_names_by_their_beginning(&store).await;
}

/// The test has a server of its own, because the server counts the rows that all sessions read.
#[tokio::test]
async fn no_call_reads_the_rows_of_other_clients() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    full::create(&url(&server, &database)).await;
    let (others, numbers) = (full::ROWS, MariaDbServer::numbers(full::ROWS));
    server.sql(
        &database,
        &format!(
            "insert into bandog_fence select concat('other/', seq), seq from {numbers};
            insert into bandog_lease (name, owner, expires)
                select concat('other/', seq), 'other:1', utc_timestamp(6) + interval 1 hour from {numbers};
            insert into bandog_record select concat('other/', seq), seq, 'text' from {numbers};
            insert into bandog_line select concat('other/', seq), 'slot', 'text' from {numbers}"
        ),
    );
    for statistics in ["do 0", "analyze table bandog_fence, bandog_lease, bandog_record, bandog_line"] {
        server.sql(&database, statistics);
        // The rows that a session reads one after the other, of a table or of an index.
        let read = || server.status(&["Handler_read_rnd_next", "Handler_read_next", "Handler_read_prev"]);
        let before = read();
        full::use_all(&url(&server, &database)).await;
        let rows = read() - before;
        assert!(rows < u64::from(others), "{rows} rows were read by scans, {statistics:?}");
    }
}
