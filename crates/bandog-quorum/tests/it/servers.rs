//! Faults of real Redis servers.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bandog_conformance::Census;
use bandog_core::{ErrorKind, Fence, Inspect, Kind, Leases, LockState, Moment, Pattern, Step};
use bandog_quorum::{Quorum, QuorumOptions};
use bandog_redis::{Redis, RedisOptions};
use bandog_sync::Client;
use bandog_testkit::{RedisServer, Reply, eventually_async};

use crate::{
    memories::{claim, step, take},
    node::{TestNode, redis},
};

const SOON: Duration = Duration::from_secs(20);
const KEY: &str = "redisson_lock_token:{orders}";

fn servers(number: usize) -> Vec<RedisServer> {
    (0..number).map(|_| RedisServer::start()).collect()
}

fn backend(url: &str) -> Redis {
    let timeout = QuorumOptions::default().node_timeout();
    Redis::new(RedisOptions::from_url(url).unwrap().timeout(timeout)).unwrap()
}

/// A quorum of servers that report that they started long ago.
fn quorum(servers: &[RedisServer]) -> Quorum<TestNode<Redis>> {
    let nodes = servers.iter().map(|server| TestNode::old(backend(&redis(server))));
    Quorum::new(nodes, QuorumOptions::default()).unwrap()
}

/// A quorum of servers that report their real uptime. The ttl is at most a second.
fn young(servers: &[RedisServer]) -> Quorum<Redis> {
    let options = QuorumOptions::default().max_ttl(Duration::from_secs(1));
    Quorum::new(servers.iter().map(|server| backend(&redis(server))), options).unwrap()
}

/// Catalogued fault F48.
// Promise: RQ1
#[tokio::test]
async fn no_call_takes_longer_than_one_node_may_take_while_two_of_five_are_stopped() {
    let servers = servers(5);
    let (quorum, limit) = (quorum(&servers), QuorumOptions::default().node_timeout());
    quorum.ping().await.unwrap();
    servers[1].pause();
    servers[4].pause();
    let mut times = Vec::new();
    for _ in 0..100 {
        let ours = claim(Kind::Mutex);
        let mut timed = |start: Instant| times.push(start.elapsed());
        let start = Instant::now();
        assert!(take(&quorum, &ours).await.is_some());
        timed(start);
        let start = Instant::now();
        quorum.renew(std::slice::from_ref(&ours)).await.remove(0).unwrap();
        timed(start);
        let start = Instant::now();
        step(&quorum, Step::Release(ours)).await.unwrap();
        timed(start);
    }
    times.sort_unstable();
    let (middle, longest) = (times[times.len() / 2], times[times.len() - 1]);
    // A call that waited for one stopped server after the other would take twice the limit. The rest up to that is the load
    // of the machine. Most calls wait for no stopped server at all.
    assert!(longest < limit * 2 && middle < limit / 2, "a call took {longest:?}, and half of them at least {middle:?}");
    servers[1].resume();
    servers[4].resume();
}

// Promise: RQ2
#[tokio::test]
async fn a_server_votes_when_it_has_run_for_the_maximum_ttl() {
    let servers = servers(3);
    let (quorum, ours) = (young(&servers), claim(Kind::Mutex));
    let ours = bandog_core::Claim { ttl: Duration::from_secs(1), ..ours };
    quorum.ping().await.unwrap();
    let error = step(&quorum, Step::Claim(ours.clone())).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("has no vote"), "{error}");
    eventually_async(SOON, async || step(&quorum, Step::Claim(ours.clone())).await).await;
}

// Promise: RQ5
#[tokio::test]
async fn a_server_that_hides_its_uptime_is_refused() {
    let servers = servers(3);
    let urls = servers.iter().map(|server| format!("redis://{}@{}", RedisServer::LEAST, server.addr()));
    let nodes: Vec<_> = urls.map(|url| backend(&url)).collect();
    let error = Quorum::new(nodes, QuorumOptions::default()).unwrap().ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("hides its uptime"), "{error}");
}

