//! The subscriptions of a cluster. Those to sharded channels and keys are at the node that has their slot, and move with the
//! slot. Those to plain channels and globs can be at any node, and move if their node leaves the cluster.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bandog_core::{Error, Result, Subscription, messages::Sink};
use tokio::time::{sleep, timeout_at};

use super::{
    map::Node,
    shared::{SharedCluster, Subscriber, Subscribers},
};
use crate::subscriptions::{Source, SubscribeResult};

/// The pause before a subscription is repeated at another node.
const PAUSE: Duration = Duration::from_millis(20);

impl SharedCluster {
    /// Subscribes at the node that has the slot of this source.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        source: &Source,
        sink: Sink,
        deadline: Instant,
    ) -> Result<SubscribeResult> {
        let (id, subscription) = self.add(source, sink.clone());
        loop {
            let Some(node) = self.owner_of(source.name()) else {
                self.refresh_soon();
                self.pause(deadline).await?;
                continue;
            };
            let subscribed = node.server.subscriptions.subscribe(source, sink.clone());
            let late = |_| Err(Error::unavailable("the node of this channel did not answer in time"));
            match timeout_at(deadline.into(), subscribed).await.unwrap_or_else(late) {
                Ok(SubscribeResult::Subscribed(at_node)) => {
                    self.settled(id, node, at_node);
                    return Ok(SubscribeResult::Subscribed(subscription));
                }
                Ok(SubscribeResult::Denied(error)) => return Ok(SubscribeResult::Denied(error)),
                Ok(SubscribeResult::Moved) => {
                    self.refresh_soon();
                    self.pause(deadline).await?;
                }
                Err(error) => {
                    self.refresh_soon();
                    return Err(error);
                }
            }
        }
    }

    async fn pause(&self, deadline: Instant) -> Result<()> {
        if Instant::now() + PAUSE >= deadline {
            return Err(Error::unavailable("the slot of this channel moves between nodes of the cluster"));
        }
        sleep(PAUSE).await;
        Ok(())
    }

    /// Adds a subscriber without a node. Dropping the returned subscription removes it.
    fn add(self: &Arc<Self>, source: &Source, sink: Sink) -> (u64, Subscription) {
        let mut subscribers = self.subscribers();
        subscribers.last_id += 1;
        let id = subscribers.last_id;
        subscribers.each.insert(id, Subscriber { source: source.clone(), sink, at: None });
        drop(subscribers);
        let cluster = Arc::downgrade(self);
        let stop = move || {
            let removed = cluster.upgrade().and_then(|cluster| cluster.subscribers().each.remove(&id));
            drop(removed); // After the lock is free, because this calls the node's subscriptions.
        };
        (id, Subscription::new(stop))
    }

    /// Keeps the subscription at this node. If the slot has moved in the meantime, the subscription follows it.
    fn settled(self: &Arc<Self>, id: u64, node: Arc<Node>, at_node: Subscription) {
        let mut subscribers = self.subscribers();
        let Some(subscriber) = subscribers.each.get_mut(&id) else { return };
        let is_home = self.is_home(&subscriber.source, &node);
        let former = subscriber.at.replace((node, at_node));
        drop(subscribers);
        drop(former);
        if !is_home {
            self.refresh_soon();
        }
    }

    /// The subscribers whose subscription is at a node that no longer has their source. This examines all subscribers.
    pub(super) fn away(&self) -> Vec<u64> {
        let subscribers = self.subscribers();
        subscribers.each.iter().filter(|(_, subscriber)| self.is_away(subscriber)).map(|(id, _)| *id).collect()
    }

    /// Whether a subscription is at a node that no longer has its source.
    pub(super) fn has_away(&self) -> bool {
        self.subscribers().each.values().any(|subscriber| self.is_away(subscriber))
    }

    fn is_away(&self, Subscriber { source, at, .. }: &Subscriber) -> bool {
        at.as_ref().is_some_and(|(node, _)| !self.is_home(source, node))
    }

    /// Moves a subscription to the node that has the slot, and gives its subscriber a gap, because a message may
    /// have been lost. Returns whether it is there, or needs no move any more.
    pub(super) async fn move_subscription(self: &Arc<Self>, id: u64) -> bool {
        let away = {
            let mut subscribers = self.subscribers();
            let away = subscribers.each.get_mut(&id).filter(|subscriber| self.is_away(subscriber));
            away.map(|Subscriber { source, sink, at }| {
                // Two nodes would give the same messages of a plain channel.
                let former = match at {
                    Some((_, at_node)) if !source.is_in_slot() => {
                        Some(std::mem::replace(at_node, Subscription::silent()))
                    }
                    _ => None,
                };
                (source.clone(), sink.clone(), former)
            })
        };
        let Some((source, sink, former)) = away else { return true };
        drop(former);
        let Some(node) = self.owner_of(source.name()) else { return false };
        let subscribed = node.server.subscriptions.subscribe(&source, sink.clone()).await;
        match subscribed {
            Ok(SubscribeResult::Subscribed(at_node)) => {
                self.settled(id, node, at_node);
                sink.gap();
                true
            }
            Ok(SubscribeResult::Denied(_)) => {
                self.settled(id, node, Subscription::silent());
                sink.end();
                true
            }
            Ok(SubscribeResult::Moved) | Err(_) => false,
        }
    }

    /// Whether this node has this source.
    fn is_home(&self, source: &Source, node: &Arc<Node>) -> bool {
        if source.is_in_slot() {
            self.owner_of(source.name()).is_some_and(|owner| Arc::ptr_eq(&owner, node))
        } else {
            self.map().has(node)
        }
    }

    fn subscribers(&self) -> MutexGuard<'_, Subscribers> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
