//! Batches of steps: each step has its own answer, independent of the others.

use bandog_core::{Answer, Claim, ErrorKind, Leases, Released, Result, Step, Verdict};
use bandog_testkit::RedisServer;

use crate::help::{at, backend, claim, ends, fences};

fn is_granted(answer: &Result<Answer>) -> bool {
    matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. })))
}

fn kind(answer: &Result<Answer>) -> Option<ErrorKind> {
    answer.as_ref().err().map(bandog_core::Error::kind)
}

#[tokio::test]
async fn claims_passes_and_releases_are_answered_in_their_order() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let names = ["a", "b", "c", "d"];
    let [a, b, c, d] = names.map(claim);
    let (c2, busy) = (claim("c"), claim("d"));
    for held in [&b, &c, &d] {
        fences(&redis, held).await;
    }
    let steps = [
        Step::Claim(a.clone()),
        Step::Release(b),
        Step::Pass { from: Box::new(c), to: c2.clone() },
        Step::Claim(busy.clone()),
        Step::Release(claim("e")),
    ];
    let answers = redis.apply(&steps).await;
    assert!(is_granted(&answers[0]) && is_granted(&answers[2]), "{answers:?}");
    assert_eq!(answers[1].as_ref().unwrap(), &Answer::Released(Released::Freed { others: Some(0) }));
    assert!(matches!(answers[3], Ok(Answer::Claimed(Verdict::Busy { .. }))), "{answers:?}");
    assert_eq!(answers[4].as_ref().unwrap(), &Answer::Released(Released::NotHeld));
    let owner = |claim: &Claim| server.hash(claim.key.as_str()).into_keys().next();
    assert_eq!((owner(&a), owner(&c2)), (Some(a.id.to_string()), Some(c2.id.to_string())));
    assert_eq!(owner(&busy), Some(d.id.to_string()));
}

#[tokio::test]
async fn steps_of_one_key_keep_their_order() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (first, second) = (claim("k"), claim("k"));
    let before = ends(&fences(&redis, &first).await).1;
    let steps = [Step::Release(first), Step::Claim(second.clone()), Step::Claim(claim("other"))];
    let answers = redis.apply(&steps).await;
    let Ok(Answer::Claimed(Verdict::Granted { fences, .. })) = &answers[1] else { panic!("{answers:?}") };
    assert!(ends(fences).0 > before);
    assert_eq!(server.hash("k").into_keys().next(), Some(second.id.to_string()));
}

#[tokio::test]
async fn a_key_of_another_type_does_not_stop_the_others() {
    let server = RedisServer::start();
    let redis = backend(&server);
    server.cmd(&["SET", "text", "mine"]);
    server.cmd(&["SET", "redisson_lock_token:{odd}", "not a number"]);
    let claims = ["a", "text", "odd", "b"].map(claim);
    let answers = redis.apply(&claims.clone().map(Step::Claim)).await;
    assert!(is_granted(&answers[0]) && is_granted(&answers[3]), "{answers:?}");
    assert_eq!((kind(&answers[1]), kind(&answers[2])), (Some(ErrorKind::Denied), Some(ErrorKind::Corrupt)));
    assert_eq!(answers[1].as_ref().unwrap_err().key().unwrap().as_str(), "text");

    let answers = redis.apply(&claims.map(Step::Release)).await;
    assert!(matches!(answers[0], Ok(Answer::Released(Released::Freed { .. }))), "{answers:?}");
    assert!(matches!(answers[3], Ok(Answer::Released(Released::Freed { .. }))), "{answers:?}");
    assert_eq!(kind(&answers[1]), Some(ErrorKind::Denied));
    assert_eq!(server.cmd(&["GET", "text"]).text(), "mine");
}

#[tokio::test]
async fn a_key_that_the_user_may_not_use_does_not_stop_the_others() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">x", "+@all", "~a", "~b", "~redisson_lock_token:*", "&*"]);
    let redis = at(&server.url().replace("redis://", "redis://few:x@"));
    let claims = ["a", "far", "b"].map(claim);
    let answers = redis.apply(&claims.clone().map(Step::Claim)).await;
    assert!(is_granted(&answers[0]) && is_granted(&answers[2]), "{answers:?}");
    assert_eq!(kind(&answers[1]), Some(ErrorKind::Denied));
    let answers = redis.apply(&claims.map(Step::Release)).await;
    assert!(matches!(answers[2], Ok(Answer::Released(Released::Freed { .. }))), "{answers:?}");
    assert_eq!(server.keys(), ["redisson_lock_token:{a}", "redisson_lock_token:{b}"]);
}

// Promise: RD8
#[tokio::test]
async fn a_full_server_refuses_the_claims_of_a_batch_and_accepts_its_releases() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("held");
    fences(&redis, &held).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let steps = [Step::Claim(claim("a")), Step::Release(held), Step::Claim(claim("b"))];
    let answers = redis.apply(&steps).await;
    assert_eq!((kind(&answers[0]), kind(&answers[2])), (Some(ErrorKind::Unavailable), Some(ErrorKind::Unavailable)));
    assert!(!answers[0].as_ref().unwrap_err().maybe_applied());
    assert!(matches!(answers[1], Ok(Answer::Released(Released::Freed { .. }))), "{answers:?}");
    assert_eq!(server.keys(), ["redisson_lock_token:{held}"]);
}
