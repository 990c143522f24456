//! Plain semaphores: the data have the layout of Redisson's RSemaphore, as recorded from Redisson 4.7.0
//! (`proof/interop/golden/semaphore.txt`).

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{Claim, ErrorKind, Inspect, Key, Kind, Leases, Pattern, Released, Renewal, Row, Verdict};
use bandog_redis::{Redis, RedisOptions, Semaphores};
use bandog_sync::Client;
use bandog_testkit::{RawRedis, RedisServer, Reply, eventually_async};

use crate::{
    help::{SOON, TTL, at as default_at, claim, granted, lock_user_url, pass, release, renew, take},
    layout::subscriber,
};

const CHANNEL: &str = "redisson_sc:{k}";
const PLAIN: &str = "bandog:plain:{k}";
const LEASES: &str = "bandog:leases:{k}";

/// A backend with this layout, whose user has only the rights that locks need.
fn plain(server: &RedisServer) -> Redis {
    at(&lock_user_url(server.addr()))
}

/// A backend with this layout, whose user can also inspect locks.
fn operator(server: &RedisServer) -> Redis {
    at(&format!("redis://{}@{}", RedisServer::OPERATOR, server.addr()))
}

fn at(url: &str) -> Redis {
    let options = RedisOptions::from_url(url).unwrap().semaphores(Semaphores::Plain);
    Redis::new(options.timeout(10 * SOON)).unwrap()
}

