//! The conformance suite with Redis: one server for each law, behind a proxy that injects faults.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod cluster;
mod plain;
mod setnx;

use std::{fmt::Display, marker::PhantomData, time::Duration};

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RedisServer, Wire};

conformance!(OnRedis<Default>);

const TIMEOUT: Duration = Duration::from_secs(1);

struct OnRedis<F> {
    wire: Wire,
    server: RedisServer,
    format: PhantomData<F>,
}

/// A format of the data.
trait DataFormat: Send + Sync + 'static {
    /// The name of the world.
    const NAME: &'static str;
    /// The option of the URL.
    const QUERY: &'static str;
    /// The type of the key of a mutex.
    const TYPE: &'static str;
}

/// The default format, which is Redisson's.
struct Default;

impl DataFormat for Default {
    const NAME: &'static str = "redis";
    const QUERY: &'static str = "";
    const TYPE: &'static str = "hash";
}

#[async_trait]
impl<F: DataFormat> World for OnRedis<F> {
    const NAME: &'static str = F::NAME;
    type Backend = Redis;

    async fn start() -> Self {
        let server = RedisServer::start();
        Self { wire: server.wire(), server, format: PhantomData }
    }

    fn backend(&self) -> Redis {
        at(&operator::<F>(self.wire.addr()))
    }

    async fn left(&self) -> Vec<String> {
        // Tokens and the counters of semaphores are strings, and stay in the store. So does the limit of a plain
        // semaphore.
        let stays = |key: &String| {
            let is_name = !key.starts_with("redisson") && !key.starts_with("bandog");
            let is_string = self.server.cmd(&["TYPE", key]).text() == "string";
            let is_limit = || self.server.cmd(&["HKEYS", key]).texts() == ["limit"];
            is_string && !(is_name && F::TYPE == "string") || key.starts_with("bandog:plain:") && is_limit()
        };
        let keys = self.keys().into_iter().filter(|key| !stays(key));
        keys.chain(self.server.cmd(&["PUBSUB", "CHANNELS"]).texts()).collect()
    }

    fn frees_names_of_semaphores(&self) -> Can {
        Err(Unkept::Cannot("Redisson keeps the counter of a semaphore under its name"))
    }

    async fn forget(&self, key: &str) -> Can {
        self.server.cmd(&["DEL", key]);
        Ok(())
    }

    async fn plant(&self) -> Can<Vec<String>> {
        let java = "5c1c2c6e-9c1e-4d3a-8f0a-0d1b2c3d4e5f:42";
        // With the layout of strings, this is the lock of another client.
        self.server.cmd(&["SET", "text", "not a lock"]);
        self.server.cmd(&["RPUSH", "list", "not a lock"]);
        self.server.cmd(&["SADD", "set", java]);
        self.server.cmd(&["ZADD", "sorted", "1", java]);
        self.server.cmd(&["HSET", "neighbour", java, "1"]);
        self.server.cmd(&["HSET", "twice", java, "2"]);
        self.server.cmd(&["SET", "redisson_lock_token:{twice}", "7"]);
        Ok(["text", "list", "set", "sorted", "neighbour", "twice"].map(String::from).to_vec())
    }

    async fn raw(&self, key: &str) -> Can<String> {
        let token = format!("redisson_lock_token:{{{key}}}");
        let dumps = [key, &token].map(|key| self.server.cmd(&["DUMP", key]));
        Ok(format!("{dumps:?}, {} ms", self.server.pttl(key)))
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        self.server.cmd(&["SET", "bandog:record:{text}", "not a record"]);
        self.server.cmd(&["RPUSH", "bandog:record:{list}", "not a record"]);
        self.server.cmd(&["HSET", "bandog:record:{hash}", "field", "not a record"]);
        self.server.cmd(&["HSET", "bandog:record:{version}", "v", "not a version", "b", "text"]);
        self.server.cmd(&["HSET", "bandog:record:{huge}", "v", "9007199254740992", "b", "text"]);
        Ok(["text", "list", "hash", "version", "huge"].map(String::from).to_vec())
    }

    async fn restart(&self) -> Can {
        self.server.cmd(&["SAVE"]);
        self.server.restart();
        Ok(())
    }

    async fn restart_empty(&self) -> Can {
        self.server.restart();
        Ok(())
    }

    async fn cut(&self) -> Can {
        self.wire.cut();
        Ok(())
    }

    async fn lose_answers(&self, on: bool) -> Can {
        self.wire.drop_replies(on);
        Ok(())
    }

    async fn stand_still(&self, on: bool) -> Can {
        if on {
            self.server.pause()
        } else {
            self.server.resume()
        }
        Ok(())
    }

    async fn connections(&self) -> Can<usize> {
        Ok(self.wire.open())
    }

    async fn jump(&self) -> Can {
        Err(Unkept::Cannot(
            "a test cannot move the machine's clock; a test of bandog-sync checks that no client reads it",
        ))
    }

    fn address(&self) -> Can<String> {
        Ok(operator::<F>(self.server.addr()))
    }

    fn backend_at(address: &str) -> Can<Redis> {
        Ok(at(address))
    }

    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        let token = format!("redisson_lock_token:{{{key}}}");
        assert_eq!(self.keys(), [key, &token]);
        assert_eq!(self.server.cmd(&["TYPE", key]).text(), F::TYPE);
        if F::TYPE == "hash" {
            assert_eq!(self.server.hash(key).into_iter().collect::<Vec<_>>(), [(owner.to_owned(), "1".to_owned())]);
        } else {
            assert_eq!(self.server.cmd(&["GET", key]).text(), owner);
        }
        assert_eq!(self.server.cmd(&["GET", &token]).text(), fence.to_string());
        assert_eq!(self.server.pttl(&token), -1);
        let left = u128::try_from(self.server.pttl(key)).unwrap();
        assert!(left > 0 && left <= ttl.as_millis(), "{left} ms");
        Ok(())
    }
}

/// A user with exactly the documented rights to take and inspect locks.
fn operator<F: DataFormat>(address: impl Display) -> String {
    format!("redis://{}@{address}{}", RedisServer::OPERATOR, F::QUERY)
}

impl<F> OnRedis<F> {
    /// All keys except those of the registry, which expire.
    fn keys(&self) -> Vec<String> {
        self.server.keys().into_iter().filter(|key| !key.starts_with("bandog:client")).collect()
    }
}

fn at(url: &str) -> Redis {
    Redis::new(RedisOptions::from_url(url).unwrap().timeout(TIMEOUT)).unwrap()
}
