//! Settings of the user's role that would end sessions, or would refuse their statements.

use std::time::Duration;

use bandog_core::{ErrorKind, Inspect, Key, Leases, Level, Notifier, Records, Swap, Swapped};
use bandog_sync::{Client, Guard};
use bandog_testkit::{Postgres, PostgresServer, eventually_async};
use tokio::sync::watch;

use super::{SERVER, sessions, set_for_user};
use crate::suite::{Database, SOON, claim, connections, full, held::ByHand, open, take, try_take};

/// Limits that are far shorter than a hold. PostgreSQL 13 and older do not have the last one.
const LIMITS: [&str; 4] = [
    "statement_timeout = '100ms'",
    "lock_timeout = '1ms'",
    "idle_in_transaction_session_timeout = '100ms'",
    "idle_session_timeout = '150ms'",
];

/// Settings that change the meaning of a statement or of a transaction.
const MEANINGS: [&str; 9] = [
    "default_transaction_isolation = 'serializable'",
    "default_transaction_deferrable = on",
    "search_path = other, public",
    "row_security = off",
    "timezone = 'Asia/Kathmandu'",
    "datestyle = 'German'",
    "intervalstyle = 'sql_standard'",
    "bytea_output = 'escape'",
    "standard_conforming_strings = off",
];

/// The ttl of the holds. A third of it is the interval of renewals, which is longer than the limits.
const TTL: Duration = Duration::from_secs(2);

fn over(url: &str) -> Client {
    Client::options().watchdog(TTL).over(open(url)).unwrap()
}

/// Waits until a lock was held for three ttls, by the clock of the server.
async fn expect_three_ttls(database: &str, guard: &Guard) {
    let lease = format!("from bandog.bandog_lease where name = '{}'", guard.key());
    let first = SERVER.sql(database, &format!("select expires {lease}"));
    let renewed = format!("select expires > timestamptz '{first}' + interval '6 s' {lease}");
    eventually_async(SOON, async || SERVER.sql(database, &renewed) == "t").await;
    assert!(!guard.is_lost());
}

// Promise: PG29
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_users_role_end_no_session_and_no_hold() {
    let database = SERVER.new_database();
    set_for_user(&database, &LIMITS);
    let url = SERVER.url(&database);
    let (client, waiter, theirs) = (over(&url), open(&url), claim("k"));
    let guard = client.mutex("k").lock().await.unwrap();
    let (woken, mut notified) = watch::channel(());
    let subscription = eventually_async(SOON, async || {
        let woken = woken.clone();
        waiter.subscribe(&theirs, Notifier::new(move || woken.send_replace(()))).await
    });
    let subscription = subscription.await;
    assert!(eventually_async(SOON, async || try_take(&waiter, &theirs).await).await.is_none());

    let before = sessions(&database);
    expect_three_ttls(&database, &guard).await;
    let after = sessions(&database);
    assert!(before.is_subset(&after), "sessions were ended: {before:?}, then {after:?}");

    notified.mark_unchanged();
    guard.release().await.unwrap();
    tokio::time::timeout(SOON, notified.changed()).await.unwrap().unwrap();
    assert!(try_take(&waiter, &theirs).await.unwrap().is_some());
    drop(subscription);
}

/// A statement may wait for a locked row for longer than the limits of the role.
// Promise: PG29
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_users_role_cancel_no_statement() {
    let database = SERVER.new_database();
    set_for_user(&database, &LIMITS);
    let (store, key) = (open(&SERVER.url(&database)), Key::new("record").unwrap());
    let create = [Swap::new(key.clone(), None, "old")];
    let created = eventually_async(SOON, async || store.swap(&create).await).await.each.remove(0);
    let Ok(Swapped::Done(version)) = created else { panic!("{created:?}") };
    let hand = Postgres::connect(&SERVER, &database).await;
    hand.batch_execute("begin; select from bandog.bandog_record for update").await.unwrap();
    let swapping = tokio::spawn({
        let swap = Swap::new(key, version, "new");
        async move { store.swap(&[swap]).await }
    });
    let waits = format!(
        "select from pg_stat_activity where datname = '{database}' and wait_event_type = 'Lock'
        and clock_timestamp() - query_start > interval '120 ms'"
    );
    eventually_async(SOON, async || hand.query_opt(&waits, &[]).await.unwrap()).await;
    hand.batch_execute("rollback").await.unwrap();
    let swapped = tokio::time::timeout(SOON, swapping).await.unwrap().unwrap().unwrap().each.remove(0);
    assert!(matches!(swapped, Ok(Swapped::Done(_))), "{swapped:?}");
}

// Promise: PG29
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_users_role_change_no_statement() {
    let database = SERVER.new_database();
    let decoys = ["lease", "fence", "record", "line", "client", "meta"];
    let decoys = decoys.map(|table| format!("create table other.bandog_{table} (n int)")).join(";");
    SERVER.sql(&database, &format!("create schema other; {decoys}; grant all on schema other to locks"));
    set_for_user(&database, &MEANINGS);
    let url = SERVER.url(&database);
    full::create(&url).await;
    full::use_all(&url).await;
    let used = "select count(*) > 0 from bandog.bandog_fence";
    assert_eq!(SERVER.sql(&database, used), "t");
}

