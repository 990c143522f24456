//! The health that a client reports for readiness probes.

use std::time::Duration;

use bandog_conformance::wrap::{Counting, Fate, Lossy, Stopped, Which};
use bandog_core::ErrorKind;
use bandog_sync::{Client, Health};
use tokio::time;

use crate::kit::{client, kind, memory, ms, soon, waiting};

async fn health(client: &Client) -> Health {
    soon(client.health()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_is_reachable() {
    let client = client(memory());
    let first = health(&client).await;
    assert!(first.reachable && first.error.is_none() && first.away_for.is_none(), "{first:?}");
    assert_eq!(first.last_answer, Some(Duration::ZERO));
    assert_eq!((first.holds, first.waiting), (0, 0));
    let guard = client.mutex("orders").lock().await.unwrap();
    let waiter = waiting(&client, "orders").await;
    let later = health(&client).await;
    assert_eq!((later.holds, later.waiting), (1, 1));
    assert_eq!(later.to_string(), "the store answers (last answer 0 ms ago); locks held: 1, calls waiting: 1");
    drop((guard, waiter));
}

/// The store gets at most one ping per second, even if there are many callers. The store gets no ping if it has
/// answered another request within the last second.
#[tokio::test(start_paused = true)]
async fn callers_share_one_ping_a_second() {
    let counts = Counting::new(memory());
    let client = client(counts.clone());
    let crowd: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.health().await.unwrap().reachable })
        })
        .collect();
    for call in crowd {
        assert!(soon(call).await.unwrap());
    }
    assert_eq!(counts.calls(), 1);
    for _ in 0..1000 {
        assert!(health(&client).await.reachable);
        time::sleep(ms(10)).await;
    }
    assert!((10..=11).contains(&counts.calls()), "{} pings in ten seconds", counts.calls());

    let guard = client.mutex("orders").lock().await.unwrap();
    let before = counts.calls();
    time::sleep(ms(900)).await;
    assert_eq!(health(&client).await.last_answer, Some(ms(900)));
    assert_eq!(counts.calls(), before, "the answer to `lock` is recent enough");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_reported_with_its_length_and_error_and_ends_with_the_next_answer() {
    let wire = Lossy::new(memory());
    let counts = Counting::new(wire.clone());
    let client = client(counts.clone());
    assert!(health(&client).await.reachable);
    wire.always(Fate::Refused);
    time::sleep(ms(1_000)).await;
    let began = time::Instant::now();
    let before = counts.calls();
    for second in 0..10 {
        let now = health(&client).await;
        assert!(!now.reachable);
        assert_eq!(now.away_for, Some(ms(second * 1_000)));
        assert_eq!(now.last_answer, Some(ms(1_000 + second * 1_000)));
        assert!(now.error.as_ref().is_some_and(|error| error.contains("Unavailable")), "{now:?}");
        assert!(now.to_string().starts_with("the store does not answer (last answer"), "{now}");
        for _ in 0..10 {
            health(&client).await;
        }
        time::sleep(ms(1_000)).await;
    }
    assert_eq!(began.elapsed(), ms(10_000), "a health check waited for a ping");
    assert_eq!(counts.calls() - before, 10, "expected one ping per second in an outage, too");
    wire.heal();
    let now = health(&client).await;
    assert!(now.reachable && now.error.is_none() && now.away_for.is_none(), "{now:?}");
}

/// A store that accepts requests and does not answer counts as not reachable after half a second, until its next
/// answer. After that half second, further callers do not wait for the same ping.
#[tokio::test(start_paused = true)]
async fn a_silent_store_keeps_no_probe_waiting() {
    let wire = Stopped::new(memory());
    let client = client(wire.clone());
    wire.stop(Which::Answers);
    let start = time::Instant::now();
    let never = health(&client).await;
    assert_eq!(start.elapsed(), ms(500));
    assert!(!never.reachable && never.last_answer.is_none(), "the store has never answered: {never:?}");
    let expected =
        "the store does not answer (no answer yet); locks held: 0, calls waiting: 0; a ping has no answer for 500ms";
    assert_eq!(never.to_string(), expected);
    for _ in 0..10 {
        health(&client).await;
    }
    assert_eq!(start.elapsed(), ms(500), "a later caller waited for the same ping");
    assert_eq!(wire.held(), 1);
    wire.go_on();
    client.idle().await;
    assert!(health(&client).await.reachable);

    wire.stop(Which::Requests);
    time::sleep(ms(1_000)).await;
    let (start, crowd) = (time::Instant::now(), [health(&client), health(&client)]);
    for health in futures_util::future::join_all(crowd).await {
        assert!(!health.reachable && health.away_for == Some(ms(500)), "{health:?}");
        assert!(health.error.as_ref().is_some_and(|error| error.contains("no answer")), "{health:?}");
    }
    assert_eq!(start.elapsed(), ms(500));
    wire.go_on();
    client.idle().await;
    assert!(health(&client).await.reachable, "the store has answered");
    wire.stop(Which::Requests);
    time::sleep(ms(1_000)).await;
    assert!(!health(&client).await.reachable);
    let start = time::Instant::now();
    client.close().await.unwrap();
    assert!(start.elapsed() < ms(10), "close() waited for the ping: {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_reports_closed() {
    let wire = Stopped::new(memory());
    let client = client(wire.clone());
    wire.stop(Which::Requests);
    let probe = tokio::spawn({
        let client = client.clone();
        async move { client.health().await }
    });
    wire.until_held(1).await;
    client.close().await.unwrap();
    assert_eq!(kind(soon(probe).await.unwrap()), Some(ErrorKind::Closed));
    assert_eq!(kind(client.health().await), Some(ErrorKind::Closed));
}
