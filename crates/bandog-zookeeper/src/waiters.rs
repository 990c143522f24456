//! Calls that wait: their node in the queue, and its watch.

use std::sync::{Arc, Weak};

use bandog_core::{Claim, ClaimId, Notifier, Result, Subscription};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{select, time::Instant};
use zookeeper_client::{Client, Error as ZkError, EventType, OneshotWatcher};

use crate::{
    host::Shared,
    nodes::NodeText,
    queue::{Ahead, Awaited, Position},
    semaphore::is_of_a_semaphore,
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
            return if node.waits { self.watch_for(session, claim, &node).await } else { Ok(()) };
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
        let data = NodeText::waiting(claim, line.word);
        let enqueued = self.enqueue(session, &mut node, &data, None).await.map_err(|error| self.fault(error))?;
        self.table.keep_queued(node.clone());
        let (position, _) = enqueued.listed.map_err(|error| self.fault(error))?;
        match position {
            Position::Behind(Ahead { awaited: Awaited::Deletion(path), .. }) | Position::Taken(_, path) => {
                self.table.update_queued(line, |node| node.listed = Some(Instant::now()));
                self.watch(session, claim, &node, Awaited::Deletion(path)).await;
            }
            Position::Behind(ahead) => self.watch(session, claim, &node, ahead.awaited).await,
            Position::Missing => self.table.remove_queued(line),
            Position::First if is_of_a_semaphore(line) => {
                self.watch(session, claim, &node, Awaited::Permits).await;
            }
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
    async fn watch_for(&self, session: &Session, claim: &Claim, node: &Node) -> Result<()> {
        let Some(path) = node.path.as_ref().filter(|_| node.session == session.number) else { return Ok(()) };
        let position = self.position_of(session, &node.line, path).await.map_err(|error| self.fault(error))?;
        match position {
            Position::Behind(ahead) => self.watch(session, claim, node, ahead.awaited).await,
            Position::First if is_of_a_semaphore(&node.line) => {
                self.watch(session, claim, node, Awaited::Permits).await;
            }
            Position::First | Position::Missing | Position::NoNumber | Position::Taken(..) => {}
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

    /// Watches what a waiting node waits for, unless it is watched. When the predecessor is deleted, or when the permits
    /// change, the subscribers are notified. They are also notified if the watch cannot be set.
    pub(crate) async fn watch(&self, session: &Session, claim: &Claim, node: &Node, awaited: Awaited) {
        let Some((number, ended)) = self.table.begins_to_watch(node) else { return };
        // If this future is dropped, the value says that there is no watch.
        let attempt = WatchAttempt { shared: self.weak.clone(), node: node.clone(), number };
        let changed = match awaited {
            Awaited::Deletion(path) => match session.client.get_and_watch_data(&path).await {
                Ok((_, _, watcher)) => until_deleted(session.client.clone(), path, watcher).boxed(),
                // The existence of a node may be watched without a right.
                Err(ZkError::NoAuth) => match session.client.check_and_watch_stat(&path).await {
                    Ok((Some(_), watcher)) => watcher.changed().map(drop).boxed(),
                    Ok((None, _)) | Err(_) => return,
                },
                Err(_) => return,
            },
            Awaited::Permits => match self.watch_permits(session, claim).await {
                Ok(Some([permits, limit])) => async move {
                    select! {
                        _ = permits.changed() => {}
                        _ = limit.changed() => {}
                    }
                }
                .boxed(),
                Ok(None) | Err(_) => return,
            },
        };
        tokio::spawn(async move {
            select! {
                _ = ended => {}
                () = changed => {}
            }
            drop(attempt);
        });
    }

    /// Waits in the background until a node of a hold changes. The next renewal then asks the server.
    pub(crate) fn report_change(&self, id: ClaimId, watchers: Vec<OneshotWatcher>) {
        let shared = self.weak.clone();
        tokio::spawn(async move {
            let mut changes: FuturesUnordered<_> = watchers.into_iter().map(OneshotWatcher::changed).collect();
            changes.next().await;
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
