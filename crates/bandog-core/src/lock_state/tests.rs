use std::{num::NonZeroU32, time::Duration};

use super::*;
use crate::ClientId;

fn claim(number: u64, fences: u32) -> Claim {
    let id = ClaimId { client: ClientId::random(), number };
    let (ttl, fences) = (Duration::from_secs(30), NonZeroU32::new(fences).unwrap());
    Claim { fences, ..Claim::new(Key::new("orders").unwrap(), id, Kind::Mutex, ttl) }
}

// Promise: SQ5
#[test]
fn a_fence_rises_whatever_the_wall_clock_does() {
    let now = Moment::from_nanos(7);
    for (last, wall, expected) in
        [(0, 1_000, 1_003), (1_003, 1_001, 1_007), (1_003, 0, 1_007), (1_003, 1_004, 1_007), (1_003, 5_000, 5_003)]
    {
        let (first, next) = (claim(1, 4), claim(2, 1));
        let mut state = LockState::of_mutex(None, false, Fence::new(last));
        let above = Fence::new(u64::saturating_sub(wall, 1));
        let granted = state.apply_above(&Step::Claim(first.clone()), now, above).unwrap();
        let Answer::Claimed(Verdict::Granted { mut fences, .. }) = granted.clone() else { panic!("{granted:?}") };
        assert_eq!(
            (fences.last().get(), state.fence().get()),
            (expected, expected),
            "the last fence is {last}, and the wall clock shows {wall}"
        );
        assert!(fences.take() > Some(Fence::new(last)));

        // A repeated claim gets the fences of its first grant again, whatever time the wall clock shows now.
        let again = state.apply_above(&Step::Claim(first.clone()), now, Fence::new(u64::MAX / 2));
        assert_eq!(again.unwrap(), granted);
        state.apply_above(&Step::Pass { from: Box::new(first), to: next }, now, Fence::new(0)).unwrap();
        assert_eq!(state.fence().get(), expected + 1);
    }
}

/// A quorum sends the claim of a hold with the rest of its ttl. This claim can arrive after the next renewal.
#[test]
fn a_claim_that_is_sent_again_does_not_shorten_its_hold() {
    let (mut state, claim) = (LockState::default(), claim(1, 1));
    let at = |ms: u64| Moment::from_nanos(ms * 1_000_000);
    state.apply(&Step::Claim(claim.clone()), at(0)).unwrap();
    assert_eq!(state.renew(&claim, at(1_000)), Renewal::Extended { valid_for: claim.ttl });
    state.apply(&Step::Claim(Claim { ttl: Duration::from_millis(100), ..claim.clone() }), at(2_000)).unwrap();
    assert!(state.is_held_by(claim.id, at(30_999)) && !state.is_held_by(claim.id, at(31_000)));
    assert_eq!(state.renew(&claim, at(30_999)), Renewal::Extended { valid_for: claim.ttl });
}

/// A lock, and the claims of a test.
#[derive(Default)]
struct Table {
    state: LockState,
    /// Milliseconds that have passed.
    ms: u64,
    claims: u64,
}

impl Table {
    fn now(&self) -> Moment {
        Moment::from_nanos(1_000_000_000 + self.ms * 1_000_000)
    }

    fn new_claim(&mut self, kind: Kind) -> Claim {
        self.claims += 1;
        Claim { kind, joins: !matches!(kind, Kind::Mutex | Kind::Read), ..claim(self.claims, 1) }
    }

    fn try_claim(&mut self, claim: &Claim) -> Result<Verdict> {
        match self.state.apply(&Step::Claim(claim.clone()), self.now())? {
            Answer::Claimed(verdict) => Ok(verdict),
            Answer::Released(released) => panic!("{released:?}"),
        }
    }

    fn granted(&mut self, claim: &Claim) -> bool {
        matches!(self.try_claim(claim).unwrap(), Verdict::Granted { .. })
    }

    /// Claims of these kinds, one after the other. Panics if one of them is refused.
    fn held<const N: usize>(&mut self, kinds: [Kind; N]) -> [Claim; N] {
        kinds.map(|kind| {
            let claim = self.new_claim(kind);
            assert!(self.granted(&claim), "{kind} was refused: {}", self.state);
            claim
        })
    }

