//! The data in Redis have Redisson's layout.

use std::time::Duration;

use bandog_core::{ErrorKind, Leases, Released, Renewal, Step, Verdict};
use bandog_testkit::{RawRedis, RedisServer, Reply};

use crate::help::{backend, claim, fences, pass, release, renew, take};

/// Names of locks with their token keys and channels, as recorded from Redisson.
const NAMES: [(&str, &str, &str); 7] = [
    ("plain", "redisson_lock_token:{plain}", "redisson_lock__channel:{plain}"),
    ("{tag}:a", "redisson_lock_token:{tag}:a", "redisson_lock__channel:{tag}:a"),
    ("中文 name", "redisson_lock_token:{中文 name}", "redisson_lock__channel:{中文 name}"),
    ("a{b}c", "redisson_lock_token:a{b}c", "redisson_lock__channel:a{b}c"),
    ("a{b", "redisson_lock_token:a{b", "redisson_lock__channel:a{b"),
    ("}{", "redisson_lock_token:}{", "redisson_lock__channel:}{"),
    ("{}x", "redisson_lock_token:{}x", "redisson_lock__channel:{}x"),
];

// Promise: RD2
#[tokio::test]
async fn a_hold_is_a_hash_with_a_ttl_and_its_token_has_no_ttl() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for (name, token, _) in NAMES {
        let claim = claim(name);
        let fences = fences(&redis, &claim).await;
        let mut keys = vec![name.to_owned(), token.to_owned()];
        keys.sort();
        assert_eq!(server.keys(), keys);
        assert_eq!(server.hash(name), [(claim.id.to_string(), "1".to_owned())].into());
        assert!((29_000..=30_000).contains(&server.pttl(name)), "{}", server.pttl(name));
        assert_eq!(server.cmd(&["GET", token]).text(), fences.last().to_string());
        assert_eq!(server.pttl(token), -1);
        release(&redis, &claim).await.unwrap();
        assert_eq!(server.keys(), [token]);
        server.cmd(&["DEL", token]);
    }
}

// Promise: RD4
#[tokio::test]
async fn a_release_publishes_0_on_the_channel() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for (name, _, channel) in NAMES {
        let mut subscription = subscriber(&server, channel);
        let claim = claim(name);
        fences(&redis, &claim).await;
        assert_eq!(release(&redis, &claim).await.unwrap(), Released::Freed { others: Some(1) });
        assert_eq!(subscription.read().unwrap().texts(), ["message", channel, "0"]);
        assert_eq!(release(&redis, &claim).await.unwrap(), Released::NotHeld);
        subscription.set_patience(Duration::from_millis(20)).unwrap();
        assert!(subscription.read().is_err(), "a release that freed no lock has published a message");
    }
}

#[tokio::test]
async fn every_verb_reports_the_state_of_the_lock() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (first, second) = (claim("k"), claim("k"));
    assert_eq!(renew(&redis, &first).await.unwrap(), Renewal::Gone);
    assert_eq!(server.keys(), [""; 0]);
    fences(&redis, &first).await;
    let Verdict::Busy { retry_after, .. } = take(&redis, &second).await.unwrap() else { panic!("granted twice") };
    assert!(retry_after > Duration::from_secs(29) && retry_after <= Duration::from_secs(30), "{retry_after:?}");
    assert_eq!(renew(&redis, &first).await.unwrap(), Renewal::Extended { valid_for: first.ttl });
    assert_eq!(renew(&redis, &second).await.unwrap(), Renewal::Gone);
    assert_eq!(release(&redis, &second).await.unwrap(), Released::NotHeld);
    assert_eq!(server.hash("k").len(), 1);
    assert_eq!(release(&redis, &first).await.unwrap(), Released::Freed { others: Some(0) });
    fences(&redis, &second).await;
}

#[tokio::test]
async fn a_renewal_sets_the_ttl_and_nothing_else() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("k");
    fences(&redis, &held).await;
    server.cmd(&["PEXPIRE", "k", "5000"]);
    let before = (server.hash("k"), server.cmd(&["GET", "redisson_lock_token:{k}"]));
    renew(&redis, &held).await.unwrap();
    assert!(server.pttl("k") > 29_000);
    assert_eq!((server.hash("k"), server.cmd(&["GET", "redisson_lock_token:{k}"])), before);
}

#[tokio::test]
async fn a_pass_changes_the_owner_in_place_without_a_notification() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let mut subscription = subscriber(&server, "redisson_lock__channel:{k}");
    let (from, to, other) = (claim("k"), claim("k"), claim("k"));
    let old = fences(&redis, &from).await;
    server.cmd(&["PEXPIRE", "k", "5000"]);
    let Verdict::Granted { fences: new, .. } = pass(&redis, &from, &to).await.unwrap() else { panic!("busy") };
    assert!(new.clone().take().unwrap() > old.last());
    assert_eq!(server.hash("k"), [(to.id.to_string(), "1".to_owned())].into());
    assert!(server.pttl("k") > 29_000);
    // A repeated pass has the same answer as the first. If `from` does not hold the lock, a pass is an ordinary claim.
    assert_eq!(
        pass(&redis, &from, &to).await.unwrap(),
        Verdict::Granted { fences: new, valid_for: to.ttl, followers: vec![] }
    );
    assert!(matches!(pass(&redis, &from, &other).await.unwrap(), Verdict::Busy { .. }));
    release(&redis, &to).await.unwrap();
    assert_eq!(subscription.read().unwrap().texts()[2], "0");
    assert!(matches!(pass(&redis, &from, &other).await.unwrap(), Verdict::Granted { .. }));
    subscription.set_patience(Duration::from_millis(20)).unwrap();
    assert!(subscription.read().is_err());
}

