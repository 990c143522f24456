//! Calls that wait: their node in the queue, and its watch.

use std::sync::{Arc, Weak};

use bandog_core::{Claim, ClaimId, Notifier, Result, Subscription};
use tokio::{select, time::Instant};
use zookeeper_client::{Client, EventType, OneshotWatcher};

use crate::{
    host::Shared,
    nodes::NodeText,
    queue::{Ahead, Position},
    session::Session,
    table::{Line, Node},
};

impl Shared {
    /// Adds a subscriber. The subscriber exists before any request, so that no notification is lost.
    pub(crate) fn add_subscriber(self: &Arc<Self>, line: Line, notifier: Notifier) -> Subscription {
        let number = self.table.subscribe(&line, notifier);
        let shared = Arc::downgrade(self);
        Subscription::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.table.unsubscribe(&line, number);
            }
        })
    }

    /// Takes a place in the queue for the waiting calls of this client, unless they have one.
    pub(crate) async fn wait_in_queue(&self, session: &Session, claim: &Claim, line: &Line) -> Result<()> {
        if let Some(node) = self.table.claim(claim.id) {
            // A claim that may hold the lock needs no place: a place behind it would only delay others.
            return if node.waits { self.watch_for(session, &node).await } else { Ok(()) };
        }
        if let Some(node) = self.table.queued(line) {
            if node.path.is_some() && node.session == session.number {
                return Ok(());
            }
            self.settle_queued(session, node).await?;
        }
        let mut node = self.new_node(session, line.clone());
        node.waits = true;
        self.table.keep_queued(node.clone());
        let data = NodeText::waiting(claim);
        let enqueued = self.enqueue(session, &mut node, &data, None).await.map_err(|error| self.fault(error))?;
        self.table.keep_queued(node.clone());
        let (position, _) = enqueued.listed.map_err(|error| self.fault(error))?;
        match position {
            Position::Behind(Ahead { predecessor, .. }) | Position::Taken(_, predecessor) => {
                self.table.update_queued(line, |node| node.listed = Some(Instant::now()));
                self.watch(session, &node, predecessor).await;
            }
            Position::Missing => self.table.remove_queued(line),
            // The client claims after each subscription, and then gets the node.
            Position::First => {}
            Position::NoNumber => {
                let refusal = self.refusal(&position, line.word);
                self.settle_queued(session, node).await?;
                return refusal.map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    /// Watches for the turn of a claim that has a place.
    async fn watch_for(&self, session: &Session, node: &Node) -> Result<()> {
        let Some(path) = node.path.as_ref().filter(|_| node.session == session.number) else { return Ok(()) };
        let position = self.position_of(session, &node.line, path).await.map_err(|error| self.fault(error))?;
        if let Position::Behind(ahead) = position {
            self.watch(session, node, ahead.predecessor).await;
        }
        Ok(())
    }

    /// Deletes a queued node whose creation had no answer.
    pub(crate) async fn settle_queued(&self, session: &Session, node: Node) -> Result<()> {
        let existed = self.delete(session, &node).await.map_err(|error| self.fault(error))?;
        self.table.remove_queued(&node.line);
        if !existed && node.path.is_none() {
            self.table.suspect(node);
        }
        Ok(())
    }

    /// Watches the predecessor of a node that waits, unless it is watched. When it is deleted, the subscribers are notified.
    /// They are also notified if the watch cannot be set.
    pub(crate) async fn watch(&self, session: &Session, node: &Node, predecessor: String) {
        let Some((number, ended)) = self.table.begins_to_watch(node) else { return };
        // If this future is dropped, the value says that there is no watch.
        let attempt = WatchAttempt { shared: self.weak.clone(), node: node.clone(), number };
        match session.client.get_and_watch_data(&predecessor).await {
            Ok((_, _, watcher)) => {
                let client = session.client.clone();
                tokio::spawn(async move {
                    select! {
                        _ = ended => {}
                        () = until_deleted(client, predecessor, watcher) => {}
                    }
                    drop(attempt);
                });
            }
            Err(_) => drop(attempt),
        }
    }

    /// Waits in the background until the node of a hold changes. The next renewal then asks the server.
    pub(crate) fn report_change(&self, id: ClaimId, watcher: OneshotWatcher) {
        let shared = self.weak.clone();
        tokio::spawn(async move {
            watcher.changed().await;
            if let Some(shared) = shared.upgrade() {
                shared.table.update(id, |node| node.is_watched = false);
            }
        });
    }
}

/// The watch of a predecessor. When this value is dropped, the watch has ended, and the subscribers are notified.
struct WatchAttempt {
    shared: Weak<Shared>,
    node: Node,
    number: u64,
}

impl Drop for WatchAttempt {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.table.watch_ended(&self.node, self.number);
        }
    }
}

/// Waits until the node does not exist any more, or until nothing is known about it.
async fn until_deleted(client: Client, path: String, mut watcher: OneshotWatcher) {
    loop {
        let event = watcher.changed().await;
        if event.event_type != EventType::NodeDataChanged {
            return;
        }
        // Curator's revocation changes the data. The lock is still held.
        watcher = match client.get_and_watch_data(&path).await {
            Ok((_, _, next)) => next,
            Err(_) => return,
        };
    }
}
