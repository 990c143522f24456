//! The messages on channels. A channel exists while it has subscribers.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Reports,
    messages::{Channel, Channels, Message, Sink},
};

/// The subscribers in the order of their subscriptions.
#[derive(Debug, Default)]
pub(super) struct MessageSubscribers {
    each: BTreeMap<u64, (Channels, Sink)>,
    last_id: u64,
}

impl MessageSubscribers {
    /// Adds a subscriber. Returns its id.
    pub(super) fn add(&mut self, channels: Channels, sink: Sink) -> u64 {
        self.last_id += 1;
        self.each.insert(self.last_id, (channels, sink));
        self.last_id
    }

    /// Removes a subscriber, and returns its sink, which the caller drops without the lock.
    pub(super) fn remove(&mut self, id: u64) -> Option<Sink> {
        self.each.remove(&id).map(|(_, sink)| sink)
    }

    /// Gives a message to its subscribers. Returns their number.
    pub(super) fn publish(&self, channel: &Channel, payload: &[u8], reports: &mut Reports) -> u64 {
        let (mut receivers, mut shared) = (0, None::<Arc<[u8]>>);
        for (channels, sink) in self.each.values() {
            let mut payload = || shared.get_or_insert_with(|| payload.into()).clone();
            let message = match (channels, channel) {
                (Channels::One(one), _) if one == channel => Message::Payload(payload()),
                (Channels::Matching(pattern), Channel::Plain(name)) if pattern.matches(name.as_str()) => {
                    Message::Matched(name.clone(), payload())
                }
                _ => continue,
            };
            let sink = sink.clone();
            reports.add(move || sink.message(|| message));
            receivers += 1;
        }
        receivers
    }
}