// Promise: RQ9
#[tokio::test]
async fn the_servers_store_the_max_ttl_and_refuse_a_client_with_another_one() {
    const SETTING: [&str; 2] = ["GET", "bandog:setting:quorum:max_ttl"];
    let servers = servers(3);
    let (first, second) = (quorum(&servers), young(&servers));
    first.ping().await.unwrap();
    let is_stored =
        |server: &RedisServer| matches!(server.cmd(&SETTING), Reply::Text(text) if text == "60000ms of 3 nodes");
    eventually_async(SOON, async || servers.iter().filter(|server| is_stored(server)).count() >= 2).await;
    let error = second.ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("is 1s here") && error.to_string().contains("use 1m"), "{error}");
    // It is not a lock.
    assert!(first.list(&Pattern::all()).await.unwrap().is_empty());
    // A restarted server stores it again, although nothing is claimed.
    for server in &servers {
        server.restart();
        eventually_async(SOON, async || is_stored(server)).await;
    }
}

/// Catalogued fault F14: the lease expires too early at a server whose clock jumps, and its fences are ahead.
// Promise: RQ2
#[tokio::test]
async fn one_server_with_a_wrong_clock_grants_nothing_alone() {
    let servers = servers(3);
    let (first, second) = (quorum(&servers), quorum(&servers));
    let (ours, theirs) = (claim(Kind::Mutex), claim(Kind::Mutex));
    let before = take(&first, &ours).await.unwrap();
    servers[0].cmd(&["DEL", "orders"]);
    let ahead = before.last().get() + 60_000_000;
    servers[0].cmd(&["SET", KEY, &ahead.to_string()]);
    for _ in 0..20 {
        assert!(take(&second, &theirs).await.is_none());
    }
    step(&first, Step::Release(ours)).await.unwrap();
    let after = eventually_async(SOON, async || take(&second, &theirs).await).await;
    assert!(after.last() > before.last());
}

/// The servers lose their data one after the other. A server votes again when it has run for the maximum ttl.
// Promise: RQ3
#[tokio::test]
async fn fences_rise_while_servers_restart_empty() {
    let servers = servers(3);
    let quorum = young(&servers);
    let (mut last, mut grants) = (Fence::new(0), 0);
    for round in 0..4 {
        let until = grants + 250;
        while grants < until {
            let ours = bandog_core::Claim { ttl: Duration::from_secs(1), ..claim(Kind::Mutex) };
            let mut fences = eventually_async(SOON, async || {
                step(&quorum, Step::Claim(ours.clone())).await.ok().and_then(crate::memories::granted)
            })
            .await;
            assert!(fences.take() > Some(last), "grant {grants} of round {round}");
            last = fences.last();
            grants += 1;
            step(&quorum, Step::Release(ours)).await.unwrap();
        }
        servers[round % 3].restart();
        // All three servers vote again before the next one restarts.
        let uptime = async || {
            let info = servers[round % 3].cmd(&["INFO", "server"]);
            let line = info.text().lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
            line.unwrap().trim().parse::<u32>().unwrap()
        };
        eventually_async(SOON, async || uptime().await >= 3).await;
    }
}

