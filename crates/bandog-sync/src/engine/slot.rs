//! One key as this client sees it: who waits here, and how it stands with the store.

use std::collections::BTreeMap;

use bandog_core::{Bell, Claim, Error, Moment, Step};

use super::msg::{HoldId, Reply, Terms, Ticket};
use crate::Owner;

/// The local queue of a key, of which only the first claims, listens and looks again.
#[derive(Default)]
pub(super) struct Slot {
    /// Boxed, because a node of the map has room for eleven, and most queues are of one.
    pub(super) queue: BTreeMap<Ticket, Box<Waiter>>,
    /// Those of the queue who want one answer only.
    pub(super) once: Vec<Ticket>,
    pub(super) stage: Stage,
    pub(super) ear: Ear,
    /// The bell rang since the last claim was sent.
    pub(super) rung: bool,
    /// How often the store has told of another holder.
    pub(super) busy: u64,
    /// Why the store did not answer, since when it does not.
    pub(super) fault: Option<Error>,
    pub(super) timer: Option<Moment>,
}

/// How a key stands with the store. Attempts are boxed, because most slots of a client stand for holds.
#[derive(Default)]
pub(super) enum Stage {
    /// Nothing is asked and nothing held.
    #[default]
    Idle,
    /// A claim is on its way.
    Asking(Box<Attempt>),
    /// Somebody else holds the key, or the store does not answer: the bell or the timer says when to ask again.
    Waiting(Box<Attempt>),
    /// This client holds it.
    Held(HoldId),
    /// This client has had many turns and lets others go first, until the timer.
    Resting,
}

/// A claim that has not been granted yet, on behalf of whoever is first when the answer comes.
pub(super) struct Attempt {
    pub(super) claim: Claim,
    pub(super) terms: Terms,
    /// The hold that it takes over, if that has not been refused yet.
    pub(super) from: Option<Claim>,
    pub(super) spell: Spell,
    /// A request of it may have been applied although its answer was lost.
    pub(super) unsure: bool,
    /// Requests without an answer in a row.
    pub(super) faults: u32,
}

impl Attempt {
    pub(super) fn step(&self) -> Step {
        match &self.from {
            Some(from) => Step::Pass { from: from.clone(), to: self.claim.clone() },
            None => Step::Claim(self.claim.clone()),
        }
    }
}

/// How long this client has had the key without letting others in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spell {
    pub(super) turns: u32,
    pub(super) since: Moment,
}

/// Whether this client hears the key's bell.
#[derive(Default)]
pub(super) enum Ear {
    #[default]
    Deaf,
    /// The backend is about to listen.
    Arming,
    Armed(#[expect(dead_code, reason = "it listens until it is dropped")] Bell),
}

/// A call in the queue.
pub(super) struct Waiter {
    pub(super) owner: Option<Owner>,
    pub(super) terms: Terms,
    /// What its slot's count was when it came.
    pub(super) busy: u64,
    /// When it gives up.
    pub(super) until: Option<Moment>,
    pub(super) timer: Option<Moment>,
    pub(super) reply: Reply,
}

impl Slot {
    /// Whether nothing is left here to know.
    pub(super) fn is_over(&self) -> bool {
        self.queue.is_empty() && matches!(self.stage, Stage::Idle)
    }

    /// What a waiter is told whose time is up: that it is busy only if the store said so while it waited.
    pub(super) fn verdict(&self, waiter: &Waiter) -> Result<(), Error> {
        let held = matches!(self.stage, Stage::Held(_) | Stage::Resting);
        if held || self.busy > waiter.busy {
            return Ok(());
        }
        Err(self.fault.clone().unwrap_or_else(|| Error::unavailable("the store has not answered in time")))
    }
}
