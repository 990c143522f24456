//! The holds of one slot. Almost every slot has at most one hold, so this case needs no map.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use bandog_core::Moment;

use super::hold::Hold;
use crate::terms::HoldId;

/// The holds of one slot, including lost holds whose guards still exist.
#[derive(Default)]
pub(super) enum Holds {
    #[default]
    Empty,
    One(Box<Hold>),
    Many(Box<ManyHolds>),
}

#[derive(Default)]
pub(super) struct ManyHolds {
    by_id: BTreeMap<HoldId, Box<Hold>>,
    /// When the timer of each hold is due. Lost holds have no timer.
    due: BTreeSet<(Moment, HoldId)>,
    /// The hold that further readers can share.
    open: Option<HoldId>,
    /// Number of holds that are not lost.
    present: usize,
    /// Number of permits of the holds that are not lost.
    permits: u64,
}

impl ManyHolds {
    fn insert(&mut self, hold: Box<Hold>) {
        if !hold.is_lost() {
            self.due.insert((hold.wake_at(), hold.id()));
            self.present += 1;
            self.permits += hold.permits();
        }
        if hold.is_open() {
            self.open = Some(hold.id());
        }
        self.by_id.insert(hold.id(), hold);
    }

    fn remove(&mut self, id: HoldId) -> Option<Box<Hold>> {
        let hold = self.by_id.remove(&id)?;
        if !hold.is_lost() {
            self.due.remove(&(hold.wake_at(), id));
            self.present -= 1;
            self.permits -= hold.permits();
        }
        self.open = self.open.filter(|open| *open != id);
        Some(hold)
    }
}

impl Holds {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(_) => 1,
            Self::Many(many) => many.by_id.len(),
        }
    }

    /// Number of holds that are not lost.
    pub(super) fn present(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(hold) => usize::from(!hold.is_lost()),
            Self::Many(many) => many.present,
        }
    }

    /// Number of permits of the holds that are not lost.
    pub(super) fn permits(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::One(hold) => {
                if hold.is_lost() {
                    0
                } else {
                    hold.permits()
                }
            }
            Self::Many(many) => many.permits,
        }
    }

    pub(super) fn insert(&mut self, hold: Box<Hold>) {
        match mem::take(self) {
            Self::Empty => *self = Self::One(hold),
            Self::One(first) => {
                let mut many = Box::<ManyHolds>::default();
                many.insert(first);
                many.insert(hold);
                *self = Self::Many(many);
            }
            Self::Many(mut many) => {
                many.insert(hold);
                *self = Self::Many(many);
            }
        }
    }

    pub(super) fn remove(&mut self, id: HoldId) -> Option<Box<Hold>> {
        match mem::take(self) {
            Self::One(hold) if hold.id() == id => Some(hold),
            Self::Many(mut many) => {
                let hold = many.remove(id);
                if !many.by_id.is_empty() {
                    *self = Self::Many(many);
                }
                hold
            }
            same @ (Self::Empty | Self::One(_)) => {
                *self = same;
                None
            }
        }
    }

    /// Changes the hold with this number. Returns `None` if there is no such hold.
    pub(super) fn change<T>(&mut self, id: HoldId, change: impl FnOnce(&mut Hold) -> T) -> Option<T> {
        match self {
            Self::Empty => None,
            Self::One(hold) => (hold.id() == id).then(|| change(hold)),
            Self::Many(many) => {
                let mut hold = many.remove(id)?;
                let value = change(&mut hold);
                many.insert(hold);
                Some(value)
            }
        }
    }

    pub(super) fn get(&self, id: HoldId) -> Option<&Hold> {
        match self {
            Self::Empty => None,
            Self::One(hold) => Some(hold.as_ref()).filter(|hold| hold.id() == id),
            Self::Many(many) => many.by_id.get(&id).map(AsRef::as_ref),
        }
    }

    /// The hold with this number, unless it is lost.
    pub(super) fn get_present(&self, id: HoldId) -> Option<&Hold> {
        self.get(id).filter(|hold| !hold.is_lost())
    }

    /// All holds, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Hold> {
        let (one, many) = match self {
            Self::Empty => (None, None),
            Self::One(hold) => (Some(hold.as_ref()), None),
            Self::Many(many) => (None, Some(many.by_id.values().map(AsRef::as_ref))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The hold that further readers can share.
    pub(super) fn open(&self) -> Option<&Hold> {
        match self {
            Self::Empty => None,
            Self::One(hold) => Some(hold.as_ref()).filter(|hold| hold.is_open()),
            Self::Many(many) => self.get(many.open?),
        }
    }

    /// When the next timer of a hold is due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        match self {
            Self::Empty => None,
            Self::One(hold) => (!hold.is_lost()).then(|| hold.wake_at()),
            Self::Many(many) => many.due.first().map(|(moment, _)| *moment),
        }
    }

    /// A hold whose timer is due.
    pub(super) fn due(&self, now: Moment) -> Option<HoldId> {
        match self {
            Self::Empty => None,
            Self::One(hold) => (!hold.is_lost() && hold.wake_at() <= now).then(|| hold.id()),
            Self::Many(many) => many.due.first().filter(|(moment, _)| *moment <= now).map(|(_, id)| *id),
        }
    }
}
