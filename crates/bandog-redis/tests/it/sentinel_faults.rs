//! Sentinels that disagree: one is cut off or was stopped, or names a machine that does not answer. And the number of
//! connections to sentinels.

use std::time::{Duration, Instant};

use bandog_core::{ErrorKind, Leases, Subscription};
use bandog_redis::Redis;
use bandog_testkit::{RedisServer, Wire, eventually, eventually_async};

use crate::{
    help::{SOON, at, claim, fences, notifier, take},
    sentinels::Watched,
};

/// Maximum time that a test waits for a failover.
const FAILOVER: Duration = Duration::from_secs(30);

fn with_password() -> RedisServer {
    RedisServer::start_with(&["--requirepass", "bone"])
}

/// The URL of one sentinel.
fn url_of(sentinel: &RedisServer) -> String {
    format!("redis+sentinel://{}@{}/orders", RedisServer::LEAST, sentinel.addr())
}

/// Claims, and checks that the replica has granted the claim.
async fn grants_on_the_replica(watched: &Watched, redis: &Redis, name: &str) {
    fences(redis, &claim(name)).await;
    assert_eq!(watched.replica.hash(name).len(), 1, "the old master has granted {name}");
}

/// The old master and one sentinel are cut off from the others, and the clients reach all of them. The old master still
/// grants locks, and its sentinel still names it.
// Promise: SE4, SE7
#[tokio::test(flavor = "multi_thread")]
async fn clients_leave_the_old_master_although_one_sentinel_is_cut_off_with_it() {
    let watched = Watched::separable(with_password());
    let clients: Vec<Redis> = (0..4).map(|_| watched.redis()).chain([at(&url_of(&watched.sentinels[0]))]).collect();
    let mut subscriptions = Vec::new();
    for (number, redis) in clients.iter().enumerate() {
        let held = claim(&format!("held {number}"));
        fences(redis, &held).await;
        let (on_release, notified) = notifier();
        subscriptions.push((redis.subscribe(&held, on_release).await.unwrap(), notified));
    }
    let promotion = watched.promotion();
    watched.split();
    watched.works_again(&clients[0], promotion).await;
    watched.wait_until_divided();
    for (number, redis) in clients.iter().enumerate() {
        eventually_async(SOON, async || *redis.profile().epoch.borrow() > 1).await;
        grants_on_the_replica(&watched, redis, &format!("old client {number}")).await;
        // The subscription has moved, too.
        eventually_async(SOON, async || subscriptions[number].1() > 0).await;
    }
    // A new client believes the others, even if the URL names only the sentinel that is cut off.
    for number in 0..8 {
        let redis = if number < 4 { watched.redis() } else { at(&url_of(&watched.sentinels[0])) };
        grants_on_the_replica(&watched, &redis, &format!("new client {number}")).await;
    }
    assert_eq!(watched.master.info("replication", "role"), "master");
}

/// A sentinel that continues after a stop names the old master until it receives a message of the others.
// Promise: SE7
#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_was_stopped_during_the_failover_is_not_believed() {
    let watched = Watched::start();
    let redis = watched.redis();
    fences(&redis, &claim("before")).await;
    watched.sentinels[2].pause();
    let old = watched.master.addr();
    watched.master.pause();
    watched.sentinels.wait_for_failover(old);
    eventually_async(FAILOVER, async || {
        let name = claim("after");
        take(&redis, &name).await.is_ok() && watched.replica.hash("after").len() == 1
    })
    .await;
    let epoch = *redis.profile().epoch.borrow();
    watched.master.resume();
    watched.sentinels[2].resume();
    for number in 0..20 {
        grants_on_the_replica(&watched, &watched.redis(), &format!("new {number}")).await;
        grants_on_the_replica(&watched, &redis, &format!("old {number}")).await;
    }
    assert_eq!(*redis.profile().epoch.borrow(), epoch, "the connection is the same");
}

// Promise: SE7
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_machine_that_one_sentinel_names_is_not_waited_for() {
    let watched = Watched::separable(RedisServer::start_on_machine(&["--requirepass", "bone"]));
    watched.split();
    watched.wait_until_divided();
    watched.master.lose_machine();
    let mut times = Vec::new();
    for number in 0..6 {
        let start = Instant::now();
        grants_on_the_replica(&watched, &watched.redis(), &format!("{number}")).await;
        times.push(start.elapsed());
    }
    // On a loaded machine, single calls are slow. If the clients waited for the dead machine, most calls would be.
    times.sort_unstable();
    assert!(times[3] < Duration::from_secs(1), "{times:?}");
    // Without the epochs, one sentinel is as good as the other. The dead machine uses a part of the attempt only.
    watched.sentinels[2].kill();
    for sentinel in &watched.sentinels[..2] {
        assert_eq!(sentinel.cmd(&["ACL", "SETUSER", "default", "-sentinel|master"]).text(), "OK");
    }
    for first in [0, 1] {
        let (one, other) = (watched.sentinels[first].addr(), watched.sentinels[1 - first].addr());
        let redis = at(&format!("redis+sentinel://{}@{one},{other}/orders", RedisServer::LEAST));
        grants_on_the_replica(&watched, &redis, &format!("hidden {first}")).await;
    }
}

