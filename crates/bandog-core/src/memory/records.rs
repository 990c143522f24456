//! Records in memory.

use std::{collections::BTreeMap, time::SystemTime};

use async_trait::async_trait;

use super::{Listeners, Memory, State};
use crate::{
    Holding, Key, Line, Moment, Notifier, Pattern, Reading, Record, Records, Result, Subscription, Swap, Swapped,
    Swaps, Version,
};

/// All records.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    rows: BTreeMap<Key, Kept>,
    /// The last version of all records, so that one that is made again has a greater one, even if no time has passed.
    last: Option<Version>,
    listeners: Listeners,
}

/// A record and its history by slot.
#[derive(Debug)]
struct Kept {
    record: Record,
    lines: BTreeMap<String, String>,
}

#[async_trait]
impl Records for Memory {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let (mut state, now) = self.at_once();
        let wall = self.clock.wall();
        let each = swaps.iter().map(|swap| Ok(state.swap(swap, now, wall))).collect();
        Ok(Swaps { now: wall, each })
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let (state, now) = self.at_once();
        let wall = self.clock.wall();
        let records = keys.iter().map(|key| Ok(state.recorded.rows.get(key).map(|kept| kept.record.clone()))).collect();
        let held = holdings.iter().map(|holding| Ok(state.is_held(holding, now))).collect();
        Ok(Reading { now: wall, records, held })
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let state = self.state();
        Ok(state.recorded.rows.keys().filter(|key| pattern.matches(key.as_str())).cloned().collect())
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        let state = self.state();
        let lines = state.recorded.rows.get(key).into_iter().flat_map(|kept| &kept.lines);
        Ok(lines.map(|(slot, value)| Line { slot: slot.clone(), value: value.clone() }).collect())
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let number = self.state().recorded.listeners.add(key, notifier);
        let (shared, key) = (self.clone(), key.clone());
        Ok(Subscription::new(move || shared.state().recorded.listeners.remove(&key, number)))
    }
}

impl State {
    fn swap(&mut self, swap: &Swap, now: Moment, wall: SystemTime) -> Swapped {
        let swapped = self.swap_in_silence(swap, now, wall);
        if swap.notifies && matches!(swapped, Swapped::Done(_)) {
            self.recorded.listeners.ring(&swap.key);
        }
        swapped
    }

    fn swap_in_silence(&mut self, swap: &Swap, now: Moment, wall: SystemTime) -> Swapped {
        let kept = self.recorded.rows.get(&swap.key);
        let last = kept.map(|kept| kept.record.version);
        if last != swap.from {
            return Swapped::Differs(kept.map(|kept| kept.record.clone()));
        }
        if let Some(missing) =
            swap.not_before.and_then(|time| time.duration_since(wall).ok()).filter(|by| !by.is_zero())
        {
            return Swapped::Early(missing);
        }
        if swap.held.as_ref().is_some_and(|holding| !self.is_held(holding, now)) {
            return Swapped::NotHeld;
        }
        let Some(value) = &swap.to else {
            self.recorded.rows.remove(&swap.key);
            return Swapped::Done(None);
        };
        let version = Version::after(self.recorded.last, wall);
        self.recorded.last = Some(version);
        let record = Record { version, value: value.clone() };
        let mut lines = self.recorded.rows.remove(&swap.key).map(|kept| kept.lines).unwrap_or_default();
        lines.extend(swap.lines.iter().map(|line| (line.slot.clone(), line.value.clone())));
        self.recorded.rows.insert(swap.key.clone(), Kept { record, lines });
        Swapped::Done(Some(version))
    }

    fn is_held(&self, holding: &Holding, now: Moment) -> bool {
        self.rows.get(&holding.key).is_some_and(|state| state.is_held_by(holding.id, now))
    }
}

#[cfg(test)]
mod tests;
