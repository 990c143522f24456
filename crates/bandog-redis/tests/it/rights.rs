//! Locks of a user with few rights: a refused command leaves no partial data, and the error names the verb and the key.

use std::collections::BTreeSet;

use bandog_core::{Claim, Error, ErrorKind, Leases, Released, Renewal};
use bandog_redis::Redis;
use bandog_testkit::RedisServer;

use crate::help::{at, claim, fences, granted, pass, release, renew, take};

/// The commands that each verb needs.
const CLAIM: [&str; 8] = ["evalsha", "pttl", "get", "time", "del", "hset", "pexpire", "set"];
const PASS: [&str; 9] = ["evalsha", "pttl", "hexists", "get", "time", "del", "hset", "pexpire", "set"];
const RELEASE: [&str; 3] = ["evalsha", "hexists", "del"];
const RENEW: [&str; 3] = ["evalsha", "hexists", "pexpire"];
const REGISTER: [&str; 3] = ["evalsha", "hset", "pexpire"];
const INDEX: [&str; 3] = ["zadd", "zrem", "zrangebyscore"];
/// The commands that fair locks, read-write locks, semaphores and locks as strings need in addition.
const OTHER_KINDS: [&str; 17] = [
    "hget",
    "hgetall",
    "hlen",
    "hdel",
    "zscore",
    "zcount",
    "zremrangebyscore",
    "zcard",
    "zrank",
    "incrby",
    "zincrby",
    "lindex",
    "lpop",
    "lrange",
    "lrem",
    "rpush",
    "getrange",
];
/// The commands that a call needs in addition to the commands of its verb.
const CONNECTION: [&str; 5] = ["ping", "script|load", "publish", "subscribe", "unsubscribe"];
const TOKEN: &str = "redisson_lock_token:{k}";

#[test]
fn the_documentation_lists_exactly_the_needed_rights() {
    let rules = RedisServer::least_rights();
    let documented: BTreeSet<&str> = rules.iter().filter_map(|rule| rule.strip_prefix('+')).collect();
    let needed = [&CLAIM[..], &PASS, &RELEASE, &RENEW, &REGISTER, &INDEX, &OTHER_KINDS, &CONNECTION].concat();
    assert_eq!(documented, needed.into_iter().collect());
    assert!(rules.contains(&"-@all") && rules.contains(&"&redisson_lock__channel:*"), "{rules:?}");
}

#[tokio::test]
async fn operators_see_the_name_of_each_connection_and_no_refused_command() {
    let (server, redis) = limited();
    let claim = claim("k");
    let subscription = redis.subscribe(&claim, crate::help::notifier().0).await.unwrap();
    assert!(!subscription.is_silent());
    fences(&redis, &claim).await;
    let names = async || {
        let list = format!("{:?}", server.cmd(&["CLIENT", "LIST"]));
        if list.matches(" name=bandog ").count() == 2 { Ok(()) } else { Err(list) }
    };
    bandog_testkit::eventually_async(crate::help::SOON, names).await;
    let log = format!("{:?}", server.cmd(&["ACL", "LOG"]));
    assert!(!log.contains("client|setname") && !log.contains("hello"), "{log}");
}

