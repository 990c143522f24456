//! Semaphores: the data have the layout of Redisson's RPermitExpirableSemaphore, as recorded from Redisson 4.7.0.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{Claim, ClaimId, ErrorKind, Inspect, Key, Kind, Leases, Pattern, Released, Renewal, Verdict};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RedisServer, Reply};

use crate::{
    help::{
        TTL, backend, claim, granted, is_granted, lock_user_url, no_message, now_ms, operator, pass, release, renew,
        take,
    },
    layout::subscriber,
};

/// The time of a permit that never expires, in Redisson.
const NEVER: &str = "922337203685477";
/// Names of semaphores with the keys of their permits and their channels.
const NAMES: [(&str, &str, &str); 4] = [
    ("plain", "{plain}:timeout", "redisson_sc:{plain}"),
    ("{tag}:a", "{tag}:a:timeout", "redisson_sc:{tag}:a"),
    ("a{b}c", "a{b}c:timeout", "redisson_sc:a{b}c"),
    ("中文 name", "{中文 name}:timeout", "redisson_sc:{中文 name}"),
];

fn permits(name: &str, take: u32, of: u32) -> Claim {
    let [take, of] = [take, of].map(|number| NonZeroU32::new(number).unwrap());
    Claim { kind: Kind::Permits { take, of }, joins: true, ..claim(name) }
}

/// A permit that a Java client has taken. The number of permits that are left is not changed.
fn java_holds(server: &RedisServer, until: &str) {
    server.cmd(&["ZADD", "{k}:timeout", until, "java-permit-0001"]);
}

// Promise: X5
#[tokio::test]
async fn permits_are_a_number_and_a_sorted_set_with_times() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for (name, key, channel) in NAMES {
        let mut subscription = subscriber(&server, channel);
        let id: ClaimId = "00112233-4455-8677-8899-aabbccddeeff:7".parse().unwrap();
        let two = Claim { id, ..permits(name, 2, 5) };
        let asked = now_ms();
        let fences = granted(take(&redis, &two).await.unwrap());
        assert_eq!(server.cmd(&["GET", name]).text(), "3");
        assert_eq!(server.pttl(name), -1);
        // The ids are the first 16 bytes of the SHA-256 hashes of the claim's id, a colon, and 0 or 1.
        let ids = [0x49ce_fa8c_3ec5_17f0_6326_af3e_c29c_5088_u128, 0x1848_291d_b4e4_a6b7_8c73_76a4_3c23_9fc9];
        let reply = server.cmd(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
        let [first, score, second, same_score] = reply.array() else { panic!("{reply:?}") };
        let mut found = [first, second].map(|id| match id {
            Reply::Bytes(bytes) => u128::from_be_bytes(bytes.as_slice().try_into().unwrap()),
            other => panic!("{other:?}"),
        });
        found.sort_by_key(|id| *id != ids[0]);
        assert_eq!(found, ids);
        // The permits stay for 2 s after the ttl, because the clocks of Java clients may be ahead.
        let until: i64 = score.text().parse().unwrap();
        assert!((asked + 31_000..=now_ms() + 33_000).contains(&until), "{until}");
        assert_eq!(score, same_score);
        let mut keys = [name, key].map(String::from).to_vec();
        let tag = &channel["redisson_sc:".len()..];
        keys.extend(["redisson_lock_token:", "bandog:held:"].map(|prefix| format!("{prefix}{tag}")));
        keys.sort();
        assert_eq!(server.keys(), keys);
        let left = server.pttl(&format!("bandog:held:{tag}"));
        assert!((31_000..=32_000).contains(&left), "{left}");
        // A new semaphore publishes its permits. A release publishes the new number.
        assert_eq!(subscription.read().unwrap().texts(), ["message", channel, "5"]);
        assert_eq!(granted(take(&redis, &two).await.unwrap()), fences);
        assert_eq!(release(&redis, &two).await.unwrap(), Released::Freed { others: Some(1) });
        assert_eq!(subscription.read().unwrap().texts(), ["message", channel, "5"]);
        assert_eq!(release(&redis, &two).await.unwrap(), Released::NotHeld);
        no_message(&mut subscription);
        assert_eq!(server.cmd(&["GET", name]).text(), "5");
        assert_eq!(server.cmd(&["EXISTS", key]).int(), 0);
        server.cmd(&["FLUSHALL"]);
    }
}

