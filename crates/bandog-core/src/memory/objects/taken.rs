//! The elements of an object that are taken, and the answers that are remembered.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::{
    ClientId, Moment,
    structures::{Bytes, EntryId, Once, Reply, Source},
};

/// The elements of an object that are taken, and the answers that are remembered.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) leases: BTreeMap<u64, Lease>,
    /// Elements of a list that were delivered before, and can be taken again.
    pub(super) again: VecDeque<Delivered>,
    answers: HashMap<ClientId, BTreeMap<u64, Answer>>,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) element: Delivered,
    pub(super) from: Source,
    pub(super) until: Moment,
}

/// An element with the number of its deliveries.
#[derive(Debug, Clone)]
pub(super) struct Delivered {
    pub(super) bytes: Bytes,
    pub(super) deliveries: u32,
    pub(super) score: Option<f64>,
    pub(super) entry: Option<EntryId>,
}

#[derive(Debug)]
struct Answer {
    reply: Reply,
    until: Moment,
}

impl Taken {
    /// Whether no element is taken, or was delivered before.
    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.again.is_empty()
    }

    /// Whether answers are remembered.
    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The number of elements that are taken from here.
    pub(super) fn count(&self, from: &Source) -> u64 {
        self.leases.values().filter(|lease| lease.from == *from).count() as u64
    }

    /// The number of elements of a list that were delivered before, and can be taken again.
    pub(super) fn again_len(&self) -> u64 {
        self.again.len() as u64
    }

    /// The answer of an operation that was applied before.
    pub(super) fn remembered(&mut self, once: Option<&Once>, now: Moment) -> Option<Reply> {
        let Once { id, forget_before, .. } = once?;
        for answers in self.answers.values_mut() {
            answers.retain(|_, answer| now < answer.until);
        }
        self.answers.retain(|_, answers| !answers.is_empty());
        let answers = self.answers.get_mut(&id.client)?;
        answers.retain(|number, _| number >= forget_before);
        answers.get(&id.number).map(|answer| answer.reply.clone())
    }

    /// Remembers the answer of an operation.
    pub(super) fn remember(&mut self, once: Option<&Once>, reply: &Reply, now: Moment) {
        if let Some(Once { id, remember, .. }) = once {
            let answer = Answer { reply: reply.clone(), until: now + *remember };
            self.answers.entry(id.client).or_default().insert(id.number, answer);
        }
    }
}
