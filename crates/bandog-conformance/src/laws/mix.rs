//! Random claims, passes, renewals and releases of every kind, whose answers are compared with those of [`LockState`],
//! the definition of the rules.

use std::collections::HashMap;

use bandog_core::{
    Answer, Claim, ClaimId, Clock, Fence, Fences, Kind, Kinds, Leases, LockState, PLACE, Renewal, Result, Row, Step,
    Verdict,
};

use crate::{
    Law, Unkept, World,
    kind_kit::{attempt, each, permits, row, word},
    kit::only_answer,
};

/// The number of clients, each of which has one claim at a time.
const CLIENTS: usize = 8;
/// The number of steps of each round.
const STEPS: usize = 100;
/// The number of rounds. Each round uses another lock.
const ROUNDS: usize = 8;

/// The kinds of one family. One round uses the kinds of one element.
const MIXES: [&[Kind]; 4] = [
    &[Kind::Mutex],
    &[Kind::Mutex, Kind::Fair, Kind::Fair, Kind::Fair],
    &[Kind::Read, Kind::Read, Kind::Write],
    &[permits(1, 4), permits(3, 4), permits(2, 4), permits(5, 4), permits(1, 9)],
];

/// Law 67: random steps of many clients get the answers of the rules. So a writer is alone, several readers hold the
/// lock at the same time, no more permits than the limit are taken, and a fair mutex keeps its order.
// Promise: K1, K4, K8
pub async fn random_mix<W: World>(world: &W) -> Law {
    let kinds = world.backend().profile().kinds;
    let mut most_holders = HashMap::new();
    for round in 0..ROUNDS {
        let mix = MIXES[round % MIXES.len()];
        let is_one = |mix: &[Kind]| matches!(mix, [Kind::Mutex]);
        if mix.iter().all(|kind| kinds.contains(*kind)) && (is_one(mix) || world.barges().is_ok()) {
            let most = most_holders.entry(mix[0]).or_insert(0);
            *most = (*most).max(play(world, round, mix, kinds).await?);
        }
    }
    for (kind, most) in most_holders {
        let is_shared = !matches!(kind, Kind::Mutex);
        assert_eq!(most > 1, is_shared, "{kind}: at most {most} claims held the lock at the same time");
    }
    if let Err(Unkept::Cannot(reason)) = world.barges() {
        return Err(Unkept::Partly(format!("a mix with queues: {reason}")));
    }
    let cases: Vec<_> = MIXES.iter().flat_map(|mix| mix.iter().take(1)).copied().chain([Kind::Fair]).collect();
    each(world, &cases, |kind| kind, async |_| Ok(())).await
}

/// Plays one round. Returns the maximum number of holders.
async fn play<W: World>(world: &W, round: usize, mix: &[Kind], kinds: Kinds) -> Result<usize> {
    let ours = world.backend();
    let backends = [world.peer(&ours), ours];
    let clock = world.clock();
    let name = format!("round {round}");
    let mut random = fastrand::Rng::with_seed(round as u64);
    let mut table = Table {
        model: LockState::default(),
        clock,
        grants: HashMap::new(),
        last: Fence::new(0),
        keeps_fences: world.keeps_fences().is_ok(),
    };
    let mut claims: [Claim; CLIENTS] = std::array::from_fn(|_| attempt(mix[0], &name));
    let others: Vec<_> =
        [Kind::Mutex, Kind::Read, permits(1, 4)].into_iter().filter(|kind| kinds.contains(*kind)).collect();
    let (mut most, since) = (0, clock.now());
    for _ in 0..STEPS {
        let backend = &backends[random.usize(..2)];
        let asking = random.usize(..CLIENTS);
        let mut new = || Claim {
            kind: mix[random.usize(..mix.len())],
            joins: random.bool(),
            // An offer lasts for a short time, so the answers of a mutex or a read-write lock would depend on the time.
            offers: matches!(mix[0], Kind::Permits { .. }) && random.u32(..3) == 0,
            ..attempt(Kind::Mutex, &name)
        };
        let next = new();
        let steps = match random.u32(..12) {
            0..5 => {
                // A client that makes a new claim no longer repeats its earlier claim.
                let earlier = std::mem::replace(&mut claims[asking], next.clone());
                vec![Step::Release(earlier), Step::Claim(next)]
            }
            5..7 => vec![Step::Claim(claims[asking].clone())],
            7..9 => vec![Step::Release(claims[asking].clone())],
            9 => {
                let from = std::mem::replace(&mut claims[asking], next.clone());
                vec![Step::Pass { from: Box::new(from.clone()), to: next }, Step::Release(from)]
            }
            10 if table.model.hold().is_some() => {
                // Another family is refused while a claim holds the name.
                let kind = others[random.usize(..others.len())];
                let is_other = kind.family() != mix[0].family();
                is_other.then(|| Step::Claim(attempt(kind, &name))).into_iter().collect()
            }
            _ => {
                let claim = &claims[asking];
                let answer = only_answer(backend.renew(std::slice::from_ref(claim)).await)?;
                let expected = table.model.renew(claim, clock.now());
                let word = |renewal| match renewal {
                    Renewal::Extended { .. } => "extended",
                    Renewal::Waiting { is_next: true } => "next",
                    Renewal::Waiting { is_next: false } => "waiting",
                    Renewal::Gone => "gone",
                };
                if clock.now().since(since) < PLACE / 2 {
                    assert_eq!(word(answer), word(expected), "a renewal of {claim:?}: {}", table.model);
                }
                continue;
            }
        };
        let answers = backend.apply(&steps).await;
        // A place lasts for `PLACE`. So the answers of a slow store depend on the time.
        if clock.now().since(since) >= PLACE / 2 {
            break;
        }
        assert_eq!(answers.len(), steps.len());
        steps.iter().zip(answers).for_each(|(step, answer)| table.compare(step, answer));
        let row = row(backend, &claims[0]).await?;
        most = most.max(row.holders.len());
        table.compare_row(&row);
    }
    for claim in claims {
        backends[0].apply(&[Step::Release(claim)]).await;
    }
    Ok(most)
}

