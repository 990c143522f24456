//! The nodes that this backend has created, and the subscribers of its client.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Claim, ClaimId, Key, Kind, Notifier};
use tokio::{
    sync::{Notify, oneshot, watch},
    time::Instant,
};

use crate::nodes::Word;

/// Calls of this client that share a node of the queue, and the notifications about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) key: Key,
    pub(crate) word: Word,
    /// The claim, if it has a place of its own: that of a fair mutex.
    claim: Option<ClaimId>,
}

impl Line {
    /// The line of a claim.
    pub(crate) fn of(claim: &Claim) -> Self {
        let own = match claim.kind {
            Kind::Fair => Some(claim.id),
            Kind::Mutex | Kind::Read | Kind::Write | Kind::Permits { .. } => None,
        };
        Self { key: claim.key.clone(), word: Word::of(&claim.key, claim.kind), claim: own }
    }

    /// Whether the line has the node of one claim only.
    pub(crate) fn has_one_claim(&self) -> bool {
        self.claim.is_some()
    }
}

/// One node of a lock. The node exists, or may exist because the answer to its creation was lost.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: Line,
    /// The beginning of its name, which no other node has.
    pub(crate) protection: String,
    /// None if the answer to its creation did not arrive.
    pub(crate) path: Option<String>,
    /// The permits that the node's claim has taken.
    pub(crate) permits: Permits,
    /// The number of the transaction that created the node, if its answer has arrived.
    pub(crate) created: Option<u64>,
    /// The number of the transaction from which the fences of the grant are counted. None if no answer has granted the lock
    /// to the node's claim.
    pub(crate) transaction: Option<u64>,
    /// Whether the claim keeps the node as its place if it is refused.
    pub(crate) joins: bool,
    /// Whether the node only waits for the lock: see [`crate::nodes::NodeText::waiting`].
    pub(crate) waits: bool,
    /// Whether the data of the node may say that it waits, although a claim holds the lock with it.
    pub(crate) is_unmarked: bool,
    /// The session that created the node.
    pub(crate) session: u64,
    /// When the keeper deletes the node, unless it is renewed.
    pub(crate) until: Instant,
    /// Whether a watch reports the deletion of the node.
    pub(crate) is_watched: bool,
    /// Whether the node was seen over the present connection. A deletion that happened without a connection may be
    /// reported late.
    pub(crate) is_seen: bool,
    /// When the folder was last listed for the node while it waited.
    pub(crate) listed: Option<Instant>,
}

/// The permits of a claim in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permits {
    /// None, or the claim is not for permits.
    None,
    /// The claim may have permits, because the answer to the transaction that takes them was lost.
    Unsure,
    /// The paths of the nodes. The node in the queue does not exist any more.
    Taken(Vec<String>),
}

/// The memory of one backend. All methods return at once.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Mutex<Rows>,
    /// Wakes the keeper: a node must be deleted earlier than the keeper knows, a name has lost its subscribers, or the
    /// backend does not use the session any more.
    pub(crate) wake: Notify,
    /// Whether the keeper deletes nodes at this moment.
    pub(crate) is_tidying: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Rows {
    /// The nodes of claims.
    claims: HashMap<ClaimId, Node>,
    /// For each line with waiting calls, the node in the lock's queue. The next claim gets this node.
    queued: HashMap<Line, Node>,
    /// Nodes that did not exist when they were searched, and whose creation can still be applied.
    suspects: Vec<Node>,
    /// The nodes whose predecessor is watched, by the beginning of their names: the number of the watch, and the channel
    /// that ends it.
    watching: HashMap<String, (u64, oneshot::Sender<()>)>,
    last_watch: u64,
    subscribers: HashMap<Line, BTreeMap<u64, Notifier>>,
    last_subscriber: u64,
    /// The lines that may have lost their last subscriber.
    left: BTreeSet<Line>,
    /// The time of the keeper's next check for nodes that must be deleted.
    planned: Option<Instant>,
}

impl Table {
    pub(crate) fn claim(&self, id: ClaimId) -> Option<Node> {
        self.rows().claims.get(&id).cloned()
    }

    /// The node of a claim, if this session has created it. A node of an earlier session never counts.
    pub(crate) fn claim_of(&self, id: ClaimId, session: u64) -> Option<Node> {
        self.claim(id).filter(|node| node.session == session)
    }

    /// Gives a node to the keeper, which searches and deletes it once more.
    pub(crate) fn suspect(&self, node: Node) {
        let until = node.until;
        let mut rows = self.rows();
        rows.suspects.push(node);
        self.plan(&mut rows, until);
    }

    /// Takes the suspects that must be searched now.
    pub(crate) fn due_suspects(&self, now: Instant) -> Vec<Node> {
        self.rows().suspects.extract_if(.., |node| node.until <= now).collect()
    }

    pub(crate) fn keep_claim(&self, id: ClaimId, node: Node) {
        let until = node.until;
        let mut rows = self.rows();
        rows.claims.insert(id, node);
        self.plan(&mut rows, until);
    }

