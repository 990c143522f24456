//! Servers that cannot be reached: attempts to connect, their pauses, and their errors.

use std::time::Duration;

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::{ZooKeeperServer, eventually_async};
use tokio::{runtime::Handle, time::Instant};

use crate::{SOON, backend, client, client_for, soon, take};

// Promise: Z18
#[tokio::test]
async fn a_client_connects_again_soon_after_an_outage_that_is_shorter_than_its_session() {
    let server = ZooKeeperServer::start();
    let wire = server.wire();
    let (ours, other) = (client_for(Duration::from_secs(10), wire.addr()), client(server.addr()));
    let guard = take(&ours, "orders").await;
    wire.refuse(true);
    wire.cut();
    // The duration of the outage. The session lasts for longer, and the hold too.
    tokio::time::sleep(Duration::from_millis(3700)).await;
    wire.refuse(false);
    let back = Instant::now();
    eventually_async(SOON, async || wire.open() > 0).await;
    assert!(back.elapsed() < Duration::from_millis(1500), "connected after {:?}", back.elapsed());
    soon(ours.mutex("another").lock()).await.unwrap().release().await.unwrap();
    assert!(!guard.is_lost() && other.mutex("orders").try_lock().await.unwrap().is_none());
}

// Promise: Z18
#[tokio::test]
async fn the_error_of_an_outage_says_why_there_is_no_connection() {
    let server = ZooKeeperServer::start();
    let ours = client(server.addr());
    take(&ours, "orders").await.release().await.unwrap();
    server.kill();
    // With a session that is there, and without one.
    for outage in [ours, client(server.addr())] {
        eventually_async(SOON, async || match outage.mutex("orders").try_lock().await {
            Ok(_) => Err("the lock was granted".to_owned()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                let text = error.to_string();
                if text.contains("refused") { Ok(()) } else { Err(text) }
            }
        })
        .await;
    }
}

/// The server accepts connections and does not answer.
// Promise: Z18
#[tokio::test]
async fn calls_without_a_session_share_one_attempt_to_open_it() {
    let server = ZooKeeperServer::start();
    let wire = server.wire();
    wire.stall(true);
    let ours = backend(wire.addr());
    let before = Handle::current().metrics().num_alive_tasks();
    for _ in 0..4 {
        let calls = futures_util::future::join_all((0..20).map(|_| ours.ping()));
        assert!(calls.await.into_iter().all(|answer| answer.is_err()));
    }
    let tasks = Handle::current().metrics().num_alive_tasks() - before;
    assert!(tasks <= 5, "{tasks} tasks");
    // The attempt does not keep the backend alive: the client that is dropped uses no connection.
    drop(ours);
    wire.stall(false);
    eventually_async(SOON, async || wire.open() == 0).await;
}
