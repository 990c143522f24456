use std::num::NonZeroU32;

use bandog_core::{ClaimId, Key, Kind};

use super::*;
use crate::{answers::renewal, servers::Replies};

#[test]
fn fuzz_answers() {
    let id = ClaimId { client: ClientId::random(), number: 7 };
    let (ttl, fences) = (Duration::from_secs(30), NonZeroU32::new(64).unwrap());
    let claim = Claim {
        key: Key::new("orders").unwrap(),
        id,
        kind: Kind::Mutex,
        ttl,
        fences,
        above: None,
        joins: false,
        offers: false,
    };
    let redis = Redis::new(RedisOptions::from_url("redis://localhost").unwrap()).unwrap();
    let samples = [":1790000000000063\r\n", ":-29999\r\n", ":0\r\n", ":2\r\n", "*2\r\n:1\r\n:0\r\n", "-OOM x\r\n"];
    crate::fuzz::replies("answers to steps", &samples, |reply| {
        let steps = [Step::Claim(claim.clone()), Step::Release(claim.clone())];
        let mut answers = vec![None, None];
        let again = redis.distribute(&steps, vec![vec![0, 1]], Replies::new([Ok(reply.clone())]), &mut answers);
        assert!(again.len() == 2 || answers.iter().all(Option::is_some), "a step has no answer: {reply:?}");
        let renewed = renewal(&claim, reply).is_ok();
        renewed || answers.into_iter().flatten().any(|answer| answer.is_ok())
    });
}
