//! Servers that are killed or stopped, connections that break, and sessions that expire.

use std::time::Instant;

use bandog_core::ErrorKind;
use bandog_sync::Client;
use bandog_testkit::{ZooKeeperServer, eventually_async};
use bandog_zookeeper::{ZooKeeper, ZooKeeperOptions};

use crate::{LONG_SESSION, SESSION, SOON, backend, client, client_for, connected, neighbour, nodes, soon, take};

// Promise: Z3
#[tokio::test]
async fn a_hold_survives_the_restart_of_the_server() {
    let server = ZooKeeperServer::start();
    let (ours, other) = (client_for(LONG_SESSION, server.addr()), client(server.addr()));
    let guard = take(&ours, "orders").await;
    server.restart();
    connected(&ours).await;
    eventually_async(SOON, async || other.mutex("orders").try_lock().await.is_ok_and(|taken| taken.is_none())).await;
    assert!(!guard.is_lost());
    let fence = guard.fence();
    guard.release().await.unwrap();
    assert!(soon(other.mutex("orders").lock()).await.unwrap().fence() > fence);
}

// Promise: Z1
#[tokio::test]
async fn a_holder_without_a_connection_is_lost_before_the_next_grant() {
    let server = ZooKeeperServer::start();
    let wire = server.wire();
    let (ours, theirs) = (client_for(SESSION, wire.addr()), client(server.addr()));
    let guard = take(&ours, "orders").await;
    let mutex = theirs.mutex("orders");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    // The waiter has a place.
    let java = neighbour(&server).await;
    eventually_async(SOON, async || nodes(&java, "orders").await.len() == 2).await;
    wire.stall(true);
    let cut = Instant::now();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(guard.is_lost(), "two clients believe that they hold the lock");
    assert!(cut.elapsed() < SESSION * 2, "the lock was held for {:?} after the cut", cut.elapsed());
    assert!(next.fence() > guard.fence());

    // The client opens a new session, and waits behind the holder.
    wire.stall(false);
    wire.cut();
    let mutex = ours.mutex("orders");
    let again = tokio::spawn(async move { mutex.lock().await });
    eventually_async(SOON, async || nodes(&java, "orders").await.len() == 2).await;
    let fence = next.fence();
    next.release().await.unwrap();
    assert!(soon(again).await.unwrap().unwrap().fence() > fence);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

// Promise: Z2
#[tokio::test]
async fn a_waiter_whose_session_expires_waits_again() {
    let server = ZooKeeperServer::start();
    let wire = server.wire();
    let (ours, theirs) = (client(server.addr()), client_for(SESSION, wire.addr()));
    let guard = take(&ours, "orders").await;
    let mutex = theirs.mutex("orders");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    let java = neighbour(&server).await;
    eventually_async(SOON, async || nodes(&java, "orders").await.len() == 2).await;
    wire.stall(true);
    // The session of the waiter expires, and its node is gone.
    eventually_async(SOON, async || nodes(&java, "orders").await.len() == 1).await;
    wire.stall(false);
    wire.cut();
    eventually_async(SOON, async || nodes(&java, "orders").await.len() == 2).await;
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();
    eventually_async(SOON, async || nodes(&java, "orders").await.is_empty()).await;
}

// Promise: Z4
#[tokio::test]
async fn a_fixed_lease_that_is_longer_than_the_session_lasts_until_its_end() {
    let lease = SESSION * 2;
    let server = ZooKeeperServer::start();
    let (ours, theirs) = (client_for(SESSION, server.addr()), client(server.addr()));
    let began = Instant::now();
    let guard = ours.mutex("orders").lease(lease).lock().await.unwrap();
    let next = soon(theirs.mutex("orders").lock()).await.unwrap();
    let held = began.elapsed();
    assert!(guard.is_lost() && held >= lease && held < lease + SESSION, "the lease lasted {held:?}");
    assert!(next.fence() > guard.fence());
}

// Promise: Z6
#[tokio::test]
async fn connections_that_break_all_the_time_leave_no_node() {
    let server = ZooKeeperServer::start();
    let wire = server.wire();
    let (ours, java) = (client(wire.addr()), neighbour(&server).await);
    take(&ours, "orders").await.release().await.unwrap();
    for round in 0..20 {
        let mutex = ours.mutex("orders");
        let call = tokio::spawn(async move { mutex.lock().await.map(drop) });
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        wire.cut();
        if round % 3 == 0 {
            call.abort();
        }
        // The call ends with a lock, with a dropped future or with the error of an outage.
        let _ = soon(call).await;
    }
    soon(ours.idle()).await;
    eventually_async(SOON, async || nodes(&java, "orders").await.is_empty()).await;
    soon(ours.mutex("orders").lock()).await.unwrap().release().await.unwrap();
}

/// The session would last for longer than the test waits.
// Promise: Z17
#[tokio::test]
async fn the_end_of_a_client_deletes_its_nodes_and_its_session_before_it_returns() {
    let server = ZooKeeperServer::start();
    let (java, theirs) = (neighbour(&server).await, client(server.addr()));
    let ours = client_for(LONG_SESSION, server.addr());
    let (guard, held) = (take(&ours, "orders").await, take(&theirs, "busy").await);
    let mutex = ours.mutex("busy");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    eventually_async(SOON, async || nodes(&java, "busy").await.len() == 2).await;
    soon(ours.close()).await.unwrap();
    assert!(nodes(&java, "orders").await.is_empty());
    assert_eq!(nodes(&java, "busy").await.len(), 1);
    assert_eq!(java.list_children("/locks/%bandog/sessions").await.unwrap().len(), 1);
    assert_eq!(soon(waiting).await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert!(guard.is_lost() && !held.is_lost());
}

// Promise: Z17
#[tokio::test]
async fn the_end_of_one_of_two_clients_over_a_session_deletes_its_nodes_only() {
    let server = ZooKeeperServer::start();
    let (java, theirs, shared) = (neighbour(&server).await, client(server.addr()), backend(server.addr()));
    let [ours, sibling] = [shared.clone(), shared].map(|backend| Client::options().over(backend).unwrap());
    let (guard, held) = (take(&sibling, "orders").await, take(&theirs, "busy").await);
    let mutex = ours.mutex("busy");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    eventually_async(SOON, async || nodes(&java, "busy").await.len() == 2).await;
    soon(ours.close()).await.unwrap();
    assert_eq!(nodes(&java, "busy").await.len(), 1);
    assert_eq!(nodes(&java, "orders").await.len(), 1);
    assert_eq!(soon(waiting).await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    guard.release().await.unwrap();
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_and_found_later() {
    let server = ZooKeeperServer::start();
    server.kill();
    let ours = client(server.addr());
    assert_eq!(soon(ours.mutex("orders").try_lock()).await.unwrap_err().kind(), ErrorKind::Unavailable);
    server.restart();
    eventually_async(SOON, async || ours.mutex("orders").try_lock().await.is_ok_and(|guard| guard.is_some())).await;
}

// Promise: Z28
#[tokio::test]
async fn the_folder_of_the_url_is_created_when_it_is_missing_and_when_it_was_deleted() {
    let server = ZooKeeperServer::start();
    let java = neighbour(&server).await;
    let url = format!("zookeeper://{}/one/two/three?session=20s", server.addr());
    let backend = ZooKeeper::new(ZooKeeperOptions::from_url(&url).unwrap());
    let ours = Client::options().over(backend).unwrap();
    for _ in 0..2 {
        let guard = take(&ours, "orders").await;
        let permits = soon(ours.semaphore("gpus", 2).acquire()).await.unwrap();
        let count = ours.latch("start");
        assert!(count.set(1).await.unwrap());
        delete_all(&java, "/one").await;
        // The nodes of the holds were deleted, too.
        soon(guard.lost()).await;
        soon(permits.lost()).await;
        assert_eq!(count.count().await.unwrap(), 0);
    }
    take(&ours, "orders").await.release().await.unwrap();
}

/// The server ends when it cannot write its log.
// Promise: Z30
#[tokio::test]
async fn a_full_disk_is_an_outage() {
    let server = ZooKeeperServer::start();
    let (ours, other) = (client_for(SESSION, server.addr()), client(server.addr()));
    let guard = take(&ours, "orders").await;
    take(&other, "another").await.release().await.unwrap();
    let began = Instant::now();
    server.fill_disk();
    let error = soon(other.mutex("free").try_lock()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    soon(guard.lost()).await;
    assert!(began.elapsed() < SESSION, "the holder was lost after {:?}", began.elapsed());
    server.restart();
    let next = eventually_async(SOON, async || match other.mutex("orders").try_lock().await {
        Ok(Some(next)) => Ok(next),
        Ok(None) => Err("the lock is held".to_owned()),
        Err(error) => Err(error.to_string()),
    })
    .await;
    assert!(next.fence() > guard.fence());
    next.release().await.unwrap();
}

/// Deletes a node and all nodes in it. Other clients can create nodes meanwhile.
async fn delete_all(java: &zookeeper_client::Client, root: &str) {
    eventually_async(SOON, async || {
        let mut all = vec![root.to_owned()];
        let mut next = 0;
        while let Some(path) = all.get(next).cloned() {
            let children = java.list_children(&path).await.unwrap_or_default();
            all.extend(children.into_iter().map(|child| format!("{path}/{child}")));
            next += 1;
        }
        for path in all.iter().rev() {
            let _ = java.delete(path, None).await;
        }
        java.check_stat(root).await.unwrap().is_none()
    })
    .await;
}
