//! Bad days of the modes `rowlock` and `advisory`.

use std::time::Duration;

use bandog_conformance::wrap::Counting;
use bandog_core::ErrorKind;
use bandog_sync::Client;
use bandog_testkit::{MariaDb, MariaDbServer, eventually_async};
use mysql_async::{Conn, prelude::Queryable};

use super::SERVER;
use crate::suite::{Database, SOON, claim, open, release, take, try_take};

/// A mode, and how a session by hand takes the lock `k`: the statement returns `k` or null, or no row.
struct Mode {
    query: &'static str,
    attempt: &'static str,
    free: &'static str,
}

const ROWLOCK: Mode = Mode {
    query: "mode=rowlock&table=tb_lock&column=lockname",
    attempt: "select lockname from tb_lock where lockname = 'k' for update skip locked",
    free: "rollback",
};

const ADVISORY: Mode =
    Mode { query: "mode=advisory", attempt: "select if(get_lock('k', 0), 'k', null)", free: "do release_all_locks()" };

impl Mode {
    fn url(&self, server: &MariaDbServer, database: &str) -> String {
        format!("{}?{}", server.url(database), self.query)
    }

    /// Whether the session gets the lock. It keeps it until it ends.
    async fn is_taken(&self, hand: &mut Conn) -> bool {
        hand.query_drop("begin").await.unwrap();
        let found: Option<Option<String>> = hand.query_first(self.attempt).await.unwrap();
        found.flatten().is_some_and(|name| name == "k")
    }
}

/// A database with the table of the rows.
fn new_database(server: &MariaDbServer) -> String {
    let database = server.new_database();
    server.sql(&database, "create table tb_lock (lockname varchar(64) not null primary key)");
    database
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_is_lost_with_its_server_and_the_next_grant_has_a_greater_fence() {
    let server = MariaDbServer::start();
    for mode in [ROWLOCK, ADVISORY] {
        let database = new_database(&server);
        // If the server starts late, the lease is not released, and has to expire.
        let over =
            || Client::options().watchdog(Duration::from_secs(5)).over(open(&mode.url(&server, &database))).unwrap();
        let (client, other) = (over(), over());
        let guard = client.mutex("k").lock().await.unwrap();
        server.kill();
        tokio::time::timeout(SOON, guard.lost()).await.expect("the guard is not lost");
        server.restart();
        let next = tokio::time::timeout(SOON, other.mutex("k").lock()).await.unwrap().unwrap();
        assert!(next.fence() > guard.fence(), "{}", mode.query);
        assert!(!mode.is_taken(&mut MariaDb::connect(&server, &database).await).await, "{}", mode.query);
        next.release().await.unwrap();
    }
}

/// The connections of the holder stay open, and nothing goes through them any more. The server has settings that would replace
/// the limit of an idle transaction.
// Promise: MY31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_is_lost_before_the_server_ends_a_session_that_is_cut_off() {
    let server = MariaDbServer::start();
    let settings = "set global idle_readonly_transaction_timeout = 3600, global idle_write_transaction_timeout = 3600";
    server.sql("mysql", &format!("/*M! {settings} */"));
    for mode in [ROWLOCK, ADVISORY] {
        let (database, wire) = (new_database(&server), server.wire());
        let url = format!("{}?{}", MariaDbServer::url_at(wire.port(), &database), mode.query);
        let client = Client::options().watchdog(Duration::from_secs(1)).over(open(&url)).unwrap();
        let guard = client.mutex("k").lock().await.unwrap();
        let mut hand = MariaDb::connect(&server, &database).await;
        assert!(!mode.is_taken(&mut hand).await, "{}", mode.query);
        wire.stall(true);
        let mut was_lost = false;
        // The documented bound is the ttl, at least 3 s.
        let taken = eventually_async(SOON, async || {
            was_lost = guard.is_lost();
            mode.is_taken(&mut hand).await
        });
        taken.await;
        assert!(was_lost, "{}: a session by hand has the lock, and the guard is not lost", mode.query);
        wire.stall(false);
    }
}