// Promise: X6
#[tokio::test]
async fn permits_of_redisson_count_and_expire() {
    let server = RedisServer::start();
    let redis = backend(&server);
    server.cmd(&["SET", "k", "1"]);
    java_holds(&server, NEVER);
    let (one, two) = (permits("k", 1, 2), permits("k", 2, 2));
    let busy = take(&redis, &two).await.unwrap();
    assert_eq!(busy, Verdict::Busy { retry_after: Duration::from_secs(1), ahead: None }, "it never expires");
    assert!(is_granted(&redis, &one).await);
    assert!(!is_granted(&redis, &two).await);
    // A permit that has expired is returned by the next call, which publishes the new number, as Redisson does.
    let mut subscription = subscriber(&server, "redisson_sc:{k}");
    java_holds(&server, "1000");
    assert!(!is_granted(&redis, &two).await);
    assert_eq!(subscription.read().unwrap().texts()[2], "1");
    assert_eq!(server.cmd(&["GET", "k"]).text(), "1");
    release(&redis, &one).await.unwrap();
    assert!(is_granted(&redis, &two).await);
}

#[tokio::test]
async fn expired_permits_are_returned_by_their_release_or_by_the_next_claim() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (first, second, all) = (permits("k", 2, 4), permits("k", 2, 4), permits("k", 4, 4));
    for claim in [&first, &second] {
        granted(take(&redis, claim).await.unwrap());
    }
    let expire = "for _, id in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do redis.call('zadd', KEYS[1], 5, id) end";
    server.cmd(&["EVAL", expire, "1", "{k}:timeout"]);
    assert_eq!(renew(&redis, &second).await.unwrap(), Renewal::Gone);
    assert_eq!(release(&redis, &first).await.unwrap(), Released::NotHeld);
    assert_eq!(server.cmd(&["GET", "k"]).text(), "2");
    assert!(is_granted(&redis, &all).await);
    assert_eq!(server.cmd(&["HKEYS", "bandog:held:{k}"]).texts(), [all.id.to_string()]);
}

// Promise: RD20
#[tokio::test]
async fn a_lost_number_is_computed_from_the_limit_and_the_permits_that_are_taken() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (two, one) = (permits("k", 2, 5), permits("k", 1, 5));
    granted(take(&redis, &two).await.unwrap());
    server.cmd(&["DEL", "k"]);
    granted(take(&redis, &one).await.unwrap());
    assert_eq!(server.cmd(&["GET", "k"]).text(), "2");
    // A release does not create the number, because it does not know the limit.
    server.cmd(&["DEL", "k"]);
    release(&redis, &two).await.unwrap();
    assert_eq!(server.cmd(&["EXISTS", "k"]).int(), 0);
    assert!(is_granted(&redis, &permits("k", 4, 5)).await);
}

#[tokio::test]
async fn another_limit_is_refused_until_the_limit_is_changed() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = permits("k", 2, 3);
    granted(take(&redis, &held).await.unwrap());
    let keys = server.keys();
    let error = take(&redis, &permits("k", 1, 5)).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Misused, Some("claim")));
    assert!(error.to_string().contains("has 3 permits") && error.to_string().contains("has 5"), "{error}");
    let chain = format!("{error} {:?}", std::error::Error::source(&error));
    assert_eq!(chain.matches("has 3 permits").count(), 1, "{chain}");
    assert_eq!(take(&redis, &permits("k", 4, 3)).await.unwrap_err().kind(), ErrorKind::Misused);
    assert_eq!(server.keys(), keys);
    let mut subscription = subscriber(&server, "redisson_sc:{k}");
    for _ in 0..2 {
        redis.set_limit(&held.key, NonZeroU32::new(5).unwrap()).await.unwrap();
        assert_eq!(subscription.read().unwrap().texts()[2], "5");
        assert_eq!(server.cmd(&["GET", "k"]).text(), "3");
    }
    assert_eq!(server.cmd(&["GET", "bandog:limit:{k}"]).text(), "3");
    let left = server.pttl("bandog:limit:{k}");
    assert!(left > 29 * 24 * 3_600_000, "{left}");
    // Claims with the former limit are accepted, and claims with any other are not.
    assert!(is_granted(&redis, &permits("k", 1, 3)).await && is_granted(&redis, &permits("k", 1, 5)).await);
    assert_eq!(take(&redis, &permits("k", 1, 4)).await.unwrap_err().kind(), ErrorKind::Misused);
    // A lower limit than the number of permits that are taken makes the number negative, as in Redisson.
    redis.set_limit(&held.key, NonZeroU32::new(1).unwrap()).await.unwrap();
    assert_eq!(server.cmd(&["GET", "k"]).text(), "-3");
    let mut other = subscriber(&server, "redisson_sc:{k}");
    release(&redis, &held).await.unwrap();
    no_message(&mut other);
    assert!(!is_granted(&redis, &permits("k", 1, 1)).await);
}

