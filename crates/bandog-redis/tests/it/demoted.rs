//! A `redis://` URL whose server becomes a replica. The address, a name or a load balancer, may lead to the new master.

use std::time::{Duration, Instant};

use bandog_core::{Error, ErrorKind, Leases, Renewal};
use bandog_redis::Redis;
use bandog_testkit::{RedisServer, Replica, Wire, eventually, eventually_async};
use futures_util::future::join_all;

use crate::help::{SOON, TTL, at, claim, fences, lock_user_url, notifier, renew, take};

/// A master and its replica, and the address of the clients.
struct Pair {
    master: RedisServer,
    replica: Replica,
    address: Wire,
}

impl Pair {
    fn start() -> Self {
        let master = RedisServer::start();
        let (replica, address) = (RedisServer::replica_of(&master), master.wire());
        Self { master, replica, address }
    }

    fn redis(&self) -> Redis {
        at(&lock_user_url(self.address.addr()))
    }

    /// The replica takes over, and the master becomes its replica. Connections stay open, as in a `FAILOVER`.
    fn swap_roles(&self) {
        self.replica.wait_until_equal(&self.master);
        self.replica.cmd(&["REPLICAOF", "NO", "ONE"]);
        self.master.cmd(&["REPLICAOF", "127.0.0.1", &self.replica.port().to_string()]);
    }
}

// Promise: RD9
#[tokio::test]
async fn a_server_that_has_become_a_replica_is_left_for_the_new_master() {
    let pair = Pair::start();
    let redis = pair.redis();
    let held = claim("held");
    fences(&redis, &held).await;
    let (on_release, notified) = notifier();
    let _subscription = redis.subscribe(&held, on_release).await.unwrap();
    pair.swap_roles();
    pair.address.lead_to(pair.replica.addr());
    let error = take(&redis, &claim("a")).await.unwrap_err();
    is_refused(&error);
    let next = claim("a");
    eventually_async(SOON, async || take(&redis, &next).await).await;
    assert_eq!(pair.replica.hash("a").len(), 1);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: TTL });
    // The subscription has moved, too.
    eventually(SOON, || notified() > 0 && pair.replica.cmd(&["PUBSUB", "CHANNELS"]).texts().len() == 1);
    assert_eq!(pair.address.accepted(), 4);
    assert_eq!(*redis.profile().epoch.borrow(), 2);
}

/// The address leads to a replica all the time. Each call gets the answer of the server, also while the client connects
/// again, and the client does not connect all the time.
// Promise: RD9
#[tokio::test]
async fn a_server_that_stays_a_replica_answers_each_call_and_gets_few_connections() {
    let pair = Pair::start();
    pair.address.lead_to(pair.replica.addr());
    pair.address.delay_replies(Duration::from_millis(5));
    let redis = pair.redis();
    redis.ping().await.unwrap();
    let start = Instant::now();
    let callers = (0..8).map(async |number| {
        let (mut calls, name) = (0, format!("lock {number}"));
        while pair.address.accepted() < 3 {
            assert!(start.elapsed() < 4 * SOON, "the client does not connect again");
            let error = take(&redis, &claim(&name)).await.unwrap_err();
            is_refused(&error);
            calls += 1;
        }
        calls
    });
    let calls: u32 = join_all(callers).await.into_iter().sum();
    println!("{calls} calls in {:?}", start.elapsed());
    assert!(calls > 100, "{calls}");
    assert!(start.elapsed() > Duration::from_millis(1900), "{:?}", start.elapsed());
}

/// Checks that the server has refused the call because it is a replica.
fn is_refused(error: &Error) {
    assert!(error.to_string().contains("read-only replica"), "{error}");
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false));
}
