//! A shared server with many keys of other applications.

use std::{collections::BTreeMap, time::Duration};

use bandog_core::{Inspect, Leases, Pattern};
use bandog_sync::Client;
use bandog_testkit::{RedisServer, eventually_async};
use tokio::time::{Instant, timeout};

use crate::help::{SOON, TTL, backend, claim, fences, member, operator};

/// Number of keys of other applications. A scan of all of them takes many steps.
const MANY: &str = "100000";

#[tokio::test]
async fn queries_of_some_locks_or_all_clients_cost_the_same_on_a_full_server() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (held, waiter) = (claim("k"), member(&["k"]));
    fences(&redis, &held).await;
    redis.register(&bandog_core::Member { id: held.id.client, ..member(&[]) }, TTL).await.unwrap();
    redis.register(&waiter, TTL).await.unwrap();
    let operator_client = Client::over(operator(&server)).unwrap();
    operator_client.ready().await.unwrap();
    let mut before = Vec::new();
    for keys in ["0", MANY] {
        server.cmd(&["DEBUG", "POPULATE", keys]);
        let mut costs = Vec::new();
        server.cmd(&["CONFIG", "RESETSTAT"]);
        let row = operator_client.show("k").await.unwrap();
        assert_eq!((row.member().unwrap().id, &row.waiters[..]), (held.id.client, std::slice::from_ref(&waiter)));
        costs.push(spent(&server));
        assert_eq!(operator_client.members().await.unwrap().len(), 2);
        costs.push(spent(&server));
        let names = ["k", "free", "free too"];
        assert_eq!(operator_client.holders(&names).await.unwrap()[0].client(), Some(held.id.client));
        costs.push(spent(&server));
        assert!(costs.iter().all(|cost| !cost.contains_key("scan") && !cost.contains_key("keys")), "{costs:?}");
        if before.is_empty() {
            before = costs;
        } else {
            assert_eq!(costs, before);
        }
    }
}

#[tokio::test]
async fn a_list_takes_short_steps_and_leaves_nine_tenths_of_the_time_to_others() {
    let server = RedisServer::start();
    let redis = operator(&server);
    for name in ["one", "two"] {
        fences(&redis, &claim(name)).await;
    }
    server.cmd(&["DEBUG", "POPULATE", MANY]);
    server.cmd(&["CONFIG", "RESETSTAT"]);
    let start = Instant::now();
    let rows = redis.list(&Pattern::all()).await.unwrap();
    let took = start.elapsed();
    assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    let (calls, used) = stats(&server, "scan");
    assert!(calls >= 100_000 / 1024, "{calls} steps");
    // No pause follows the last step, so its average duration is subtracted.
    let expected = (used - used / u32::try_from(calls).unwrap()) * 9;
    assert!(took >= expected * 9 / 10, "{calls} steps of {used:?} in all within {took:?}");
}

#[tokio::test]
async fn a_list_whose_future_is_dropped_ends() {
    let server = RedisServer::start();
    let client = Client::over(operator(&server)).unwrap();
    server.cmd(&["DEBUG", "POPULATE", MANY]);
    server.cmd(&["CONFIG", "RESETSTAT"]);
    let asked = tokio::spawn({
        let client = client.clone();
        async move { client.list(Pattern::all()).await }
    });
    eventually_async(SOON, async || server.calls("scan") >= 2).await;
    asked.abort();
    timeout(SOON, client.idle()).await.unwrap();
    assert!(server.calls("scan") < 100_000 / 1024, "the scan did not stop");
}

/// The number of calls of each command since the last call of this function. The commands that this function itself
/// sends are not counted.
fn spent(server: &RedisServer) -> BTreeMap<String, u64> {
    let stats = server.cmd(&["INFO", "commandstats"]);
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    let mut calls: BTreeMap<String, u64> = stats.text().lines().filter_map(calls).collect();
    calls.retain(|name, _| !["info", "debug", "auth", "hello"].contains(&name.as_str()) && !name.starts_with("config"));
    server.cmd(&["CONFIG", "RESETSTAT"]);
    calls
}

/// The number of calls of a command, and their total duration.
fn stats(server: &RedisServer, command: &str) -> (u64, Duration) {
    let stats = server.cmd(&["INFO", "commandstats"]);
    let line = stats.text().lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:"))).unwrap();
    let number = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)?.parse().ok()).unwrap();
    (number("calls="), Duration::from_micros(number("usec=")))
}
