//! Tests that give random texts to each parser of this crate. Each closure returns whether its parser accepted the
//! text.

use std::{num::NonZeroU32, time::Duration};

use bandog_testkit::fuzz;

use crate::{Claim, ClaimId, ClientId, Key, Kind, LockState, Moment, Pattern, Step};

const CLIENT: &str = "00000000-0000-8000-8000-000000000001";
const CLAIM: &str = "00000000-0000-8000-8000-000000000001:7";

#[test]
fn fuzz_texts_of_lock_states() {
    let samples = [
        "0",
        "17",
        &format!("1790000000000000 {CLAIM} 4000000000"),
        &format!("64 {CLAIM} 0 starving"),
        &format!("64 * starving hold {CLAIM} read 4000000000 63 hold {CLAIM} read 1 64 place {CLAIM} write 4000000000"),
        &format!("9 * limit 5 3 hold {CLAIM} permits:2/5 4000000000 9 place {CLAIM} permits:5/5 4000000000"),
        &format!("9 * hold {CLAIM} fair 4000000000 9 place {CLAIM} fair 4000000000"),
    ];
    fuzz::texts("LockState", &samples, &[CLAIM, " ", "18446744073709551615", "fair", "permits:1/2"], |text| {
        let Ok(state) = text.parse::<LockState>() else { return false };
        let again = state.to_string();
        assert_eq!(again.parse::<LockState>().unwrap(), state, "{text:?} was parsed and then written as {again:?}");
        let mut state = state;
        for claim in [claim(7, 1), claim(8, 64), Claim { offers: true, ..claim(9, 1) }] {
            for now in [0, 4_000_000_000, u64::MAX / 2] {
                let now = Moment::from_nanos(now);
                state.renew(&claim, now);
                // A step of another family is refused. A refusal must not damage the state either.
                let steps = [
                    Step::Claim(claim.clone()),
                    Step::Pass { from: Box::new(claim.clone()), to: claim_after(&claim) },
                    Step::Release(claim_after(&claim)),
                ];
                steps.iter().for_each(|step| drop(state.apply(step, now)));
                // A text whose fence is greater than the maximum of i64 is refused. Only the steps of this loop can
                // have raised the fence above the maximum, and only by little. So such a fence begins with the digits
                // of the maximum.
                let is_read = state.to_string().parse().is_ok_and(|read: LockState| read == state);
                assert!(is_read || state.to_string().starts_with("922337203685477"), "{state}");
            }
        }
        true
    });
}

fn claim(number: u64, fences: u32) -> Claim {
    let id = ClaimId { client: CLIENT.parse().unwrap(), number };
    let (ttl, fences) = (Duration::from_secs(30), NonZeroU32::new(fences).unwrap());
    Claim { fences, ..Claim::new(Key::new("orders").unwrap(), id, Kind::Mutex, ttl) }
}

/// The same claim with the next number.
fn claim_after(claim: &Claim) -> Claim {
    Claim { id: ClaimId { number: claim.id.number + 1, ..claim.id }, ..claim.clone() }
}

#[test]
fn fuzz_texts_of_client_ids_and_claim_ids() {
    fuzz::texts("ClaimId", &[CLAIM, "ffffffff-ffff-8fff-bfff-ffffffffffff:18446744073709551615"], &[CLIENT], |text| {
        assert!(text.parse::<ClientId>().is_ok_and(|id| id.to_string() == text) || text.parse::<ClientId>().is_err());
        let Ok(id) = text.parse::<ClaimId>() else { return false };
        assert_eq!(id.to_string(), text);
        assert!(ClientId::made(text));
        true
    });
}

#[test]
fn fuzz_keys_and_patterns() {
    let samples = ["orders", "order-*", "a?c", "*a*b*c*d*e*f*g*h", "what\\*", "\\", "shop:{order}:7", "日本語*"];
    fuzz::texts("Key and Pattern", &samples, &["*", "?", "\\", "a*a*a*a*a*a*a*", "aaaaaaaaaaaaaaaa"], |text| {
        let Ok(key) = Key::new(text) else { return false };
        assert!(Pattern::exactly(&key).matches(text), "{text:?} does not match itself");
        assert!(Pattern::all().matches(text));
        assert!(Pattern::all().after(text).matches(text));
        assert!(Pattern::new("").after(text).matches(text));
        assert!(!Pattern::exactly(&key).matches(&format!("{text}a")));
        let middle = text.char_indices().map(|(at, _)| at).nth(text.chars().count() / 2).unwrap_or_default();
        let (head, tail) = text.split_at(middle);
        assert!(Pattern::new("*").after(head).matches(text));
        // A match must not take time that is exponential in the number of stars. If it did, this test would hang.
        let _ = Pattern::new(text).matches(&format!("{tail}{head}").repeat(8));
        true
    });
}
