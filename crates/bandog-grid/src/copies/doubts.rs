//! Writes to a map of which it is not known which entries they have changed.
//!
//! Redis reports each write to the map. The writers that keep copies say in addition which entries they have written. If no such
//! message comes near a write, all copies that were read before it are void. If one comes, another write may hide behind it, so
//! the copies are void a second later.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use bandog_core::Moment;

/// The time between the report of a write and the message that names its entries.
const NEAR: Duration = Duration::from_millis(50);

/// The time after which another write that a message may hide makes copies void.
const HIDDEN: Duration = Duration::from_millis(900);

/// The reported writes. Those within [`NEAR`] are one group, and groups are numbered.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// Whether there are groups in doubt.
    some: AtomicBool,
    /// The copies of this group and of those before are void. The first group is 1.
    void: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: VecDeque<Group>,
    /// The number of the latest group, and its first write.
    latest: Option<(u64, Moment)>,
    /// The last message that named entries.
    named: Option<Moment>,
}

#[derive(Debug)]
struct Group {
    number: u64,
    first: Moment,
    last: Moment,
    is_named: bool,
}

impl Group {
    /// Whether all copies that were read before this group are void.
    fn is_void(&self, now: Moment) -> bool {
        if self.is_named { now.since(self.first) >= HIDDEN } else { now.since(self.last) >= NEAR }
    }
}

impl State {
    /// The number of the latest group, if it still takes writes.
    fn open(&self, now: Moment) -> Option<u64> {
        self.latest.filter(|(_, first)| now.since(*first) < NEAR).map(|(number, _)| number)
    }
}

impl Doubts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a copy whose read begins now: it becomes void with the group of this number.
    pub(crate) fn number(&self, now: Moment) -> u64 {
        let state = self.state();
        state.open(now).unwrap_or_else(|| state.latest.map_or(1, |(number, _)| number + 1))
    }

    /// Records a write to any entry.
    pub(crate) fn written(&self, now: Moment) {
        let mut state = self.state();
        self.settle(&mut state, now); // Also if nothing is read, the groups stay few.
        let is_named = state.named.is_some_and(|named| now.since(named) < NEAR);
        if let (Some(_), Some(group)) = (state.open(now), state.groups.back_mut()) {
            group.last = now;
            group.is_named |= is_named;
        } else {
            let number = state.latest.map_or(1, |(number, _)| number + 1);
            state.latest = Some((number, now));
            state.groups.push_back(Group { number, first: now, last: now, is_named });
        }
        self.some.store(true, Release);
    }

    /// Records that a writer has named its entries.
    pub(crate) fn named(&self, now: Moment) {
        let mut state = self.state();
        state.named = Some(now);
        for group in state.groups.iter_mut().rev().take_while(|group| now.since(group.last) < NEAR) {
            group.is_named = true;
        }
    }

    /// Forgets the groups whose copies are void.
    fn settle(&self, state: &mut State, now: Moment) {
        if let Some(void) = state.groups.iter().rposition(|group| group.is_void(now)) {
            let number = state.groups.drain(..=void).next_back().map_or(0, |group| group.number);
            self.void.fetch_max(number, Release);
        }
    }

    /// Whether a copy with this number may be used.
    pub(crate) fn allow(&self, number: u64, now: Moment) -> bool {
        if self.some.load(Acquire) {
            let mut state = self.state();
            self.settle(&mut state, now);
            self.some.store(!state.groups.is_empty(), Relaxed);
        }
        number > self.void.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use bandog_core::Clock;

    use super::*;

    /// A copy of each moment, and whether it may be used.
    fn allowed(doubts: &Doubts, copies: &[u64], now: Moment) -> Vec<bool> {
        copies.iter().map(|number| doubts.allow(*number, now)).collect()
    }

    #[test]
    fn a_write_that_nobody_names_makes_all_copies_void() {
        let (doubts, start) = (Doubts::default(), Clock::system().now());
        let at = |ms| start + Duration::from_millis(ms);
        let before = doubts.number(at(0));
        assert!(doubts.allow(before, at(500)));
        doubts.written(at(1_000));
        let during = doubts.number(at(1_010));
        doubts.written(at(1_020));
        let after = doubts.number(at(1_060));
        assert_eq!(allowed(&doubts, &[before, during, after], at(1_040)), [true, true, true]);
        assert_eq!(allowed(&doubts, &[before, during, after], at(1_070)), [false, false, true]);
        doubts.written(at(5_000));
        assert_eq!(allowed(&doubts, &[after, doubts.number(at(5_100))], at(5_100)), [false, true]);
    }

    #[test]
    fn a_write_that_is_named_makes_copies_void_a_second_later() {
        let (doubts, start) = (Doubts::default(), Clock::system().now());
        let at = |ms| start + Duration::from_millis(ms);
        let before = doubts.number(at(0));
        doubts.written(at(1_000)); // The message comes after the report,
        doubts.named(at(1_030));
        doubts.named(at(1_200)); // or before it.
        doubts.written(at(1_230));
        let after = doubts.number(at(1_300));
        assert_eq!(allowed(&doubts, &[before, after], at(1_800)), [true, true]);
        assert_eq!(allowed(&doubts, &[before, after], at(1_950)), [false, true]);
        // A later write that nobody names counts first.
        let more = doubts.number(at(2_000));
        doubts.named(at(3_000));
        doubts.written(at(3_000));
        doubts.written(at(3_200));
        assert_eq!(allowed(&doubts, &[more], at(3_300)), [false]);
        assert_eq!(allowed(&doubts, &[doubts.number(at(3_300))], at(9_000)), [true]);
    }

    #[test]
    fn writes_are_forgotten_without_reads() {
        let (doubts, start) = (Doubts::default(), Clock::system().now());
        let copy = doubts.number(start);
        for write in 1..1_000 {
            let now = start + Duration::from_millis(60 * write);
            doubts.named(now);
            doubts.written(now);
            assert!(doubts.state().groups.len() < 20, "{}", doubts.state().groups.len());
        }
        assert!(!doubts.allow(copy, start + Duration::from_secs(60)));
    }
}