    /// Claims of these kinds, one after the other. Panics if one of them is granted.
    fn refused<const N: usize>(&mut self, kinds: [Kind; N]) -> [Claim; N] {
        kinds.map(|kind| {
            let claim = self.new_claim(kind);
            assert!(!self.granted(&claim), "{kind} was granted: {}", self.state);
            claim
        })
    }

    fn release(&mut self, claim: &Claim) -> Released {
        match self.state.apply(&Step::Release(claim.clone()), self.now()).unwrap() {
            Answer::Released(released) => released,
            Answer::Claimed(verdict) => panic!("{verdict:?}"),
        }
    }

    fn pass(&mut self, from: &Claim, to: &Claim) -> Result<Answer> {
        self.state.apply(&Step::Pass { from: Box::new(from.clone()), to: to.clone() }, self.now())
    }
}

fn permits_of(take: u32, of: u32) -> Kind {
    Kind::Permits { take: NonZeroU32::new(take).unwrap(), of: NonZeroU32::new(of).unwrap() }
}

const FREED: Released = Released::Freed { others: None };

#[test]
fn a_fair_mutex_is_granted_in_the_order_of_its_queue() {
    let mut table = Table::default();
    let [holder] = table.held([Kind::Fair]);
    let [first, second] = table.refused([Kind::Fair, Kind::Fair]);
    let Verdict::Busy { ahead, .. } = table.try_claim(&second).unwrap() else { panic!("granted") };
    assert_eq!((ahead, table.state.next_in_queue(table.now())), (Some(1), Some(first.id)));
    assert_eq!(table.release(&holder), FREED);
    let attempt = Claim { joins: false, ..table.new_claim(Kind::Fair) };
    assert!(!table.granted(&attempt), "a try_lock went past the queue");
    assert!(!table.granted(&second), "the second claim in the queue went past the first");
    assert!(table.granted(&first));
    table.release(&first);
    assert_eq!(table.release(&second), Released::LeftQueue);
    assert_eq!(table.release(&second), Released::NotHeld);
    assert!(table.granted(&attempt), "the queue is empty");
}

#[test]
fn the_places_of_dead_waiters_expire_together() {
    let mut table = Table::default();
    let [holder] = table.held([Kind::Fair]);
    let [dead, also_dead, alive] = table.refused([Kind::Fair; 3]);
    table.release(&holder);
    table.ms += 4_000;
    assert_eq!(table.state.renew(&alive, table.now()), Renewal::Waiting { is_next: false });
    let Verdict::Busy { retry_after, .. } = table.try_claim(&alive).unwrap() else { panic!("granted") };
    assert_eq!(retry_after, Duration::from_secs(1));
    table.ms += 1_000;
    assert!(table.granted(&alive), "both dead waiters together delay the queue by one PLACE");
    assert_eq!(table.state.renew(&dead, table.now()), Renewal::Gone);
    assert!(!table.granted(&also_dead));
}

#[test]
fn a_renewal_says_that_a_claim_is_next_while_the_lock_is_free() {
    let extended = Renewal::Waiting { is_next: false };
    let mut table = Table::default();
    let [holder] = table.held([Kind::Fair]);
    let [dead, first, second] = table.refused([Kind::Fair; 3]);
    table.ms += 3_000;
    let renew = |table: &mut Table, claim: &Claim| table.state.renew(claim, table.now());
    assert_eq!([&first, &second].map(|claim| renew(&mut table, claim)), [extended; 2]);
    table.release(&holder);
    assert_eq!(renew(&mut table, &first), extended, "a claim with a place is before it");
    table.ms += 2_000;
    assert_eq!(
        [&first, &second, &dead].map(|claim| renew(&mut table, claim)),
        [Renewal::Waiting { is_next: true }, extended, Renewal::Gone]
    );
    assert_eq!(renew(&mut table, &first), Renewal::Waiting { is_next: true }, "the renewal has granted nothing");
    assert!(table.granted(&first));
    assert_eq!(renew(&mut table, &second), extended);
    table.release(&first);
    let [_plain] = table.held([Kind::Mutex]);
    assert_eq!(renew(&mut table, &second), extended, "a plain mutex is held");

    let mut table = Table::default();
    let [reader] = table.held([Kind::Read]);
    let [writer] = table.refused([Kind::Write]);
    table.release(&reader);
    assert_eq!(renew(&mut table, &writer), extended, "a waiting writer polls once a second");
}

