//! A backend that finds its server through sentinels: failovers, sentinels that do not answer, and refused logins.

use std::{
    io,
    net::SocketAddrV4,
    time::{Duration, Instant},
};

use bandog_core::{ErrorKind, Leases, QuorumNode, Released, Renewal, Verdict};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RawRedis, RedisServer, Replica, Sentinels, eventually, eventually_async};

use crate::help::{SOON, TTL, at, claim, fences, notifier, release, renew, take};

/// Maximum time that a test waits for a failover.
const FAILOVER: Duration = Duration::from_secs(30);
/// Maximum time from the promotion to the first grant. On an idle machine, it is below 0.3 s.
const WORKS_AGAIN: Duration = Duration::from_secs(1);

/// The user of the first sentinel, and the user of the others.
const FIRST: &str = "first";
const OTHERS: &str = "others";

/// A master, its replica and their sentinels.
///
/// The sentinels are dropped first. Otherwise, another test could get the port of the master while they still watch it.
pub(crate) struct Watched {
    pub(crate) sentinels: Sentinels,
    pub(crate) replica: Replica,
    pub(crate) master: RedisServer,
    /// The password of the sentinels.
    password: Option<&'static str>,
}

impl Watched {
    pub(crate) fn start() -> Self {
        Self::of(RedisServer::start(), None)
    }

    /// Watches this master with three sentinels that have this password.
    pub(crate) fn of(master: RedisServer, password: Option<&'static str>) -> Self {
        let replica = RedisServer::replica_of(&master);
        let args: Vec<_> = password.into_iter().flat_map(|password| ["--requirepass", password]).collect();
        let sentinels = Sentinels::start_with(3, &master, "orders", &args);
        Self { master, replica, sentinels, password }
    }

    /// Watches a master with a password, through users of its own for the first sentinel and for the others. So
    /// [`Watched::split`] can cut them off.
    pub(crate) fn separable(master: RedisServer) -> Self {
        let watched = Self::of(master, None);
        let servers: [&RedisServer; 2] = [&watched.master, &watched.replica];
        for (number, sentinel) in watched.sentinels.iter().enumerate() {
            let user = if number == 0 { FIRST } else { OTHERS };
            for server in servers {
                assert_eq!(server.cmd(&["ACL", "SETUSER", user, "on", ">bone", "~*", "&*", "+@all"]).text(), "OK");
            }
            let set = |option, value| sentinel.cmd(&["SENTINEL", "SET", "orders", option, value]);
            assert_eq!((set("auth-user", user).text(), set("auth-pass", "bone").text()), ("OK", "OK"));
        }
        for server in servers {
            // A sentinel has two connections to each server.
            server.kill_clients();
            let logins = |user: &str| server.cmd(&["CLIENT", "LIST"]).text().matches(&format!(" user={user} ")).count();
            eventually(FAILOVER, || logins(FIRST) == 2 && logins(OTHERS) == 4);
        }
        watched
    }

    /// Cuts the master and the first sentinel off from the replica and the other sentinels, which promote the replica. The
    /// clients reach all servers.
    pub(crate) fn split(&self) {
        // Sentinels also notify each other directly.
        assert_eq!(self.sentinels[0].cmd(&["ACL", "SETUSER", "default", "-publish"]).text(), "OK");
        let servers: [(&RedisServer, _); 2] = [(&self.master, OTHERS), (&self.replica, FIRST)];
        for (server, user) in servers {
            server.cmd(&["ACL", "SETUSER", user, "off"]);
            server.cmd(&["CLIENT", "KILL", "USER", user]);
        }
    }

    /// Waits until all sentinels but the first name the replica as the master. Checks that the first does not.
    pub(crate) fn wait_until_divided(&self) {
        let new = self.replica.outer_addr();
        let names_it = |sentinel: &RedisServer| named_master(sentinel.addr(), None).unwrap() == new;
        eventually(FAILOVER, || self.sentinels[1..].iter().all(names_it));
        assert!(!names_it(&self.sentinels[0]));
    }

    /// The URL of a user that has only the rights that locks need.
    pub(crate) fn url(&self) -> String {
        self.sentinels.url().replacen("://", &format!("://{}@", RedisServer::LEAST), 1)
    }

    pub(crate) fn redis(&self) -> Redis {
        at(&self.url())
    }

    /// Returns the time at which the first sentinel names the replica as the master. A sentinel finds out up to a second
    /// after it has ordered the promotion.
    pub(crate) fn promotion(&self) -> std::thread::JoinHandle<Instant> {
        let new = self.replica.outer_addr();
        let sentinels: Vec<_> = self.sentinels.iter().filter(|one| one.is_running()).map(RedisServer::addr).collect();
        let password = self.password;
        std::thread::spawn(move || {
            eventually(FAILOVER, || sentinels.iter().any(|one| named_master(*one, password).is_ok_and(|at| at == new)));
            Instant::now()
        })
    }