#[tokio::test]
async fn a_starving_claim_has_a_place_that_others_respect() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (first, starving) = (permits("k", 1, 3), Claim { offers: true, ..permits("k", 3, 3) });
    granted(take(&redis, &first).await.unwrap());
    assert!(!is_granted(&redis, &starving).await);
    assert!(!is_granted(&redis, &permits("k", 1, 3)).await);
    for key in ["bandog:waiting:{k}", "bandog:order:{k}"] {
        assert!((1..=5000).contains(&server.pttl(key)), "{key}");
    }
    assert_eq!(renew(&redis, &starving).await.unwrap(), Renewal::Waiting { is_next: false });
    assert_eq!(operator(&server).show(&first.key).await.unwrap().queue, [starving.id.to_string()]);
    let mut subscription = subscriber(&server, "redisson_sc:{k}");
    assert_eq!(release(&redis, &starving).await.unwrap(), Released::LeftQueue);
    assert_eq!(subscription.read().unwrap().texts()[2], "2");
    assert!(is_granted(&redis, &permits("k", 1, 3)).await);
    assert_eq!(server.cmd(&["EXISTS", "bandog:waiting:{k}", "bandog:order:{k}"]).int(), 0);
}

#[tokio::test]
async fn a_pass_gives_the_permits_to_another_claim_without_a_message() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (from, to, more) = (permits("k", 2, 3), permits("k", 2, 3), permits("k", 3, 3));
    let old = granted(take(&redis, &from).await.unwrap());
    let mut subscription = subscriber(&server, "redisson_sc:{k}");
    let new = granted(pass(&redis, &from, &to).await.unwrap());
    assert!(new.clone().take().unwrap() > old.last());
    assert_eq!((server.cmd(&["GET", "k"]).text(), server.cmd(&["ZCARD", "{k}:timeout"]).int()), ("1", 2));
    assert_eq!(granted(pass(&redis, &from, &to).await.unwrap()), new);
    assert_eq!(server.cmd(&["GET", "k"]).text(), "1");
    no_message(&mut subscription);
    assert_eq!(pass(&redis, &to, &more).await.unwrap_err().kind(), ErrorKind::Misused);
    assert_eq!(release(&redis, &from).await.unwrap(), Released::NotHeld);
}

#[tokio::test]
async fn a_key_that_is_not_a_semaphore_stays_unchanged() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let java = "957c1da6-54c9-4017-93c7-a4ef987df61c:19";
    for plant in [&["SET", "k", "text"][..], &["SET", "k", "1.5"], &["RPUSH", "k", "1"], &["HSET", "k", java, "1"]] {
        server.cmd(plant);
        let before = server.cmd(&["DUMP", "k"]);
        let (wanted, key) = (permits("k", 1, 2), Key::new("k").unwrap());
        assert_eq!(take(&redis, &wanted).await.unwrap_err().kind(), ErrorKind::Denied, "{plant:?}");
        assert_eq!(release(&redis, &wanted).await.unwrap_err().kind(), ErrorKind::Denied, "{plant:?}");
        let error = redis.set_limit(&key, NonZeroU32::MIN).await.unwrap_err();
        assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("set_limit")));
        assert_eq!((server.cmd(&["DUMP", "k"]), server.keys()), (before, vec!["k".to_owned()]));
        server.cmd(&["DEL", "k"]);
    }
    let huge = permits("k", 2_000_000_000, 2_000_000_000);
    assert_eq!(take(&redis, &huge).await.unwrap_err().kind(), ErrorKind::Misused);
}

