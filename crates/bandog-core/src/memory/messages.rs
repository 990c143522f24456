//! The messages on channels. A channel exists while it has subscribers.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::Memory;
use crate::{
    Result, Subscription,
    messages::{Channel, Channels, Message, Messages, Sink},
};

/// The subscribers in the order of their subscriptions.
#[derive(Debug, Default)]
pub(super) struct MessageSubscribers {
    each: BTreeMap<u64, (Channels, Sink)>,
    last_id: u64,
}

impl MessageSubscribers {
    fn add(&mut self, channels: Channels, sink: Sink) -> u64 {
        self.last_id += 1;
        self.each.insert(self.last_id, (channels, sink));
        self.last_id
    }

    /// Gives a message to its subscribers. Returns their number.
    fn publish(&self, channel: &Channel, payload: &[u8]) -> u64 {
        let mut receivers = 0;
        for (channels, sink) in self.each.values() {
            match (channels, channel) {
                (Channels::One(one), _) if one == channel => sink.message(|| Message::Payload(payload.into())),
                (Channels::Matching(pattern), Channel::Plain(name)) if pattern.matches(name.as_str()) => {
                    sink.message(|| Message::Matched(name.clone(), payload.into()));
                }
                _ => continue,
            }
            receivers += 1;
        }
        receivers
    }
}

#[async_trait]
impl Messages for Memory {
    async fn publish(&self, messages: &[(Channel, Vec<u8>)]) -> Vec<Result<u64>> {
        let state = self.state();
        messages.iter().map(|(channel, payload)| Ok(state.message_subscribers.publish(channel, payload))).collect()
    }

    async fn subscribe_messages(&self, channels: &Channels, sink: Sink) -> Result<Subscription> {
        let id = self.state().message_subscribers.add(channels.clone(), sink);
        let shared = self.clone();
        Ok(Subscription::new(move || {
            let ended = shared.state().message_subscribers.each.remove(&id);
            drop(ended);
        }))
    }
}
