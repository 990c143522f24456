//! Fences rise with every grant, also after the store has lost data.

use std::{
    num::NonZeroU32,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bandog_core::{Claim, ErrorKind, Fence, Fences, Verdict};
use bandog_redis::Redis;
use bandog_testkit::RedisServer;

use crate::help::{SOON, backend, claim, ends, fences, pass, release, take};

const TOKEN: &str = "redisson_lock_token:{k}";

#[tokio::test]
async fn a_grant_reserves_a_block_that_ends_with_the_token() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (first, last) = ends(&fences(&redis, &claim("k")).await);
    assert_eq!(last.get() - first.get(), 63);
    assert_eq!(server.cmd(&["GET", TOKEN]).text(), last.to_string());
    let one = Claim { fences: NonZeroU32::MIN, ..claim("one") };
    let (first, last) = ends(&fences(&redis, &one).await);
    assert_eq!(first, last);
}

#[tokio::test]
async fn the_first_fence_is_the_servers_time() {
    let server = RedisServer::start();
    let before = micros();
    let (first, _) = ends(&fences(&backend(&server), &claim("k")).await);
    assert!((before..=micros()).contains(&first.get()), "{first}");
}

#[tokio::test]
async fn a_repeated_claim_has_the_same_fences_and_a_fresh_ttl() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("k");
    let block = fences(&redis, &held).await;
    server.cmd(&["PEXPIRE", "k", "1000"]);
    assert_eq!(fences(&redis, &held).await, block);
    assert!(server.pttl("k") > 29_000);
    // Without the token, the store does not know the earlier fences, so the claim gets new fences.
    server.cmd(&["DEL", TOKEN]);
    let again = fences(&redis, &held).await;
    assert!(ends(&again).0 > block.last());
    assert_eq!(fences(&redis, &held).await, again);
    assert_eq!(server.hash("k").len(), 1);
}

// Promise: RD3
#[tokio::test]
async fn fences_rise_after_any_loss_of_data() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let mut highest = Fence::new(0);
    let mut next = async |redis: &Redis| {
        let held = claim("k");
        let (first, last) = ends(&fences(redis, &held).await);
        assert!(first > highest, "{first} after {highest}");
        highest = last;
        held
    };
    let held = next(&redis).await;
    release(&redis, &held).await.unwrap();
    next(&redis).await;
    server.cmd(&["DEL", "k"]);
    next(&redis).await;
    server.cmd(&["DEL", "k", TOKEN]);
    next(&redis).await;
    server.cmd(&["FLUSHALL"]);
    next(&redis).await;
    server.restart();
    let other = backend(&server);
    next(&other).await;
    server.cmd(&["PEXPIRE", "k", "1"]);
    bandog_testkit::eventually(SOON, || server.pttl("k") == -2);
    next(&other).await;
}

#[tokio::test]
async fn fences_continue_from_a_token_ahead_of_the_clock() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let ahead = micros() + 1_000_000_000;
    server.cmd(&["SET", TOKEN, &ahead.to_string()]);
    let held = claim("k");
    assert_eq!(ends(&fences(&redis, &held).await), (Fence::new(ahead + 1), Fence::new(ahead + 64)));
    // A Redisson client increments the token by one.
    release(&redis, &held).await.unwrap();
    server.cmd(&["INCR", TOKEN]);
    let held = claim("k");
    assert_eq!(ends(&fences(&redis, &held).await).0, Fence::new(ahead + 66));
    let next = claim("k");
    let Verdict::Granted { fences, .. } = pass(&redis, &held, &next).await.unwrap() else { panic!("busy") };
    assert_eq!(ends(&fences), (Fence::new(ahead + 130), Fence::new(ahead + 193)));
}

#[tokio::test]
async fn a_small_or_negative_token_is_overtaken_by_the_clock() {
    let server = RedisServer::start();
    for small in ["41", "0", "-7"] {
        server.cmd(&["SET", TOKEN, small]);
        let before = micros();
        let redis = backend(&server);
        let held = claim("k");
        assert!(ends(&fences(&redis, &held).await).0.get() >= before);
        release(&redis, &held).await.unwrap();
    }
}

// Promise: RD3
#[tokio::test]
async fn a_token_that_cannot_be_incremented_is_corrupt_and_no_hold_is_left() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for bad in ["text", "", "1.5", "1e3", "0x10", " 1", "9007199254740928", "9007199254740993", "99999999999999999999"]
    {
        server.cmd(&["SET", TOKEN, bad]);
        refused_as_corrupt(&redis).await;
        assert_eq!(server.cmd(&["GET", TOKEN]).text(), bad);
        assert_eq!(server.keys(), [TOKEN]);
    }
    server.cmd(&["DEL", TOKEN]);
    server.cmd(&["RPUSH", TOKEN, "1"]);
    refused_as_corrupt(&redis).await;
    assert_eq!(server.keys(), [TOKEN]);
}

#[tokio::test]
async fn the_greatest_possible_fences_are_exact() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let last = (1_u64 << 53) - 65;
    server.cmd(&["SET", TOKEN, &last.to_string()]);
    let block: Fences = fences(&redis, &claim("k")).await;
    assert_eq!(ends(&block), (Fence::new(last + 1), Fence::new(last + 64)));
    assert_eq!(server.cmd(&["GET", TOKEN]).text(), (last + 64).to_string());
}

async fn refused_as_corrupt(redis: &Redis) {
    let held = claim("k");
    let error = take(redis, &held).await.unwrap_err();
    assert_eq!((error.kind(), error.verb(), error.key()), (ErrorKind::Corrupt, Some("claim"), Some(&held.key)));
    assert!(error.to_string().contains(TOKEN) && !error.maybe_applied(), "{error}");
}

fn micros() -> u64 {
    let now: Duration = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_micros().try_into().unwrap()
}