/// Each server restarts without its data, twice, while clients hold locks of all kinds. All restarts together take longer
/// than the ttl.
// Promise: RQ6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_the_servers_ends_no_hold() {
    const TTL: Duration = Duration::from_secs(6);
    let servers = servers(3);
    let quorum = |servers: &[RedisServer]| {
        let nodes = servers.iter().map(|server| backend(&redis(server)));
        Quorum::new(nodes, QuorumOptions::default().max_ttl(TTL)).unwrap()
    };
    let client: Client = Client::options().watchdog(TTL).over(quorum(&servers)).unwrap();
    let other: Client = Client::options().watchdog(TTL).over(quorum(&servers)).unwrap();
    let mutex = eventually_async(SOON, async || client.mutex("mutex").lock().await).await;
    let (one, two) = (client.rwlock("shared").read().await.unwrap(), other.rwlock("shared").read().await.unwrap());
    let writer = client.rwlock("exclusive").write().await.unwrap();
    let is_lost = || [mutex.is_lost(), one.is_lost(), two.is_lost(), writer.is_lost()];
    let has_all = async |server: &RedisServer| {
        for (key, fields) in [("mutex", 1), ("shared", 3), ("exclusive", 2)] {
            eventually_async(SOON, async || {
                assert_eq!(is_lost(), [false; 4]);
                server.cmd(&["HLEN", key]).int() == fields
            })
            .await;
        }
    };
    // It is possible that only two of the servers had a vote at the first grant.
    for server in &servers {
        has_all(server).await;
    }
    for server in servers.iter().chain(&servers) {
        server.kill();
        let down = Instant::now();
        eventually_async(SOON, async || {
            assert_eq!(is_lost(), [false; 4]);
            down.elapsed() > TTL / 4
        })
        .await;
        server.restart();
        has_all(server).await;
        // The server has no vote yet, and the others have the holds.
        assert!(matches!(other.mutex("mutex").try_lock().await, Ok(None) | Err(_)));
        assert!(matches!(other.rwlock("shared").try_write().await, Ok(None) | Err(_)));
        assert!(matches!(other.rwlock("exclusive").try_read().await, Ok(None) | Err(_)));
    }
    assert_eq!(is_lost(), [false; 4]);
    let fence = mutex.fence();
    mutex.release().await.unwrap();
    let next = eventually_async(SOON, async || other.mutex("mutex").try_lock().await.ok().flatten()).await;
    assert!(next.fence() > fence);
}

/// The number of commands that these servers execute in two seconds, including those of scripts.
async fn commands_in_two_seconds(servers: &[RedisServer]) -> u64 {
    let of = |server: &RedisServer| {
        let stats = server.cmd(&["INFO", "stats"]);
        let number = stats.text().lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap();
        number.trim().parse::<u64>().unwrap()
    };
    let all = || servers.iter().map(of).sum::<u64>();
    let before = all();
    tokio::time::sleep(Duration::from_secs(2)).await;
    all() - before
}

// Promise: RQ10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_pauses_while_one_server_refuses_writes_or_is_free() {
    let servers = servers(3);
    let [holder, waiting] = [(); 2].map(|()| Client::options().over(quorum(&servers)).unwrap());
    let guard = eventually_async(SOON, async || holder.mutex("orders").lock().await).await;
    let waiter = tokio::spawn({
        let mutex = waiting.mutex("orders");
        async move { mutex.lock().await.unwrap().fence() }
    });
    // The first claim, the subscription, and the next claim.
    let is_subscribed =
        |server: &RedisServer| server.cmd(&["PUBSUB", "CHANNELS"]).texts().iter().any(|name| name.contains("orders"));
    eventually_async(SOON, async || servers.iter().all(is_subscribed)).await;
    servers[2].cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let refusing = commands_in_two_seconds(&servers).await;
    servers[2].cmd(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    servers[2].cmd(&["DEL", "orders"]);
    let free = commands_in_two_seconds(&servers).await;
    println!("commands in two seconds: {refusing} and {free}");
    assert!(refusing < 400 && free < 200, "{refusing} and {free} commands in two seconds");
    let fence = guard.fence();
    guard.release().await.unwrap();
    assert!(waiter.await.unwrap() > fence);
}

