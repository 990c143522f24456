use super::{Breach, Grant, Ledger, Part};

const LIMIT: u32 = 3;

fn grant(part: Part, fence: u64) -> Grant<u64> {
    Grant { part, fence, of: fence }
}

/// Enters these grants, all of which are held until the end, and returns the breaches of the last one.
fn last(grants: &[(Part, u64)]) -> Vec<Breach<u64>> {
    let mut ledger = Ledger::new(LIMIT);
    let enter = |(part, fence): &(Part, u64)| ledger.enter(grant(*part, *fence), |_| true, |_| LIMIT);
    grants.iter().map(enter).last().unwrap_or_default()
}

#[test]
fn a_holder_that_is_alone_overlaps_every_other_holder() {
    let overlap = |part, fence| Breach::Overlap { older: grant(part, fence) };
    assert_eq!(last(&[(Part::Alone, 1), (Part::Alone, 2)]), [overlap(Part::Alone, 1)]);
    assert_eq!(last(&[(Part::Alone, 1), (Part::Shared, 2)]), [overlap(Part::Alone, 1)]);
    let readers = [(Part::Shared, 1), (Part::Shared, 2), (Part::Alone, 3)];
    assert_eq!(last(&readers), [overlap(Part::Shared, 1), overlap(Part::Shared, 2)]);
}

#[test]
fn readers_share_the_lock_in_any_order_of_their_fences() {
    assert_eq!(last(&[(Part::Shared, 2), (Part::Shared, 1), (Part::Shared, 3)]), []);
}

#[test]
fn permits_are_counted() {
    let two = Part::Permits(2);
    assert_eq!(last(&[(Part::Permits(1), 2), (two, 1)]), []);
    let too_many = Breach::TooMany { held: 4, limit: LIMIT, older: vec![grant(two, 1)] };
    assert_eq!(last(&[(two, 1), (two, 2)]), [too_many]);
}

#[test]
fn a_holder_that_has_ended_overlaps_nothing() {
    let mut ledger = Ledger::new(0);
    for fence in 1..9 {
        assert_eq!(ledger.enter(grant(Part::Alone, fence), |_| false, |_| 0), []);
        assert_eq!(ledger.open.len(), 1, "earlier grants are dropped");
    }
}

#[test]
fn fences_increase() {
    let mut ledger = Ledger::new(LIMIT);
    let mut enter = |part, fence| ledger.enter(grant(part, fence), |_| false, |_| LIMIT);
    assert_eq!(enter(Part::Alone, 5), []);
    assert_eq!(enter(Part::Alone, 5), [Breach::Fence { before: grant(Part::Alone, 5) }], "an equal fence");
    assert_eq!(enter(Part::Shared, 4), [Breach::Fence { before: grant(Part::Alone, 5) }], "a smaller fence");
    assert_eq!(enter(Part::Shared, 9), []);
    assert_eq!(enter(Part::Shared, 7), []);
    assert_eq!(enter(Part::Alone, 8), [Breach::Fence { before: grant(Part::Shared, 9) }]);
    assert_eq!(enter(Part::Alone, 10), []);
}
