//! The subscriptions of a cluster. Each is a subscription at the node that has the slot of its channel, and moves with
//! the slot.

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
use crate::subscriptions::SubscribeResult;

/// The pause before a subscription is repeated at another node.
const PAUSE: Duration = Duration::from_millis(20);

impl SharedCluster {
    /// Subscribes at the node that has the slot of this channel.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        channel: &str,
        sink: Sink,
        deadline: Instant,
    ) -> Result<Subscription> {
        let (id, subscription) = self.add(channel, sink.clone());
        loop {
            let Some(node) = self.owner_of(channel) else {
                self.refresh_soon();
                self.pause(deadline).await?;
                continue;
            };
            let subscribed = node.server.subscriptions.subscribe(channel, sink.clone());
            let late = |_| Err(Error::unavailable("the node of this channel did not answer in time"));
            match timeout_at(deadline.into(), subscribed).await.unwrap_or_else(late) {
                Ok(SubscribeResult::Subscribed(at_node)) => {
                    self.settled(id, node, at_node);
                    return Ok(subscription);
                }
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
    fn add(self: &Arc<Self>, channel: &str, sink: Sink) -> (u64, Subscription) {
        let mut subscribers = self.subscribers();
        subscribers.last_id += 1;
        let id = subscribers.last_id;
        subscribers.each.insert(id, Subscriber { channel: channel.into(), sink, at: None });
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
        let is_home = self.is_home(&subscriber.channel, &node);
        let former = subscriber.at.replace((node, at_node));
        drop(subscribers);
        drop(former);
        if !is_home {
            self.refresh_soon();
        }
    }

    /// The subscribers whose subscription is at a node that no longer has the slot. This examines all subscribers.
    pub(super) fn away(&self) -> Vec<u64> {
        let subscribers = self.subscribers();
        subscribers.each.iter().filter(|(_, subscriber)| self.is_away(subscriber)).map(|(id, _)| *id).collect()
    }

    /// Whether a subscription is at a node that no longer has the slot.
    pub(super) fn has_away(&self) -> bool {
        self.subscribers().each.values().any(|subscriber| self.is_away(subscriber))
    }

    fn is_away(&self, Subscriber { channel, at, .. }: &Subscriber) -> bool {
        at.as_ref().is_some_and(|(node, _)| !self.is_home(channel, node))
    }

    /// Moves a subscription to the node that has the slot now, and gives its subscriber a gap, because a message may
    /// have been lost. Returns whether it is there, or needs no move any more.
    pub(super) async fn move_subscription(self: &Arc<Self>, id: u64) -> bool {
        let away = {
            let subscribers = self.subscribers();
            let away = subscribers.each.get(&id).filter(|subscriber| self.is_away(subscriber));
            away.map(|Subscriber { channel, sink, .. }| (channel.clone(), sink.clone()))
        };
        let Some((channel, sink)) = away else { return true };
        let Some(node) = self.owner_of(&channel) else { return false };
        let subscribed = node.server.subscriptions.subscribe(&channel, sink.clone()).await;
        let Ok(SubscribeResult::Subscribed(at_node)) = subscribed else { return false };
        self.settled(id, node, at_node);
        sink.gap();
        true
    }

    /// Whether this node has the slot of this channel.
    fn is_home(&self, channel: &str, node: &Arc<Node>) -> bool {
        self.owner_of(channel).is_some_and(|owner| Arc::ptr_eq(&owner, node))
    }

    fn subscribers(&self) -> MutexGuard<'_, Subscribers> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
