//! The grant to a client that has waited: a recent write of its session proves as much as a new one.

use std::{sync::Arc, time::Duration};

use bandog_core::{Answer, Claim, Inspect, Kind, Leases, Notifier, Released, Renewal, Step, Verdict};
use bandog_testkit::{ZooKeeperServer, eventually_async};
use bandog_zookeeper::ZooKeeper;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use crate::{
    backend, neighbour, nodes,
    requests::{apply, claim, granted, refused},
    soon,
};

/// Duration for which a write proves that the session is alive: three fifths of 20 s.
const VALID: Duration = Duration::from_secs(12);
/// A proof counts for a grant for this time.
const RECENT: Duration = Duration::from_secs(1);

async fn release(backend: &ZooKeeper, held: Claim) {
    let answer = backend.apply(&[Step::Release(held)]).await.remove(0).unwrap();
    assert!(matches!(answer, Answer::Released(Released::Freed { .. })), "{answer:?}");
}

/// Waits for the lock while another client holds it, and claims it after its release, this time after the last write. Returns
/// the claim, the time for which the grant is valid, and the time from the last write before the grant to its answer.
async fn hand_off(
    server: &ZooKeeperServer,
    ours: &ZooKeeper,
    kind: Kind,
    age: Duration,
) -> (Claim, Duration, Duration) {
    let (theirs, held, waits) = (backend(server.addr()), claim(kind, "orders", 1), claim(kind, "orders", 2));
    granted(&theirs, &held).await;
    let turn = Arc::new(Notify::new());
    let notified = Arc::clone(&turn);
    let _subscription = ours.subscribe(&waits, Notifier::new(move || notified.notify_one())).await.unwrap();
    refused(ours, &waits).await;
    let waiting = Instant::now();
    sleep(age).await;
    release(&theirs, held).await;
    soon(turn.notified()).await;
    let verdict = soon(async {
        loop {
            match apply(ours, &waits).await {
                Verdict::Granted { valid_for, .. } => return valid_for,
                Verdict::Busy { .. } => turn.notified().await,
            }
        }
    });
    let valid_for = verdict.await;
    (waits, valid_for, waiting.elapsed())
}

/// As [`hand_off`] of a mutex, so fast that the proof is recent. Returns the claim, and the time for which it is valid.
async fn fast_hand_off(server: &ZooKeeperServer, ours: &ZooKeeper, age: Duration) -> (Claim, Duration) {
    loop {
        let (held, valid_for, took) = hand_off(server, ours, Kind::Mutex, age).await;
        if took < RECENT {
            return (held, valid_for);
        }
        // The machine was slow.
        release(ours, held).await;
    }
}

#[tokio::test]
async fn a_mutex_is_granted_with_the_proof_of_a_recent_write_for_as_long_as_that_is_valid() {
    let server = ZooKeeperServer::start();
    let (_, valid_for) = fast_hand_off(&server, &backend(server.addr()), RECENT / 5).await;
    assert!(valid_for < VALID - RECENT / 5, "valid for {valid_for:?}");
}

#[tokio::test]
async fn a_grant_long_after_the_last_write_is_proven_by_a_new_one() {
    let server = ZooKeeperServer::start();
    let (_, valid_for, _) = hand_off(&server, &backend(server.addr()), Kind::Mutex, RECENT).await;
    assert!(valid_for > VALID - RECENT, "valid for {valid_for:?}");
}

/// Their fences are counted from the write.
#[tokio::test]
async fn a_grant_of_a_read_write_lock_is_always_written() {
    let server = ZooKeeperServer::start();
    let (_, valid_for, _) = hand_off(&server, &backend(server.addr()), Kind::Write, Duration::ZERO).await;
    assert_eq!(valid_for, VALID);
}

#[tokio::test]
async fn a_node_that_waited_says_that_it_holds_the_lock_also_if_the_first_write_was_lost() {
    let server = ZooKeeperServer::start();
    let (ours, operator) = (backend(server.addr()), neighbour(&server).await);
    let (held, _) = fast_hand_off(&server, &ours, Duration::ZERO).await;
    let shows = async |holders: usize| ours.show(&held.key).await.unwrap().holders.len() == holders;
    eventually_async(Duration::from_secs(10), async || shows(1).await).await;
    // As if that write had been lost.
    let path = format!("/locks/orders/{}", nodes(&operator, "orders").await[0]);
    let (data, _) = operator.get_data(&path).await.unwrap();
    operator.set_data(&path, &[&data[..], b" waits"].concat(), None).await.unwrap();
    assert!(shows(0).await);
    let renewal = ours.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
    assert!(matches!(renewal, Renewal::Extended { .. }), "{renewal:?}");
    assert!(shows(1).await);
}