    /// Wakes the keeper if a node must be deleted earlier than the keeper knows.
    fn plan(&self, rows: &mut Rows, until: Instant) {
        if rows.planned.is_none_or(|planned| until < planned) {
            rows.planned = Some(until);
            self.wake.notify_one();
        }
    }

    /// Whether a claim of another line has a node of the same lock.
    pub(crate) fn has_others_beside(&self, line: &Line) -> bool {
        self.rows().claims.values().any(|node| node.line.key == line.key && node.line != *line)
    }

    pub(crate) fn remove_claim(&self, id: ClaimId) {
        let mut rows = self.rows();
        if let Some(node) = rows.claims.remove(&id) {
            rows.watching.remove(&node.protection);
        }
    }

    /// Removes the node of a claim, unless the claim has a newer one by now.
    pub(crate) fn remove_node(&self, id: ClaimId, node: &Node) {
        let mut rows = self.rows();
        if rows.claims.get(&id).is_some_and(|present| present.protection == node.protection) {
            rows.claims.remove(&id);
            rows.watching.remove(&node.protection);
        }
    }

    /// Removes the node of a claim that must be deleted now. From then on, no renewal extends it.
    pub(crate) fn take_due(&self, id: ClaimId, now: Instant) -> Option<Node> {
        let mut rows = self.rows();
        if rows.claims.get(&id)?.until > now {
            return None;
        }
        let node = rows.claims.remove(&id)?;
        rows.watching.remove(&node.protection);
        Some(node)
    }

    /// Changes the node of a claim. Returns false if the claim does not have this node any more.
    pub(crate) fn update_node(&self, id: ClaimId, node: &Node, change: impl FnOnce(&mut Node)) -> bool {
        let mut rows = self.rows();
        let present = rows.claims.get_mut(&id).filter(|present| present.protection == node.protection);
        let Some(present) = present else { return false };
        change(present);
        let until = present.until;
        self.plan(&mut rows, until);
        true
    }

    /// Changes the node of a claim, if the table has it.
    pub(crate) fn update(&self, id: ClaimId, change: impl FnOnce(&mut Node)) {
        let mut rows = self.rows();
        let Some(node) = rows.claims.get_mut(&id) else { return };
        change(node);
        let until = node.until;
        self.plan(&mut rows, until);
    }

    pub(crate) fn queued(&self, line: &Line) -> Option<Node> {
        self.rows().queued.get(line).cloned()
    }

    pub(crate) fn keep_queued(&self, node: Node) {
        self.rows().queued.insert(node.line.clone(), node);
    }

    pub(crate) fn remove_queued(&self, line: &Line) {
        let mut rows = self.rows();
        if let Some(node) = rows.queued.remove(line) {
            rows.watching.remove(&node.protection);
        }
    }

    /// Makes the node of the waiting calls the node of this claim, until this moment.
    pub(crate) fn promote(&self, line: &Line, id: ClaimId, until: Instant) {
        let mut rows = self.rows();
        if let Some(mut node) = rows.queued.remove(line) {
            rows.watching.remove(&node.protection);
            node.until = until;
            rows.claims.insert(id, node);
            self.plan(&mut rows, until);
        }
    }

    /// Changes the node of the waiting calls, if the table has it.
    pub(crate) fn update_queued(&self, line: &Line, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.rows().queued.get_mut(line) {
            change(node);
        }
    }

    /// Makes the node of a refused claim the node of the waiting calls.
    pub(crate) fn demote(&self, id: ClaimId) {
        let mut rows = self.rows();
        if let Some(node) = rows.claims.remove(&id) {
            rows.queued.insert(node.line.clone(), node);
        }
    }

    /// Records that the predecessor of a node is watched. Returns the number of the watch, and a channel that is closed when
    /// the watch is no longer needed. None if it was watched before.
    pub(crate) fn begins_to_watch(&self, node: &Node) -> Option<(u64, oneshot::Receiver<()>)> {
        let mut rows = self.rows();
        if rows.watching.contains_key(&node.protection) {
            return None;
        }
        rows.last_watch += 1;
        let (number, (end, ended)) = (rows.last_watch, oneshot::channel());
        rows.watching.insert(node.protection.clone(), (number, end));
        Some((number, ended))
    }

    /// Whether the predecessor of a node is watched.
    pub(crate) fn is_watching(&self, node: &Node) -> bool {
        self.rows().watching.contains_key(&node.protection)
    }

    /// Ends all watches without a notification.
    pub(crate) fn end_watches(&self) {
        self.rows().watching.clear();
    }

    /// Records a new connection. The next renewals ask whether their nodes exist.
    pub(crate) fn connected_again(&self) {
        self.rows().claims.values_mut().for_each(|node| node.is_seen = false);
    }

