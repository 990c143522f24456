//! Settings of the server that reach the sessions of users.

use std::time::Duration;

use bandog_core::{Inspect, Key, Pattern, Records, Swap, Swapped};
use bandog_sync::Client;
use bandog_testkit::{MariaDb, MariaDbServer, eventually_async};
use futures_util::future::join_all;
use mysql_async::{Conn, prelude::Queryable};

use crate::suite::{Database, SOON, claim, connections, open, open_with, renew, take};

/// The ttl of the holds.
const TTL: Duration = Duration::from_secs(2);
/// The duration of a hold, in ttls.
const TTLS: u32 = 3;

/// The layouts, as options of the URL.
const LAYOUTS: [&str; 3] = ["", "?mode=rowlock&table=tb_lock&column=lockname", "?mode=advisory"];

/// Limits that are shorter than a hold and than the interval between pings. MySQL does not have all of them.
const LIMITS: &str = "set global wait_timeout = 1, global interactive_timeout = 1, global lock_wait_timeout = 1,
        global innodb_lock_wait_timeout = 1, global net_read_timeout = 1;
    /*M! set global max_statement_time = 0.1, global idle_transaction_timeout = 1,
        global idle_readonly_transaction_timeout = 1, global idle_write_transaction_timeout = 1 */";

/// Settings that change the meaning of statements. MariaDB and MySQL have different names for the last one.
const MEANINGS: &str = "set global transaction isolation level serializable;
    set global autocommit = 0, global completion_type = 2, global time_zone = '-11:00', global sql_auto_is_null = 1,
        global sql_select_limit = 1, global max_join_size = 1, global sql_safe_updates = 1,
        global init_connect = 'set autocommit = 0, time_zone = ''+05:00'', sql_mode = ''ANSI''';
    set global /*M! tx_read_only *//*!80000 transaction_read_only */ = 1";

/// Modes of the server. The layouts have them in turn.
const MODES: [&str; 2] = ["", "ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,TRADITIONAL"];

/// The URL of a new database for each layout, and a session that later settings of the server do not reach.
async fn places(server: &MariaDbServer) -> Vec<(String, Conn)> {
    let mut places = Vec::new();
    for layout in LAYOUTS {
        let database = server.new_database();
        server.sql(&database, MariaDb::ROWS);
        let hand = MariaDb::connect(server, &database).await;
        places.push((format!("{}{layout}", server.url(&database)), hand));
    }
    places
}

// Promise: MY27
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_the_server_end_no_hold() {
    let server = MariaDbServer::start();
    let mut places = places(&server).await;
    server.sql("mysql", LIMITS);
    join_all(places.iter_mut().map(expect_locks)).await;
}

// Promise: MY27
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_change_the_meaning_of_statements_do_not_matter() {
    let server = MariaDbServer::start();
    let mut places = places(&server).await;
    for (turn, mode) in MODES.into_iter().enumerate() {
        server.sql("mysql", &format!("set global sql_mode = '{mode}'; {MEANINGS}"));
        join_all(places.iter_mut().skip(turn).step_by(MODES.len()).map(expect_locks)).await;
        server.sql("mysql", "set global max_join_size = default, global sql_select_limit = default");
    }
}

