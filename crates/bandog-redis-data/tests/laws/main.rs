//! The laws of objects on a Redis server and on a cluster.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bandog_conformance::objects::ObjectWorld;
use bandog_core::{Key, structures::Structures};
use bandog_redis_data::RedisObjects;
use bandog_redis_net::{FurtherOptions, Options};
use bandog_testkit::{RedisCluster, RedisServer};

/// The objects at this URL. Servers answer later than usual on a loaded machine.
fn at(url: &str) -> Arc<dyn Structures> {
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

mod single {
    bandog_conformance::object_conformance!(super::Single);
}

mod cluster {
    bandog_conformance::object_conformance!(super::Cluster);
}