#[test]
fn a_plain_mutex_and_a_fair_mutex_of_one_name_exclude_each_other() {
    let mut table = Table::default();
    let [plain] = table.held([Kind::Mutex]);
    let [fair] = table.refused([Kind::Fair]);
    table.release(&plain);
    let [plain] = table.held([Kind::Mutex]);
    assert!(!table.granted(&fair));
    table.release(&plain);
    assert!(table.granted(&fair));
    table.refused([Kind::Mutex]);
}

#[test]
fn readers_share_and_writers_exclude() {
    let mut table = Table::default();
    let [first, second] = table.held([Kind::Read; 2]);
    let [writer] = table.refused([Kind::Write]);
    table.release(&first);
    assert!(!table.granted(&writer));
    table.release(&second);
    assert!(table.granted(&writer));
    table.refused([Kind::Read, Kind::Write]);
    assert!(table.granted(&writer), "a repeated claim is granted again");
}

#[test]
fn a_waiting_writer_keeps_new_readers_out_until_it_leaves_or_dies() {
    let mut table = Table::default();
    let [reader] = table.held([Kind::Read]);
    let [writer] = table.refused([Kind::Write]);
    let [late] = table.refused([Kind::Read]);
    assert!(table.granted(&reader), "a reader that holds the lock is granted again");
    let starving = Claim { offers: true, ..table.new_claim(Kind::Read) };
    assert!(table.granted(&starving), "a starving reader does not wait for waiting writers");
    assert_eq!(table.release(&writer), Released::LeftQueue);
    assert!(table.granted(&late));
    table.refused([Kind::Write]);
    table.ms += 5_000;
    table.held([Kind::Read]);
    let attempt = Claim { joins: false, ..table.new_claim(Kind::Write) };
    assert!(!table.granted(&attempt));
    table.held([Kind::Read]);
}

#[test]
fn a_downgrade_keeps_other_writers_out_and_lets_readers_in() {
    let mut table = Table::default();
    let [writer] = table.held([Kind::Write]);
    let [other] = table.refused([Kind::Write]);
    let reader = table.new_claim(Kind::Read);
    let answer = table.pass(&writer, &reader).unwrap();
    assert!(matches!(answer, Answer::Claimed(Verdict::Granted { .. })), "{answer:?}");
    assert!(!table.granted(&other));
    assert!(table.state.is_held_by(reader.id, table.now()) && !table.state.is_held_by(writer.id, table.now()));
    table.release(&other);
    table.held([Kind::Read]);
    let upgrade = table.new_claim(Kind::Write);
    assert_eq!(table.pass(&reader, &upgrade).unwrap_err().kind(), ErrorKind::Misused);
}

#[test]
fn dead_readers_expire_alone() {
    let mut table = Table::default();
    let [_dead] = table.held([Kind::Read]);
    table.ms += 20_000;
    let [alive] = table.held([Kind::Read]);
    let [writer] = table.refused([Kind::Write]);
    table.ms += 20_000;
    assert_eq!(table.state.holds().len(), 2, "no step has read the lock since the reader died");
    assert!(!table.granted(&writer));
    assert_eq!(table.state.holds().len(), 1);
    table.release(&alive);
    assert!(table.granted(&writer));
}

#[test]
fn permits_are_taken_all_or_none_and_never_exceed_the_limit() {
    let mut table = Table::default();
    let [two] = table.held([permits_of(2, 5)]);
    table.held([permits_of(2, 5)]);
    let [three] = table.refused([permits_of(3, 5)]);
    table.held([permits_of(1, 5)]);
    table.refused([permits_of(1, 5)]);
    table.release(&two);
    assert!(!table.granted(&three));
    let other_limit = table.new_claim(permits_of(1, 6));
    let error = table.try_claim(&other_limit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains('5') && error.to_string().contains('6'), "{error}");
    table.held([permits_of(2, 5)]);
}

