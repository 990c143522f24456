//! Bad days: batches beside rows that others lock, a deadlock, and a server that becomes read-only.

use std::time::Duration;

use bandog_core::{Answer, ErrorKind, Key, Leases, Records, Released, Renewal, Step, Swap, Swapped};
use bandog_testkit::{MariaDb, MariaDbServer, eventually_async};
use mysql_async::prelude::Queryable;

use super::{SERVER, lock_waits};
use crate::suite::{Database, SOON, TTL, claim, open, release, renew, take};

/// A transaction of a user that checks a lock keeps the row of its fence.
#[tokio::test]
async fn a_transaction_that_checks_a_lock_delays_no_other_claim_of_a_batch() {
    let database = SERVER.new_database();
    let store = open(&SERVER.url(&database));
    let claims: Vec<_> = (0..20).map(|number| claim(&format!("name {number}"))).collect();
    let batch = |step: fn(bandog_core::Claim) -> Step| claims.iter().cloned().map(step).collect::<Vec<_>>();
    let fences = async || {
        let answers = store.apply(&batch(Step::Claim)).await.into_iter().map(Result::unwrap);
        let fence = |answer| match answer {
            Answer::Claimed(bandog_core::Verdict::Granted { fences, .. }) => Some(fences.last()),
            Answer::Claimed(bandog_core::Verdict::Busy { .. }) | Answer::Released(_) => None,
        };
        answers.map(fence).collect::<Vec<_>>()
    };
    let first = fences().await;
    let freed = |answer: &bandog_core::Result<Answer>| {
        matches!(answer, Ok(Answer::Released(Released::Freed { others: Some(0) })))
    };
    assert!(store.apply(&batch(Step::Release)).await.iter().all(freed));
    let mut raw = MariaDb::connect(&SERVER, &database).await;
    let check = "start transaction; select * from bandog_fence where name = 'name 7' lock in share mode";
    raw.query_drop(check).await.unwrap();
    let second = fences().await;
    for (number, (first, second)) in first.iter().zip(&second).enumerate() {
        assert!(first.is_some(), "name {number} was not granted at first");
        assert_eq!(second.is_none(), number == 7, "name {number}");
        assert!(second.is_none() || second > first, "the fence of name {number} does not rise");
    }
    raw.query_drop("rollback").await.unwrap();
    assert!(take(&store, &claims[7]).await.last() > first[7].unwrap());
    assert!(store.apply(&batch(Step::Release)).await.iter().all(freed));
}

/// A statement of MariaDB has 64 names at most, and one ttl.
#[tokio::test]
async fn a_call_can_have_more_claims_than_a_statement() {
    let store = open(&SERVER.url(&SERVER.new_database()));
    let ttl = |number: u32| TTL + Duration::from_secs(u64::from(number % 2));
    let new = |number| bandog_core::Claim { ttl: ttl(number), ..claim(&format!("name {number}")) };
    let claims: Vec<_> = (0..150).map(new).collect();
    for _ in 0..2 {
        let steps: Vec<_> = claims.iter().cloned().map(Step::Claim).collect();
        for (claim, answer) in claims.iter().zip(store.apply(&steps).await) {
            let Answer::Claimed(bandog_core::Verdict::Granted { valid_for, .. }) = answer.unwrap() else {
                panic!("{} is busy", claim.key);
            };
            assert_eq!(valid_for, claim.ttl);
        }
        let steps: Vec<_> = claims.iter().cloned().map(Step::Release).collect();
        for (claim, answer) in claims.iter().zip(store.apply(&steps).await) {
            assert_eq!(answer.unwrap(), Answer::Released(Released::Freed { others: Some(0) }), "{}", claim.key);
        }
    }
}

