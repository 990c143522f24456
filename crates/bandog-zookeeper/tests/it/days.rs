//! Servers that are killed or stopped, connections that break, and sessions that expire.

use std::time::{Duration, Instant};

use bandog_core::ErrorKind;
use bandog_sync::Client;
use bandog_testkit::{ZooKeeperServer, eventually_async};

use crate::{SESSION, SOON, backend, client, client_for, neighbour, nodes, soon, take};

#[tokio::test]
async fn a_hold_survives_the_restart_of_the_server() {
    let server = ZooKeeperServer::start();
    let (ours, other) = (client(server.addr()), client(server.addr()));
    let guard = take(&ours, "orders").await;
    server.restart();
    eventually_async(SOON, async || other.mutex("orders").try_lock().await.is_ok_and(|taken| taken.is_none())).await;
    assert!(!guard.is_lost());
    let fence = guard.fence();
    guard.release().await.unwrap();
    assert!(soon(other.mutex("orders").lock()).await.unwrap().fence() > fence);
}

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
#[tokio::test]
async fn the_end_of_a_client_deletes_its_nodes_and_its_session_before_it_returns() {
    let server = ZooKeeperServer::start();
    let (java, theirs) = (neighbour(&server).await, client(server.addr()));
    let ours = client_for(SOON + Duration::from_secs(15), server.addr());
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
