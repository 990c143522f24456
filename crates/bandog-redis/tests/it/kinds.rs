//! Laws of fair mutexes, read-write locks and semaphores alike: a user with few rights, lost answers,
//! batches of several kinds, and the slots of a cluster.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use bandog_core::{Answer, Claim, Error, ErrorKind, Inspect, Kind, Leases, Released, Renewal, Result, Step, Verdict};
use bandog_redis::Redis;
use bandog_testkit::{RedisServer, Reply, eventually_async};

use crate::help::{SOON, at, backend, claim, granted, lock_user_url, operator, release, renew, take, with_timeout};

const TOKEN: &str = "redisson_lock_token:{k}";

fn permits(take: u32, of: u32) -> Kind {
    let [take, of] = [take, of].map(|number| NonZeroU32::new(number).unwrap());
    Kind::Permits { take, of }
}

/// The kinds, with the commands that a claim of a free lock needs.
fn kinds() -> [(Kind, Vec<&'static str>); 4] {
    let common = ["evalsha", "time", "pttl", "get", "set", "hset", "pexpire"];
    let with = |more: &[&'static str]| [&common[..], more].concat();
    [
        (Kind::Fair, with(&["del", "lindex"])),
        (Kind::Read, with(&["del", "hget", "hdel", "zcount"])),
        (Kind::Write, with(&["del", "hget", "zrem"])),
        (permits(2, 4), with(&["zrangebyscore", "zscore", "zcard", "zadd", "zrem", "incrby"])),
    ]
}

fn joining(name: &str, kind: Kind) -> Claim {
    Claim { kind, joins: true, ..claim(name) }
}

/// A server, and a backend whose user has all rights. The tests take rights away.
fn limited() -> (RedisServer, Redis) {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"]);
    let redis = at(&format!("redis://u:p@{}", server.addr()));
    (server, redis)
}

/// Each key with its value.
fn dump(server: &RedisServer) -> BTreeMap<String, Reply> {
    server.keys().into_iter().map(|key| (key.clone(), server.cmd(&["DUMP", &key]))).collect()
}

#[track_caller]
fn denied<T: std::fmt::Debug>(answer: Result<T, Error>, verb: &str, context: &str) {
    let error = answer.expect_err(context);
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some(verb)), "{context}: {error}");
    assert!(!error.maybe_applied(), "{context}: {error}");
}

// Promise: RD19
#[tokio::test]
async fn the_documented_rights_are_enough_for_all_kinds() {
    let server = RedisServer::start();
    let (redis, other) = (backend(&server), backend(&server));
    for (kind, _) in kinds() {
        let held = joining("k", kind);
        granted(take(&redis, &held).await.unwrap());
        let waiting =
            Claim { offers: true, ..joining("k", if let Kind::Permits { .. } = kind { permits(4, 4) } else { kind }) };
        if !matches!(kind, Kind::Read) {
            assert!(matches!(take(&other, &waiting).await.unwrap(), Verdict::Busy { .. }));
            assert!(matches!(renew(&other, &waiting).await.unwrap(), Renewal::Waiting { .. }));
            assert!(!other.subscribe(&waiting, crate::help::notifier().0).await.unwrap().is_silent());
        }
        renew(&redis, &held).await.unwrap();
        assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }));
        granted(take(&other, &waiting).await.unwrap());
        release(&other, &waiting).await.unwrap();
        server.cmd(&["DEL", "k"]);
    }
    redis.set_limit(&claim("new").key, NonZeroU32::new(7).unwrap()).await.unwrap();
}

// Promise: RD19
#[tokio::test]
async fn a_claim_that_lacks_one_right_leaves_nothing_behind() {
    let (server, redis) = limited();
    for (kind, rights) in kinds() {
        for right in rights {
            let context = format!("{kind} without {right}");
            server.cmd(&["ACL", "SETUSER", "u", &format!("-{right}")]);
            if right == "evalsha" {
                server.cmd(&["ACL", "SETUSER", "u", "-eval"]);
            }
            let wanted = joining("k", kind);
            denied(take(&redis, &wanted).await, "claim", &context);
            assert_eq!(server.keys(), [""; 0], "{context}");
            server.cmd(&["ACL", "SETUSER", "u", "+@all"]);
            granted(take(&redis, &wanted).await.unwrap());
            server.cmd(&["FLUSHALL"]);
        }
    }
}

