//! `replicas=K`: grants and renewals that replicas must acknowledge. The master and its replica are real servers, and a
//! proxy delays or stalls the replication.

use std::time::{Duration, Instant};

use bandog_core::{Claim, ErrorKind, Kind, Leases, Released, Renewal, Verdict};
use bandog_redis::{Redis, RedisOptions};
use bandog_sync::ClientOptions;
use bandog_testkit::{RedisServer, Replica, eventually, eventually_async};
use futures_util::{FutureExt, future::join_all};

use crate::help::{SOON, claim, fences, is_granted, pass, release, renew, take};

const TIMEOUT: Duration = Duration::from_secs(4);
/// A delay of the replication.
const LAG: Duration = Duration::from_millis(50);

/// A master and its replica. The replication goes through a proxy.
struct Pair {
    master: RedisServer,
    replica: Replica,
}

impl Pair {
    fn start() -> Self {
        // The replica gets its first copy at once. The master does not wait for other replicas.
        let master = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
        let replica = RedisServer::replica_of(&master);
        // A replica that has just got its copy may need a second for its first acknowledgement.
        let mut client = master.client();
        client.set_patience(4 * SOON).unwrap();
        client.cmd(&["SET", "bandog:ack", ""]).unwrap();
        assert_eq!(client.cmd(&["WAIT", "1", "15000"]).unwrap().int(), 1);
        Self { master, replica }
    }

    /// Delays the replication by this time, half of it in each direction.
    fn delay(&self, round_trip: Duration) {
        self.replica.stream().delay(round_trip / 2);
    }

    /// While `on` is true, the replica gets nothing, and its connection stays open.
    fn stall(&self, on: bool) {
        self.replica.stream().stall(on);
    }

    fn options(&self) -> RedisOptions {
        RedisOptions::from_url(&self.master.url()).unwrap().replicas(1).timeout(TIMEOUT)
    }

    fn backend(&self) -> Redis {
        Redis::new(self.options()).unwrap()
    }

    /// Number of rounds so far.
    fn rounds(&self) -> u64 {
        self.master.calls("wait")
    }
}

// Promise: RD24
#[tokio::test]
async fn a_grant_and_a_renewal_are_answered_after_the_replica_has_them() {
    let pair = Pair::start();
    let redis = pair.backend();
    pair.delay(LAG);
    let (first, second) = (claim("a"), claim("a"));
    let asked = Instant::now();
    fences(&redis, &first).await;
    assert!(asked.elapsed() >= LAG, "{:?}", asked.elapsed());
    assert_eq!(pair.replica.hash("a").into_keys().collect::<Vec<_>>(), [first.id.to_string()]);
    // A pass.
    assert!(matches!(pass(&redis, &first, &second).await.unwrap(), Verdict::Granted { .. }));
    assert_eq!(pair.replica.hash("a").into_keys().collect::<Vec<_>>(), [second.id.to_string()]);
    let longer = Claim { ttl: Duration::from_secs(90), ..second.clone() };
    assert_eq!(renew(&redis, &longer).await.unwrap(), Renewal::Extended { valid_for: longer.ttl });
    assert!(pair.replica.pttl("a") > 80_000);
    let rounds = pair.rounds();
    assert!(!is_granted(&redis, &claim("a")).await);
    assert_eq!(renew(&redis, &claim("a")).await.unwrap(), Renewal::Gone);
    assert!(matches!(release(&redis, &second).await.unwrap(), Released::Freed { .. }));
    assert_eq!(pair.rounds(), rounds, "a refusal or a release has waited for the replica");
    assert_eq!(pair.master.keys(), ["bandog:ack", "redisson_lock_token:{a}"]);
    assert!(pair.master.pttl("bandog:ack") > 0);
}

