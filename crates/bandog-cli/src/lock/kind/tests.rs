use super::*;

fn permits(take: u32, of: u32) -> Kind {
    let [take, of] = [take, of].map(|number| NonZeroU32::new(number).unwrap());
    Kind::Permits { take, of }
}

#[test]
fn a_claim_waits_for_holds_that_exclude_it() {
    let exclusive = [Kind::Mutex, Kind::Fair];
    for (claim, held) in exclusive.iter().flat_map(|claim| exclusive.iter().map(move |held| (*claim, *held))) {
        assert!(waits_for(claim, &[held]), "{claim} under {held}");
    }
    for (claim, held) in [(Kind::Read, Kind::Write), (Kind::Write, Kind::Read), (Kind::Write, Kind::Write)] {
        assert!(waits_for(claim, &[held]), "{claim} under {held}");
    }
    assert!(!waits_for(Kind::Read, &[Kind::Read, Kind::Read]));
    assert!(waits_for(Kind::Read, &[Kind::Read, Kind::Write]));
}

#[test]
fn a_claim_of_permits_waits_if_the_ancestors_have_too_many() {
    assert!(!waits_for(permits(2, 5), &[permits(3, 5)]));
    assert!(waits_for(permits(3, 5), &[permits(3, 5)]));
    assert!(waits_for(permits(2, 5), &[permits(2, 5), permits(2, 5)]));
}

#[test]
fn a_claim_does_not_wait_for_another_family_or_for_nothing() {
    for claim in [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, permits(5, 5)] {
        assert!(!waits_for(claim, &[]), "{claim}");
        let others = [Kind::Mutex, Kind::Write, permits(1, 1)];
        let others: Vec<_> = others.into_iter().filter(|held| held.family() != claim.family()).collect();
        assert_eq!(others.len(), 2);
        assert!(!waits_for(claim, &others), "{claim} under {others:?}");
    }
}
