//! The laws of objects and messages on a Redis server and on a cluster.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod foreign;
mod work;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bandog_conformance::{messages::MessageWorld, objects::ObjectWorld, queues::QueueWorld};
use bandog_core::{
    Key,
    messages::{Channel, Channels, Messages},
    queues::Queues,
    structures::Structures,
};
use bandog_redis_data::RedisObjects;
use bandog_redis_net::{FurtherOptions, Options};
use bandog_testkit::{RedisCluster, RedisServer};

/// The objects at this URL. Servers answer later than usual on a loaded machine.
fn at(url: &str) -> Arc<RedisObjects> {
    let (options, _) = Options::from_url(url, &FurtherOptions { names: &[], shown: "" }).unwrap();
    Arc::new(RedisObjects::new(options.with_timeout(Duration::from_secs(20))).unwrap())
}

struct Single(RedisServer);

#[async_trait]
impl ObjectWorld for Single {
    async fn start() -> Self {
        Self(RedisServer::start())
    }

    fn structures(&self) -> Arc<dyn Structures> {
        at(&self.0.url())
    }

    async fn left(&self) -> Vec<String> {
        self.0.keys()
    }
}

struct Cluster(RedisCluster);

#[async_trait]
impl ObjectWorld for Cluster {
    async fn start() -> Self {
        Self(RedisCluster::start(3, 0))
    }

    fn structures(&self) -> Arc<dyn Structures> {
        at(&self.0.url())
    }

    fn key(&self, name: &str) -> Key {
        // Names that have a tag of their own are used in laws about one object.
        Key::new(if name.contains('{') { name.to_owned() } else { format!("{{law}} {name}") }).unwrap()
    }

    async fn left(&self) -> Vec<String> {
        self.0.iter().flat_map(|node| node.keys()).collect()
    }
}

/// The number of subscriptions on a server.
fn subscriptions(server: &RedisServer, channels: &Channels) -> u64 {
    let answer = match channels {
        Channels::One(Channel::Plain(name)) => server.cmd(&["PUBSUB", "NUMSUB", name.as_str()]).array()[1].int(),
        Channels::One(Channel::Sharded(name)) => server.cmd(&["PUBSUB", "SHARDNUMSUB", name.as_str()]).array()[1].int(),
        Channels::Matching(_) => server.cmd(&["PUBSUB", "NUMPAT"]).int(),
    };
    answer.unsigned_abs()
}

#[async_trait]
impl MessageWorld for Single {
    async fn start() -> Self {
        Self(RedisServer::start())
    }

    fn messages(&self) -> Arc<dyn Messages> {
        at(&self.0.url())
    }

    async fn subscriptions(&self, channels: &Channels) -> Option<u64> {
        Some(subscriptions(&self.0, channels))
    }

    async fn break_connections(&self) -> bool {
        self.0.kill_clients();
        true
    }
}

#[async_trait]
impl MessageWorld for Cluster {
    async fn start() -> Self {
        Self(RedisCluster::start(3, 0))
    }

    fn messages(&self) -> Arc<dyn Messages> {
        at(&self.0.url())
    }

    async fn subscriptions(&self, channels: &Channels) -> Option<u64> {
        Some(self.0.iter().map(|node| subscriptions(node, channels)).sum())
    }

    async fn break_connections(&self) -> bool {
        self.0.iter().for_each(RedisServer::kill_clients);
        true
    }
}

#[async_trait]
impl QueueWorld for Single {
    async fn start() -> Self {
        Self(RedisServer::start())
    }

    fn queues(&self) -> Arc<dyn Queues> {
        at(&self.0.url())
    }
}

#[async_trait]
impl QueueWorld for Cluster {
    async fn start() -> Self {
        Self(RedisCluster::start(3, 0))
    }

    fn queues(&self) -> Arc<dyn Queues> {
        at(&self.0.url())
    }
}

mod single {
    bandog_conformance::message_conformance!(super::Single);
    bandog_conformance::object_conformance!(super::Single);
    bandog_conformance::queue_conformance!(super::Single);
}

mod cluster {
    bandog_conformance::message_conformance!(super::Cluster);
    bandog_conformance::object_conformance!(super::Cluster);
    bandog_conformance::queue_conformance!(super::Cluster);
}
