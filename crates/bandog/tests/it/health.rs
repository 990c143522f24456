//! `Client::health` with a real server that is killed, paused and restarted.

use std::time::{Duration, Instant};

use bandog::{Health, connect};
use bandog_testkit::{RedisServer, eventually_async};

const SOON: Duration = Duration::from_secs(20);
/// Maximum duration of one call of `health`. bandog promises half a second. The test allows more, for a machine under
/// load.
const MAX_CALL: Duration = Duration::from_secs(2);

/// Calls `health` until the condition is true. Each call must return within [`MAX_CALL`], whatever the server does.
async fn until(client: &bandog::Client, condition: fn(&Health) -> bool) -> Health {
    let mut last = None;
    eventually_async(SOON, async || {
        let start = Instant::now();
        let health = client.health().await.unwrap();
        assert!(start.elapsed() < MAX_CALL, "a call took {:?}", start.elapsed());
        let is_true = condition(&health);
        last = Some(health);
        is_true
    })
    .await;
    last.unwrap()
}

#[tokio::test]
async fn a_server_that_is_killed_paused_and_restarted_is_reported() {
    let server = RedisServer::start_with(&["--requirepass", "hunter2"]);
    let url = format!("redis://:hunter2@{}?timeout=1s", server.addr());
    let client = connect(url).await.unwrap();
    assert!(client.health().await.unwrap().reachable);

    server.kill();
    let away = until(&client, |health| !health.reachable).await;
    assert!(away.error.as_ref().is_some_and(|error| error.contains("Unavailable")), "{away:?}");
    assert!(!format!("{away:?} {away}").contains("hunter2"), "{away:?}");
    let later = until(&client, |health| health.away_for > Some(Duration::from_secs(1))).await;
    assert!(later.last_answer > away.last_answer, "{later:?}");

    server.restart();
    let back = until(&client, |health| health.reachable).await;
    assert!(back.error.is_none() && back.away_for.is_none(), "{back:?}");

    server.pause();
    until(&client, |health| !health.reachable).await;
    server.resume();
    until(&client, |health| health.reachable).await;
    client.close().await.unwrap();
}

/// The server's password changes. The server still answers, but it refuses this client.
#[tokio::test]
async fn a_client_that_is_refused_is_not_reachable() {
    let server = RedisServer::start();
    let client = connect(format!("redis://{}?timeout=1s", server.addr())).await.unwrap();
    assert!(client.health().await.unwrap().reachable);
    server.kill_clients();
    server.cmd(&["ACL", "SETUSER", "default", "resetpass", ">hunter2"]);
    let refused = until(&client, |health| !health.reachable).await;
    assert!(refused.error.as_ref().is_some_and(|error| error.contains("Denied")), "{refused:?}");
}

#[test]
fn a_blocking_client_reports_its_health() {
    let client = bandog::blocking::connect("memory:").unwrap();
    let _guard = client.mutex("orders").lock().unwrap();
    let health = client.health().unwrap();
    assert!(health.reachable && health.holds == 1, "{health:?}");
}