/// Two statements for releases, and one for claims that is refused after a half of its work.
#[tokio::test]
async fn a_claim_that_is_refused_undoes_no_release_of_its_call_and_leaves_nothing() {
    // With 65 releases, the last one is a statement of one name.
    for count in [65, 70] {
        let database = SERVER.new_database();
        let store = open(&SERVER.url(&database));
        let held: Vec<_> = (0..count).map(|number| claim(&format!("held {number}"))).collect();
        for held in &held {
            take(&store, held).await;
        }
        let (checked, free) = (claim("checked"), claim("free"));
        let mut fences = Vec::new();
        for claim in [&checked, &free] {
            fences.push(take(&store, claim).await.last());
            release(&store, claim).await;
        }
        let mut raw = MariaDb::connect(&SERVER, &database).await;
        let check = "start transaction; select * from bandog_fence where name = 'checked' lock in share mode";
        raw.query_drop(check).await.unwrap();
        let (checked, free) = (claim("checked"), claim("free"));
        let releases = held.iter().cloned().map(Step::Release);
        let steps: Vec<_> = releases.chain([Step::Claim(checked.clone()), Step::Claim(free.clone())]).collect();
        let answers: Vec<_> = store.apply(&steps).await.into_iter().map(Result::unwrap).collect();
        let (claimed, released) =
            answers.split_last_chunk::<2>().map(|(released, claimed)| (claimed, released)).unwrap();
        assert!(released.iter().all(|answer| *answer == Answer::Released(Released::Freed { others: Some(0) })));
        let Answer::Claimed(bandog_core::Verdict::Granted { fences: granted, .. }) = &claimed[1] else {
            panic!("{claimed:?}");
        };
        assert!(granted.last() > fences[1], "the fence does not rise");
        assert!(matches!(claimed[0], Answer::Claimed(bandog_core::Verdict::Busy { .. })), "{claimed:?}");
        raw.query_drop("rollback").await.unwrap();
        for held in &held {
            take(&store, &claim(held.key.as_str())).await;
        }
        assert!(take(&store, &claim("checked")).await.last() > fences[0], "the fence does not rise");
    }
}

// Promise: MY14
#[tokio::test]
async fn deadlocks_are_repeated_inside() {
    let database = SERVER.new_database();
    let mut raw = MariaDb::connect(&SERVER, &database).await;
    let store = open(&SERVER.url(&database));
    let keys = ["one", "two"].map(|name| Key::new(name).unwrap());
    let created = store.swap(&keys.clone().map(|key| Swap::new(key, None, "old"))).await.unwrap();
    let versions = created.each.into_iter().map(|swapped| match swapped.unwrap() {
        Swapped::Done(version) => version,
        other => panic!("{other:?}"),
    });
    let swaps: Vec<_> = keys.into_iter().zip(versions).map(|(key, version)| Swap::new(key, version, "new")).collect();
    raw.query_drop("start transaction; select * from bandog_record where name = 'two' for update").await.unwrap();
    let swapping = tokio::spawn({
        let store = store.clone();
        async move { store.swap(&swaps).await }
    });
    eventually_async(SOON, async || !lock_waits(&database).is_empty()).await;
    // This closes the circle. The server ends the transaction of the store or this one.
    let ended = raw.query_drop("select * from bandog_record where name = 'one' for update").await;
    if ended.is_ok() {
        raw.query_drop("rollback").await.unwrap();
    }
    for swapped in swapping.await.unwrap().unwrap().each {
        assert!(matches!(swapped, Ok(Swapped::Done(_))), "{swapped:?}");
    }
}

// Promise: MY15
#[tokio::test]
async fn a_server_that_becomes_read_only_is_unavailable() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    let (store, ours) = (open(&server.url(&database)), claim("k"));
    take(&store, &ours).await;
    server.sql("mysql", "set global read_only = 1");
    let refused =
        |error: &bandog_core::Error| error.kind() == ErrorKind::Unavailable && error.to_string().contains("read-only");
    let error = renew(&store, &ours).await.unwrap_err();
    assert!(refused(&error), "{error}");
    let error = open(&server.url(&database)).ping().await.unwrap_err();
    assert!(refused(&error), "{error}");
    server.sql("mysql", "set global read_only = 0");
    let renewed = eventually_async(SOON, async || renew(&store, &ours).await).await;
    assert_eq!(renewed, Renewal::Extended { valid_for: TTL });
}
