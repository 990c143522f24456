//! Read-write locks: the data have the layout of Redisson's RReadWriteLock, as recorded from Redisson 4.7.0.

use std::{collections::BTreeMap, time::Duration};

use bandog_core::{Claim, ErrorKind, Inspect, Kind, Leases, Released, Renewal, Verdict};
use bandog_testkit::{RedisServer, eventually_async};

use crate::{
    help::{
        JAVA, SOON, backend, claim, granted, is_granted, no_message, notifier, operator, pass, release, renew, take,
    },
    layout::subscriber,
    rights::{limited, refused},
};

/// Names of locks with the beginning of the keys of their readers' holds, their private keys and their channels.
const NAMES: [(&str, &str, &str, &str); 4] = [
    ("plain", "{plain}:", "bandog:held:{plain}", "redisson_rwlock:{plain}"),
    ("{tag}:a", "{tag}:a:", "bandog:held:{tag}:a", "redisson_rwlock:{tag}:a"),
    ("a{b}c", "a{b}c:", "bandog:held:a{b}c", "redisson_rwlock:a{b}c"),
    ("中文 name", "{中文 name}:", "bandog:held:{中文 name}", "redisson_rwlock:{中文 name}"),
];

pub(crate) fn reader(name: &str) -> Claim {
    Claim { kind: Kind::Read, ..claim(name) }
}

pub(crate) fn writer(name: &str) -> Claim {
    Claim { kind: Kind::Write, joins: true, ..claim(name) }
}

pub(crate) fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn hold_key(prefix: &str, owner: impl std::fmt::Display) -> String {
    format!("{prefix}{owner}:rwlock_timeout:1")
}

/// A Java reader with this lease, as Redisson writes it.
fn java_reads(server: &RedisServer, ms: &str) {
    server.cmd(&["HSET", "k", "mode", "read", JAVA, "1"]);
    server.cmd(&["SET", &hold_key("{k}:", JAVA), "1", "PX", ms]);
    server.cmd(&["PEXPIRE", "k", ms]);
}

// Promise: X5
#[tokio::test]
async fn a_reader_is_a_field_and_a_key_of_its_own() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for (name, prefix, held, channel) in NAMES {
        let mut subscription = subscriber(&server, channel);
        let (first, second) = (reader(name), Claim { ttl: Duration::from_secs(60), ..reader(name) });
        let fences = granted(take(&redis, &first).await.unwrap());
        take(&redis, &second).await.unwrap();
        let (one, two) = (first.id.to_string(), second.id.to_string());
        assert_eq!(server.hash(name), fields(&[("mode", "read"), (&one, "1"), (&two, "1")]));
        let token = format!("redisson_lock_token:{}", &held["bandog:held:".len()..]);
        let mut keys =
            vec![name.to_owned(), hold_key(prefix, &one), hold_key(prefix, &two), token.clone(), held.into()];
        keys.sort();
        assert_eq!(server.keys(), keys);
        assert_eq!(server.cmd(&["GET", &hold_key(prefix, &one)]).text(), "1");
        assert!((29_000..=30_000).contains(&server.pttl(&hold_key(prefix, &one))));
        for key in [name, &hold_key(prefix, &two), held] {
            assert!((59_000..=60_000).contains(&server.pttl(key)), "{key}");
        }
        assert_eq!(server.hash(held)[&one], fences.last().to_string());
        // The ttl becomes the longest of the remaining holds, and no message is sent.
        release(&redis, &second).await.unwrap();
        assert_eq!(server.hash(name), fields(&[("mode", "read"), (&one, "1")]));
        assert!((29_000..=30_000).contains(&server.pttl(name)));
        no_message(&mut subscription);
        assert_eq!(release(&redis, &first).await.unwrap(), Released::Freed { others: Some(1) });
        assert_eq!(subscription.read().unwrap().texts(), ["message", channel, "0"]);
        assert_eq!(server.keys(), [token.as_str()]);
        assert_eq!(release(&redis, &first).await.unwrap(), Released::NotHeld);
        no_message(&mut subscription);
        server.cmd(&["DEL", &token]);
    }
}