    /// Claims until a claim is granted by the replica. Checks the time since the promotion.
    pub(crate) async fn works_again(&self, redis: &Redis, promotion: std::thread::JoinHandle<Instant>) {
        let mut number = 0;
        eventually_async(FAILOVER, async || {
            number += 1;
            let name = format!("after {number}");
            let verdict = take(redis, &claim(&name)).await.map_err(|error| error.to_string())?;
            assert!(matches!(verdict, Verdict::Granted { .. }));
            // The sentinels end the connections to the server that they promote.
            let exists = self.replica.try_cmd(&["EXISTS", &name]).map_err(|error| error.to_string())?;
            if exists.int() == 0 { Err("the old master granted it".to_owned()) } else { Ok(()) }
        })
        .await;
        let works = Instant::now();
        let took = works.saturating_duration_since(promotion.join().unwrap());
        println!("locks work {took:?} after the promotion");
        assert!(took < WORKS_AGAIN, "{took:?}");
    }
}

/// The master that this sentinel names.
fn named_master(sentinel: SocketAddrV4, password: Option<&str>) -> io::Result<SocketAddrV4> {
    let mut client = RawRedis::connect(sentinel)?;
    password.map(|password| client.cmd(&["AUTH", password])).transpose()?;
    let address = client.cmd(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "orders"])?.texts();
    Ok(SocketAddrV4::new(address[0].parse().unwrap(), address[1].parse().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_work_and_the_store_is_named_without_a_password() {
    let watched = Watched::start();
    let redis = watched.redis();
    redis.ping().await.unwrap();
    let held = claim("k");
    fences(&redis, &held).await;
    assert_eq!(watched.master.hash("k").len(), 1);
    let hosts: Vec<_> = watched.sentinels.iter().map(|sentinel| sentinel.addr().to_string()).collect();
    assert_eq!(redis.profile().store, format!("redis+sentinel://{}/orders/0", hosts.join(",")));
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
}

// Promise: SE1
#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_failover_keeps_the_holds_and_the_subscriptions() {
    let watched = Watched::start();
    let redis = watched.redis();
    let held = claim("held");
    fences(&redis, &held).await;
    let (on_release, notified) = notifier();
    let _subscription = redis.subscribe(&held, on_release).await.unwrap();
    watched.replica.wait_until_equal(&watched.master);
    let promotion = watched.promotion();
    watched.sentinels.order_failover();
    watched.works_again(&redis, promotion).await;
    // The sentinels may close the connection once more.
    let renewal = eventually_async(FAILOVER, async || renew(&redis, &held).await).await;
    assert_eq!(renewal, Renewal::Extended { valid_for: TTL });
    // The subscription has moved too. The client is notified at the latest when the new subscription is confirmed.
    eventually_async(FAILOVER, async || notified() > 0).await;
    eventually(FAILOVER, || watched.replica.cmd(&["PUBSUB", "CHANNELS"]).texts().len() > 1);
    let before = notified();
    assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) }));
    eventually_async(FAILOVER, async || notified() > before).await;
}

// Promise: SE1
#[tokio::test(flavor = "multi_thread")]
async fn locks_work_soon_after_the_master_was_killed() {
    let watched = Watched::start();
    let redis = watched.redis();
    let held = claim("held");
    fences(&redis, &held).await;
    watched.replica.wait_until_equal(&watched.master);
    let promotion = watched.promotion();
    watched.master.kill();
    let error = take(&redis, &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    watched.works_again(&redis, promotion).await;
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: TTL });
}

/// The connection to the stopped master stays open, so only the sentinels can report that another server is the master.
// Promise: SE4
#[tokio::test(flavor = "multi_thread")]
async fn locks_work_soon_after_the_master_was_stopped_and_stay_there_when_it_continues() {
    let watched = Watched::start();
    let redis = watched.redis();
    let held = claim("before");
    fences(&redis, &held).await;
    let (on_release, notified) = notifier();
    let _subscription = redis.subscribe(&held, on_release).await.unwrap();
    let promotion = watched.promotion();
    watched.master.pause();
    watched.works_again(&redis, promotion).await;
    // The client is notified when the new master has confirmed the subscription.
    eventually_async(FAILOVER, async || notified() > 0).await;
    let epoch = *redis.profile().epoch.borrow();
    watched.master.resume();
    // For some seconds, the old master thinks that it is the master. No claim goes there.
    eventually(FAILOVER, || watched.master.info("replication", "role") == "master");
    for number in 0..100 {
        let name = format!("late {number}");
        fences(&redis, &claim(&name)).await;
        assert_eq!(watched.replica.hash(&name).len(), 1);
    }
    assert_eq!(*redis.profile().epoch.borrow(), epoch, "the connection is the same");
}