// Promise: RD24
#[tokio::test]
async fn without_an_acknowledgement_each_kind_is_refused_and_other_calls_are_not_delayed() {
    let pair = Pair::start();
    let redis = pair.backend();
    let held = claim("held");
    fences(&redis, &held).await;
    pair.stall(true);
    let permits = Kind::Permits { take: 1.try_into().unwrap(), of: 3.try_into().unwrap() };
    let kinds = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, permits];
    let claims: Vec<_> = kinds.iter().map(|kind| Claim { kind: *kind, ..claim(&format!("{kind}")) }).collect();
    let others = async {
        eventually_async(SOON, async || pair.master.calls("wait") >= 2).await;
        assert!(!is_granted(&redis, &claim("held")).await);
        assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }));
        redis.ping().await.unwrap();
        Instant::now()
    };
    let grants = join_all(claims.iter().map(|claim| take(&redis, claim))).map(|grants| (grants, Instant::now()));
    let ((grants, answered), others) = tokio::join!(grants, others);
    assert!(answered > others, "the other calls have waited for the grants");
    for (grant, claim) in grants.into_iter().zip(&claims) {
        let error = grant.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReplicated, "{error}");
        assert!(error.maybe_applied() && error.is_retryable(), "{error}");
        assert!(error.to_string().contains(" bytes behind"), "{error}");
        assert_eq!((error.verb(), error.key()), (Some("claim"), Some(&claim.key)));
    }
    // The same claim is granted when the replica answers again.
    pair.stall(false);
    pair.replica.wait_until_equal(&pair.master);
    for claim in &claims {
        assert!(is_granted(&redis, claim).await);
    }
}

// Promise: RD24
#[tokio::test]
async fn a_renewal_without_an_acknowledgement_has_no_answer() {
    let pair = Pair::start();
    let redis = pair.backend();
    let held = claim("a");
    fences(&redis, &held).await;
    pair.stall(true);
    let answers = redis.renew(&[held.clone(), claim("b")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::NotReplicated, Some("renew")), "{error}");
    assert_eq!(*answers[1].as_ref().unwrap(), Renewal::Gone);
    pair.stall(false);
    pair.replica.wait_until_equal(&pair.master);
    assert!(matches!(renew(&redis, &held).await.unwrap(), Renewal::Extended { .. }));
}