/// Proxies in front of the sentinels. They count the connections of clients. The sentinels also connect to each other.
struct Counted {
    watched: Watched,
    wires: Vec<Wire>,
}

impl Counted {
    fn start() -> Self {
        let watched = Watched::start();
        let wires = watched.sentinels.iter().map(RedisServer::wire).collect();
        Self { watched, wires }
    }

    fn url(&self) -> String {
        let hosts: Vec<_> = self.wires.iter().map(|wire| wire.addr().to_string()).collect();
        format!("redis+sentinel://{}@{}/orders", RedisServer::LEAST, hosts.join(","))
    }

    /// Number of connections so far.
    fn accepted(&self) -> u64 {
        self.wires.iter().map(Wire::accepted).sum()
    }
}

/// With a discovery for each connection to the master, one client made 21 connections in a second, and eight clients with
/// subscriptions made 262.
// Promise: SE8
#[tokio::test(flavor = "multi_thread")]
async fn clients_keep_their_connections_to_sentinels_while_there_is_no_master() {
    let counted = Counted::start();
    let clients: Vec<Redis> = (0..8).map(|_| at(&counted.url())).collect();
    let mut subscriptions: Vec<Subscription> = Vec::new();
    for redis in &clients {
        redis.ping().await.unwrap();
        subscriptions.push(redis.subscribe(&claim("k"), notifier().0).await.unwrap());
    }
    eventually(SOON, || counted.accepted() == 3 * 8);
    // No replica can take over.
    counted.watched.replica.pause();
    counted.watched.master.kill();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        for redis in &clients {
            take(redis, &claim("k")).await.unwrap_err();
        }
    }
    assert_eq!(counted.accepted(), 3 * 8);
}

// Promise: SE8
#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_one_connection_to_each_sentinel_and_closes_it_at_the_end() {
    let counted = Counted::start();
    let redis = at(&counted.url());
    fences(&redis, &claim("k")).await;
    let subscription = redis.subscribe(&claim("k"), notifier().0).await.unwrap();
    let open = || counted.wires.iter().map(Wire::open).collect::<Vec<_>>();
    eventually(SOON, || open() == [1, 1, 1]);
    drop((redis, subscription));
    eventually(SOON, || open() == [0, 0, 0]);
}

/// A client that repeats a login might be locked out. So after a refusal, a sentinel is asked when a call needs it.
// Promise: SE6
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_at_the_sentinels_is_repeated_by_the_next_call_only() {
    let counted = Counted::start();
    let set_password = |password| {
        for sentinel in counted.watched.sentinels.iter() {
            let rules = ["ACL", "SETUSER", "client", "reset", "on", password, "~*", "&*", "+@all"];
            assert_eq!(sentinel.cmd(&rules).text(), "OK");
        }
    };
    set_password(">old");
    let redis = at(&format!("{}?sentinel_user=client&sentinel_password=new", counted.url()));
    assert_eq!(redis.ping().await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(counted.accepted(), 3);
    assert_eq!(redis.ping().await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(counted.accepted(), 6);
    set_password(">new");
    redis.ping().await.unwrap();
    assert_eq!(counted.accepted(), 9);
}

/// A backend can be used from several runtimes. The task that asks the sentinels ends with the first one.
#[test]
fn another_runtime_continues_to_ask_the_sentinels() {
    let watched = Watched::start();
    let redis = watched.redis();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let held = claim("held");
    // The connection for commands and the task run on the first runtime, and the subscription on the second.
    first.block_on(fences(&redis, &claim("k")));
    let (on_release, notified) = notifier();
    let _subscription = second.block_on(redis.subscribe(&held, on_release)).unwrap();
    drop(first);
    watched.replica.wait_until_equal(&watched.master);
    // The connections to the stopped master stay open, so only the sentinels can report that another server is the master.
    watched.master.pause();
    eventually(FAILOVER, || notified() > 0);
    second.block_on(eventually_async(FAILOVER, async || take(&redis, &held).await));
    assert_eq!(watched.replica.hash("held").len(), 1);
}
