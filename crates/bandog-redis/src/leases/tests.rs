use std::num::NonZeroU32;

use bandog_core::{ClaimId, Key, Kind};
use bandog_redis_net::Replies;

use super::*;
use crate::answers::renewal;

#[test]
fn fuzz_answers() {
    let id = ClaimId { client: ClientId::random(), number: 7 };
    let (ttl, fences) = (Duration::from_secs(30), NonZeroU32::new(64).unwrap());
    let claim = Claim { fences, ..Claim::new(Key::new("orders").unwrap(), id, Kind::Mutex, ttl) };
    let redis = Redis::new(RedisOptions::from_url("redis://localhost").unwrap()).unwrap();
    let samples = [":1790000000000063\r\n", ":-29999\r\n", ":0\r\n", ":2\r\n", "*2\r\n:1\r\n:0\r\n", "-OOM x\r\n"];
    crate::fuzz::replies("answers to steps", &samples, |reply| {
        let steps = [Step::Claim(claim.clone()), Step::Release(claim.clone())];
        let mut answers = vec![None, None];
        let again = redis.distribute(&steps, vec![vec![0, 1]], Replies::from_values(vec![reply.clone()]), &mut answers);
        assert!(again.len() == 2 || answers.iter().all(Option::is_some), "a step has no answer: {reply:?}");
        let renewed = renewal(&claim, reply).is_ok();
        renewed || answers.into_iter().flatten().any(|answer| answer.is_ok())
    });
}

/// A replica that takes over may have the place of a claim, and not its grant.
#[test]
fn a_place_in_the_queue_is_no_hold() {
    let claim = Claim {
        joins: true,
        ..Claim::new(
            Key::new("orders").unwrap(),
            ClaimId { client: ClientId::random(), number: 1 },
            Kind::Fair,
            Duration::from_secs(5),
        )
    };
    assert!(is_held(&claim, None).is_ok(), "the single server has answered for its replicas");
    assert!(
        is_held(&claim, Some(Value::Int(1))).is_ok()
            && is_held(&claim, Some(Value::Array(vec![Value::Int(1)]))).is_ok()
    );
    for other in [0, 2, 3] {
        let error = is_held(&claim, Some(Value::Int(other))).unwrap_err();
        assert_eq!((error.kind(), error.maybe_applied()), (bandog_core::ErrorKind::Unavailable, true), "{other}");
    }
}
