//! An ensemble of three servers: the leader is killed, the majority is lost, and answers are lost.

use std::time::{Duration, Instant};

use bandog_core::ErrorKind;
use bandog_testkit::{Wire, ZooKeeperEnsemble, eventually_async};

use crate::{LONG_SESSION, SESSION, SOON, client, client_for, connected, nodes, soon, take};

/// The number of locks that are held while the leader is killed.
const LOCKS: usize = 20;

// Promise: Z13
#[tokio::test]
async fn locks_that_are_held_survive_the_death_of_the_leader() {
    let ensemble = ZooKeeperEnsemble::start(3);
    let (ours, other) = (client(ensemble.hosts()), client(ensemble.hosts()));
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        guards.push(take(&ours, &format!("lock{number}")).await);
    }
    let dead = ensemble.leader();
    ensemble[dead].kill();
    assert_ne!(ensemble.wait_for_leader(), dead);
    for (number, guard) in guards.into_iter().enumerate() {
        let name = format!("lock{number}");
        eventually_async(SOON, async || other.mutex(&name).try_lock().await.is_ok_and(|taken| taken.is_none())).await;
        assert!(!guard.is_lost());
        let fence = guard.fence();
        guard.release().await.unwrap();
        assert!(soon(other.mutex(&name).lock()).await.unwrap().fence() > fence);
    }
    ensemble.restart(&[dead]);
    take(&ours, "orders").await.release().await.unwrap();
}

// Promise: Z14
#[tokio::test]
async fn a_hold_survives_a_short_loss_of_the_majority_and_nothing_is_granted_meanwhile() {
    let ensemble = ZooKeeperEnsemble::start(3);
    let (ours, other) = (client_for(LONG_SESSION, ensemble.hosts()), client(ensemble.hosts()));
    let guard = take(&ours, "orders").await;
    let leader = ensemble.leader();
    let gone = [leader, (leader + 1) % 3];
    gone.iter().for_each(|server| ensemble[*server].kill());
    assert_eq!(soon(other.mutex("free").try_lock()).await.unwrap_err().kind(), ErrorKind::Unavailable);
    ensemble.restart(&gone);
    connected(&ours).await;
    eventually_async(SOON, async || other.mutex("orders").try_lock().await.is_ok_and(|taken| taken.is_none())).await;
    assert!(!guard.is_lost());
    let fence = guard.fence();
    guard.release().await.unwrap();
    assert!(soon(other.mutex("orders").lock()).await.unwrap().fence() > fence);
}

// Promise: Z14
#[tokio::test]
async fn a_holder_is_lost_if_the_majority_does_not_come_back_within_its_session() {
    let ensemble = ZooKeeperEnsemble::start(3);
    let (ours, other) = (client_for(SESSION, ensemble.hosts()), client(ensemble.hosts()));
    let guard = take(&ours, "orders").await;
    let mutex = other.mutex("orders");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    let leader = ensemble.leader();
    let gone = [leader, (leader + 1) % 3];
    gone.iter().for_each(|server| ensemble[*server].kill());
    let began = Instant::now();
    soon(guard.lost()).await;
    assert!(began.elapsed() < SESSION, "the holder was lost after {:?}", began.elapsed());
    assert!(!waiting.is_finished());
    ensemble.restart(&gone);
    let next = match soon(waiting).await.unwrap() {
        Ok(next) => next,
        // A call that waits may end with the error of a long outage.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            soon(other.mutex("orders").lock()).await.unwrap()
        }
    };
    assert!(next.fence() > guard.fence());
}

/// The servers are behind wires, so the client connects to another server after the answer was lost.
// Promise: Z16
#[tokio::test]
async fn a_node_whose_answer_was_lost_is_found_through_another_server() {
    let ensemble = ZooKeeperEnsemble::start(3);
    let direct = zookeeper_client::Client::connect(&ensemble.hosts()).await.unwrap();
    let wires: Vec<Wire> = ensemble.iter().map(bandog_testkit::ZooKeeperServer::wire).collect();
    let hosts = wires.iter().map(|wire| wire.addr().to_string()).collect::<Vec<_>>().join(",");
    let ours = client(hosts);
    let fence = take(&ours, "orders").await.fence();
    soon(ours.idle()).await;
    for round in 0..3 {
        let used = wires.iter().position(|wire| wire.open() > 0).expect("the client has a connection");
        wires[used].drop_replies(true);
        let mutex = ours.mutex("orders");
        let call = tokio::spawn(async move { mutex.lock().await });
        eventually_async(SOON, async || {
            up_to_date(&direct).await;
            nodes(&direct, "orders").await.len() == 1
        })
        .await;
        assert!(!call.is_finished(), "round {round}");
        // This server does not answer any more, so the client uses another one.
        wires[used].refuse(true);
        wires[used].cut();
        let guard = soon(call).await.unwrap().unwrap();
        assert!(guard.fence() > fence);
        up_to_date(&direct).await;
        assert_eq!(nodes(&direct, "orders").await.len(), 1, "round {round}");
        guard.release().await.unwrap();
        soon(ours.idle()).await;
        wires[used].drop_replies(false);
        wires[used].refuse(false);
    }
}

/// Brings the server of this client up to date.
async fn up_to_date(client: &zookeeper_client::Client) {
    client.sync("/locks").await.unwrap();
}

/// The wire of the holder is cut in one direction, or in both.
// Promise: Z15
#[tokio::test]
async fn a_holder_whose_wire_is_cut_in_one_direction_is_lost_before_the_next_grant() {
    let ensemble = ZooKeeperEnsemble::start(3);
    let cuts: [fn(&Wire, bool); 3] = [Wire::stall, Wire::drop_requests, Wire::drop_replies];
    for (number, cut) in cuts.into_iter().enumerate() {
        let name = format!("lock{number}");
        let wire = ensemble[number].wire();
        let (ours, other) = (client_for(SESSION, wire.addr()), client(ensemble.hosts()));
        let guard = take(&ours, &name).await;
        let mutex = other.mutex(&name);
        let waiting = tokio::spawn(async move { mutex.lock().await });
        cut(&wire, true);
        let began = Instant::now();
        soon(guard.lost()).await;
        assert!(began.elapsed() < SESSION + Duration::from_secs(1), "cut {number}: lost after {:?}", began.elapsed());
        // Without answers, the client may keep its session alive in the ensemble, because its requests arrive.
        let heals = number == 2;
        if heals {
            cut(&wire, false);
            wire.cut();
        }
        let next = soon(waiting).await.unwrap().unwrap();
        assert!(guard.is_lost() && next.fence() > guard.fence(), "cut {number}");
    }
}