#[tokio::test]
async fn a_user_limited_to_a_prefix_can_use_the_locks_of_the_prefix() {
    let (server, redis) = limited();
    let keys = "~orders:* ~redisson_lock_token:{orders:* ~bandog:starving:{orders:* ~bandog:client:* ~bandog:clients";
    let channel = "&redisson_lock__channel:{orders:*";
    let page = include_str!("../../../../docs/redis.md");
    assert!(page.contains(&format!("`{keys}`")) && page.contains(&format!("`{channel}`")));
    let rules =
        [&["ACL", "SETUSER", "u", "resetkeys", "resetchannels", channel][..], &keys.split(' ').collect::<Vec<_>>()];
    server.cmd(&rules.concat());
    let (ours, theirs) = (claim("orders:7"), claim("stock:7"));
    fences(&redis, &ours).await;
    redis.register(&crate::help::member(&["orders:7"]), ours.ttl).await.unwrap();
    let subscription = redis.subscribe(&ours, crate::help::notifier().0).await.unwrap();
    assert!(!subscription.is_silent());
    assert_eq!(release(&redis, &ours).await.unwrap(), Released::Freed { others: Some(0) });
    refused(take(&redis, &theirs).await, "claim", &theirs, "~stock:7");
    assert!(redis.subscribe(&theirs, crate::help::notifier().0).await.unwrap().is_silent());
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_locks() {
    let (_server, redis) = limited();
    redis.ping().await.unwrap();
    let (first, second) = (claim("k"), claim("k"));
    fences(&redis, &first).await;
    assert_eq!(renew(&redis, &first).await.unwrap(), Renewal::Extended { valid_for: first.ttl });
    granted(pass(&redis, &first, &second).await.unwrap());
    let subscription = redis.subscribe(&second, crate::help::notifier().0).await.unwrap();
    assert!(!subscription.is_silent());
    assert!(matches!(release(&redis, &second).await.unwrap(), Released::Freed { others: Some(0) }));
}

// Promise: RD10
#[tokio::test]
async fn a_claim_that_lacks_one_right_leaves_nothing_behind() {
    let (server, redis) = limited();
    for right in CLAIM {
        without(&server, right);
        let wanted = claim("k");
        refused(take(&redis, &wanted).await, "claim", &wanted, right);
        assert_eq!(server.keys(), [""; 0], "without {right}");
        with(&server, right);
        fences(&redis, &wanted).await;
        release(&redis, &wanted).await.unwrap();
        server.cmd(&["DEL", TOKEN]);
    }
}

#[tokio::test]
async fn a_pass_that_lacks_one_right_does_not_give_the_lock_to_the_new_owner() {
    let (server, redis) = limited();
    for right in PASS {
        let (from, to) = (claim("k"), claim("k"));
        fences(&redis, &from).await;
        without(&server, right);
        refused(pass(&redis, &from, &to).await, "pass", &to, right);
        let left = server.hash("k");
        // If the refused command is before DEL in the script, the previous owner keeps the lock. If the refused command
        // is after DEL, the lock is free.
        let is_late = ["pexpire", "set"].contains(&right);
        assert_eq!(left.len(), usize::from(!is_late), "without {right}");
        assert!(is_late || (left.contains_key(&from.id.to_string()) && server.pttl("k") > 29_000));
        with(&server, right);
        granted(pass(&redis, &from, &to).await.unwrap());
        release(&redis, &to).await.unwrap();
    }
}

// Promise: RD10
#[tokio::test]
async fn a_release_or_renewal_that_lacks_one_right_changes_nothing() {
    let (server, redis) = limited();
    let held = claim("k");
    fences(&redis, &held).await;
    server.cmd(&["PEXPIRE", "k", "20000"]);
    let before = server.hash("k");
    for right in RELEASE {
        without(&server, right);
        refused(release(&redis, &held).await, "release", &held, right);
        with(&server, right);
    }
    for right in RENEW {
        without(&server, right);
        refused(renew(&redis, &held).await, "renew", &held, right);
        with(&server, right);
    }
    assert_eq!(server.hash("k"), before);
    assert!(server.pttl("k") <= 20_000);
}

#[tokio::test]
async fn a_release_without_the_right_to_publish_frees_the_lock() {
    let (server, redis) = limited();
    for rights in [&["-publish"][..], &["+publish", "resetchannels"]] {
        server.cmd(&[&["ACL", "SETUSER", "u"], rights].concat());
        let held = claim("k");
        fences(&redis, &held).await;
        assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: None });
        assert_eq!(server.keys(), [TOKEN]);
    }
}

