//! A turn: the use of a hold by one call. It begins when the call gets the hold, and ends when the last guard of the
//! turn is dropped.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use bandog_core::{Fence, Moment};

use crate::{
    caller::Caller,
    engine::msg::Ticket,
    turn_status::{TurnState, TurnStatus},
};

pub(super) struct Turn {
    /// The ticket of the call that got this turn.
    pub(super) ticket: Ticket,
    pub(super) since: Moment,
    pub(super) fence: Fence,
    /// The task or thread that took the turn.
    pub(super) caller: Caller,
    /// The status that the guards of the turn read.
    pub(super) status: Arc<TurnStatus>,
    /// When the turn reaches its `max_hold` (the maximum duration of a turn).
    pub(super) max_hold_end: Option<Moment>,
    /// For each of these times, the futures of the turn are woken when only that time is left before the deadline.
    pub(super) warnings: Vec<Duration>,
}

impl Turn {
    /// When the turn will be lost if no further renewal succeeds. `until`: the end of its hold.
    pub(super) fn deadline(&self, until: Moment) -> Moment {
        self.max_hold_end.map_or(until, |end| end.min(until))
    }

    /// Whether the turn is lost: its deadline has passed, or a guard has already seen that it passed.
    pub(super) fn is_lost(&self, now: Moment) -> bool {
        self.status.state(now) == TurnState::Lost
    }

    pub(super) fn max_hold_has_ended(&self, now: Moment) -> bool {
        self.max_hold_end.is_some_and(|end| now >= end)
    }

    /// The next moment at which this turn needs the hold's timer. `until`: the end of the hold.
    pub(super) fn wake_at(&self, until: Moment, now: Moment) -> Moment {
        let deadline = self.deadline(until);
        self.warnings.iter().map(|grace| deadline - *grace).filter(|moment| *moment > now).fold(deadline, Moment::min)
    }
}

/// The turns of one hold. Only a hold of readers has more than one turn at a time.
#[derive(Default)]
pub(super) enum Turns {
    #[default]
    Empty,
    One(Turn),
    Many(BTreeMap<Ticket, Turn>),
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    pub(super) fn insert(&mut self, turn: Turn) {
        match self {
            Self::Empty => *self = Self::One(turn),
            Self::One(_) => {
                let Self::One(first) = mem::take(self) else { return };
                *self = Self::Many([first, turn].into_iter().map(|turn| (turn.ticket, turn)).collect());
            }
            Self::Many(turns) => drop(turns.insert(turn.ticket, turn)),
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Turn> {
        match self {
            Self::Empty => None,
            Self::One(turn) if turn.ticket == ticket => match mem::take(self) {
                Self::One(turn) => Some(turn),
                Self::Empty | Self::Many(_) => None,
            },
            Self::One(_) => None,
            Self::Many(turns) => {
                let turn = turns.remove(&ticket);
                if turns.is_empty() {
                    *self = Self::Empty;
                }
                turn
            }
        }
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Turn> {
        match self {
            Self::Empty => None,
            Self::One(turn) => Some(turn).filter(|turn| turn.ticket == ticket),
            Self::Many(turns) => turns.get_mut(&ticket),
        }
    }

    /// The turns, the oldest call first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Turn> {
        let (one, many) = match self {
            Self::Empty => (None, None),
            Self::One(turn) => (Some(turn), None),
            Self::Many(turns) => (None, Some(turns.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}
