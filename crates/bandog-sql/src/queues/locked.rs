//! Elements that a transaction has locked, together with their keys of order, and what ends for them.
//!
//! # Keys of order
//! The elements of a key have at most one *head*: one that is ready, delayed or taken. The others are blocked. A transaction
//! that adds an element with a key, ends the head, or makes a blocked element the head, first locks the key with an advisory
//! lock, in a statement before the one that decides. So the deciding statement sees all that earlier holders of the key have
//! committed, and there are never two heads. Elements that change between ready, delayed and taken stay the head, so takes,
//! retries and leases that have ended need no key.
//!
//! A transaction of the user must not keep a key locked. There, an element with a key is added as blocked, and a signal, a
//! row of its own, is added with it. Nothing waits for an uncommitted element or signal, and nothing sees them. When they are
//! committed, the next take of any client finds the signal, locks the key, and makes the first blocked element the head if
//! there is none. The settlement in a transaction of the user leaves a signal, too. A signal is removed in the transaction
//! that has decided about its key, so none is lost. In each order of two commits, the later one of the two is followed by
//! a decision that sees both: that of the signal, or that of the transaction that has locked the key.

use std::collections::BTreeMap;

use bandog_core::{
    Fence, Key,
    queues::{ElementId, Phase},
};

use super::elements::{fence_number, id_text, phase_of, read_fence, read_id};
use crate::{
    channel::Channel,
    client::{Statement, View},
    context::Context,
    fault::Fault,
    row::Row,
    session::Link,
    value::Parameter,
};

/// An element whose row, and whose key of order, are locked.
#[derive(Debug, Clone)]
pub(crate) struct Locked {
    pub(crate) id: ElementId,
    pub(crate) phase: Phase,
    pub(crate) fence: Fence,
    pub(crate) attempt: i64,
    pub(crate) is_cancelled: bool,
    /// Whether its delay or its lease has ended.
    pub(crate) is_over: bool,
    pub(crate) order_key: Option<String>,
    /// The element that waits for it, and the key of that one.
    pub(crate) before: Option<ElementId>,
    pub(crate) before_key: Option<String>,
}

/// What may become ready when a transaction commits.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    /// The keys of order whose head has ended, and the fence that the next delivery exceeds.
    keys: BTreeMap<String, i64>,
    /// The elements of which a predecessor is done.
    befores: Vec<String>,
}

impl Freed {
    pub(crate) fn add_key(&mut self, key: &str, fence: i64) {
        let last = self.keys.entry(key.to_owned()).or_default();
        *last = fence.max(*last);
    }

    pub(crate) fn add_before(&mut self, before: ElementId, key: Option<&str>) {
        self.befores.push(id_text(before));
        if let Some(key) = key {
            self.add_key(key, 0);
        }
    }

    /// Adds the key of an element that has ended. A dead one has none.
    pub(crate) fn add_ended(&mut self, element: &Locked) {
        if let Some(key) = element.order_key.as_ref().filter(|_| element.phase != Phase::Dead) {
            self.add_key(key, fence_number(element.fence));
        }
    }