/// In the modes, a hold is a session that sends nothing between two renewals.
// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_users_role_end_no_lock_of_the_database() {
    let law = async |hand: ByHand<Postgres>| {
        let (database, url) = (&hand.place.database, hand.url());
        set_for_user(database, &LIMITS);
        set_for_user(database, &MEANINGS);
        let client = over(&url);
        let guard = client.mutex("k").lock().await.unwrap();
        let mut session = hand.session();
        let mut attempt = || {
            let is_taken = hand.attempt(&mut session);
            session.ask(hand.mode.free);
            is_taken
        };
        let before = sessions(database);
        assert!(!attempt(), "{url}");
        expect_three_ttls(database, &guard).await;
        let after = sessions(database);
        assert!(before.is_subset(&after), "{url}: sessions were ended: {before:?}, then {after:?}");
        assert!(!attempt(), "{url}: a held lock was taken");
        guard.release().await.unwrap();
        assert!(attempt(), "{url}");
        // The session that had the lock is kept for the next one.
        let again = client.mutex("k").lock().await.unwrap();
        assert!(!attempt(), "{url}");
        again.release().await.unwrap();
    };
    let [rows, numbers] = ByHand::both();
    tokio::join!(law(rows), law(numbers));
}

/// Operators and hosting services stop the writers of a database with this setting.
// Promise: PG31
#[tokio::test]
async fn a_database_that_is_read_only_by_default_is_refused_until_it_can_write() {
    let database = SERVER.new_database();
    take(&open(&SERVER.url(&database)), &claim("held")).await;
    SERVER.sql(&database, &format!("alter database {database} set default_transaction_read_only to on"));
    let store = open(&SERVER.url(&database));
    let error = try_take(&store, &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("read-only by default"), "{error}");
    SERVER.sql("postgres", &format!("alter database {database} reset default_transaction_read_only"));
    take(&store, &claim("k")).await;
}

/// A role with one connection: renewals, records and queries share the connection of the claims.
// Promise: PG29
#[tokio::test(flavor = "multi_thread")]
async fn one_connection_is_enough_for_a_lock_that_is_renewed() {
    let server = PostgresServer::start();
    let database = server.new_database();
    server.sql(&database, "alter role locks connection limit 1");
    let client = over(&server.url(&database));
    let guard = client.mutex("k").lock().await.unwrap();
    let granted = server.sql(&database, "select expires from bandog.bandog_lease");
    let renewed = format!("select expires > '{granted}'::timestamptz + interval '6 second' from bandog.bandog_lease");
    eventually_async(SOON, async || guard.is_lost() || server.sql(&database, &renewed) == "t").await;
    assert!(!guard.is_lost());
    let sessions_of_the_user = "select count(*) from pg_stat_activity where usename = 'locks'";
    assert_eq!(server.sql(&database, sessions_of_the_user), "1");
    guard.release().await.unwrap();
    client.mutex("k").lock().await.unwrap().release().await.unwrap();
    let refused = open(&server.url(&database)).ping().await.unwrap_err();
    assert!(refused.to_string().contains("a client needs at least one and uses up to 4"), "{refused}");
    // With a higher limit, this client would open more sessions, and the check might get none.
    client.close().await.unwrap();
    eventually_async(SOON, async || server.sql("postgres", sessions_of_the_user) == "0").await;
    server.sql(&database, "alter role locks connection limit 3");
    let findings = open(&server.url(&database)).check().await.unwrap();
    let found = findings.iter().find(|finding| finding.subject == "connections of the user").unwrap();
    assert!(found.level == Level::Advice && found.says.contains("may have 3"), "{found:?}");
}

/// A role with one connection: whichever purpose gets it, the other ones share it.
// Promise: PG29
#[tokio::test(flavor = "multi_thread")]
async fn one_connection_is_enough_for_each_call_whichever_is_the_first() {
    let server = PostgresServer::start();
    let database = server.new_database();
    server.sql(&database, "alter role locks connection limit 1");
    let count = || server.sql("postgres", "select count(*) from pg_stat_activity where usename = 'locks'");
    let url = server.url(&database);
    connections::use_one(&url, count).await;
}

/// The cure of a low limit names only what the URL can have.
#[tokio::test]
async fn the_cure_for_a_low_limit_fits_the_url() {
    let server = PostgresServer::start();
    let database = server.new_database();
    for (limit, options, advice) in [(3, "", None), (3, "?mode=advisory", None), (6, "?mode=advisory", Some(2))] {
        server.sql(&database, &format!("alter role locks connection limit {limit}"));
        let findings = open(&format!("{}{options}", server.url(&database))).check().await.unwrap();
        let found = findings.into_iter().find(|finding| finding.subject == "connections of the user").unwrap();
        let cure = found.cure.unwrap();
        assert_eq!(found.level, Level::Advice);
        assert_eq!(
            cure.split_once("connections=").map(|(_, rest)| &rest[..1]),
            advice.map(|number: i32| number.to_string()).as_deref(),
            "{cure}"
        );
        server.end_sessions(&database);
    }
}