// Promise: X5
#[tokio::test]
async fn a_writer_is_a_field_whose_name_ends_with_write() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for (name, _, held, channel) in NAMES {
        let mut subscription = subscriber(&server, channel);
        let held_by = writer(name);
        granted(take(&redis, &held_by).await.unwrap());
        assert_eq!(server.hash(name), fields(&[("mode", "write"), (&format!("{}:write", held_by.id), "1")]));
        assert!((29_000..=30_000).contains(&server.pttl(name)));
        let token = format!("redisson_lock_token:{}", &held["bandog:held:".len()..]);
        let mut keys = vec![name.to_owned(), token.clone()];
        keys.sort();
        assert_eq!(server.keys(), keys);
        assert_eq!(release(&redis, &held_by).await.unwrap(), Released::Freed { others: Some(1) });
        assert_eq!(subscription.read().unwrap().texts(), ["message", channel, "1"]);
        assert_eq!(server.keys(), [token.as_str()]);
        server.cmd(&["DEL", &token]);
    }
}

#[tokio::test]
async fn a_downgrade_becomes_a_reader_and_wakes_other_readers() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (from, to, other) = (writer("k"), reader("k"), reader("k"));
    let old = granted(take(&redis, &from).await.unwrap());
    let (on_release, notified) = notifier();
    let waiter = backend(&server);
    let _subscription = waiter.subscribe(&other, on_release).await.unwrap();
    let new = granted(pass(&redis, &from, &to).await.unwrap());
    assert!(new.clone().take().unwrap() > old.last());
    assert_eq!(server.hash("k"), fields(&[("mode", "read"), (&to.id.to_string(), "1")]));
    assert!(server.pttl(&hold_key("{k}:", to.id)) > 29_000);
    eventually_async(SOON, async || notified() == 1).await;
    assert!(is_granted(&waiter, &other).await && !is_granted(&waiter, &writer("k")).await);
    // A repeated pass has the same answer.
    assert_eq!(granted(pass(&redis, &from, &to).await.unwrap()), new);
    assert_eq!(pass(&redis, &to, &writer("k")).await.unwrap_err().kind(), ErrorKind::Misused);
}

#[tokio::test]
async fn a_downgrade_that_lacks_one_right_leaves_the_writer_its_lock() {
    let (server, redis) = limited();
    let (from, to) = (writer("k"), reader("k"));
    granted(take(&redis, &from).await.unwrap());
    let before = (server.hash("k"), server.keys());
    for right in ["hset", "hdel", "del", "set", "pexpire"] {
        server.cmd(&["ACL", "SETUSER", "u", &format!("-{right}")]);
        refused(pass(&redis, &from, &to).await, "pass", &to, right);
        assert_eq!((server.hash("k"), server.keys()), before, "without {right}");
        server.cmd(&["ACL", "SETUSER", "u", &format!("+{right}")]);
    }
    assert!(server.pttl("k") > 0);
    granted(pass(&redis, &from, &to).await.unwrap());
}

#[tokio::test]
async fn each_reader_gets_its_own_fences_again() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (first, second) = (reader("k"), reader("k"));
    let fences = [granted(take(&redis, &first).await.unwrap()), granted(take(&redis, &second).await.unwrap())];
    assert!(fences[1].clone().take().unwrap() > fences[0].last());
    assert_eq!(granted(take(&redis, &first).await.unwrap()), fences[0]);
    // If the private key is lost, the hold stays, and gets new fences.
    server.cmd(&["DEL", "bandog:held:{k}"]);
    let new = granted(take(&redis, &first).await.unwrap());
    assert!(new.clone().take().unwrap() > fences[1].last());
    assert_eq!(granted(take(&redis, &first).await.unwrap()), new);
}

// Promise: X7
#[tokio::test]
async fn a_renewal_restores_the_ttl_that_redisson_has_lowered() {
    let server = RedisServer::start();
    let redis = backend(&server);
    java_reads(&server, "60000");
    let ours = reader("k");
    granted(take(&redis, &ours).await.unwrap());
    // Redisson's watchdog writes its own timeout, although other readers have more time left.
    server.cmd(&["PEXPIRE", "k", "3000"]);
    server.cmd(&["PEXPIRE", &hold_key("{k}:", ours.id), "3000"]);
    assert_eq!(renew(&redis, &ours).await.unwrap(), Renewal::Extended { valid_for: ours.ttl });
    assert!((59_000..=60_000).contains(&server.pttl("k")), "{}", server.pttl("k"));
    assert!(server.pttl(&hold_key("{k}:", ours.id)) > 29_000);
    server.cmd(&["PEXPIRE", "k", "90000"]);
    renew(&redis, &ours).await.unwrap();
    assert!(server.pttl("k") > 89_000, "the renewal has lowered the ttl");
}