/// An operator kills the statement that claims the lease, which waits for a locked table. The statements that take the lock of the
/// database do not wait.
// Promise: MY29
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_claim_is_no_answer() {
    let server = MariaDbServer::start();
    for mode in [ROWLOCK, ADVISORY] {
        let database = new_database(&server);
        let (store, first, ours) = (open(&mode.url(&server, &database)), claim("k"), claim("k"));
        // The first lock creates the tables and the row.
        take(&store, &first).await;
        release(&store, &first).await;
        let mut admin = Conn::from_url(server.administrator(&database).replace("@/", "@localhost/")).await;
        let admin = admin.as_mut().unwrap();
        admin.query_drop("lock tables bandog_lease write").await.unwrap();
        let claiming = tokio::spawn({
            let (store, ours) = (store.clone(), ours.clone());
            async move { try_take(&store, &ours).await }
        });
        let waits =
            "select id from information_schema.processlist where user = 'locks' and state like '%metadata lock%'";
        let waiting = async || Some(server.sql("mysql", waits)).filter(|id| !id.is_empty());
        let id = eventually_async(SOON, waiting).await;
        server.sql("mysql", &format!("kill query {id}"));
        let error = tokio::time::timeout(SOON, claiming).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{}: {error}", mode.query);
        assert!(error.to_string().contains("interrupted") && error.maybe_applied(), "{}: {error}", mode.query);
        admin.query_drop("unlock tables").await.unwrap();

        // The session of the killed statement may end later than its claim.
        eventually_async(SOON, async || try_take(&store, &ours).await.unwrap()).await;
        let mut hand = MariaDb::connect(&server, &database).await;
        assert!(!mode.is_taken(&mut hand).await, "{}: the lock is there twice", mode.query);
        release(&store, &ours).await;
        assert!(mode.is_taken(&mut hand).await, "{}: the lock is not free after a release", mode.query);
    }
}

/// `GET_LOCK` waits only while another session creates the tables.
// Promise: MY29
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_get_lock_that_waits_is_an_error() {
    let database = SERVER.new_database();
    let mut hand = MariaDb::connect(&SERVER, &database).await;
    let creation = "select get_lock(concat('bandog ', left(sha2(database(), 256), 32)), 0)";
    assert_eq!(hand.query_first::<u8, _>(creation).await.unwrap(), Some(1));
    let (store, ours) = (open(&ADVISORY.url(&SERVER, &database)), claim(&database));
    let claiming = tokio::spawn({
        let (store, ours) = (store.clone(), ours.clone());
        async move { try_take(&store, &ours).await }
    });
    let waits =
        format!("select id from information_schema.processlist where db = '{database}' and state = 'User lock'");
    // The first connection waits. The others are opened after it.
    let waiting = async || Some(SERVER.sql("mysql", &waits)).filter(|ids| ids.lines().count() == 1);
    let id = eventually_async(SOON, waiting).await;
    SERVER.sql("mysql", &format!("kill query {id}"));
    let error = tokio::time::timeout(SOON, claiming).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    hand.query_drop(ADVISORY.free).await.unwrap();
    let granted = eventually_async(SOON, async || try_take(&store, &ours).await).await;
    assert!(granted.is_some());
}

/// A session by hand has locked the place of a missing row, or has created the row and is still open.
// Promise: MY30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_row_that_a_session_by_hand_has_locked_is_busy() {
    for lock in ["select * from tb_lock where lockname = 'k' for update", "insert into tb_lock (lockname) values ('k')"]
    {
        let database = new_database(&SERVER);
        let counts = Counting::new(open(&ROWLOCK.url(&SERVER, &database)));
        let client = Client::options().over(counts.clone()).unwrap();
        client.ready().await.unwrap();
        let mut hand = MariaDb::connect(&SERVER, &database).await;
        hand.query_drop("set session transaction isolation level repeatable read; start transaction").await.unwrap();
        hand.query_drop(lock).await.unwrap();
        for _ in 0..2 {
            assert!(client.mutex("k").try_lock().await.unwrap().is_none(), "{lock}");
        }
        let waiting = tokio::spawn({
            let mutex = client.mutex("k");
            async move { mutex.lock().await }
        });
        let before = counts.claims();
        eventually_async(SOON, async || counts.claims() > before + 1).await;
        assert!(!waiting.is_finished());
        hand.query_drop("rollback").await.unwrap();
        let guard = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
        guard.release().await.unwrap();
        assert_eq!(SERVER.sql(&database, "select lockname from tb_lock"), "k", "{lock}");
    }
}

/// A usual column does not distinguish upper and lower case.
#[tokio::test]
async fn a_name_that_the_column_spells_in_another_way_is_denied() {
    let database = SERVER.new_database();
    SERVER
        .sql(&database, "create table tb_lock (lockname varchar(64) collate utf8mb4_general_ci not null primary key)");
    let store = open(&ROWLOCK.url(&SERVER, &database));
    let ours = claim("Job");
    take(&store, &ours).await;
    release(&store, &ours).await;
    for name in ["job", "JOB"] {
        let error = try_take(&store, &claim(name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("the spelling \"Job\""), "{error}");
    }
    assert_eq!(SERVER.sql(&database, "select lockname from tb_lock"), "Job");
    // The refused claims have locked nothing.
    eventually_async(SOON, async || try_take(&store, &ours).await.unwrap()).await;
}