#[tokio::test]
async fn a_user_that_may_not_publish_is_warned_once_for_each_connection() {
    let (server, redis) = limited();
    without(&server, "publish");
    let (warnings, counted) = crate::help::warnings();
    let _subscriber = tracing::subscriber::set_default(warnings);
    for connection in 1..=2 {
        for _ in 0..2 {
            let held = claim("k");
            bandog_testkit::eventually_async(crate::help::SOON, async || take(&redis, &held).await).await;
            assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: None });
            assert_eq!(counted(), connection);
        }
        let mut epoch = redis.profile().epoch;
        server.kill_clients();
        tokio::time::timeout(crate::help::SOON, epoch.changed()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_registration_that_lacks_one_right_leaves_nothing_behind() {
    let (server, redis) = limited();
    let there = crate::help::member(&["k"]);
    for right in REGISTER {
        without(&server, right);
        let error = redis.register(&there, crate::help::TTL).await.unwrap_err();
        assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("register")), "without {right}: {error}");
        assert_eq!(server.keys(), [""; 0], "without {right}");
        with(&server, right);
        redis.register(&there, crate::help::TTL).await.unwrap();
        redis.deregister(there.id).await.unwrap();
    }
    redis.register(&there, crate::help::TTL).await.unwrap();
    without(&server, "del");
    let error = redis.deregister(there.id).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("deregister")));
    server.cmd(&["ACL", "SETUSER", "u", "+del", "resetkeys", "~k", "~redisson_lock_token:*"]);
    let error = redis.register(&there, crate::help::TTL).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("register")));
    fences(&redis, &claim("k")).await;
}

#[tokio::test]
async fn a_refused_ping_shows_that_the_store_is_reachable() {
    let (server, redis) = limited();
    without(&server, "ping");
    redis.ping().await.unwrap();
}

#[tokio::test]
async fn a_call_with_a_key_that_the_user_may_not_use_changes_nothing() {
    let (server, redis) = limited();
    for patterns in [&["~other"][..], &["~k"], &["~redisson_lock_token:*"], &["%R~k", "~redisson_lock_token:*"]] {
        server.cmd(&[&["ACL", "SETUSER", "u", "resetkeys"], patterns].concat());
        let wanted = claim("k");
        refused(take(&redis, &wanted).await, "claim", &wanted, &patterns.join(" "));
        assert_eq!(server.keys(), [""; 0], "{patterns:?}");
    }
    server.cmd(&["ACL", "SETUSER", "u", "resetkeys", "~k", "~redisson_lock_token:*"]);
    let held = claim("k");
    fences(&redis, &held).await;
    for patterns in [&["~other"][..], &["%R~k"]] {
        server.cmd(&[&["ACL", "SETUSER", "u", "resetkeys"], patterns].concat());
        refused(release(&redis, &held).await, "release", &held, &patterns.join(" "));
        refused(renew(&redis, &held).await, "renew", &held, &patterns.join(" "));
    }
    assert_eq!(server.hash("k").len(), 1);
    // Release and renewal need only the key of the lock.
    server.cmd(&["ACL", "SETUSER", "u", "resetkeys", "~k"]);
    renew(&redis, &held).await.unwrap();
    assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }));
}

#[tokio::test]
async fn a_key_that_the_user_may_not_use_does_not_stop_the_renewal_of_others() {
    let (server, redis) = limited();
    let claims = ["a", "b", "c"].map(claim);
    for claim in &claims {
        fences(&redis, claim).await;
        server.cmd(&["PEXPIRE", claim.key.as_str(), "5000"]);
    }
    server.cmd(&["ACL", "SETUSER", "u", "resetkeys", "~a", "~c"]);
    let renewals = redis.renew(&claims).await;
    assert_eq!(renewals.len(), 3);
    for (renewal, claim) in renewals.into_iter().zip(&claims) {
        match claim.key.as_str() {
            "b" => refused(renewal, "renew", claim, "~b"),
            key => {
                assert_eq!(renewal.unwrap(), Renewal::Extended { valid_for: claim.ttl });
                assert!(server.pttl(key) > 29_000);
            }
        }
    }
    assert!(server.pttl("b") <= 5000);
}