#[test]
fn a_changed_limit_counts_for_claims_that_do_not_know_it_yet() {
    let mut table = Table::default();
    let [first] = table.held([permits_of(2, 2)]);
    let [waiting] = table.refused([permits_of(1, 2)]);
    table.state.set_limit(NonZeroU32::new(3).unwrap(), table.now()).unwrap();
    assert!(table.granted(&waiting));
    table.state.set_limit(NonZeroU32::new(1).unwrap(), table.now()).unwrap();
    table.refused([permits_of(1, 1), permits_of(1, 3)]);
    assert_eq!(table.release(&first), FREED);
    table.refused([permits_of(1, 1)]);
    table.release(&waiting);
    table.held([permits_of(1, 1)]);
}

#[test]
fn a_starving_claim_for_many_permits_is_served_before_claims_that_do_not_starve() {
    let mut table = Table::default();
    let [first, second] = table.held([permits_of(1, 3); 2]);
    let starving = Claim { offers: true, ..table.new_claim(permits_of(3, 3)) };
    assert!(!table.granted(&starving));
    table.refused([permits_of(1, 3)]);
    table.release(&first);
    table.refused([permits_of(1, 3)]);
    table.release(&second);
    assert!(table.granted(&starving));
}

#[test]
fn the_grant_of_a_starving_claim_wakes_others_if_permits_remain() {
    for (take, wakes) in [(2, true), (3, false)] {
        let mut table = Table::default();
        let [holder] = table.held([permits_of(2, 3)]);
        let starving = Claim { offers: true, ..table.new_claim(permits_of(take, 3)) };
        assert!(!table.granted(&starving));
        let [waiting] = table.refused([permits_of(1, 3)]);
        table.release(&holder);
        assert!(!table.granted(&waiting), "the starving claim has a place");
        let step = Step::Claim(starving);
        let answer = table.state.apply(&step, table.now()).unwrap();
        assert!(matches!(answer, Answer::Claimed(Verdict::Granted { .. })), "{answer:?}");
        assert_eq!(table.state.wakes_others(&step, &answer), wakes, "{take} permits");
        assert_eq!(table.granted(&waiting), wakes);
    }
}

#[test]
fn one_name_belongs_to_one_family_while_it_is_held() {
    let families = [Kind::Mutex, Kind::Read, permits_of(1, 2)];
    for kind in families {
        let mut table = Table::default();
        let [holder] = table.held([kind]);
        for other in families.into_iter().filter(|other| other.family() != kind.family()) {
            let other = table.new_claim(other);
            assert_eq!(table.try_claim(&other).unwrap_err().kind(), ErrorKind::Denied);
        }
        table.release(&holder);
        for other in families {
            let [other] = table.held([other]);
            table.release(&other);
        }
    }
}

#[test]
fn starving_readers_and_writers_get_an_offer() {
    for (holder, starving, rival) in [(Kind::Write, Kind::Read, Kind::Write), (Kind::Read, Kind::Write, Kind::Write)] {
        let mut table = Table::default();
        let [held] = table.held([holder]);
        let starving = Claim { offers: true, ..table.new_claim(starving) };
        assert!(!table.granted(&starving));
        table.release(&held);
        let rival = Claim { joins: false, ..table.new_claim(rival) };
        assert!(!table.granted(&rival), "the lock was not offered");
        assert!(table.granted(&starving));
    }
}

