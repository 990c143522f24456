use std::{num::NonZeroU32, time::Duration};

use super::*;
use crate::ClientId;

fn claim(number: u64, fences: u32) -> Claim {
    let id = ClaimId { client: ClientId::random(), number };
    let (ttl, fences) = (Duration::from_secs(30), NonZeroU32::new(fences).unwrap());
    Claim { key: Key::new("orders").unwrap(), id, kind: Kind::Mutex, ttl, fences, offers: false }
}

#[test]
fn a_fence_rises_whatever_the_wall_clock_does() {
    let now = Moment::from_nanos(7);
    for (last, wall, expected) in
        [(0, 1_000, 1_003), (1_003, 1_001, 1_007), (1_003, 0, 1_007), (1_003, 1_004, 1_007), (1_003, 5_000, 5_003)]
    {
        let (first, next) = (claim(1, 4), claim(2, 1));
        let mut state = LockState::new(None, Fence::new(last));
        let above = Fence::new(u64::saturating_sub(wall, 1));
        let granted = state.apply_above(&Step::Claim(first.clone()), now, above);
        let Answer::Claimed(Verdict::Granted { mut fences, .. }) = granted.clone() else { panic!("{granted:?}") };
        assert_eq!(
            (fences.last().get(), state.fence().get()),
            (expected, expected),
            "the last fence is {last}, and the wall clock shows {wall}"
        );
        assert!(fences.take() > Some(Fence::new(last)));

        // A repeated claim gets the fences of its first grant again, whatever time the wall clock shows now.
        assert_eq!(state.apply_above(&Step::Claim(first.clone()), now, Fence::new(u64::MAX / 2)), granted);
        state.apply_above(&Step::Pass { from: first, to: next }, now, Fence::new(0));
        assert_eq!(state.fence().get(), expected + 1);
    }
}