#[tokio::test]
async fn a_retry_for_the_allowed_keys_has_only_the_remaining_time() {
    let (server, _) = limited();
    let wire = server.wire();
    let timeout = std::time::Duration::from_millis(600);
    let redis = crate::help::with_timeout(&format!("redis://u:p@{}", wire.addr()), timeout);
    let claims = ["a", "b"].map(claim);
    for claim in &claims {
        fences(&redis, claim).await;
    }
    server.cmd(&["ACL", "SETUSER", "u", "resetkeys", "~a"]);
    // Each of the two attempts takes less than the timeout, but both together take more.
    wire.delay_replies(timeout * 2 / 3);
    // With the whole timeout, the second attempt would be answered.
    for renewal in redis.renew(&claims).await {
        assert_eq!(renewal.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(server.calls("evalsha"), 2 + 1, "expected two claims, and the renewal of the allowed key");
}

// Promise: RD4
#[tokio::test]
async fn a_user_that_may_not_subscribe_gets_a_silent_subscription_and_one_warning() {
    let (server, redis) = limited();
    let (warnings, counted) = crate::help::warnings();
    let _subscriber = tracing::subscriber::set_default(warnings);
    for rights in
        [&["-subscribe"][..], &["+subscribe", "resetchannels"], &["resetchannels", "&redisson_lock__channel:{k}"]]
    {
        server.cmd(&[&["ACL", "SETUSER", "u"], rights].concat());
        for key in ["a", "b"] {
            let subscription = redis.subscribe(&claim(key), crate::help::notifier().0).await.unwrap();
            assert!(subscription.is_silent(), "{rights:?}");
        }
    }
    assert_eq!(counted(), 1);
    let subscription = redis.subscribe(&claim("k"), crate::help::notifier().0).await.unwrap();
    assert!(!subscription.is_silent(), "the subscription is silent, although the user has the right to its channel");
}

#[tokio::test]
async fn a_user_that_may_not_unsubscribe_can_subscribe_again() {
    let (server, redis) = limited();
    without(&server, "unsubscribe");
    let waiter = claim("k");
    for times in 1..=3 {
        let (on_release, notified) = crate::help::notifier();
        let subscription = redis.subscribe(&waiter, on_release).await.unwrap();
        server.cmd(&["PUBLISH", "redisson_lock__channel:{k}", "0"]);
        bandog_testkit::eventually_async(crate::help::SOON, async || notified() == 1).await;
        drop(subscription);
        let refused = format!("rejected_calls={times},");
        bandog_testkit::eventually_async(crate::help::SOON, async || {
            stats_of(&server, "unsubscribe").contains(&refused)
        })
        .await;
        assert_eq!(server.calls("subscribe"), 1, "{times}");
    }
}

#[tokio::test]
async fn a_url_with_a_user_and_no_password_logs_in_as_that_user() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "u", "on", "nopass", "~k", "~redisson_lock_token:*", "+@all"]);
    let redis = at(&format!("redis://u@{}", server.addr()));
    fences(&redis, &claim("k")).await;
    let other = claim("other");
    refused(take(&redis, &other).await, "claim", &other, "~other");
}

/// A server and a backend whose user has exactly the rights that locks need.
pub(crate) fn limited() -> (RedisServer, Redis) {
    let server = RedisServer::start();
    let rule = [&["ACL", "SETUSER", "u"], &RedisServer::least_rights()[..], &["resetpass", ">p"]].concat();
    assert_eq!(server.cmd(&rule).text(), "OK");
    let redis = at(&format!("redis://u:p@{}", server.addr()));
    (server, redis)
}

fn stats_of(server: &RedisServer, command: &str) -> String {
    let stats = server.cmd(&["INFO", "commandstats"]);
    let head = format!("cmdstat_{command}:");
    stats.text().lines().find(|line| line.starts_with(&head)).unwrap_or_default().to_owned()
}

fn without(server: &RedisServer, right: &str) {
    assert_eq!(server.cmd(&["ACL", "SETUSER", "u", &format!("-{right}")]).text(), "OK");
}

fn with(server: &RedisServer, right: &str) {
    assert_eq!(server.cmd(&["ACL", "SETUSER", "u", &format!("+{right}")]).text(), "OK");
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, Error>, verb: &str, claim: &Claim, lacking: &str) {
    let error = answer.expect_err(lacking);
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some(verb)), "without {lacking}: {error}");
    assert_eq!(error.key(), Some(&claim.key));
    assert!(!error.maybe_applied() && !error.is_retryable(), "{error}");
}