/// Random steps of all kinds. After each step, the holds obey the rules of their kinds, the fences of grants rise, and
/// the state can be written and read.
#[test]
fn random_steps_obey_the_rules_of_each_kind() {
    let mut random = fastrand::Rng::with_seed(14);
    for _ in 0..300 {
        let mut table = Table::default();
        let (mut claims, mut fence) = (Vec::<Claim>::new(), Fence::new(0));
        for _ in 0..200 {
            table.ms += if random.u32(..20) == 0 { random.u64(..40_000) } else { random.u64(..300) };
            let kinds = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, permits_of(1, 4), permits_of(3, 4)];
            // Most steps are of the family that the name has now, because the others are refused.
            let family = table.state.hold().map(|hold| hold.kind.family());
            let kinds = kinds.into_iter().filter(|kind| family.is_none_or(|family| family == kind.family()));
            let kinds: Vec<_> = kinds.collect();
            let any = (!claims.is_empty()).then(|| claims[random.usize(..claims.len())].clone());
            let new = Claim {
                kind: kinds[random.usize(..kinds.len())],
                joins: random.bool(),
                offers: random.u32(..4) == 0,
                ..table.new_claim(Kind::Mutex)
            };
            let now = table.now();
            let step = match (random.u32(..6), any) {
                (0 | 1, Some(claim)) => Step::Release(claim),
                (2, Some(claim)) => Step::Claim(Claim { above: above(&mut random, fence), ..claim }),
                (3, Some(from)) => Step::Pass { from: Box::new(from), to: new.clone() },
                (4, Some(claim)) => {
                    table.state.renew(&claim, now);
                    continue;
                }
                _ => Step::Claim(Claim { above: above(&mut random, fence), ..new.clone() }),
            };
            let known: Vec<_> = table.state.holds().iter().map(|hold| hold.id).collect();
            let answer = table.state.apply(&step, now);
            if let (
                Ok(Answer::Claimed(Verdict::Granted { fences, .. })),
                Step::Claim(claim) | Step::Pass { to: claim, .. },
            ) = (&answer, &step)
            {
                let first = fences.clone().take();
                assert!(first > claim.above, "{step:?}: {fences:?}");
                let raised = fences.last() > fence;
                // A hold keeps its fences unless it needs greater ones.
                assert!(raised || known.contains(&claim.id), "{step:?}: {fences:?}");
                fence = fence.max(fences.last());
                assert_eq!(table.state.fence(), fence);
            }
            let holds: Vec<_> = table.state.holds().iter().filter(|hold| now < hold.until).collect();
            let readers = holds.iter().filter(|hold| matches!(hold.kind, Kind::Read)).count();
            let taken: u32 = holds.iter().map(|hold| hold.kind.permits()).sum();
            match holds.first().map(|hold| hold.kind.family()) {
                None => {}
                Some(Family::Mutex) => assert_eq!(holds.len(), 1, "{}", table.state),
                Some(Family::ReadWrite) => assert!(readers == holds.len() || holds.len() == 1, "{}", table.state),
                Some(Family::Semaphore) => assert!(taken <= 4, "{}", table.state),
            }
            let families = holds.iter().map(|hold| hold.kind.family());
            assert!(families.clone().all(|family| Some(family) == families.clone().next()), "{}", table.state);
            assert_eq!(table.state.to_string().parse::<LockState>().unwrap(), table.state);
            claims.push(new);
            if claims.len() > 8 {
                claims.remove(random.usize(..8));
            }
        }
    }
}

/// A fence near the last fence of the name, or None.
fn above(random: &mut fastrand::Rng, last: Fence) -> Option<Fence> {
    random.bool().then(|| Fence::new((last.get() + random.u64(..8)).saturating_sub(4)))
}

#[test]
fn a_repeated_claim_gets_a_new_block_above_the_fence_that_it_names() {
    let mut state = LockState::default();
    let (now, client) = (Moment::from_nanos(1), ClientId::random());
    let block_of_3 = |number, kind, above: Option<u64>| Claim {
        id: ClaimId { client, number },
        fences: NonZeroU32::new(3).unwrap(),
        kind,
        above: above.map(Fence::new),
        ..claim(0, 1)
    };
    let mut last = |number, kind, above| match state.apply(&Step::Claim(block_of_3(number, kind, above)), now) {
        Ok(Answer::Claimed(Verdict::Granted { fences, .. })) => fences.last().get(),
        other => panic!("{other:?}"),
    };
    assert_eq!(last(1, Kind::Read, Some(100)), 103);
    assert_eq!(last(1, Kind::Read, Some(100)), 103, "its first fence is 101");
    assert_eq!(last(1, Kind::Read, None), 103);
    assert_eq!(last(1, Kind::Read, Some(101)), 104, "no other grant has fences, so the blocks overlap");
    assert_eq!(last(2, Kind::Read, None), 107);
    assert_eq!(last(1, Kind::Read, Some(102)), 110, "above the fences of the second reader");
    assert_eq!(last(2, Kind::Read, Some(50)), 107);
    assert_eq!(last(1, Kind::Read, Some(200)), 203);
}
