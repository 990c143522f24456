//! The laws with three Redis servers.

use std::time::Duration;

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance};
use bandog_quorum::{Quorum, QuorumOptions};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::RedisServer;

use crate::node::{TestNode, redis};

conformance!(OnRedis);

pub(crate) struct OnRedis([RedisServer; 3]);

/// A quorum of these servers. The servers have just started, so the nodes report a longer uptime.
fn quorum(urls: impl IntoIterator<Item = String>) -> Quorum<TestNode<Redis>> {
    let options =
        QuorumOptions::default().max_ttl(Duration::from_secs(366 * 24 * 3600)).timeout(Duration::from_secs(9));
    let node = |url: String| {
        let options = RedisOptions::from_url(&url).unwrap().timeout(options.node_timeout());
        TestNode::old(Redis::new(options).unwrap())
    };
    let nodes: Vec<_> = urls.into_iter().map(node).collect();
    Quorum::new(nodes, options).unwrap()
}

#[async_trait]
impl World for OnRedis {
    const NAME: &'static str = "a quorum of three Redis servers";
    type Backend = Quorum<TestNode<Redis>>;

    async fn start() -> Self {
        Self([0; 3].map(|_| RedisServer::start()))
    }

    fn backend(&self) -> Self::Backend {
        quorum(self.0.iter().map(redis))
    }

    /// A grant needs two round trips to three servers.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn many(&self) -> usize {
        300
    }

    fn keeps_fences(&self) -> Can {
        Err(Unkept::Cannot("another majority can answer a claim that is sent again"))
    }

    fn records(&self) -> Can {
        Err(Unkept::Cannot("a quorum has no records"))
    }

    async fn forget(&self, key: &str) -> Can {
        for server in &self.0 {
            server.cmd(&["DEL", key]);
        }
        Ok(())
    }

    async fn restart(&self) -> Can {
        for server in &self.0 {
            server.cmd(&["SAVE"]);
            server.restart();
        }
        Ok(())
    }

    async fn restart_empty(&self) -> Can {
        for server in &self.0 {
            server.restart();
        }
        Ok(())
    }

    async fn stand_still(&self, on: bool) -> Can {
        for server in &self.0 {
            if on { server.pause() } else { server.resume() }
        }
        Ok(())
    }

    fn address(&self) -> Can<String> {
        Ok(self.0.each_ref().map(redis).join(" "))
    }

    fn backend_at(address: &str) -> Can<Self::Backend> {
        Ok(quorum(address.split(' ').map(String::from)))
    }
}