#[tokio::test]
async fn a_claim_that_may_not_use_one_of_its_keys_leaves_nothing_behind() {
    let (server, redis) = limited();
    for (kind, _) in kinds() {
        let probe = joining("k", kind);
        granted(take(&redis, &probe).await.unwrap());
        let keys = server.keys();
        assert!(keys.len() >= 2, "{keys:?}");
        server.cmd(&["FLUSHALL"]);
        for lacking in &keys {
            // The keys of the holds of readers contain the owner.
            let pattern =
                |key: &String| if key.contains(":rwlock_timeout:") { "~{k}:*".to_owned() } else { format!("~{key}") };
            let private =
                ["held", "writers", "waiting", "order", "stayed", "limit"].map(|name| format!("~bandog:{name}:{{k}}"));
            let redisson = ["queue", "timeout"].map(|name| format!("~redisson_lock_{name}:{{k}}"));
            let mut patterns = [&private[..], &redisson, &[format!("~{TOKEN}"), "~k".to_owned()]].concat();
            patterns.push(if matches!(kind, Kind::Permits { .. }) { "~{k}:timeout".into() } else { "~{k}:*".into() });
            patterns.retain(|allowed| *allowed != pattern(lacking));
            let allowed: Vec<&str> = patterns.iter().map(String::as_str).collect();
            server.cmd(&[&["ACL", "SETUSER", "u", "resetkeys"], &allowed[..]].concat());
            denied(take(&redis, &joining("k", kind)).await, "claim", &format!("{kind} without {lacking}"));
            assert_eq!(server.keys(), [""; 0], "{kind} without {lacking}");
        }
        server.cmd(&["ACL", "SETUSER", "u", "~*"]);
    }
}

// Promise: RD19
#[tokio::test]
async fn a_refused_claim_that_lacks_one_right_gets_no_place() {
    let (server, redis) = limited();
    let joins = [
        (Kind::Fair, &["lindex", "zscore", "zadd", "pexpire", "rpush"][..]),
        (Kind::Write, &["zremrangebyscore", "zrem", "zadd", "pexpire"]),
        (permits(4, 4), &["zscore", "zadd", "pexpire"]),
    ];
    for (kind, rights) in joins {
        let (held, waiting) = (joining("k", kind), Claim { offers: true, ..joining("k", kind) });
        granted(take(&redis, &held).await.unwrap());
        let before = dump(&server);
        for right in rights {
            let context = format!("{kind} without {right}");
            server.cmd(&["ACL", "SETUSER", "u", &format!("-{right}")]);
            denied(take(&redis, &waiting).await, "claim", &context);
            server.cmd(&["DEL", "bandog:starving:{k}"]);
            assert_eq!(dump(&server), before, "{context}");
            server.cmd(&["ACL", "SETUSER", "u", "+@all"]);
        }
        assert!(matches!(take(&redis, &waiting).await.unwrap(), Verdict::Busy { .. }));
        assert_eq!(renew(&redis, &waiting).await.unwrap(), Renewal::Waiting { is_next: false });
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_release_or_renewal_that_lacks_one_right_changes_nothing() {
    let (server, redis) = limited();
    let verbs = [
        (Kind::Fair, &["hexists", "del"][..], &["hexists", "pexpire"][..]),
        (Kind::Write, &["hexists", "del"], &["hexists", "pexpire"]),
        (
            Kind::Read,
            &["hexists", "pttl", "hgetall", "del", "hdel", "pexpire"],
            &["hexists", "pttl", "hgetall", "pexpire"],
        ),
        (permits(2, 4), &["get", "zscore", "incrby", "zrem"], &["zscore", "zadd", "pexpire", "pttl"]),
    ];
    for (kind, releases, renewals) in verbs {
        let held = joining("k", kind);
        granted(take(&redis, &held).await.unwrap());
        if matches!(kind, Kind::Read) {
            granted(take(&redis, &joining("k", kind)).await.unwrap());
        }
        let before = dump(&server);
        let rights = releases.iter().map(|right| (right, true)).chain(renewals.iter().map(|right| (right, false)));
        for (right, is_release) in rights {
            server.cmd(&["ACL", "SETUSER", "u", &format!("-{right}")]);
            let context = format!("{kind} without {right}");
            if is_release {
                denied(release(&redis, &held).await, "release", &context);
            } else {
                denied(renew(&redis, &held).await, "renew", &context);
            }
            assert_eq!(dump(&server), before, "{context}");
            server.cmd(&["ACL", "SETUSER", "u", "+@all"]);
        }
        assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }), "{kind}");
        server.cmd(&["FLUSHALL"]);
    }
}

// Promise: RD8
#[tokio::test]
async fn a_full_server_refuses_claims_and_accepts_releases() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for (kind, _) in kinds() {
        server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
        let held = joining("held", kind);
        granted(take(&redis, &held).await.unwrap());
        let before = server.keys();
        server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
        let error = take(&redis, &joining("new", kind)).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && !error.maybe_applied(), "{kind}: {error}");
        assert_eq!(server.keys(), before, "{kind}");
        renew(&redis, &held).await.unwrap();
        assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }), "{kind}");
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_step_whose_answer_was_lost_can_be_repeated() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = with_timeout(&lock_user_url(wire.addr()), Duration::from_millis(500));
    for (kind, _) in kinds() {
        let held = joining("k", kind);
        eventually_async(SOON, async || redis.ping().await).await;
        wire.drop_replies(true);
        assert!(take(&redis, &held).await.unwrap_err().maybe_applied());
        wire.drop_replies(false);
        let fences = eventually_async(SOON, async || take(&redis, &held).await).await;
        let before = dump(&server);
        assert_eq!(take(&redis, &held).await.unwrap(), fences);
        let mut after = dump(&server);
        if let Some(times) = before.get("{k}:timeout") {
            after.insert("{k}:timeout".into(), times.clone());
        }
        assert_eq!(after, before, "{kind}: the repeated claim has changed more than ttls and times");
        wire.drop_replies(true);
        assert!(release(&redis, &held).await.unwrap_err().maybe_applied());
        wire.drop_replies(false);
        assert_eq!(eventually_async(SOON, async || release(&redis, &held).await).await, Released::NotHeld);
        if let Kind::Permits { .. } = kind {
            assert_eq!(server.cmd(&["GET", "k"]).text(), "4");
        } else {
            assert_eq!(server.keys(), [TOKEN], "{kind}");
        }
        server.cmd(&["FLUSHALL"]);
    }
}

