//! Bad days of the modes `rowlock` and `advisory`: a server that is killed, and a connection without packets.

use std::time::{Duration, Instant};

use bandog_sync::Client;
use bandog_testkit::{Postgres, PostgresServer, eventually_async};

use super::{SERVER, expect_waiting_sessions};
use crate::suite::{Database, SOON, open};

/// The query of a URL, and a statement by hand that waits for the lock `k`.
const MODES: [(&str, &str); 2] = [
    (
        "mode=rowlock&table=tb_lock&column=lockname",
        "begin; select from tb_lock where lockname = 'k' for update; commit",
    ),
    ("mode=advisory", "select pg_advisory_lock(hashtextextended('k', 0)); select pg_advisory_unlock_all()"),
];

/// Short enough that a lock whose holder has no connection is free soon.
const TTL: Duration = Duration::from_secs(2);
/// Maximum delay until the server has ended a session and has granted its lock to the next one.
const MARGIN: Duration = Duration::from_secs(3);

fn over(url: &str) -> Client {
    Client::options().watchdog(TTL).over(open(url)).unwrap()
}

// Promise: PG23
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_is_lost_with_a_server_that_is_killed_and_the_next_fence_is_greater() {
    let server = PostgresServer::start();
    for (mode, wait) in MODES {
        let database = server.new_database();
        server.sql(&database, Postgres::ROWS);
        let url = format!("{}?{mode}", server.url(&database));
        let (holder, other) = (over(&url), over(&url));
        for is_killed in [true, false] {
            let guard = holder.mutex("k").lock().await.unwrap();
            assert!(other.mutex("k").try_lock().await.unwrap().is_none());
            if is_killed {
                server.kill()
            } else {
                server.stop()
            }
            tokio::time::timeout(SOON, guard.lost()).await.unwrap();
            server.restart();
            // The database has freed its lock.
            Postgres::connect(&server, &database).await.batch_execute(wait).await.unwrap();
            let next = tokio::time::timeout(SOON, other.mutex("k").lock()).await.unwrap().unwrap();
            assert!(next.fence() > guard.fence(), "{mode}: {} after {}", next.fence(), guard.fence());
            assert!(guard.release().await.is_err(), "{mode}: the loss is not reported");
            assert!(holder.mutex("k").try_lock().await.unwrap().is_none(), "{mode}: the lock was granted twice");
            next.release().await.unwrap();
        }
    }
}

/// Neither side gets a packet, and no side closes the connection.
// Promise: PG34
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_is_lost_before_a_session_by_hand_gets_the_lock_of_a_connection_without_packets() {
    for (mode, wait) in MODES {
        let (database, wire) = (SERVER.new_database(), SERVER.wire());
        SERVER.sql(&database, Postgres::ROWS);
        let url = format!("{}?{mode}", PostgresServer::url_at(wire.port(), &database));
        let client = over(&url);
        let guard = client.mutex("k").lock().await.unwrap();
        let hand = Postgres::connect(&SERVER, &database).await;
        let waiting = tokio::spawn(async move {
            hand.batch_execute(wait).await.unwrap();
            Instant::now()
        });
        expect_waiting_sessions(&database, 1).await;
        // The hold has been renewed at least once: the server's limit is that of the last renewal.
        let first = guard.remaining();
        eventually_async(SOON, async || guard.remaining() > first).await;
        assert!(!guard.is_lost() && !waiting.is_finished());

        let stalled = Instant::now();
        wire.stall(true);
        let got = tokio::time::timeout(SOON, waiting).await.expect("the server keeps the lock").unwrap();
        assert!(guard.is_lost(), "{mode}: another session has the lock, and the guard is not lost");
        assert!(got - stalled < TTL + MARGIN, "{mode}: the lock was free after {:?}", got - stalled);
        wire.stall(false);
    }
}
