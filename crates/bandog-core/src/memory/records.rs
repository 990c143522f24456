//! Records in memory.

use std::time::SystemTime;

use async_trait::async_trait;

use super::{Memory, MemoryState, record_table::StoredRecord};
use crate::{
    Error, Holding, Key, Line, Mark, Moment, Notifier, Pattern, Reading, Record, Records, Result, SqlStatement,
    Subscription, Swap, Swapped, Swaps, Version, records::no_mark_sql,
};

#[async_trait]
impl Records for Memory {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        self.change(|state, now| {
            let wall = self.clock.wall();
            let each = swaps.iter().map(|swap| Ok(state.swap(swap, now, wall))).collect();
            Ok(Swaps { now: wall, each })
        })
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let (state, now) = self.state_and_time();
        let wall = self.clock.wall();
        let records =
            keys.iter().map(|key| Ok(state.records.rows.get(key).map(|stored| stored.record.clone()))).collect();
        let held = holdings.iter().map(|holding| Ok(state.is_held(holding, now))).collect();
        Ok(Reading { now: wall, records, held })
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let state = self.state();
        Ok(state.records.rows.keys().filter(|key| pattern.matches(key.as_str())).cloned().collect())
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        let state = self.state();
        let lines = state.records.rows.get(key).into_iter().flat_map(|stored| &stored.lines);
        Ok(lines.map(|(slot, value)| Line { slot: slot.clone(), value: value.clone() }).collect())
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let id = self.state().records.subscribers.add(key, None, notifier);
        let (shared, key) = (self.clone(), key.clone());
        Ok(Subscription::new(move || {
            let removed = shared.state().records.subscribers.remove(&key, id);
            drop(removed);
        }))
    }

    async fn mark_sql(&self, mark: &Mark) -> Result<SqlStatement> {
        if !self.has_sql {
            return Err(no_mark_sql(mark));
        }
        let (record, run) = &mark.within;
        let statement = SqlStatement::of_memory(record, 1);
        let is_running = self.state().records.rows.get(record).is_some_and(|row| row.record.value.contains(run));
        let ended = || statement.refusal(SqlStatement::ENDED).unwrap_or_else(|| Error::lost(record));
        if is_running { Ok(statement) } else { Err(ended()) }
    }
}

impl MemoryState {
    /// Does a swap if its conditions are met, and notifies the subscribers of the record. `now` decides whether a hold
    /// has expired. `wall` is the time of the store for [`Swap::not_before`] and for the new version.
    fn swap(&mut self, swap: &Swap, now: Moment, wall: SystemTime) -> Swapped {
        let swapped = self.swap_without_notifying(swap, now, wall);
        if swap.notifies && matches!(swapped, Swapped::Done(_)) {
            self.records.subscribers.notify(&swap.key, None, &mut self.reports);
        }
        swapped
    }

    /// As [`MemoryState::swap`], but without notifications.
    fn swap_without_notifying(&mut self, swap: &Swap, now: Moment, wall: SystemTime) -> Swapped {
        let stored = self.records.rows.get(&swap.key);
        let present = stored.map(|stored| stored.record.version);
        if present != swap.from {
            return Swapped::Differs(stored.map(|stored| stored.record.clone()));
        }
        if let Some(remaining) =
            swap.not_before.and_then(|time| time.duration_since(wall).ok()).filter(|time| !time.is_zero())
        {
            return Swapped::Early(remaining);
        }
        if swap.held.as_ref().is_some_and(|holding| !self.is_held(holding, now)) {
            return Swapped::NotHeld;
        }
        let Some(value) = &swap.to else {
            self.records.rows.remove(&swap.key);
            return Swapped::Done(None);
        };
        let version = Version::after(self.records.last, wall);
        self.records.last = Some(version);
        let record = Record { version, value: value.clone() };
        let mut lines = self.records.rows.remove(&swap.key).map(|stored| stored.lines).unwrap_or_default();
        lines.extend(swap.lines.iter().map(|line| (line.slot.clone(), line.value.clone())));
        self.records.rows.insert(swap.key.clone(), StoredRecord { record, lines });
        Swapped::Done(Some(version))
    }

    /// Whether the claim of `holding` holds its lock.
    pub(super) fn is_held(&self, holding: &Holding, now: Moment) -> bool {
        self.locks.get(&holding.key).is_some_and(|state| state.is_held_by(holding.id, now))
    }
}

#[cfg(test)]
mod tests;