#[tokio::test]
async fn operators_see_and_evict_all_holders() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let ours = permits("k", 2, 4);
    let fences = granted(take(&redis, &ours).await.unwrap());
    server.cmd(&["DECRBY", "k", "1"]);
    java_holds(&server, NEVER);
    granted(take(&redis, &permits("a{b}c", 1, 1)).await.unwrap());
    server.cmd(&["ZADD", "{other}:timeout", NEVER, "not a semaphore"]);
    server.cmd(&["RPUSH", "other", "x"]);
    let names = |rows: Vec<bandog_core::Row>| rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
    assert_eq!(names(redis.list(&Pattern::all()).await.unwrap()), ["a{b}c", "k"]);
    assert_eq!(names(redis.list(&Pattern::new("k*")).await.unwrap()), ["k"]);
    let row = redis.show(&ours.key).await.unwrap();
    let java = "java-permit-0001".bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        row.holders.iter().map(|holder| holder.owner.clone()).collect::<Vec<_>>(),
        [Some(java), Some(ours.id.to_string())]
    );
    assert_eq!((row.holders[1].kind, row.holders[1].last_fence), (Some(ours.kind), Some(fences.last())));
    let mut subscription = subscriber(&server, "redisson_sc:{k}");
    assert_eq!(redis.evict(&ours.key).await.unwrap().unwrap().holders.len(), 2);
    assert_eq!(subscription.read().unwrap().texts()[2], "4");
    assert_eq!(server.cmd(&["GET", "k"]).text(), "4");
    assert_eq!(redis.evict(&ours.key).await.unwrap(), None);
    assert_eq!(renew(&redis, &ours).await.unwrap(), Renewal::Gone);
}

#[tokio::test]
async fn a_grant_to_a_starving_claim_publishes_the_permits_that_remain() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (held, mut subscription) = (permits("k", 3, 3), subscriber(&server, "redisson_sc:{k}"));
    for (starving, remaining) in [(1, Some("2")), (2, Some("1")), (3, None)] {
        granted(take(&redis, &held).await.unwrap());
        let starving = Claim { offers: true, ..permits("k", starving, 3) };
        assert!(!is_granted(&redis, &starving).await);
        release(&redis, &held).await.unwrap();
        // The first claim has set the number of permits, and the release has returned them.
        let mut messages = vec!["3", "3"];
        assert!(!is_granted(&redis, &permits("k", 1, 3)).await, "the claim has taken a permit before the starving one");
        assert!(is_granted(&redis, &starving).await);
        messages.extend(remaining);
        // A repeated claim, and a claim without a place, publish nothing.
        assert!(is_granted(&redis, &starving).await);
        let next = permits("k", 1, 3);
        assert_eq!(is_granted(&redis, &next).await, remaining.is_some());
        for message in messages {
            assert_eq!(subscription.read().unwrap().texts()[2], message);
        }
        no_message(&mut subscription);
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn the_time_for_the_clocks_of_java_clients_can_be_set() {
    let server = RedisServer::start();
    let options = RedisOptions::from_url(&lock_user_url(server.addr())).unwrap();
    let redis = Redis::new(options.java_skew(Duration::from_secs(60))).unwrap();
    let held = permits("k", 1, 1);
    take(&redis, &held).await.unwrap();
    let score =
        |server: &RedisServer| server.cmd(&["ZRANGE", "{k}:timeout", "0", "0", "WITHSCORES"]).array()[1].clone();
    for _ in 0..2 {
        let left = score(&server).text().parse::<i64>().unwrap() - now_ms();
        assert!((85_000..=91_000).contains(&left), "{left}");
        assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: TTL });
    }
}