#[tokio::test]
async fn a_dead_reader_does_not_keep_a_writer_out() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (dead, alive, next) = (reader("k"), reader("k"), writer("k"));
    for claim in [&dead, &alive] {
        granted(take(&redis, claim).await.unwrap());
    }
    server.cmd(&["DEL", &hold_key("{k}:", dead.id)]);
    assert_eq!(renew(&redis, &dead).await.unwrap(), Renewal::Gone);
    assert!(!is_granted(&redis, &next).await);
    assert_eq!(server.hash("k"), fields(&[("mode", "read"), (&alive.id.to_string(), "1")]));
    assert_eq!(server.hash("bandog:held:{k}").len(), 1);
    server.cmd(&["DEL", &hold_key("{k}:", alive.id)]);
    assert!(is_granted(&redis, &next).await);
}

#[tokio::test]
async fn a_waiting_writer_has_a_place_that_keeps_readers_out() {
    let server = RedisServer::start();
    let redis = backend(&server);
    java_reads(&server, "60000");
    let (waiting, late, starving) = (writer("k"), reader("k"), Claim { offers: true, ..reader("k") });
    assert!(!is_granted(&redis, &waiting).await);
    assert!((1..=5000).contains(&server.pttl("bandog:writers:{k}")));
    assert_eq!(server.cmd(&["ZRANGE", "bandog:writers:{k}", "0", "-1"]).texts(), [waiting.id.to_string()]);
    assert!(!is_granted(&redis, &late).await && is_granted(&redis, &starving).await);
    assert_eq!(renew(&redis, &waiting).await.unwrap(), Renewal::Waiting { is_next: false });
    assert_eq!(operator(&server).show(&waiting.key).await.unwrap().queue, [waiting.id.to_string()]);
    // The last writer that gives up wakes the readers.
    let mut subscription = subscriber(&server, "redisson_rwlock:{k}");
    assert_eq!(release(&redis, &waiting).await.unwrap(), Released::LeftQueue);
    assert_eq!(subscription.read().unwrap().texts()[2], "0");
    assert!(is_granted(&redis, &late).await);
    assert_eq!(server.cmd(&["EXISTS", "bandog:writers:{k}"]).int(), 0);
}

// Promise: X6
#[tokio::test]
async fn holds_of_redisson_are_respected() {
    let server = RedisServer::start();
    let redis = backend(&server);
    server.cmd(&["HSET", "k", "mode", "write", &format!("{JAVA}:write"), "2", JAVA, "1"]);
    server.cmd(&["PEXPIRE", "k", "20000"]);
    let before = server.hash("k");
    for claim in [reader("k"), Claim { joins: false, ..writer("k") }] {
        let Verdict::Busy { retry_after, .. } = take(&redis, &claim).await.unwrap() else { panic!("granted") };
        assert!((19..=20).contains(&retry_after.as_secs()) || retry_after.as_secs() == 18, "{retry_after:?}");
        assert_eq!(release(&redis, &claim).await.unwrap(), Released::NotHeld);
    }
    assert_eq!(server.hash("k"), before);
    server.cmd(&["DEL", "k"]);
    java_reads(&server, "20000");
    let ours = reader("k");
    assert!(is_granted(&redis, &ours).await);
    assert_eq!(server.hash("k").len(), 3);
    release(&redis, &ours).await.unwrap();
    assert_eq!(server.hash("k"), fields(&[("mode", "read"), (JAVA, "1")]));
    // The store does not say whether the lease of a multi lock of Redisson has raised the ttl, so it is not lowered.
    assert!((20_001..=30_000).contains(&server.pttl("k")), "{}", server.pttl("k"));
}

#[tokio::test]
async fn a_name_that_is_in_use_as_another_kind_is_refused_and_stays_unchanged() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let plain = claim("k");
    granted(take(&redis, &plain).await.unwrap());
    let keys = server.keys();
    for claim in [reader("k"), writer("k")] {
        let error = take(&redis, &claim).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.to_string().contains("in use as a mutex"), "{error}");
        assert_eq!(release(&redis, &claim).await.unwrap(), Released::NotHeld);
        assert_eq!(renew(&redis, &claim).await.unwrap(), Renewal::Gone);
    }
    assert_eq!((server.hash("k").len(), server.keys()), (1, keys));
    release(&redis, &plain).await.unwrap();
    granted(take(&redis, &reader("k")).await.unwrap());
    let error = take(&redis, &plain).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("read-write lock"), "{error}");
    for plant in [&["SET", "t", "text"][..], &["RPUSH", "t", "x"], &["HSET", "t", "mode", "dark"]] {
        server.cmd(&["DEL", "t"]);
        server.cmd(plant);
        let before = server.cmd(&["DUMP", "t"]);
        for claim in [reader("t"), writer("t")] {
            assert_eq!(take(&redis, &claim).await.unwrap_err().kind(), ErrorKind::Denied, "{plant:?}");
        }
        assert_eq!(server.cmd(&["DUMP", "t"]), before);
    }
}

