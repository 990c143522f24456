//! Helper functions of the laws of messages.

use std::{sync::Arc, time::Duration};

use bandog_core::{
    Key, Pattern, Subscription,
    messages::{Channel, Channels, Inbox, Message, Messages, Sink},
};
use bandog_testkit::eventually_async;
use tokio::time::timeout;

use super::MessageWorld;

/// Time in which a message arrives, on a machine under load.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// The number of messages that the queues of the laws keep.
const LIMIT: usize = 10_000;

/// A subscriber.
pub(super) struct Subscriber {
    pub(super) subscription: Subscription,
    inbox: Inbox,
}

pub(super) fn plain(name: &str) -> Channel {
    Channel::Plain(Key::new(name).expect("a valid name"))
}

pub(super) fn sharded(name: &str) -> Channel {
    Channel::Sharded(Key::new(name).expect("a valid name"))
}

pub(super) fn one(channel: &Channel) -> Channels {
    Channels::One(channel.clone())
}

pub(super) fn matching(glob: &str) -> Channels {
    Channels::Matching(Pattern::new(glob))
}

/// A message on one channel.
pub(super) fn payload(bytes: impl AsRef<[u8]>) -> Message {
    Message::Payload(bytes.as_ref().into())
}

/// A message on a channel that matches.
pub(super) fn matched(channel: &str, bytes: impl AsRef<[u8]>) -> Message {
    Message::Matched(Key::new(channel).expect("a valid name"), bytes.as_ref().into())
}

/// Publishes messages, which must succeed. Returns the numbers of receivers.
pub(super) async fn publish_all(store: &Arc<dyn Messages>, messages: &[(Channel, Vec<u8>)]) -> Vec<u64> {
    let answers = store.publish(messages).await;
    assert_eq!(answers.len(), messages.len(), "each message has one answer");
    answers.into_iter().map(|answer| answer.expect("the message is published")).collect()
}

/// Publishes a message, which must succeed. Returns the number of receivers.
pub(super) async fn publish(store: &Arc<dyn Messages>, channel: &Channel, bytes: impl AsRef<[u8]>) -> u64 {
    publish_all(store, &[(channel.clone(), bytes.as_ref().to_vec())]).await[0]
}

impl Subscriber {
    pub(super) async fn of(store: &Arc<dyn Messages>, channels: &Channels) -> Self {
        Self::with_limit(store, channels, LIMIT).await
    }

    pub(super) async fn with_limit(store: &Arc<dyn Messages>, channels: &Channels, limit: usize) -> Self {
        let (sink, inbox) = Sink::queue(limit);
        let subscription = store.subscribe_messages(channels, sink).await.expect("a subscription");
        assert!(!subscription.is_silent());
        Self { subscription, inbox }
    }

    /// The next message.
    pub(super) async fn next(&mut self) -> Message {
        timeout(SOON, self.inbox.next()).await.expect("a message arrives").expect("the subscription has not ended")
    }

    /// Drops the subscription. Returns the messages that have not been read.
    pub(super) async fn end(mut self) -> Vec<Message> {
        drop(self.subscription);
        let mut rest = Vec::new();
        while let Some(message) = timeout(SOON, self.inbox.next()).await.expect("the subscription ends") {
            rest.push(message);
        }
        rest
    }
}

/// Waits until the store has this number of subscriptions, if it counts them.
pub(super) async fn eventually_subscribed<W: MessageWorld>(world: &W, channels: &Channels, number: u64) {
    eventually_async(SOON, async || world.subscriptions(channels).await.is_none_or(|counted| counted == number)).await;
}