fn permits(name: &str, take: u32, of: u32) -> Claim {
    let [take, of] = [take, of].map(number);
    Claim { kind: Kind::Permits { take, of }, joins: true, ..claim(name) }
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

async fn is_granted(redis: &Redis, claim: &Claim) -> bool {
    matches!(take(redis, claim).await.unwrap(), Verdict::Granted { .. })
}

/// The number of permits that are not taken, as Java sees it.
fn available(server: &RedisServer) -> i64 {
    server.cmd(&["GET", "k"]).text().parse().unwrap()
}

/// Lets all our holds in the store expire.
fn expire(server: &RedisServer) {
    for owner in server.cmd(&["ZRANGE", LEASES, "0", "-1"]).texts() {
        server.cmd(&["ZADD", LEASES, "XX", "5", &owner]);
    }
}

#[track_caller]
fn message(subscription: &mut RawRedis) -> String {
    subscription.read().unwrap().texts()[2].clone()
}

#[track_caller]
fn no_message(subscription: &mut RawRedis) {
    subscription.set_patience(Duration::from_millis(20)).unwrap();
    assert!(subscription.read().is_err(), "a message was published");
    subscription.set_patience(SOON).unwrap();
}

// Promise: RD23
#[tokio::test]
async fn the_number_and_the_messages_are_those_of_redisson() {
    let server = RedisServer::start();
    let redis = plain(&server);
    for (name, tag) in [("plain", "{plain}"), ("{tag}:a", "{tag}:a"), ("中文 name", "{中文 name}")] {
        let channel = format!("redisson_sc:{tag}");
        let mut subscription = subscriber(&server, &channel);
        let (one, two) = (permits(name, 1, 3), permits(name, 2, 3));
        let number = || server.cmd(&["GET", name]).text().to_owned();
        // A new semaphore publishes its permits, as trySetPermits does. An acquisition publishes nothing.
        let fences = granted(take(&redis, &one).await.unwrap());
        assert_eq!((number().as_str(), server.pttl(name)), ("2", -1));
        assert_eq!(subscription.read().unwrap().texts(), ["message", channel.as_str(), "3"]);
        granted(take(&redis, &two).await.unwrap());
        assert_eq!(number(), "0");
        no_message(&mut subscription);
        let mut keys: Vec<_> =
            ["redisson_lock_token:", "bandog:plain:", "bandog:leases:"].map(|prefix| format!("{prefix}{tag}")).into();
        keys.push(name.to_owned());
        keys.sort();
        assert_eq!(server.keys(), keys);
        assert_eq!(server.cmd(&["GET", &format!("redisson_lock_token:{tag}")]).text().len(), 16);
        let held = server.hash(&format!("bandog:plain:{tag}"));
        assert_eq!(held[&one.id.to_string()], format!("{} 1", fences.last()));
        assert_eq!((held.len(), held["limit"].as_str()), (3, "3"));
        // The private keys have no ttl: the permits of a dead client return only because of them.
        assert_eq!(server.pttl(&format!("bandog:leases:{tag}")), -1);
        // A release publishes the new number.
        assert_eq!(release(&redis, &one).await.unwrap(), Released::Freed { others: Some(1) });
        assert_eq!((number().as_str(), message(&mut subscription).as_str()), ("1", "1"));
        assert_eq!(release(&redis, &two).await.unwrap(), Released::Freed { others: Some(1) });
        assert_eq!((number().as_str(), message(&mut subscription).as_str()), ("3", "3"));
        assert_eq!(server.hash(&format!("bandog:plain:{tag}")).into_keys().collect::<Vec<_>>(), ["limit"]);
        server.cmd(&["FLUSHALL"]);
    }
}

/// A client repeats a step if its answer was lost.
// Promise: RD23
#[tokio::test]
async fn repeated_steps_count_once() {
    let server = RedisServer::start();
    let redis = plain(&server);
    let (two, next) = (permits("k", 2, 5), permits("k", 2, 5));
    let fences = granted(take(&redis, &two).await.unwrap());
    assert_eq!(granted(take(&redis, &two).await.unwrap()), fences);
    assert_eq!(available(&server), 3);
    let passed = granted(pass(&redis, &two, &next).await.unwrap());
    assert!(passed.clone().take().unwrap() > fences.last());
    assert_eq!(granted(pass(&redis, &two, &next).await.unwrap()), passed);
    assert_eq!(release(&redis, &two).await.unwrap(), Released::NotHeld);
    assert_eq!(available(&server), 3);
    assert_eq!(renew(&redis, &next).await.unwrap(), Renewal::Extended { valid_for: TTL });
    assert!(matches!(release(&redis, &next).await.unwrap(), Released::Freed { .. }));
    assert_eq!(release(&redis, &next).await.unwrap(), Released::NotHeld);
    assert_eq!(renew(&redis, &next).await.unwrap(), Renewal::Gone);
    assert_eq!(available(&server), 5);
}

#[tokio::test]
async fn permits_of_java_count_and_ours_are_seen_by_java() {
    let server = RedisServer::start();
    let redis = plain(&server);
    // Java has created the semaphore with three permits, and has taken two.
    server.cmd(&["SET", "k", "1"]);
    let (one, two) = (permits("k", 1, 3), permits("k", 2, 3));
    assert!(!is_granted(&redis, &two).await);
    assert!(is_granted(&redis, &one).await);
    assert!(!is_granted(&redis, &two).await);
    assert_eq!(available(&server), 0);
    // Java releases two permits.
    server.cmd(&["INCRBY", "k", "2"]);
    assert!(is_granted(&redis, &two).await);
    // Java reduces the permits below zero. Then a release publishes no number that Java could not use.
    server.cmd(&["DECRBY", "k", "3"]);
    let mut subscription = subscriber(&server, CHANNEL);
    release(&redis, &two).await.unwrap();
    assert_eq!(available(&server), -1);
    no_message(&mut subscription);
    release(&redis, &one).await.unwrap();
    assert_eq!((available(&server), message(&mut subscription).as_str()), (0, "0"));
}

/// The next claim of bandog returns the permits of our dead clients. Nothing returns the permits of a dead Java client.
// Promise: RD23
#[tokio::test]
async fn permits_of_our_dead_clients_return_with_our_next_claim() {
    let server = RedisServer::start();
    let redis = plain(&server);
    let (dead, alive) = (permits("k", 2, 4), permits("k", 1, 4));
    granted(take(&redis, &dead).await.unwrap());
    granted(take(&redis, &alive).await.unwrap());
    // A Java client takes one permit and dies.
    server.cmd(&["DECRBY", "k", "1"]);
    let mut subscription = subscriber(&server, CHANNEL);
    expire(&server);
    assert_eq!(available(&server), 0, "nothing has touched the semaphore");
    assert_eq!(renew(&redis, &alive).await.unwrap(), Renewal::Gone);
    assert_eq!(release(&redis, &alive).await.unwrap(), Released::NotHeld);
    assert_eq!((available(&server), message(&mut subscription).as_str()), (1, "1"));
    assert!(!is_granted(&redis, &permits("k", 4, 4)).await);
    assert_eq!((available(&server), message(&mut subscription).as_str()), (3, "3"));
    assert_eq!(release(&redis, &dead).await.unwrap(), Released::NotHeld);
    assert_eq!(available(&server), 3);
    assert_eq!(server.cmd(&["EXISTS", LEASES]).int(), 0);
}

#[tokio::test]
async fn a_lost_number_is_computed_from_the_limit_and_our_permits() {
    let server = RedisServer::start();
    let redis = plain(&server);
    let (two, one) = (permits("k", 2, 5), permits("k", 1, 5));
    granted(take(&redis, &two).await.unwrap());
    server.cmd(&["DEL", "k"]);
    granted(take(&redis, &one).await.unwrap());
    assert_eq!(available(&server), 2);
    // A release does not create the number, because permits of Java may be taken.
    server.cmd(&["DEL", "k"]);
    release(&redis, &two).await.unwrap();
    release(&redis, &one).await.unwrap();
    assert_eq!(server.cmd(&["EXISTS", "k"]).int(), 0);
    // A semaphore that nobody uses can be created with another limit.
    granted(take(&redis, &permits("k", 1, 2)).await.unwrap());
    assert_eq!(available(&server), 1);
}

#[tokio::test]
async fn the_limit_can_be_changed_once_it_is_known() {
    let server = RedisServer::start();
    let (redis, key) = (plain(&server), Key::new("k").unwrap());
    let mut subscription = subscriber(&server, CHANNEL);
    // This creates a semaphore, as trySetPermits does.
    redis.set_limit(&key, number(2)).await.unwrap();
    assert_eq!((available(&server), message(&mut subscription).as_str()), (2, "2"));
    let held = permits("k", 2, 2);
    granted(take(&redis, &held).await.unwrap());
    let error = take(&redis, &permits("k", 1, 5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("has 2 permits") && error.to_string().contains("has 5"), "{error}");
    // This adds permits, as addPermits does, and publishes the new number.
    for _ in 0..2 {
        redis.set_limit(&key, number(5)).await.unwrap();
        assert_eq!((available(&server), message(&mut subscription).as_str()), (3, "3"));
    }
    assert!(is_granted(&redis, &permits("k", 1, 2)).await && is_granted(&redis, &permits("k", 1, 5)).await);
    redis.set_limit(&key, number(1)).await.unwrap();
    assert_eq!(available(&server), -3);
    no_message(&mut subscription);

    server.cmd(&["FLUSHALL"]);
    server.cmd(&["SET", "k", "7"]);
    let error = redis.set_limit(&key, number(3)).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Misused, Some("set_limit")));
    assert!(error.to_string().contains("addPermits"), "{error}");
    assert_eq!(available(&server), 7);
}