    /// Executes the last statements of a transaction, decides about the keys, and commits. Returns the rows of the first
    /// statement.
    pub(crate) async fn end(
        self,
        link: &Link,
        context: &Context,
        queue: &Key,
        first: &[Statement<'_>],
    ) -> Result<Vec<Row>, Fault> {
        let texts = &context.work.of(link).postgres;
        let makes_ready = !self.keys.is_empty() || !self.befores.is_empty();
        let _reset = makes_ready.then(|| context.work.hints.reset_after(queue));
        let (queue, channel) = (queue.as_str(), Channel::of_queue(queue).to_string());
        let keys: Vec<&str> = self.keys.keys().map(String::as_str).collect();
        let fences: Vec<i64> = self.keys.values().copied().collect();
        let before: [Parameter<'_>; 3] = [&queue, &self.befores, &channel];
        let decide: [Parameter<'_>; 4] = [&queue, &keys, &fences, &channel];
        let mut all = first.to_vec();
        if !self.befores.is_empty() {
            all.push((&texts.before, &before));
        }
        if !self.keys.is_empty() {
            all.push((&texts.decide, &decide));
        }
        link.end(&all).await
    }
}

/// Begins a transaction, and locks elements that no other transaction has locked, and their keys.
pub(crate) async fn lock(link: &Link, context: &Context, queue: &Key, ids: &[ElementId]) -> Result<Vec<Locked>, Fault> {
    let ids: Vec<_> = ids.iter().map(|id| id_text(*id)).collect();
    let parameters: [Parameter<'_>; 2] = [&queue.as_str(), &ids];
    let [rows] = link.begin_with(View::Latest, [(&context.work.of(link).postgres.lock, &parameters)]).await?;
    rows.iter().map(read).collect()
}

/// The same, but waits for elements that another transaction has locked.
pub(crate) async fn lock_all(
    link: &Link,
    context: &Context,
    queue: &Key,
    ids: &[ElementId],
) -> Result<Vec<Locked>, Fault> {
    let (texts, ids) = (&context.work.of(link).postgres, ids.iter().map(|id| id_text(*id)).collect::<Vec<_>>());
    let parameters: [Parameter<'_>; 2] = [&queue.as_str(), &ids];
    let statements: [Statement<'_>; 2] = [(&texts.wait, &parameters), (&texts.lock, &parameters)];
    let [_, rows] = link.begin_with(View::Latest, statements).await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Locked, Fault> {
    let text = |column: usize| Ok::<_, Fault>(row.try_get::<Option<&str>>(column)?.map(str::to_owned));
    Ok(Locked {
        id: read_id(row.try_get(0)?)?,
        phase: phase_of(row.try_get(1)?),
        fence: read_fence(row.try_get(2)?),
        attempt: row.try_get(3)?,
        is_cancelled: row.try_get(4)?,
        is_over: row.try_get(5)?,
        order_key: text(6)?,
        before: row.try_get::<Option<&str>>(7)?.map(read_id).transpose()?,
        before_key: text(8)?,
    })
}

/// Removes elements as cancelled, in the transaction that has locked them, and commits.
pub(crate) async fn remove(link: &Link, context: &Context, queue: &Key, elements: &[&Locked]) -> Result<(), Fault> {
    let mut freed = Freed::default();
    elements.iter().for_each(|element| freed.add_ended(element));
    let (ids, channels) = ids_and_channels(queue, elements);
    let parameters: [Parameter<'_>; 3] = [&queue.as_str(), &ids, &channels];
    freed.end(link, context, queue, &[(&context.work.of(link).postgres.remove, &parameters)]).await.map(drop)
}

/// The ids of elements, and their channels for results.
pub(crate) fn ids_and_channels(queue: &Key, elements: &[&Locked]) -> (Vec<String>, Vec<String>) {
    let channel = |element: &&Locked| Channel::of_results(queue, element.id.client).to_string();
    (elements.iter().map(|element| id_text(element.id)).collect(), elements.iter().map(channel).collect())
}

/// Decides about the elements for which there are signals: at most 100.
pub(crate) async fn apply_signals(link: &Link, context: &Context, queue: &Key) -> Result<(), Fault> {
    let texts = &context.work.of(link).postgres;
    let parameters: [Parameter<'_>; 1] = [&queue.as_str()];
    let [rows] = link.begin_with(View::Latest, [(&texts.signals, &parameters)]).await?;
    let (mut freed, mut names) = (Freed::default(), Vec::new());
    for row in &rows {
        let name: &str = row.try_get(0)?;
        let fence = name.rsplit_once(' ').and_then(|(_, fence)| fence.parse().ok()).unwrap_or(0);
        if let Some(key) = row.try_get(1)? {
            freed.add_key(key, fence);
        }
        if let Some(before) = row.try_get(2)? {
            freed.add_before(read_id(before)?, row.try_get(3)?);
        }
        names.push(name);
    }
    if names.is_empty() {
        return link.roll_back().await; // Other clients have locked them.
    }
    let parameters: [Parameter<'_>; 2] = [&queue.as_str(), &names];
    freed.end(link, context, queue, &[(&texts.unsignal, &parameters)]).await.map(drop)
}
