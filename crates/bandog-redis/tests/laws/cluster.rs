//! The conformance suite with a Redis Cluster of three masters, which the laws use one after another.

use std::time::Duration;

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RedisServer, ReusedCluster, eventually};

conformance!(OnCluster);

/// Timeout for a cluster to serve all slots again.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Timeout of one request. The first request connects to two nodes.
const TIMEOUT: Duration = Duration::from_secs(4);

struct OnCluster {
    cluster: ReusedCluster,
}

#[async_trait]
impl World for OnCluster {
    const NAME: &'static str = "redis cluster";
    type Backend = Redis;

    async fn start() -> Self {
        Self { cluster: ReusedCluster::take() }
    }

    fn backend(&self) -> Redis {
        at_cluster(&self.cluster.operator_url())
    }

    /// Longer than the default, because each world has three servers.
    fn ttl(&self) -> Duration {
        Duration::from_millis(1500)
    }

    fn slack(&self) -> Duration {
        2 * TIMEOUT
    }

    fn holdings_of_any_lock(&self) -> Can {
        Err(Unkept::Cannot("a script has the keys of one slot only; a test of bandog-redis has holdings in one slot"))
    }

    fn accepts(&self, name: &str) -> bool {
        let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        tag.is_some_and(|(tag, _)| !tag.is_empty()) || !name.contains(['{', '}'])
    }

    async fn left(&self) -> Vec<String> {
        // Tokens and the counters of semaphores are strings, and stay in the store.
        let keys = self.cluster.iter().flat_map(|node| {
            let is_string = |key: &String| node.cmd(&["TYPE", key]).text() == "string";
            let keys = node.keys().into_iter().filter(|key| !key.starts_with("bandog:client"));
            let keys: Vec<String> = keys.filter(|key| !is_string(key)).collect();
            keys.into_iter().chain(node.cmd(&["PUBSUB", "SHARDCHANNELS"]).texts())
        });
        keys.collect()
    }

    fn frees_names_of_semaphores(&self) -> Can {
        Err(Unkept::Cannot("Redisson keeps the counter of a semaphore under its name"))
    }

    async fn forget(&self, key: &str) -> Can {
        self.node_of(key).cmd(&["DEL", key]);
        Ok(())
    }

    async fn plant(&self) -> Can<Vec<String>> {
        let java = "5c1c2c6e-9c1e-4d3a-8f0a-0d1b2c3d4e5f:42";
        for command in [
            &["SET", "text", "not a lock"][..],
            &["RPUSH", "list", "not a lock"],
            &["SADD", "set", java],
            &["ZADD", "sorted", "1", java],
            &["HSET", "neighbour", java, "1"],
        ] {
            self.node_of(command[1]).cmd(command);
        }
        Ok(["text", "list", "set", "sorted", "neighbour"].map(String::from).to_vec())
    }

    async fn raw(&self, key: &str) -> Can<String> {
        let (node, token) = (self.node_of(key), format!("redisson_lock_token:{{{key}}}"));
        let dumps = [key, &token].map(|key| node.cmd(&["DUMP", key]));
        Ok(format!("{dumps:?}, {} ms", node.pttl(key)))
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        for command in [
            &["SET", "bandog:record:{text}", "not a record"][..],
            &["RPUSH", "bandog:record:{list}", "not a record"],
            &["HSET", "bandog:record:{hash}", "field", "not a record"],
            &["HSET", "bandog:record:{version}", "v", "not a version", "b", "text"],
            &["HSET", "bandog:record:{huge}", "v", "9007199254740992", "b", "text"],
        ] {
            self.node_of(command[1]).cmd(command);
        }
        Ok(["text", "list", "hash", "version", "huge"].map(String::from).to_vec())
    }

    async fn restart(&self) -> Can {
        for node in self.cluster.iter() {
            node.cmd(&["SAVE"]);
        }
        self.restart_empty().await
    }

    async fn restart_empty(&self) -> Can {
        self.cluster.retire();
        for node in self.cluster.iter() {
            node.restart();
        }
        eventually(READY_WITHIN, || self.cluster.is_ok());
        Ok(())
    }

    async fn cut(&self) -> Can {
        self.cluster.iter().for_each(RedisServer::kill_clients);
        Ok(())
    }

    async fn lose_answers(&self, _: bool) -> Can {
        Err(Unkept::Cannot("the nodes name their own addresses, so there is no proxy between"))
    }

    async fn stand_still(&self, on: bool) -> Can {
        self.cluster.retire();
        self.cluster.iter().for_each(|node| if on { node.pause() } else { node.resume() });
        Ok(())
    }

    async fn jump(&self) -> Can {
        Err(Unkept::Cannot(
            "a test cannot move the machine's clock; a test of bandog-sync checks that no client reads it",
        ))
    }

    fn address(&self) -> Can<String> {
        Ok(self.cluster.operator_url())
    }

    fn backend_at(address: &str) -> Can<Redis> {
        Ok(at_cluster(address))
    }
}

impl OnCluster {
    fn node_of(&self, key: &str) -> &RedisServer {
        self.cluster.master_of(self.cluster.slot(key))
    }
}

fn at_cluster(url: &str) -> Redis {
    Redis::new(RedisOptions::from_url(url).unwrap().timeout(TIMEOUT)).unwrap()
}
