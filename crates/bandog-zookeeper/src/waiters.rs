//! Calls that wait: their node in the queue, and its watch.

use std::sync::{Arc, Weak};

use bandog_core::{Claim, ClaimId, Key, Notifier, Result, Subscription};
use tokio::select;
use zookeeper_client::{Client, EventType, OneshotWatcher};

use crate::{host::Shared, nodes::NodeText, queue::Position, session::Session, table::Node};

impl Shared {
    /// Adds a subscriber. The subscriber exists before any request, so that no notification is lost.
    pub(crate) fn add_subscriber(self: &Arc<Self>, key: &Key, notifier: Notifier) -> Subscription {
        let number = self.table.subscribe(key, notifier);
        let (shared, key) = (Arc::downgrade(self), key.clone());
        Subscription::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.table.unsubscribe(&key, number);
            }
        })
    }

    /// Takes a place in the queue for the waiting calls of this client, unless they have one.
    pub(crate) async fn wait_in_queue(&self, session: &Session, claim: &Claim) -> Result<()> {
        if self.table.claim(claim.id).is_some() {
            return Ok(()); // The claim may hold the lock, so a place behind it would only delay others.
        }
        if let Some(node) = self.table.queued(&claim.key) {
            if node.path.is_some() && node.session == session.number {
                return Ok(());
            }
            self.settle_queued(session, node).await?;
        }
        let mut node = self.new_node(session, &claim.key);
        self.table.keep_queued(node.clone());
        let data = NodeText::waiting(claim);
        let enqueued = self.enqueue(session, &mut node, &data, None).await.map_err(|error| self.fault(error))?;
        self.table.keep_queued(node.clone());
        match enqueued.position.map_err(|error| self.fault(error))? {
            // The client claims after each subscription, and then gets the node.
            Position::First => {}
            Position::Missing => self.table.remove_queued(&claim.key),
            Position::NoNumber => {
                self.settle_queued(session, node).await?;
                return Err(self.no_number());
            }
            Position::Behind(predecessor) => self.watch(session, &claim.key, predecessor).await,
        }
        Ok(())
    }

    /// Deletes a queued node whose creation had no answer.
    pub(crate) async fn settle_queued(&self, session: &Session, node: Node) -> Result<()> {
        let existed = self.delete(session, &node).await.map_err(|error| self.fault(error))?;
        self.table.remove_queued(&node.key);
        if !existed && node.path.is_none() {
            self.table.suspect(node);
        }
        Ok(())
    }

    /// Watches the node before the waiting calls' node, unless it is watched. When it is deleted, the subscribers are
    /// notified. They are also notified if the watch cannot be set.
    pub(crate) async fn watch(&self, session: &Session, key: &Key, predecessor: String) {
        let Some((number, ended)) = self.table.begins_to_watch(key) else { return };
        // If this future is dropped, the value says that there is no watch.
        let attempt = WatchAttempt { shared: self.weak.clone(), key: key.clone(), number };
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
    key: Key,
    number: u64,
}

impl Drop for WatchAttempt {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.table.watch_ended(&self.key, self.number);
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