/// A full server refuses new keys and accepts renewals. So the write of a round must not be refused either.
// Promise: RD8
#[tokio::test]
async fn renewals_at_the_memory_limit_are_acknowledged() {
    let pair = Pair::start();
    pair.master.cmd(&["DEL", "bandog:ack"]);
    let redis = pair.backend();
    let held = claim("a");
    fences(&redis, &held).await;
    pair.master.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let longer = Claim { ttl: Duration::from_secs(90), ..held.clone() };
    assert_eq!(renew(&redis, &longer).await.unwrap(), Renewal::Extended { valid_for: longer.ttl });
    assert!(pair.replica.pttl("a") > 80_000);
    // The same on new connections.
    let held = Claim { ttl: Duration::from_secs(180), ..held };
    assert_eq!(renew(&pair.backend(), &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
    assert!(pair.replica.pttl("a") > 170_000);
    assert_eq!(take(&redis, &claim("b")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    // The replica gets nothing, and the renewal is not acknowledged.
    pair.stall(true);
    assert_eq!(renew(&redis, &held).await.unwrap_err().kind(), ErrorKind::NotReplicated);
}

#[tokio::test]
async fn too_few_replicas_are_an_error_at_once() {
    let pair = Pair::start();
    let redis = Redis::new(pair.options().replicas(2)).unwrap();
    let asked = Instant::now();
    let error = take(&redis, &claim("a")).await.unwrap_err();
    assert!(asked.elapsed() < TIMEOUT / 5 * 2, "it has waited for the time limit of WAIT");
    assert_eq!(error.kind(), ErrorKind::NotReplicated);
    let text = error.to_string();
    assert!(text.contains("1 of the 2 replicas that must acknowledge a write are connected: 127.0.0.1:"), "{text}");
}

/// The promise: if the acknowledged replica takes over, it has each lock that was granted. The machine of the master dies
/// while claims are granted and 25 ms of replication are on their way.
// Promise: RD24
#[tokio::test]
async fn the_acknowledged_replica_has_each_granted_lock() {
    let pair = Pair::start();
    let redis = pair.backend();
    fences(&redis, &claim("first")).await;
    pair.delay(LAG);
    let claims: Vec<_> = (0..400).map(|number| claim(&format!("lock-{number}"))).collect();
    // Eight callers claim one lock after another.
    let callers = claims.chunks(50).map(async |claims| {
        let mut granted = Vec::new();
        for claim in claims {
            if is_granted_now(&redis, claim).await {
                granted.push(claim);
            }
        }
        granted
    });
    let dies = async {
        eventually_async(SOON, async || pair.master.cmd(&["DBSIZE"]).int() >= 100).await;
        // Nothing leaves the machine of the master any more.
        pair.stall(true);
        pair.master.kill();
    };
    let granted: Vec<_> = tokio::join!(join_all(callers), dies).0.concat();
    assert!(granted.len() >= 20, "{}", granted.len());
    pair.replica.cmd(&["REPLICAOF", "NO", "ONE"]);
    let lost: Vec<_> = granted.iter().filter(|claim| pair.replica.hash(claim.key.as_str()).is_empty()).collect();
    assert!(lost.is_empty(), "{} of {} granted locks are lost", lost.len(), granted.len());
}

/// 64 callers that claim their own names share rounds.
#[tokio::test]
async fn grants_share_rounds() {
    let pair = Pair::start();
    let redis = pair.backend();
    fences(&redis, &claim("first")).await;
    pair.delay(LAG);
    let rounds = pair.rounds();
    let claims: Vec<_> = (0..64).map(|number| claim(&format!("lock-{number}"))).collect();
    let times = claims.iter().map(async |claim| {
        let asked = Instant::now();
        fences(&redis, claim).await;
        asked.elapsed()
    });
    let times = join_all(times).await;
    let longest = times.iter().max().unwrap();
    assert!(pair.rounds() - rounds <= 8, "{} rounds", pair.rounds() - rounds);
    assert!(*times.iter().min().unwrap() >= LAG);
    // One after the other, they would take 64 of them.
    assert!(*longest < 32 * LAG, "{longest:?}");
}

/// After a failover, the address leads to another server. Its replicas say nothing about the grants of the old server.
// Promise: RD24
#[tokio::test]
async fn acknowledgements_of_another_server_do_not_count() {
    let (old, new) = (Pair::start(), Pair::start());
    // The socket leads to the old server. Then new connections lead to the new one.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    std::os::unix::fs::symlink(old.master.socket(), &path).unwrap();
    let options = RedisOptions::from_url(&format!("redis+unix://{}", path.display())).unwrap();
    let redis = Redis::new(options.replicas(1).timeout(TIMEOUT)).unwrap();
    redis.ping().await.unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(new.master.socket(), &path).unwrap();
    let error = take(&redis, &claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.maybe_applied() && error.to_string().contains("leads to another server"), "{error}");
    assert!(new.master.hash("a").is_empty());
    old.master.kill_clients();
    let again = claim("a");
    eventually_async(SOON, async || is_granted_now(&redis, &again).await).await;
    assert_eq!(new.replica.hash("a").len(), 1);
}

/// A server that was a replica for a moment may have lost the grant, although it is the same server with the same
/// connections.
// Promise: RD24
#[tokio::test]
async fn acknowledgements_after_a_time_as_a_replica_do_not_count() {
    let pair = Pair::start();
    let redis = pair.backend();
    // All connections for acknowledgements are opened.
    for number in 0..8 {
        fences(&redis, &claim(&format!("first {number}"))).await;
    }
    let follow = |server: &RedisServer, master: &RedisServer| {
        server.cmd(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
        eventually(SOON, || server.info("replication", "master_link_status") == "up");
    };
    pair.replica.cmd(&["REPLICAOF", "NO", "ONE"]);
    follow(&pair.master, &pair.replica);
    pair.master.cmd(&["REPLICAOF", "NO", "ONE"]);
    follow(&pair.replica, &pair.master);
    let next = claim("next");
    let error = take(&redis, &next).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{error}");
    assert!(error.to_string().contains("was a replica in between"), "{error}");
    assert_eq!(*redis.profile().epoch.borrow(), 1, "the connection is the same");
    eventually_async(SOON, async || is_granted_now(&redis, &next).await).await;
    assert!(matches!(renew(&redis, &next).await.unwrap(), Renewal::Extended { .. }));
}

async fn is_granted_now(redis: &Redis, claim: &Claim) -> bool {
    matches!(take(redis, claim).await, Ok(Verdict::Granted { .. }))
}

#[tokio::test]
async fn rights_that_acknowledgements_need_are_named() {
    let pair = Pair::start();
    let rights = RedisServer::least_rights().join(" ");
    for (added, is_enough) in [("+wait +info", true), ("+wait", false), ("+info", false), ("+wait +info -set", false)] {
        let rules = format!("reset {rights} {added}");
        pair.master.cmd(&[&["ACL", "SETUSER", "u"], &rules.split(' ').collect::<Vec<_>>()[..], &[">p"]].concat());
        let url = format!("redis://u:p@{}", pair.master.addr());
        let redis = Redis::new(RedisOptions::from_url(&url).unwrap().replicas(1).timeout(TIMEOUT)).unwrap();
        let verdict = take(&redis, &claim(added)).await;
        assert_eq!(verdict.is_ok(), is_enough, "{added}: {verdict:?}");
        let Err(error) = verdict else { continue };
        assert_eq!(error.kind(), ErrorKind::Denied, "{added}: {error}");
        if !added.contains("-set") {
            assert!(error.to_string().contains("SET, WAIT and INFO, and the key bandog:ack"), "{added}: {error}");
        }
    }
}

/// Through the engine: a call that waits tries until its limit, and leaves nothing behind.
// Promise: RD24
#[tokio::test]
async fn a_client_hands_back_a_lock_that_no_replica_has() {
    let pair = Pair::start();
    let client = ClientOptions::default().watchdog(Duration::from_secs(3)).over(pair.backend()).unwrap();
    pair.stall(true);
    let mutex = client.mutex("a");
    let error = mutex.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReplicated, "{error}");
    let error = mutex.try_lock_for(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReplicated, "{error}");
    let is_free = || pair.master.hash("a").is_empty();
    eventually_async(SOON, async || is_free()).await;
    // A call without a limit gets the lock when the replica answers again.
    let answers_again = async {
        eventually_async(SOON, async || !is_free()).await;
        pair.stall(false);
    };
    let guard = tokio::join!(mutex.lock(), answers_again).0.unwrap();
    assert_eq!(pair.replica.hash("a").len(), 1);
    // A lock whose renewals are not acknowledged is lost at its deadline.
    pair.stall(true);
    tokio::time::timeout(2 * SOON, guard.lost()).await.expect("the lock is not lost");
    assert!(guard.release().await.is_err());
    eventually_async(SOON, async || is_free()).await;
    client.close().await.unwrap();
}

/// The engine sends the steps one by one, because the answers to the steps of one call come together. Here grants and
/// releases are sent in the same moment.
#[tokio::test]
async fn a_release_does_not_wait_for_a_grant_of_the_same_client() {
    let pair = Pair::start();
    let client = ClientOptions::default().over(pair.backend()).unwrap();
    let mutexes: Vec<_> = (0..64).map(|number| client.mutex(format!("lock-{number}"))).collect();
    let (held, wanted) = mutexes.split_at(32);
    let guards = join_all(held.iter().map(async |mutex| mutex.lock().await.unwrap())).await;
    pair.stall(true);
    let asked = Instant::now();
    let calls = guards.into_iter().zip(wanted).map(async |(guard, wanted)| {
        let grant = async { (wanted.try_lock().await, asked.elapsed()) };
        tokio::join!(grant, async {
            guard.release().await.unwrap();
            asked.elapsed()
        })
    });
    for ((grant, refused), released) in join_all(calls).await {
        assert_eq!(grant.unwrap_err().kind(), ErrorKind::NotReplicated);
        assert!(released < refused, "a release took {released:?}, and the refusal of a grant {refused:?}");
    }
    client.close().await.unwrap();
}