// Promise: SE1
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_fails_is_left() {
    let watched = Watched::of(RedisServer::start_on_machine(&[]), None);
    let redis = watched.redis();
    fences(&redis, &claim("before")).await;
    let promotion = watched.promotion();
    watched.master.lose_machine();
    watched.works_again(&redis, promotion).await;
}

/// Without its sentinels, a client cannot know that the connection to a former master is wrong. The replies show it.
// Promise: SE5
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_has_become_a_replica_is_left() {
    let watched = Watched::start();
    let redis = watched.redis();
    let held = claim("held");
    fences(&redis, &held).await;
    watched.replica.wait_until_equal(&watched.master);
    watched.replica.cmd(&["REPLICAOF", "NO", "ONE"]);
    let port = watched.replica.port().to_string();
    watched.master.cmd(&["REPLICAOF", "127.0.0.1", &port]);
    let refused = claim("refused");
    let error = take(&redis, &refused).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(renew(&redis, &held).await.is_err(), "no answer means that the hold is gone");
    // The backend has left the connection, and does not believe the sentinels.
    eventually_async(SOON, async || {
        let error = redis.ping().await.err().filter(|error| error.kind() == ErrorKind::Unavailable);
        error.filter(|error| error.to_string().contains("is a replica now, and not the master"))
    })
    .await;
    watched.master.cmd(&["REPLICAOF", "NO", "ONE"]);
    eventually_async(FAILOVER, async || take(&redis, &refused).await).await;
}