#[tokio::test]
async fn a_starving_claim_has_a_place_and_notifies_the_next_claims() {
    let server = RedisServer::start();
    let redis = plain(&server);
    let (first, starving) = (permits("k", 2, 3), Claim { offers: true, ..permits("k", 2, 3) });
    granted(take(&redis, &first).await.unwrap());
    assert!(!is_granted(&redis, &starving).await);
    assert!(!is_granted(&redis, &permits("k", 1, 3)).await);
    assert_eq!(renew(&redis, &starving).await.unwrap(), Renewal::Waiting { is_next: false });
    assert_eq!(operator(&server).show(&first.key).await.unwrap().queue, [starving.id.to_string()]);
    release(&redis, &first).await.unwrap();
    let mut subscription = subscriber(&server, CHANNEL);
    assert!(is_granted(&redis, &starving).await);
    assert_eq!(message(&mut subscription), "1", "claims that waited for this one are not notified");
    assert!(is_granted(&redis, &permits("k", 1, 3)).await);
}

#[tokio::test]
async fn other_data_and_semaphores_with_leases_stay_unchanged() {
    let server = RedisServer::start();
    let (redis, key) = (plain(&server), Key::new("k").unwrap());
    let java = "957c1da6-54c9-4017-93c7-a4ef987df61c:19";
    for plant in [&["SET", "k", "text"][..], &["SET", "k", "1.5"], &["RPUSH", "k", "1"], &["HSET", "k", java, "1"]] {
        server.cmd(plant);
        let before = server.cmd(&["DUMP", "k"]);
        let wanted = permits("k", 1, 2);
        assert_eq!(take(&redis, &wanted).await.unwrap_err().kind(), ErrorKind::Denied, "{plant:?}");
        assert_eq!(release(&redis, &wanted).await.unwrap_err().kind(), ErrorKind::Denied, "{plant:?}");
        assert_eq!(redis.set_limit(&key, NonZeroU32::MIN).await.unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!((server.cmd(&["DUMP", "k"]), server.keys()), (before, vec!["k".to_owned()]));
        server.cmd(&["DEL", "k"]);
    }
    let leased = default_at(&lock_user_url(server.addr()));
    granted(take(&leased, &permits("k", 1, 2)).await.unwrap());
    let error = take(&redis, &permits("k", 1, 2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("with leases"), "{error}");
    assert_eq!(redis.set_limit(&key, NonZeroU32::MIN).await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(available(&server), 1);
}

/// A missing right makes no permits, and loses none.
// Promise: RD23
#[tokio::test]
async fn a_missing_right_changes_no_number() {
    let server = RedisServer::start();
    let redis = plain(&server);
    let limited = at(&format!("redis://u:p@{}", server.addr()));
    let (held, expired) = (permits("k", 1, 5), permits("k", 2, 5));
    granted(take(&redis, &held).await.unwrap());
    granted(take(&redis, &expired).await.unwrap());
    server.cmd(&["ZADD", LEASES, "XX", "5", &expired.id.to_string()]);
    let dump = || {
        let leases = server.cmd(&["ZRANGE", LEASES, "0", "-1", "WITHSCORES"]).texts();
        (server.hash(PLAIN), leases, available(&server))
    };
    let before = dump();
    for rules in [
        &["-incrby"][..],
        &["-zrem"],
        &["-hdel"],
        &["resetkeys", "~k", "~redisson*", "%R~*"],
        &["resetkeys", "~bandog*", "~redisson*", "%R~*"],
        &["resetkeys", "~k", "~redisson*", "~bandog:leases*", "%R~*"],
    ] {
        server.cmd(&[&["ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all"], rules].concat());
        for _ in 0..2 {
            assert_eq!(take(&limited, &permits("k", 1, 5)).await.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
            let limit = limited.set_limit(&held.key, number(9)).await;
            assert_eq!(limit.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
            assert_eq!(release(&limited, &held).await.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
            assert_eq!(dump(), before, "{rules:?}");
        }
    }
    // Nothing has expired any more, so the claim itself needs the rights.
    assert_eq!(release(&redis, &expired).await.unwrap(), Released::NotHeld);
    let before = dump();
    let to = permits("k", 1, 5);
    for rules in [
        &["-incrby"][..],
        &["-zadd"],
        &["-hset"],
        &["-set"],
        &["-zrem"],
        &["-hdel"],
        &["resetkeys", "~k", "~bandog*", "%R~*"],
    ] {
        server.cmd(&[&["ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all"], rules].concat());
        assert_eq!(take(&limited, &to).await.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
        assert_eq!(dump(), before, "a claim without {rules:?}");
        if rules != &["-incrby"][..] {
            assert_eq!(pass(&limited, &held, &to).await.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
            assert_eq!(dump(), before, "a pass without {rules:?}");
        }
    }
}

#[tokio::test]
async fn renewals_and_releases_work_at_the_memory_limit() {
    let server = RedisServer::start();
    let redis = plain(&server);
    let held = permits("k", 1, 5);
    granted(take(&redis, &held).await.unwrap());
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(take(&redis, &permits("k", 1, 5)).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: TTL });
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
    assert_eq!(available(&server), 5);
}

#[tokio::test]
async fn operators_see_our_holders_and_the_number_of_other_permits() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let ours = permits("k", 2, 6);
    let fences = granted(take(&redis, &ours).await.unwrap());
    server.cmd(&["DECRBY", "k", "3"]);
    granted(take(&redis, &claim("mutex")).await.unwrap());
    let outline = |row: &Row| {
        let holders = row.holders.iter().map(|holder| (holder.owner.clone(), holder.kind.unwrap().permits()));
        let mut holders: Vec<_> = holders.collect();
        holders.sort();
        holders
    };
    let row = redis.show(&ours.key).await.unwrap();
    assert_eq!(outline(&row), [(None, 3), (Some(ours.id.to_string()), 2)]);
    let holder = row.holders.iter().find(|holder| holder.owner.is_some()).unwrap();
    assert_eq!((holder.kind, holder.last_fence), (Some(ours.kind), Some(fences.last())));
    let names = async || {
        let rows = redis.list(&Pattern::all()).await.unwrap();
        rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["k", "mutex"]);

    let mut subscription = subscriber(&server, CHANNEL);
    assert_eq!(outline(&redis.evict(&ours.key).await.unwrap().unwrap()).len(), 2);
    assert_eq!((available(&server), message(&mut subscription).as_str()), (3, "3"));
    assert_eq!(renew(&redis, &ours).await.unwrap(), Renewal::Gone);
    // Only Java's permits are left, which nobody can return but Java.
    assert_eq!(outline(&redis.show(&ours.key).await.unwrap()), [(None, 3)]);
    let error = redis.evict(&ours.key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("addPermits"), "{error}");
    server.cmd(&["INCRBY", "k", "3"]);
    assert_eq!(redis.evict(&ours.key).await.unwrap(), None);
    assert!(redis.evict(&Key::new("mutex").unwrap()).await.unwrap().is_some(), "other kinds are evicted as always");
    assert_eq!(names().await, [""; 0]);
}

/// A waiter of Redisson does not poll.
#[tokio::test]
async fn an_eviction_publishes_the_permits_of_claims_that_have_expired() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let ours = permits("k", 1, 1);
    granted(take(&redis, &ours).await.unwrap());
    expire(&server);
    let mut subscription = subscriber(&server, CHANNEL);
    assert_eq!(redis.evict(&ours.key).await.unwrap(), None);
    assert_eq!((available(&server), message(&mut subscription).as_str()), (1, "1"));
    assert_eq!(redis.evict(&ours.key).await.unwrap(), None);
    no_message(&mut subscription);
}

/// A waiter of ours is woken by Java's message.
#[tokio::test]
async fn a_release_of_java_wakes_our_waiter() {
    let server = RedisServer::start();
    server.cmd(&["SET", "k", "0"]);
    let client = Client::over(plain(&server)).unwrap();
    let semaphore = client.semaphore("k", 2);
    let releasing = async {
        let channel = ["PUBSUB", "NUMSUB", CHANNEL];
        eventually_async(SOON, async || server.cmd(&channel).array()[1] == Reply::Int(1)).await;
        server.cmd(&["INCRBY", "k", "1"]);
        server.cmd(&["PUBLISH", CHANNEL, "1"]);
    };
    let (guard, ()) = tokio::time::timeout(SOON, async { tokio::join!(semaphore.acquire(), releasing) }).await.unwrap();
    let guard = guard.unwrap();
    expire(&server);
    assert!(is_granted(&plain(&server), &permits("k", 1, 2)).await);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(available(&server), 0);
}