#[tokio::test]
async fn an_eviction_ends_all_holds() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let readers = [reader("k"), reader("k")];
    for claim in &readers {
        take(&redis, claim).await.unwrap();
    }
    let mut subscription = subscriber(&server, "redisson_rwlock:{k}");
    let row = redis.evict(&readers[0].key).await.unwrap().unwrap();
    assert_eq!((row.kind, row.holders.len()), (Some(Kind::Read), 2));
    assert_eq!(subscription.read().unwrap().texts()[2], "0");
    assert_eq!(server.keys(), ["redisson_lock_token:{k}"]);
    assert_eq!(renew(&redis, &readers[0]).await.unwrap(), Renewal::Gone);
    let next = writer("k");
    take(&redis, &next).await.unwrap();
    assert_eq!(redis.evict(&next.key).await.unwrap().unwrap().holders[0].kind, Some(Kind::Write));
    assert_eq!(subscription.read().unwrap().texts()[2], "1");
    assert_eq!(server.keys(), ["redisson_lock_token:{k}"]);
}

#[tokio::test]
async fn a_hash_of_another_application_with_a_mode_stays_unchanged() {
    let server = RedisServer::start();
    let redis = operator(&server);
    for mode in ["read", "write"] {
        for more in [
            &[][..],
            &["name", "Rex"],
            &["size", "3000000"],
            &["size:write", "1"],
            &[JAVA, "1", "name", "1"],
            &[JAVA, "many"],
            &[JAVA, "3000000000"],
        ] {
            server.cmd(&[&["HSET", "k", "mode", mode], more].concat());
            let before = server.cmd(&["DUMP", "k"]);
            let context = format!("{mode} {more:?}");
            let denied = |error: bandog_core::Error| {
                assert_eq!(error.kind(), ErrorKind::Denied, "{context}: {error}");
                assert!(error.to_string().contains("was not changed"), "{context}: {error}");
            };
            for claim in [reader("k"), writer("k")] {
                denied(take(&redis, &claim).await.unwrap_err());
                assert_eq!(release(&redis, &claim).await.unwrap(), Released::NotHeld, "{context}");
                assert_eq!(renew(&redis, &claim).await.unwrap(), Renewal::Gone, "{context}");
            }
            denied(redis.evict(&reader("k").key).await.unwrap_err());
            denied(redis.show(&reader("k").key).await.unwrap_err());
            assert_eq!(server.cmd(&["DUMP", "k"]), before, "{context}");
            assert_eq!((server.pttl("k"), server.keys()), (-1, vec!["k".to_owned()]), "{context}");
            server.cmd(&["DEL", "k"]);
        }
    }
}

/// A field of another application in a lock that is held: the holder does not delete it.
#[tokio::test]
async fn a_held_lock_with_a_field_of_another_application_stays_unchanged() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for held in [reader("k"), writer("k")] {
        granted(take(&redis, &held).await.unwrap());
        server.cmd(&["HSET", "k", "name", "Rex"]);
        server.cmd(&["PERSIST", "k"]);
        let before = server.hash("k");
        assert_eq!(renew(&redis, &held).await.unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(release(&redis, &held).await.unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!((server.hash("k"), server.pttl("k")), (before, -1));
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn the_number_of_holds_that_is_read_from_a_field_is_limited() {
    let server = RedisServer::start();
    let redis = operator(&server);
    server.cmd(&["HSET", "k", "mode", "read", JAVA, "300000000"]);
    assert_eq!(redis.show(&reader("k").key).await.unwrap().holders.len(), 1);
    assert!(!is_granted(&redis, &writer("k")).await);
}

#[tokio::test]
async fn a_lock_with_many_readers_is_shown_and_evicted() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let readers: Vec<Claim> = (0..600).map(|_| reader("k")).collect();
    for reader in &readers {
        granted(take(&redis, reader).await.unwrap());
    }
    assert_eq!(redis.show(&readers[0].key).await.unwrap().holders.len(), 600);
    assert_eq!(redis.evict(&readers[0].key).await.unwrap().unwrap().holders.len(), 600);
    assert_eq!(server.keys(), ["redisson_lock_token:{k}"]);
}