/// Each set of scripts has one call for the claims and one for the releases of a batch.
#[tokio::test]
async fn steps_of_several_kinds_are_answered_in_their_order() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let kinds = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, permits(2, 4)];
    let claims: Vec<Claim> = (0..20).map(|number: usize| joining(&format!("k{number}"), kinds[number % 5])).collect();
    // Every third lock is busy.
    let holders: Vec<Claim> =
        claims.iter().step_by(3).map(|claim| Claim { id: self::claim("k").id, ..claim.clone() }).collect();
    let holders: Vec<Claim> = holders
        .into_iter()
        .map(|holder| match holder.kind {
            Kind::Read => Claim { kind: Kind::Write, ..holder },
            Kind::Permits { .. } => Claim { kind: permits(4, 4), ..holder },
            Kind::Mutex | Kind::Fair | Kind::Write => holder,
        })
        .collect();
    for holder in &holders {
        granted(take(&redis, holder).await.unwrap());
    }
    let is_busy = |number: usize| number.is_multiple_of(3);
    server.cmd(&["CONFIG", "RESETSTAT"]);
    let steps: Vec<Step> = claims.iter().cloned().map(Step::Claim).collect();
    for (number, answer) in redis.apply(&steps).await.into_iter().enumerate() {
        let Ok(Answer::Claimed(verdict)) = answer else { panic!("{answer:?}") };
        assert_eq!(matches!(verdict, Verdict::Busy { .. }), is_busy(number), "{:?}: {verdict:?}", claims[number]);
    }
    assert_eq!(server.calls("evalsha"), 4);
    for (number, renewal) in redis.renew(&claims).await.into_iter().enumerate() {
        let Claim { ttl, kind, .. } = claims[number];
        let waits = is_busy(number) && matches!(kind, Kind::Fair | Kind::Write);
        let expected = match (is_busy(number), waits) {
            (false, _) => Renewal::Extended { valid_for: ttl },
            (true, true) => Renewal::Waiting { is_next: false },
            (true, false) => Renewal::Gone,
        };
        assert_eq!(renewal.unwrap(), expected, "{:?}", claims[number]);
    }
    assert_eq!(server.calls("evalsha"), 8);
    let steps: Vec<Step> = claims.iter().cloned().map(Step::Release).collect();
    for (number, answer) in redis.apply(&steps).await.into_iter().enumerate() {
        let Ok(Answer::Released(released)) = answer else { panic!("{answer:?}") };
        let waits = is_busy(number) && matches!(claims[number].kind, Kind::Fair | Kind::Write);
        match released {
            Released::Freed { .. } => assert!(!is_busy(number)),
            Released::LeftQueue => assert!(waits),
            Released::NotHeld => assert!(is_busy(number) && !waits),
        }
    }
    assert_eq!(server.calls("evalsha"), 12);
}

#[tokio::test]
async fn all_keys_of_a_lock_are_in_one_slot() {
    let server = RedisServer::start_node();
    // ADDSLOTSRANGE exists since Redis 7 only.
    let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
    server.cmd(&["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect::<Vec<_>>());
    eventually_async(SOON, async || server.cmd(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok")).await;
    let redis = operator(&server);
    for name in ["plain", "{tag}:a", "a{b}c"] {
        for (kind, _) in kinds() {
            let held = joining(name, kind);
            granted(take(&redis, &held).await.unwrap());
            let waiting = Claim {
                offers: true,
                ..joining(name, if let Kind::Permits { .. } = kind { permits(4, 4) } else { Kind::Write })
            };
            let waiting = if let Kind::Fair = kind { joining(name, kind) } else { waiting };
            assert!(matches!(take(&redis, &waiting).await.unwrap(), Verdict::Busy { .. }), "{kind}");
            let slot = server.cmd(&["CLUSTER", "KEYSLOT", name]);
            assert!(server.keys().len() > 3);
            for key in server.keys() {
                assert_eq!(server.cmd(&["CLUSTER", "KEYSLOT", &key]), slot, "{key}");
            }
            assert!(redis.show(&held.key).await.unwrap().is_held());
            renew(&redis, &held).await.unwrap();
            release(&redis, &waiting).await.unwrap();
            release(&redis, &held).await.unwrap();
            server.cmd(&["FLUSHALL"]);
        }
    }
}