/// A lock is held for several ttls and waited for, several locks are listed, and a record is swapped.
async fn expect_locks((url, hand): &mut (String, Conn)) {
    let url = url.as_str();
    let client = || Client::options().watchdog(TTL).over(open(url)).unwrap();
    let (holder, waiter) = (client(), client());
    // Between its renewals, only pings keep the connections of this lock.
    let idle = Client::options().watchdog(100 * TTL).over(open(url)).unwrap();
    let idle = idle.mutex("idle").lock().await.unwrap();
    let guard = holder.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = waiter.mutex("k");
        async move { mutex.lock().await }
    });
    let first = expiry(hand).await;
    eventually_async(SOON, async || expiry(hand).await.saturating_sub(first) > (TTL * TTLS).as_micros()).await;
    assert!(!guard.is_lost() && !waiting.is_finished(), "{url}");
    assert!(!idle.is_lost(), "{url}");
    idle.release().await.unwrap();
    let fence = guard.fence();
    guard.release().await.unwrap();
    let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
    assert!(next.fence() > fence, "{url}");
    next.release().await.unwrap();

    let store = open(url);
    for name in ["a", "b"] {
        take(&store, &claim(name)).await;
    }
    assert_eq!(store.list(&Pattern::all()).await.unwrap().len(), 2, "{url}");
    store.evict(&Key::new("a").unwrap()).await.unwrap();
    store.evict(&Key::new("b").unwrap()).await.unwrap();
    expect_swaps(url).await;
}

/// The time at which the lease of the lock `k` expires, in microseconds.
async fn expiry(hand: &mut Conn) -> u128 {
    let expires = "select timestampdiff(microsecond, '1970-01-01', expires) from bandog_lease where name = 'k'";
    let found: Option<Option<u64>> = hand.query_first(expires).await.unwrap();
    found.flatten().map_or(0, u128::from)
}

/// Creates, replaces and deletes a record.
async fn expect_swaps(url: &str) {
    let (store, key) = (open(url), Key::new("record").unwrap());
    let mut last = None;
    for text in [Some("text 'ä' \\ \" ||"), Some("again"), None] {
        let to = text.map(str::to_owned);
        let swap = Swap { to: to.clone(), ..Swap::new(key.clone(), last, "") };
        let swapped = store.swap(&[swap]).await.unwrap().each.remove(0).unwrap();
        let Swapped::Done(version) = swapped else { panic!("{url}: {swapped:?}") };
        assert!(version.is_none() || version > last, "{url}: {version:?} after {last:?}");
        let reading = store.read(std::slice::from_ref(&key), &[]).await.unwrap();
        assert_eq!(reading.records[0].clone().unwrap().map(|record| record.value), to, "{url}");
        last = version;
    }
}

/// During a backup, statements that write wait for the tables. They end soon, also without their client. On MariaDB,
/// `max_statement_time` alone would be enough; a unit test of the crate checks `lock_wait_timeout` there.
// Promise: MY27
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_locks_all_tables_leaves_no_statements_behind() {
    let server = MariaDbServer::start();
    let (store, ours) = (open_with(&server.url(&server.new_database()), Duration::from_secs(4)), claim("k"));
    take(&store, &ours).await;
    let mut backup = Conn::from_url(format!("mysql://root@localhost:{}/mysql", server.port())).await.unwrap();
    backup.query_drop("flush tables with read lock").await.unwrap();
    for _ in 0..3 {
        let refused = renew(&store, &ours).await.unwrap_err();
        assert_eq!(refused.kind(), bandog_core::ErrorKind::Unavailable, "{refused}");
        let waiting = "select count(*) from information_schema.processlist where user = 'locks' and command = 'Query'";
        let count: u64 = server.sql("mysql", waiting).parse().unwrap();
        assert!(count <= 2, "{count} statements wait");
    }
    backup.query_drop("unlock tables").await.unwrap();
    eventually_async(SOON, async || renew(&store, &ours).await.is_ok()).await;
}

/// A user with one connection: whichever purpose gets it, the other ones share it.
// Promise: MY27
#[tokio::test(flavor = "multi_thread")]
async fn one_connection_is_enough_for_each_call_whichever_is_the_first() {
    let server = MariaDbServer::start();
    let url = server.url(&server.new_database());
    server.sql("mysql", "alter user locks@'%' with max_user_connections 1");
    // A session that logs in has no name yet, and counts for the limit as soon as it has one.
    let users = "user in ('locks', 'unauthenticated user')";
    let count = || server.sql("mysql", &format!("select count(*) from information_schema.processlist where {users}"));
    connections::use_one(&url, count).await;
}