#[tokio::test]
async fn a_lock_held_by_redisson_is_busy_for_its_ttl_and_stays_unchanged() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let java = "957c1da6-54c9-4017-93c7-a4ef987df61c:19";
    server.cmd(&["HSET", "plain", java, "1"]);
    let claim = claim("plain");
    // A hold without a ttl is polled after a second. Redisson never creates such a hold, but other programs might.
    let busy = take(&redis, &claim).await.unwrap();
    assert_eq!(busy, Verdict::Busy { retry_after: Duration::from_secs(1), ahead: None });
    server.cmd(&["PEXPIRE", "plain", "2500"]);
    let Verdict::Busy { retry_after, .. } = take(&redis, &claim).await.unwrap() else { panic!("granted") };
    assert!(retry_after <= Duration::from_millis(2500) && retry_after > Duration::from_millis(1500), "{retry_after:?}");
    assert_eq!(release(&redis, &claim).await.unwrap(), Released::NotHeld);
    assert_eq!(renew(&redis, &claim).await.unwrap(), Renewal::Gone);
    assert_eq!(server.hash("plain"), [(java.to_owned(), "1".to_owned())].into());
    assert_eq!(server.keys(), ["plain"], "the claim has created a token");
}

#[tokio::test]
async fn a_key_that_is_not_a_lock_is_never_changed() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (own, other) = (claim("k"), claim("other"));
    server.cmd(&["SET", "k", "text"]);
    fences(&redis, &other).await;
    let errors = [
        take(&redis, &own).await.map(|_| ()).unwrap_err(),
        pass(&redis, &other, &own).await.map(|_| ()).unwrap_err(),
        release(&redis, &own).await.map(|_| ()).unwrap_err(),
        renew(&redis, &own).await.map(|_| ()).unwrap_err(),
    ];
    for (error, verb) in errors.into_iter().zip(["claim", "pass", "release", "renew"]) {
        assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some(verb)), "{error}");
        assert_eq!(error.key(), Some(&own.key));
        assert!(error.to_string().contains("not a lock") && !error.maybe_applied(), "{error}");
    }
    // A key that is not a lock does not affect the other keys of the same call.
    let renewals = redis.renew(&[other.clone(), own, other.clone()]).await;
    assert_eq!(renewals[0].as_ref().unwrap(), &Renewal::Extended { valid_for: other.ttl });
    assert_eq!(renewals[1].as_ref().unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(renewals[2].as_ref().unwrap(), &Renewal::Extended { valid_for: other.ttl });
    assert_eq!(server.cmd(&["GET", "k"]).text(), "text");
    assert_eq!(server.keys(), ["k", "other", "redisson_lock_token:{other}"]);
}

#[tokio::test]
async fn steps_are_applied_and_answered_in_their_order() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (first, second) = (claim("k"), claim("k"));
    server.cmd(&["SET", "bad", "text"]);
    let steps = [
        Step::Claim(first.clone()),
        Step::Claim(second.clone()),
        Step::Claim(claim("bad")),
        Step::Release(first.clone()),
        Step::Claim(second.clone()),
    ];
    let answers = redis.apply(&steps).await;
    let answers: Vec<String> = answers.iter().map(|answer| format!("{answer:?}")).collect();
    for (answer, part) in answers.iter().zip(["Granted", "Busy", "not a lock", "Freed", "Granted"]) {
        assert!(answer.contains(part), "{answers:#?}");
    }
    assert_eq!(server.calls("evalsha"), 5);
    assert!(redis.apply(&[]).await.is_empty() && redis.renew(&[]).await.is_empty());
}

#[tokio::test]
async fn renewals_that_need_several_script_calls_are_answered_in_their_order() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let claims: Vec<_> = (0..1300).map(|number| claim(&format!("k{number}"))).collect();
    for half in claims.chunks(2) {
        fences(&redis, &half[0]).await;
    }
    let renewals = redis.renew(&claims).await;
    assert_eq!(renewals.len(), claims.len());
    for (number, renewal) in renewals.into_iter().enumerate() {
        let is_held = number % 2 == 0;
        assert_eq!(renewal.unwrap() == Renewal::Gone, !is_held, "{number}");
    }
}

#[tokio::test]
async fn a_database_is_chosen_by_the_path_of_the_url() {
    let server = RedisServer::start();
    let redis = crate::help::at(&format!("{}/2", server.url()));
    let held = claim("k");
    fences(&redis, &held).await;
    assert_eq!(server.keys(), [""; 0]);
    let mut client = server.client();
    client.cmd(&["SELECT", "2"]).unwrap();
    assert_eq!(client.cmd(&["EXISTS", "k"]).unwrap(), Reply::Int(1));
    assert_eq!(redis.profile().store, format!("{}/2", server.url()));
}

/// A connection that is subscribed to this channel.
pub(crate) fn subscriber(server: &RedisServer, channel: &str) -> RawRedis {
    let mut client = server.client();
    client.send(&["SUBSCRIBE", channel]).unwrap();
    assert_eq!(client.read().unwrap().array()[0].text(), "subscribe");
    client
}