/// The rules, and the fences that the store has granted.
struct Table {
    model: LockState,
    clock: Clock,
    grants: HashMap<ClaimId, Fences>,
    last: Fence,
    keeps_fences: bool,
}

impl Table {
    /// Applies the step to the rules, and asserts that the store gave the same answer.
    fn compare(&mut self, step: &Step, answer: Result<Answer>) {
        let before = self.model.to_string();
        let was_held = matches!(step, Step::Claim(claim) | Step::Pass { to: claim, .. }
            if self.model.is_held_by(claim.id, self.clock.now()));
        let expected = self.model.apply(step, self.clock.now());
        let about = || format!("{step:?}\nthe lock before: {before}\nthe lock now: {}", self.model);
        assert_eq!((word(&answer), ahead(&answer)), (word(&expected), ahead(&expected)), "{}", about());
        let (Step::Claim(claim) | Step::Pass { to: claim, .. }) = step else { return };
        let Ok(Answer::Claimed(Verdict::Granted { fences, valid_for, .. })) = answer else { return };
        assert!(!valid_for.is_zero() && valid_for <= claim.ttl, "{valid_for:?}: {}", about());
        let is_same = self.grants.get(&claim.id) == Some(&fences);
        if was_held && (is_same || self.keeps_fences) {
            assert_eq!(self.grants.get(&claim.id), Some(&fences), "a repeated claim: {}", about());
        } else {
            assert!(fences.last() > self.last, "{fences:?} after {}: {}", self.last, about());
            self.last = fences.last();
            self.grants.insert(claim.id, fences);
        }
    }

    /// Asserts that the row of the store has the holders and the queue of the rules.
    fn compare_row(&self, row: &Row) {
        let mut holders: Vec<_> =
            self.model.holds().iter().map(|hold| (Some(hold.id.to_string()), Some(hold.kind))).collect();
        holders.sort_by(|a, b| a.0.cmp(&b.0));
        let found: Vec<_> = row.holders.iter().map(|holder| (holder.owner.clone(), holder.kind)).collect();
        assert_eq!(found, holders, "{}", self.model);
        if row.is_held() {
            let mut queue: Vec<_> = self.model.places().iter().map(|place| place.id.to_string()).collect();
            let mut found = row.queue.clone();
            if self.model.places().iter().any(|place| matches!(place.kind, Kind::Write)) {
                // Between writers there is no order.
                queue.sort();
                found.sort();
            }
            assert_eq!(found, queue, "{}", self.model);
        }
    }
}

/// The number of claims before a refused claim in the queue.
fn ahead(answer: &Result<Answer>) -> Option<u32> {
    match answer {
        Ok(Answer::Claimed(Verdict::Busy { ahead, .. })) => *ahead,
        Ok(Answer::Claimed(Verdict::Granted { .. }) | Answer::Released(_)) | Err(_) => None,
    }
}
