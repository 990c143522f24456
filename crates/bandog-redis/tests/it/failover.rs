//! Records when the server that had them is gone.

use bandog_core::{Record, Swapped};
use bandog_testkit::{RedisServer, eventually};

use crate::{
    help::{SOON, operator},
    records::{done, from, made, one, read_one, value},
};

/// What replication has not carried over is lost with its server, as with every write. So whatever was claimed by that
/// swap is claimed again; but nobody who has seen it takes what stands there now for it.
#[tokio::test]
async fn a_failover_may_lose_the_last_swap_and_gives_no_version_twice() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.cmd(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    let redis = operator(&server);
    let first = made(&redis, "r", "one").await;
    eventually(SOON * 2, || replica.hash("bandog:record:{r}").get("v") == Some(&first.to_string()));

    replica.cmd(&["REPLICAOF", "NO", "ONE"]);
    let lost = done(&redis, &from("r", first, "lost")).await.unwrap();
    server.kill();
    let redis = operator(&replica);
    let kept = Record { version: first, value: "one".into() };
    assert_eq!(read_one(&redis, "r").await.unwrap(), Some(kept.clone()));
    assert_eq!(one(&redis, &from("r", lost, "on top of it")).await.unwrap(), Swapped::Differs(Some(kept)));
    let again = done(&redis, &from("r", first, "again")).await.unwrap();
    assert!(again > lost, "{again} after {lost}");
    let again = Record { version: again, value: "again".into() };
    assert_eq!(one(&redis, &from("r", lost, "on top of it")).await.unwrap(), Swapped::Differs(Some(again)));
}

#[tokio::test]
async fn an_append_only_file_that_is_always_synced_keeps_every_answered_swap() {
    let server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut version = made(&operator(&server), "r", "0").await;
    for number in 1..50 {
        version = done(&operator(&server), &from("r", version, &number.to_string())).await.unwrap();
        if number % 10 == 0 {
            server.restart();
            assert_eq!(value(&operator(&server), "r").await, Some(number.to_string()));
        }
    }
}
