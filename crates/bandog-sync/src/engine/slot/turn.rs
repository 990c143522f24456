//! A turn: the use of a hold by one call. It begins when the call gets the hold, and ends when the last guard of the
//! turn is dropped.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    mem,
    sync::Arc,
    time::Duration,
};

use bandog_core::{Fence, Moment};

use crate::{
    caller::Caller,
    terms::Ticket,
    turn_status::{TurnState, TurnStatus},
};

/// The slot's record of a turn. The guards share a [`crate::turn::Turn`] instead, whose drop ends the turn.
pub(super) struct TurnRecord {
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

impl TurnRecord {
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
    One(TurnRecord),
    Many(Box<ManyTurns>),
}

/// The turns of a hold that readers share.
#[derive(Default)]
pub(super) struct ManyTurns {
    by_ticket: BTreeMap<Ticket, TurnRecord>,
    /// A hash of the caller of each turn, and the ticket of the turn. Thousands of calls can wait and ask whether one of
    /// thousands of turns is theirs.
    by_caller: BTreeSet<(u64, Ticket)>,
}

impl ManyTurns {
    fn insert(&mut self, turn: TurnRecord) {
        self.by_caller.insert((hash(turn.caller), turn.ticket));
        self.by_ticket.insert(turn.ticket, turn);
    }

    fn remove(&mut self, ticket: Ticket) -> Option<TurnRecord> {
        let turn = self.by_ticket.remove(&ticket)?;
        self.by_caller.remove(&(hash(turn.caller), ticket));
        Some(turn)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TurnRecord> {
        self.by_ticket.values_mut()
    }
}

fn hash(caller: Caller) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(caller)
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    pub(super) fn insert(&mut self, turn: TurnRecord) {
        match self {
            Self::Empty => *self = Self::One(turn),
            Self::One(_) => {
                let Self::One(first) = mem::take(self) else { return };
                let mut turns = Box::<ManyTurns>::default();
                turns.insert(first);
                turns.insert(turn);
                *self = Self::Many(turns);
            }
            Self::Many(turns) => turns.insert(turn),
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<TurnRecord> {
        match self {
            Self::Empty => None,
            Self::One(turn) if turn.ticket == ticket => match mem::take(self) {
                Self::One(turn) => Some(turn),
                Self::Empty | Self::Many(_) => None,
            },
            Self::One(_) => None,
            Self::Many(turns) => {
                let turn = turns.remove(ticket);
                if turns.by_ticket.is_empty() {
                    *self = Self::Empty;
                }
                turn
            }
        }
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut TurnRecord> {
        match self {
            Self::Empty => None,
            Self::One(turn) => Some(turn).filter(|turn| turn.ticket == ticket),
            Self::Many(turns) => turns.by_ticket.get_mut(&ticket),
        }
    }

    /// The turn of this task or thread whose call is the oldest.
    pub(super) fn of_caller(&self, caller: Caller) -> Option<&TurnRecord> {
        match self {
            Self::Empty => None,
            Self::One(turn) => Some(turn).filter(|turn| turn.caller == caller),
            Self::Many(turns) => {
                let hash = hash(caller);
                let tickets = turns.by_caller.range((hash, 0)..=(hash, Ticket::MAX)).map(|(_, ticket)| ticket);
                // Two callers can have the same hash.
                tickets.filter_map(|ticket| turns.by_ticket.get(ticket)).find(|turn| turn.caller == caller)
            }
        }
    }

    /// The turns, the oldest call first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TurnRecord> {
        let (one, many) = match self {
            Self::Empty => (None, None),
            Self::One(turn) => (Some(turn), None),
            Self::Many(turns) => (None, Some(turns.by_ticket.values())),
        };
        let turns = one.into_iter().chain(many.into_iter().flatten());
        #[cfg(test)]
        let turns = turns.inspect(|_| TURNS_READ.set(TURNS_READ.get() + 1));
        turns
    }
}

#[cfg(test)]
thread_local! {
    /// Number of turns that [`Turns::iter`] has returned on this thread.
    static TURNS_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Number of turns that [`Turns::iter`] has returned on this thread.
#[cfg(test)]
pub(super) fn turns_read() -> usize {
    TURNS_READ.get()
}