    /// Records the end of a watch, and notifies the subscribers. Does nothing if the watch was not needed any more.
    pub(crate) fn watch_ended(&self, node: &Node, number: u64) {
        let mut rows = self.rows();
        if rows.watching.get(&node.protection).is_none_or(|(present, _)| *present != number) {
            return;
        }
        rows.watching.remove(&node.protection);
        let notifiers: Vec<_> =
            rows.subscribers.get(&node.line).into_iter().flat_map(BTreeMap::values).cloned().collect();
        // A notifier may own the last handle of a subscription, which ends under the same lock.
        drop(rows);
        notifiers.iter().for_each(Notifier::notify);
    }

    pub(crate) fn subscribe(&self, line: &Line, notifier: Notifier) -> u64 {
        let mut rows = self.rows();
        rows.last_subscriber += 1;
        let number = rows.last_subscriber;
        rows.subscribers.entry(line.clone()).or_default().insert(number, notifier);
        number
    }

    /// Removes a subscriber. If it was the last one of its line, the keeper removes the node of the waiting calls.
    pub(crate) fn unsubscribe(&self, line: &Line, number: u64) {
        let mut rows = self.rows();
        let Some(of_line) = rows.subscribers.get_mut(line) else { return };
        let removed = of_line.remove(&number);
        if of_line.is_empty() {
            rows.subscribers.remove(line);
            rows.left.insert(line.clone());
            self.wake.notify_one();
        }
        drop(rows);
        drop(removed); // It may own another subscription.
    }

    pub(crate) fn has_subscribers(&self, line: &Line) -> bool {
        self.rows().subscribers.contains_key(line)
    }

    /// The lines that may have lost their last subscriber.
    pub(crate) fn left(&self) -> Vec<Line> {
        self.rows().left.iter().cloned().collect()
    }

    /// Records that the node of the waiting calls could not be removed.
    pub(crate) fn put_back(&self, line: Line) {
        self.rows().left.insert(line);
    }

    /// Records that the keeper checks a line.
    pub(crate) fn has_tidied(&self, line: &Line) {
        self.rows().left.remove(line);
    }

    /// When the first node must be deleted. From then on, the keeper knows it.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let mut rows = self.rows();
        rows.planned = rows.claims.values().chain(&rows.suspects).map(|node| node.until).min();
        rows.planned
    }

    /// The claims whose nodes must be deleted now.
    pub(crate) fn due(&self, now: Instant) -> Vec<(ClaimId, Line)> {
        let rows = self.rows();
        let due = rows.claims.iter().filter(|(_, node)| node.until <= now);
        due.map(|(id, node)| (*id, node.line.clone())).collect()
    }

    /// Forgets the nodes of a session that has ended, and notifies all subscribers: their places are gone.
    pub(crate) fn session_ended(&self, session: u64) {
        let mut rows = self.rows();
        rows.claims.retain(|_, node| node.session != session);
        rows.queued.retain(|_, node| node.session != session);
        rows.suspects.retain(|node| node.session != session);
        rows.watching.clear();
        let notifiers: Vec<_> = rows.subscribers.values().flat_map(BTreeMap::values).cloned().collect();
        drop(rows);
        notifiers.iter().for_each(Notifier::notify);
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bandog_core::ClientId;

    use super::*;

    const TIME: Duration = Duration::from_secs(5);

    fn node(claim: &Claim, protection: &str) -> Node {
        Node {
            line: Line::of(claim),
            protection: protection.to_owned(),
            path: None,
            permits: Permits::None,
            created: None,
            transaction: None,
            joins: true,
            waits: true,
            is_unmarked: false,
            session: 1,
            until: Instant::now() + TIME,
            is_watched: false,
            is_seen: false,
            listed: None,
        }
    }

    /// Otherwise a renewal could extend a hold whose node the keeper deletes, and two clients would hold the lock.
    #[tokio::test(start_paused = true)]
    async fn a_renewal_extends_neither_a_node_that_is_deleted_nor_a_newer_one() {
        let (table, id) = (Table::default(), ClaimId { client: ClientId::random(), number: 1 });
        let claim = Claim { joins: true, ..Claim::new(Key::new("a").unwrap(), id, Kind::Fair, TIME) };
        let (first, second) = (node(&claim, "first"), node(&claim, "second"));
        table.keep_claim(id, first.clone());
        assert!(table.take_due(id, Instant::now()).is_none());
        assert!(table.update_node(id, &first, |node| node.until += TIME));
        tokio::time::advance(TIME).await;
        assert!(table.take_due(id, Instant::now()).is_none(), "it was extended");
        tokio::time::advance(TIME).await;
        assert_eq!(table.take_due(id, Instant::now()).unwrap().protection, "first");
        assert!(!table.update_node(id, &first, |node| node.until += TIME));

        table.keep_claim(id, second);
        assert!(!table.update_node(id, &first, |node| node.until += TIME));
        table.remove_node(id, &first);
        assert_eq!(table.claim(id).unwrap().protection, "second");
    }
}