/// Redis and the rules of a lock agree on the fences of claims that name a fence to exceed.
// Promise: RQ3
#[tokio::test]
async fn redis_raises_fences_as_the_rules_say() {
    // The fences are far above the server's time.
    const BASE: u64 = 4_000_000_000_000_000;
    let server = RedisServer::start();
    let redis = backend(&redis(&server));
    let mut random = fastrand::Rng::with_seed(16);
    for kinds in [&[Kind::Mutex][..], &[Kind::Write], &[Kind::Read, Kind::Read], &[Kind::Read, Kind::Write]] {
        server.cmd(&["FLUSHALL"]);
        server.cmd(&["SET", KEY, &BASE.to_string()]);
        let mut state = LockState::of_mutex(None, false, Fence::new(BASE));
        let claims: Vec<_> = kinds.iter().map(|kind| claim(*kind)).collect();
        for _ in 0..300 {
            let last = state.fence().get();
            let claim = &claims[random.usize(..claims.len())];
            let above = random.bool().then(|| Fence::new(last + random.u64(..12) - 6));
            let fences = NonZeroU32::new(4).unwrap();
            let claim = bandog_core::Claim { above, fences, ..claim.clone() };
            let wanted = if random.u8(..4) == 0 { Step::Release(claim) } else { Step::Claim(claim) };
            let ruled = state.apply(&wanted, Moment::from_nanos(1)).unwrap();
            let answered = step(&redis, wanted.clone()).await.unwrap();
            let fences = |answer| crate::memories::granted(answer);
            assert_eq!(fences(answered), fences(ruled), "{wanted:?} after {state}");
            assert_eq!(server.cmd(&["GET", KEY]).text(), state.fence().to_string(), "{wanted:?}");
        }
    }
}

/// Tasks of several clients add one to a number under a lock, while one server after the other is stopped.
// Promise: RQ1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_while_servers_are_stopped_at_random() {
    const ADDITIONS: u64 = 30;
    let servers = Arc::new(servers(3));
    let (census, number, is_over) = (Census::default(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let client: Client = Client::options().over(quorum(&servers)).unwrap();
            let (census, number) = (census.clone(), number.clone());
            tokio::spawn(async move {
                let mut added = 0;
                while added < ADDITIONS {
                    let Ok(guard) = client.mutex("number").lock().await else { continue };
                    let stay = census.enter(&guard);
                    let before = number.load(Relaxed);
                    tokio::task::yield_now().await;
                    number.store(before + 1, Relaxed);
                    drop(stay);
                    added += 1;
                    let _ = guard.release().await; // Without an answer, the engine repeats the release.
                }
                added
            })
        })
        .collect();
    let nemesis = tokio::task::spawn_blocking({
        let (servers, is_over) = (servers.clone(), is_over.clone());
        move || {
            let mut random = fastrand::Rng::with_seed(5);
            while !is_over.load(Relaxed) {
                let server = &servers[random.usize(..servers.len())];
                server.pause();
                std::thread::sleep(Duration::from_millis(random.u64(..300)));
                server.resume();
                std::thread::sleep(Duration::from_millis(random.u64(..100)));
            }
        }
    });
    let mut added = 0;
    for task in tasks {
        added += task.await.unwrap();
    }
    is_over.store(true, Relaxed);
    nemesis.await.unwrap();
    assert_eq!(number.load(Relaxed), added);
    assert_eq!(census.entered(), added);
}

/// A server that is down keeps its data if it has persistence.
#[tokio::test]
async fn a_name_is_removed_at_the_servers_that_answer_and_the_error_names_the_others() {
    let servers = servers(3);
    let (quorum, ours) = (quorum(&servers), claim(Kind::Mutex));
    eventually_async(SOON, async || step(&quorum, Step::Claim(ours.clone())).await).await;
    assert!(!quorum.forget(&ours.key).await.unwrap(), "the lock is held");
    step(&quorum, Step::Release(ours.clone())).await.unwrap();
    servers[1].kill();
    let has_token = |server: &RedisServer| matches!(server.cmd(&["EXISTS", KEY]), Reply::Int(1));
    assert!(has_token(&servers[0]) && has_token(&servers[2]));
    // At first the client does not know that the server is down.
    for _ in 0..3 {
        let error = quorum.forget(&ours.key).await.unwrap_err();
        let says = format!(
            "2 of the 3 nodes of the quorum have removed the name; it may stay at these, which have not \
                            answered: redis://{}",
            servers[1].addr()
        );
        assert!(error.is_retryable() && error.to_string().contains(&says), "{error}");
        assert!(!has_token(&servers[0]) && !has_token(&servers[2]));
    }
    servers[2].kill();
    let error = quorum.forget(&ours.key).await.unwrap_err();
    assert!(
        error.to_string().contains("1 of the 3 nodes of the quorum have given an answer that counts, and 2 are needed"),
        "{error}"
    );
}
