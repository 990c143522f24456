//! Compares the records of the memory backend with a simple model. The model keeps a list of all swaps, and searches
//! this list for each answer.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use fastrand::Rng;

use crate::{
    Claim, ClaimId, ClientId, Clock, Holding, Key, Kind, Leases, Line, Memory, Pattern, Record, Records, Step, Swap,
    Swapped, Version,
};

const NAMES: [&str; 3] = ["a", "b", "B"];
const SLOTS: [&str; 3] = ["ok:0", "ok:1", "lost"];
/// Unit of the times in this test.
const STEP: Duration = Duration::from_millis(10);

/// All swaps that were done, each with the version that the store assigned. The version is None if the swap deleted the
/// record.
#[derive(Default)]
struct Model {
    done: Vec<(Swap, Option<Version>)>,
}

impl Model {
    /// The record that the last swap of this key wrote. None if that swap deleted the record.
    fn record(&self, key: &Key) -> Option<Record> {
        let (swap, version) = self.done.iter().rfind(|(swap, _)| swap.key == *key)?;
        Some(Record { version: (*version)?, value: swap.to.clone()? })
    }

    /// The last line of each slot since the record was last deleted.
    fn history(&self, key: &Key) -> Vec<Line> {
        let all: Vec<_> = self.done.iter().filter(|(swap, _)| swap.key == *key).collect();
        let deleted = all.iter().rposition(|(swap, _)| swap.to.is_none()).map_or(0, |at| at + 1);
        let lines = all[deleted..].iter().flat_map(|(swap, _)| &swap.lines);
        let last: BTreeMap<_, _> = lines.map(|line| (&line.slot, &line.value)).collect();
        last.into_iter().map(|(slot, value)| Line { slot: slot.clone(), value: value.clone() }).collect()
    }

    fn names(&self) -> Vec<Key> {
        let mut names: Vec<_> = NAMES.map(key).into_iter().filter(|key| self.record(key).is_some()).collect();
        names.sort();
        names
    }

    /// The answer that the store must give to a swap. If the swap is done, the model adds it to `done`. `is_held`
    /// says whether the claim of the swap holds its lock. `assigned` is the version that the store has returned.
    fn expected(&mut self, swap: &Swap, wall: SystemTime, is_held: bool, assigned: Option<Version>) -> Swapped {
        let present = self.record(&swap.key);
        if present.as_ref().map(|record| record.version) != swap.from {
            return Swapped::Differs(present);
        }
        if let Some(time) = swap.not_before.filter(|time| *time > wall) {
            return Swapped::Early(time.duration_since(wall).unwrap());
        }
        if !is_held {
            return Swapped::NotHeld;
        }
        let last = self.done.iter().filter_map(|(_, version)| *version).max();
        assert_eq!(assigned.is_some(), swap.to.is_some());
        assert!(
            assigned.is_none_or(|version| Some(version) > last),
            "the store assigned {assigned:?} after the version {last:?}"
        );
        self.done.push((swap.clone(), assigned));
        Swapped::Done(assigned)
    }
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A random swap. In about three of four cases, [`Swap::from`] is the present version of the record.
fn any_swap(random: &mut Rng, model: &Model, claim: &Claim, wall: SystemTime) -> Swap {
    let key = key(random.choice(NAMES).unwrap());
    let present = model.record(&key).map(|record| record.version);
    let older = model.done.get(random.usize(..model.done.len().max(1))).and_then(|(_, version)| *version);
    let from = if random.u8(..4) == 0 { older } else { present };
    let to = (random.u8(..5) > 0).then(|| random.u32(..).to_string());
    let lines = (0..random.usize(..3))
        .map(|_| Line { slot: (*random.choice(SLOTS.iter()).unwrap()).into(), value: random.u32(..).to_string() })
        .collect();
    let times = [wall - STEP, wall, wall + Duration::from_nanos(1), wall + STEP];
    let not_before = random.choice(times).filter(|_| random.bool());
    let held = random.bool().then(|| Holding { key: claim.key.clone(), id: claim.id });
    Swap { key, from, to, lines, not_before, held, notifies: false }
}

// Promise: RS1
#[tokio::test(start_paused = true)]
async fn records_match_a_trivial_model() {
    for seed in 0..200 {
        let (mut random, mut model) = (Rng::with_seed(seed), Model::default());
        let clock = Clock::tokio();
        let store = Memory::new(clock);
        let id = ClaimId { client: ClientId::random(), number: seed };
        let claim = Claim::new(key("a"), id, Kind::Mutex, STEP * 10);
        let mut held_until = None;
        for _ in 0..150 {
            match random.u8(..10) {
                0 => tokio::time::advance(STEP * random.u32(..5)).await,
                1 => {
                    store.apply(&[Step::Claim(claim.clone())]).await;
                    held_until = Some(clock.now() + claim.ttl);
                }
                2 => {
                    store.apply(&[Step::Release(claim.clone())]).await;
                    held_until = None;
                }
                _ => {}
            }
            let is_held = held_until.is_some_and(|until| clock.now() < until);
            let wall = clock.wall();
            let batch: Vec<_> = (0..random.usize(1..4)).map(|_| any_swap(&mut random, &model, &claim, wall)).collect();
            let swapped = store.swap(&batch).await.unwrap();
            assert_eq!((swapped.now, swapped.each.len()), (wall, batch.len()));
            for (swap, answer) in batch.iter().zip(swapped.each) {
                let answer = answer.unwrap();
                let assigned = if let Swapped::Done(version) = answer { version } else { None };
                let is_held = swap.held.is_none() || is_held;
                assert_eq!(answer, model.expected(swap, wall, is_held, assigned), "seed {seed}: {swap:?}");
            }
            let holding = Holding { key: claim.key.clone(), id };
            let reading = store.read(&NAMES.map(key), &[holding]).await.unwrap();
            let records: Vec<_> = reading.records.into_iter().map(Result::unwrap).collect();
            assert_eq!(records, NAMES.map(|name| model.record(&key(name))), "seed {seed}");
            assert_eq!(reading.held.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [is_held]);
            assert_eq!(store.names(&Pattern::all()).await.unwrap(), model.names());
            for name in NAMES.map(key) {
                assert_eq!(store.history(&name).await.unwrap(), model.history(&name), "seed {seed}");
            }
        }
        assert!(model.done.len() > 50, "with seed {seed}, the store did too few swaps");
    }
}