// Promise: SE6
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_are_dead_or_stopped_are_skipped() {
    let watched = Watched::start();
    watched.sentinels[0].kill();
    watched.sentinels[1].pause();
    // Each client begins with a sentinel of its own choice.
    for _ in 0..8 {
        let (start, redis, held) = (Instant::now(), watched.redis(), claim("k"));
        // On a loaded machine, also the living sentinel can be too slow for one attempt.
        eventually_async(SOON, async || take(&redis, &held).await).await;
        watched.master.cmd(&["DEL", "k"]);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
    watched.sentinels[2].kill();
    let error = watched.redis().ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    for sentinel in watched.sentinels.iter() {
        assert!(error.to_string().contains(&sentinel.addr().to_string()), "{error}");
    }
}

/// The URL names one sentinel. The client asks the others after this one has ended.
// Promise: SE6
#[tokio::test(flavor = "multi_thread")]
async fn the_other_sentinels_are_found() {
    let watched = Watched::start();
    let first = watched.sentinels[0].addr();
    let redis = at(&format!("redis+sentinel://{}@{first}/orders", RedisServer::LEAST));
    fences(&redis, &claim("k")).await;
    watched.sentinels[0].kill();
    let promotion = watched.promotion();
    watched.master.kill();
    watched.works_again(&redis, promotion).await;
}

/// A copy of the options can live longer than the backends that were made from it.
#[tokio::test(flavor = "multi_thread")]
async fn each_backend_asks_the_sentinels_until_it_is_dropped() {
    let watched = Watched::start();
    // Only the connections of backends have a subscription.
    let subscribers = |sentinel: &RedisServer| sentinel.cmd(&["CLIENT", "LIST"]).text().matches(" sub=1 ").count();
    let are_asked_by = |count| {
        let counts: Vec<_> = watched.sentinels.iter().map(subscribers).collect();
        if counts == [count; 3] { Ok(()) } else { Err(format!("{counts:?} connections instead of {count}")) }
    };
    let options = RedisOptions::from_url(&watched.url()).unwrap();
    let (first, second) = (Redis::new(options.clone()).unwrap(), Redis::new(options.clone()).unwrap());
    first.ping().await.unwrap();
    second.ping().await.unwrap();
    eventually(SOON, || are_asked_by(2));
    drop(first);
    eventually(SOON, || are_asked_by(1));
    second.ping().await.unwrap();
    drop(second);
    eventually(SOON, || are_asked_by(0));
    drop(options);
}

/// The URL names the sentinel by its name, and the other sentinels name it by its address.
#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_with_two_addresses_is_asked_once() {
    let watched = Watched::start();
    let first = &watched.sentinels[0];
    for sentinel in watched.sentinels.iter() {
        assert_eq!(sentinel.cmd(&["ACL", "SETUSER", "client", "on", ">sniff", "&*", "+@all"]).text(), "OK");
    }
    let connections = || {
        let list = first.cmd(&["CLIENT", "LIST"]);
        list.text().lines().filter(|line| line.contains(" user=client ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let login = "sentinel_user=client&sentinel_password=sniff";
    let redis = at(&format!("redis+sentinel://{}@localhost:{}/orders?{login}", RedisServer::LEAST, first.port()));
    redis.ping().await.unwrap();
    // The other sentinels name the first one with another address. The client connects to both addresses, and leaves one
    // of them.
    let is_asked = |sentinel: &RedisServer| sentinel.cmd(&["CLIENT", "LIST"]).text().contains(" user=client ");
    eventually(SOON, || watched.sentinels.iter().all(is_asked));
    let number = |line: &str, field: &str| {
        let value = line.split(' ').find_map(|part| part.strip_prefix(field));
        value.unwrap().parse::<u64>().unwrap()
    };
    let one_of_age = |age: u64| {
        eventually(FAILOVER, || match &connections()[..] {
            [one] if number(one, "age=") >= age => Ok(number(one, "id=")),
            others => Err(format!("{others:?}")),
        })
    };
    let id = one_of_age(3);
    // From now on, each login is refused and recorded. The open connection stays, and all sentinels are still asked.
    assert_eq!(first.cmd(&["ACL", "SETUSER", "client", "off"]).text(), "OK");
    assert_eq!(one_of_age(6), id);
    assert!(number(&connections()[0], "idle=") <= 1);
    let refused = format!("{:?}", first.cmd(&["ACL", "LOG"]));
    assert!(!refused.contains("client"), "{refused}");
}

// Promise: SE6
#[tokio::test(flavor = "multi_thread")]
async fn errors_name_what_each_sentinel_has_answered() {
    let watched = Watched::start();
    let error = at(&watched.url().replace("/orders", "/payments")).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    let text = error.to_string();
    assert!(text.contains("does not know the master \"payments\"; it knows \"orders\""), "{text}");
    assert!(text.contains("redis+sentinel://127.0.0.1") && !text.contains("PASSWORD"), "{text}");
    let server = watched.master.addr();
    let error = at(&format!("redis+sentinel://{server}/orders")).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert!(error.to_string().contains(&format!("{server} is not a sentinel")), "{error}");
    // A sentinel in the URL of a server, of a cluster, and of a quorum, which first reads a setting.
    let sentinel = watched.sentinels[0].addr();
    let of_server = take(&at(&format!("redis://{sentinel}")), &claim("k")).await.unwrap_err();
    let of_cluster = at(&format!("redis+cluster://{sentinel}")).ping().await.unwrap_err();
    let of_quorum = at(&format!("redis://{sentinel}")).setting("quorum:max_ttl", None).await.unwrap_err();
    for error in [of_server, of_cluster, of_quorum] {
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("if it is a sentinel"), "{error}");
    }
    // The login at the master is wrong.
    let error = at(&watched.url().replacen("PASSWORD", "wrong", 1)).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("write USER:PASSWORD@ directly after ://"), "{error}");
}

// Promise: SE6
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_can_require_a_login() {
    let watched = Watched::of(RedisServer::start_with(&["--requirepass", "bone"]), Some("watch"));
    let error = watched.redis().ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("?sentinel_user=USER&sentinel_password=PASSWORD"), "{error}");
    let with_password = format!("{}?sentinel_password=watch", watched.url());
    at(&with_password).ping().await.unwrap();
    // A user of the sentinels with only the rights of `docs/redis.md`.
    for sentinel in watched.sentinels.iter() {
        let rules = "ACL SETUSER client on >sniff resetchannels &+switch-master -@all +sentinel|get-master-addr-by-name \
                     +sentinel|master +sentinel|sentinels +sentinel|myid +subscribe";
        let rules: Vec<&str> = rules.split(' ').collect();
        assert_eq!(sentinel.cmd(&rules).text(), "OK");
    }
    let redis = at(&format!("{}?sentinel_user=client&sentinel_password=sniff", watched.url()));
    fences(&redis, &claim("k")).await;
    let promotion = watched.promotion();
    watched.sentinels.order_failover();
    watched.works_again(&redis, promotion).await;
    let wrong = format!("{}?sentinel_user=client&sentinel_password=wrong", watched.url());
    let error = at(&wrong).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!format!("{error:?} {error}").contains("wrong"), "{error}");
    // All sentinels refuse the login for the same reason, which is printed once.
    let text = error.to_string();
    assert!(text.matches("refuses this").count() == 1 && text.contains("(and the same at 127.0.0.1:"), "{text}");
    assert!(watched.sentinels.iter().all(|sentinel| text.contains(&sentinel.addr().to_string())), "{text}");
}
