//! The elements of an object that are taken, and the answers that are remembered.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::{
    ClientId, Error, Moment, Result,
    structures::{Bytes, EntryId, Once, Reply, Source},
};

/// The elements of an object that are taken, and the answers that are remembered.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) leases: BTreeMap<u64, Lease>,
    /// Elements of a list that were delivered before, and can be taken again.
    pub(super) again: VecDeque<Delivered>,
    answers: HashMap<ClientId, Answers>,
}

/// The answers to one client.
#[derive(Debug, Default)]
struct Answers {
    of_numbers: BTreeMap<u64, Answer>,
    /// Operations with lower numbers are answered, and their answers are forgotten.
    forget_before: u64,
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

    /// The answer of an operation that was applied before. A request that arrives after its answer was forgotten is refused:
    /// it was applied, or its client has given it up.
    pub(super) fn remembered(&mut self, once: Option<&Once>, now: Moment) -> Result<Option<Reply>> {
        let Some(Once { id, forget_before, .. }) = once else { return Ok(None) };
        for answers in self.answers.values_mut() {
            answers.of_numbers.retain(|_, answer| now < answer.until);
        }
        self.answers.retain(|_, answers| !answers.of_numbers.is_empty());
        let Some(answers) = self.answers.get_mut(&id.client) else { return Ok(None) };
        answers.forget_before = answers.forget_before.max(*forget_before);
        if id.number < answers.forget_before {
            return Err(Error::unavailable("the request has arrived too late"));
        }
        answers.of_numbers.retain(|number, _| *number >= answers.forget_before);
        Ok(answers.of_numbers.get(&id.number).map(|answer| answer.reply.clone()))
    }

    /// Remembers the answer of an operation.
    pub(super) fn remember(&mut self, once: Option<&Once>, reply: &Reply, now: Moment) {
        if let Some(Once { id, remember, forget_before }) = once {
            let answer = Answer { reply: reply.clone(), until: now + *remember };
            let answers = self.answers.entry(id.client).or_default();
            answers.of_numbers.insert(id.number, answer);
            answers.forget_before = answers.forget_before.max(*forget_before);
        }
    }
}