/// The permits of a semaphore with an expired permit do not change if the user lacks a right to return it.
#[tokio::test]
async fn an_expired_permit_is_not_returned_twice_if_a_right_is_missing() {
    let server = RedisServer::start();
    let redis = crate::help::at(&format!("redis://u:p@{}", server.addr()));
    server.cmd(&["SET", "k", "1"]);
    java_holds(&server, "1000");
    let wanted = permits("k", 1, 2);
    for rules in [&["-zrem"][..], &["-incrby"], &["resetkeys", "~k", "~redisson*", "~bandog*", "%R~*"]] {
        server.cmd(&[&["ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all"], rules].concat());
        for _ in 0..2 {
            assert_eq!(take(&redis, &wanted).await.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
            let limit = redis.set_limit(&wanted.key, NonZeroU32::new(2).unwrap()).await;
            assert_eq!(limit.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
            assert_eq!(server.cmd(&["GET", "k"]).text(), "1", "{rules:?}");
            assert_eq!(server.cmd(&["ZSCORE", "{k}:timeout", "java-permit-0001"]).text(), "1000", "{rules:?}");
        }
    }
    server.cmd(&["ACL", "SETUSER", "u", "+@all", "~*"]);
    granted(take(&redis, &wanted).await.unwrap());
    assert_eq!(server.cmd(&["GET", "k"]).text(), "1");
}

#[tokio::test]
async fn an_eviction_that_lacks_a_right_makes_no_permits() {
    let server = RedisServer::start();
    let held = permits("k", 2, 5);
    granted(take(&backend(&server), &held).await.unwrap());
    let redis = crate::help::at(&format!("redis://u:p@{}", server.addr()));
    for rules in [&["resetkeys", "~k", "%R~*"][..], &["-incrby"], &["-zrem"]] {
        server.cmd(&[&["ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all"], rules].concat());
        assert_eq!(redis.evict(&held.key).await.unwrap_err().kind(), ErrorKind::Denied, "{rules:?}");
        assert_eq!(server.cmd(&["GET", "k"]).text(), "3", "{rules:?}");
        assert_eq!(server.cmd(&["ZCARD", "{k}:timeout"]).int(), 2, "{rules:?}");
    }
    server.cmd(&["ACL", "SETUSER", "u", "+@all"]);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(redis.evict(&held.key).await.unwrap().is_some());
    assert_eq!(server.cmd(&["GET", "k"]).text(), "5");
    assert_eq!(server.cmd(&["EXISTS", "{k}:timeout"]).int(), 0);
}

/// A latch is a number, too.
#[tokio::test]
async fn a_free_semaphore_is_shown_as_a_semaphore_and_a_latch_is_not() {
    let server = RedisServer::start();
    for layout in ["", "?semaphores=plain"] {
        let redis = crate::help::at(&format!("redis://{}@{}{layout}", RedisServer::OPERATOR, server.addr()));
        let ours = permits("k", 1, 3);
        granted(take(&redis, &ours).await.unwrap());
        release(&redis, &ours).await.unwrap();
        let row = redis.show(&ours.key).await.unwrap();
        assert_eq!((row.is_held(), row.kind), (false, Some(ours.kind)), "{layout}");
        assert_eq!(redis.list(&bandog_core::Pattern::all()).await.unwrap(), [], "{layout}");
        assert_eq!(redis.evict(&ours.key).await.unwrap(), None, "{layout}");
        let latch = crate::latches::set("latch", 3);
        bandog_core::Latches::change_latch(&redis, &latch).await.unwrap();
        assert_eq!(redis.show(&latch.key).await.unwrap().kind, None, "{layout}");
        server.cmd(&["DEL", "bandog:ops:{latch}"]);
        assert_eq!(redis.show(&latch.key).await.unwrap().kind, None, "{layout}");
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_semaphore_and_a_latch_refuse_each_others_names() {
    let server = RedisServer::start();
    for layout in ["", "?semaphores=plain"] {
        let redis = crate::help::at(&format!("redis://{}@{}{layout}", RedisServer::OPERATOR, server.addr()));
        let ours = permits("k", 1, 3);
        granted(take(&redis, &ours).await.unwrap());
        let error = bandog_core::Latches::change_latch(&redis, &crate::latches::set("k", 3)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{layout}");
        assert!(error.to_string().contains("in use as a semaphore"), "{error}");
        assert_eq!(server.cmd(&["GET", "k"]).text(), "2");
        // The name of a free semaphore is also refused: nothing would give the permits back.
        release(&redis, &ours).await.unwrap();
        for operation in [crate::latches::set("k", 3), crate::latches::down("k", 1), crate::latches::delete("k")] {
            let error = bandog_core::Latches::change_latch(&redis, &operation).await.unwrap_err();
            assert!(error.to_string().contains("in use as a semaphore"), "{layout}: {error}");
        }
        assert_eq!(server.cmd(&["GET", "k"]).text(), "3");
        let latch = crate::latches::set("latch", 3);
        bandog_core::Latches::change_latch(&redis, &latch).await.unwrap();
        let keys = server.keys();
        let error = take(&redis, &permits("latch", 1, 3)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{layout}");
        assert!(error.to_string().contains("in use as a latch"), "{error}");
        assert_eq!((server.cmd(&["GET", "latch"]).text(), server.keys()), ("3", keys));
        server.cmd(&["FLUSHALL"]);
    }
}
