//! The subscribers of each channel, and the state of the server's subscription to each channel.

use std::{collections::HashMap, sync::Arc};

use bandog_core::{
    Error, Result,
    messages::{Message, Sink},
};
use tokio::sync::oneshot;

/// The channels that are in use: those with subscribers, and those whose subscription on the server has not ended yet.
#[derive(Debug, Default)]
pub(super) struct Channels {
    states: HashMap<Arc<str>, ChannelState>,
    /// The id of the subscriber that was added last.
    last_id: u64,
}

#[derive(Debug, Default)]
struct ChannelState {
    subscribers: Vec<Subscriber>,
    server: ServerState,
    /// Whether the server has ended the subscription while its confirmation was on the way.
    ended: bool,
    /// Whether a message may have been missed, because the connection broke. The subscribers get a gap when the
    /// subscription is confirmed again.
    missed: bool,
}

#[derive(Debug)]
struct Subscriber {
    id: u64,
    sink: Sink,
    /// Sends the outcome to the caller. None if no caller waits for the outcome any more.
    caller: Option<oneshot::Sender<Result<SubscribeOutcome>>>,
}

/// The state of the server's subscription to a channel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ServerState {
    #[default]
    Unsubscribed,
    /// SUBSCRIBE was sent and is not answered yet.
    Subscribing,
    Subscribed,
    /// A command was not answered in time, so it is unknown whether this connection is subscribed.
    Unsure,
    /// UNSUBSCRIBE was sent and is not answered yet.
    Unsubscribing,
}

/// The outcome of a call that subscribes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscribeOutcome {
    /// The server has confirmed the subscription. The subscriber gets every message on the channel.
    Subscribed,
    /// This user has no right to subscribe.
    Denied,
    /// Another node of the cluster has the slot of the channel.
    Moved,
}

/// The next command to send for a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelRequest {
    Subscribe,
    Unsubscribe,
}

/// A subscriber that was added.
pub(super) struct AddedSubscriber {
    pub(super) channel: Arc<str>,
    pub(super) id: u64,
    /// Receives the outcome. None if the server has already confirmed a subscription to this channel.
    pub(super) outcome: Option<oneshot::Receiver<Result<SubscribeOutcome>>>,
}

impl Channels {
    pub(super) fn add(&mut self, channel: &str, sink: Sink) -> AddedSubscriber {
        self.last_id += 1;
        let id = self.last_id;
        let channel = match self.states.get_key_value(channel) {
            Some((channel, _)) => channel.clone(),
            None => channel.into(),
        };
        let state = self.states.entry(channel.clone()).or_default();
        let (caller, outcome) = match state.server {
            ServerState::Subscribed => (None, None),
            ServerState::Unsubscribed | ServerState::Subscribing | ServerState::Unsure | ServerState::Unsubscribing => {
                Some(oneshot::channel()).unzip()
            }
        };
        state.subscribers.push(Subscriber { id, sink, caller });
        AddedSubscriber { channel, id, outcome }
    }

    pub(super) fn remove(&mut self, channel: &str, id: u64) {
        let Some(state) = self.states.get_mut(channel) else {
            return;
        };
        // Most channels have one subscriber. If there are several, the subscriber that was added last is often removed
        // first. So the search starts at the end.
        if let Some(at) = state.subscribers.iter().rposition(|subscriber| subscriber.id == id) {
            state.subscribers.swap_remove(at);
        }
        if state.subscribers.is_empty() && state.server == ServerState::Unsubscribed {
            self.states.remove(channel);
        }
    }

    pub(super) fn is_subscribed(&self, channel: &str) -> bool {
        self.states.get(channel).is_some_and(|state| state.server == ServerState::Subscribed)
    }

    /// Whether UNSUBSCRIBE was sent for this channel and is not answered yet.
    pub(super) fn is_unsubscribing(&self, channel: &str) -> bool {
        self.states.get(channel).is_some_and(|state| state.server == ServerState::Unsubscribing)
    }

    /// Gives a message to the subscribers of this channel.
    pub(super) fn message(&self, channel: &str, payload: &[u8]) {
        let mut shared: Option<Arc<[u8]>> = None;
        for subscriber in self.states.get(channel).into_iter().flat_map(|state| &state.subscribers) {
            subscriber.sink.message(|| Message::Payload(shared.get_or_insert_with(|| Arc::from(payload)).clone()));
        }
    }

    /// Whether a connection is needed, that is, whether this collection contains a channel. (While there is no
    /// connection, it contains only channels with subscribers.)
    pub(super) fn is_needed(&self) -> bool {
        !self.states.is_empty()
    }

    /// Whether a caller waits for a confirmation.
    pub(super) fn has_waiting_caller(&self) -> bool {
        let mut subscribers = self.states.values().flat_map(|state| &state.subscribers);
        subscribers.any(|subscriber| subscriber.caller.is_some())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.states.keys()
    }

    /// The next command to send for this channel. None if no command is needed, or if the previous command is not
    /// answered yet. The caller must send the returned command, because the command counts as sent after this call.
    pub(super) fn next_request(&mut self, channel: &str) -> Option<ChannelRequest> {
        let state = self.states.get_mut(channel)?;
        let (server, request) = match (state.server, state.subscribers.is_empty()) {
            (ServerState::Unsubscribed, false) => (ServerState::Subscribing, ChannelRequest::Subscribe),
            (ServerState::Subscribed, true) | (ServerState::Unsure, _) => {
                (ServerState::Unsubscribing, ChannelRequest::Unsubscribe)
            }
            (ServerState::Unsubscribed | ServerState::Subscribing | ServerState::Unsubscribing, _)
            | (ServerState::Subscribed, false) => return None,
        };
        state.server = server;
        Some(request)
    }

    /// Records that the server has confirmed the subscription.
    pub(super) fn subscribed(&mut self, channel: &str) {
        let Some(state) = self.states.get_mut(channel) else {
            return;
        };
        state.server =
            if std::mem::take(&mut state.ended) { ServerState::Unsubscribed } else { ServerState::Subscribed };
        let missed = std::mem::take(&mut state.missed);
        for subscriber in &mut state.subscribers {
            subscriber.answer_caller(Ok(SubscribeOutcome::Subscribed));
            if missed {
                subscriber.sink.gap();
            }
        }
    }

    /// Records that the server has ended the subscription by itself. The channel needs a new one.
    pub(super) fn ended(&mut self, channel: &str) {
        let Some(state) = self.states.get_mut(channel) else {
            return;
        };
        match state.server {
            ServerState::Subscribed => state.server = ServerState::Unsubscribed,
            ServerState::Subscribing => state.ended = true,
            ServerState::Unsubscribed | ServerState::Unsure | ServerState::Unsubscribing => {}
        }
    }

    /// Records that the server has refused the subscription. Callers that wait for the confirmation get the reason.
    /// Subscribers whose subscription was confirmed earlier get a gap.
    pub(super) fn refused(&mut self, channel: &str, reason: &Result<SubscribeOutcome>) {
        let Some(state) = self.states.get_mut(channel) else {
            return;
        };
        state.server = ServerState::Unsubscribed;
        state.missed = false;
        for subscriber in &mut state.subscribers {
            if !subscriber.answer_caller(reason.clone()) {
                subscriber.sink.gap();
            }
        }
        if state.subscribers.is_empty() {
            self.states.remove(channel);
        }
    }

    /// Records that the server has not answered a command for this channel. Callers that wait for the confirmation get
    /// this error.
    pub(super) fn unsure(&mut self, channel: &str, error: &Error) {
        if let Some(state) = self.states.get_mut(channel) {
            state.server = ServerState::Unsure;
            state.subscribers.iter_mut().for_each(|subscriber| _ = subscriber.answer_caller(Err(error.clone())));
        }
    }

    /// Records that the server has confirmed the end of the subscription.
    pub(super) fn unsubscribed(&mut self, channel: &str) {
        let Some(state) = self.states.get_mut(channel) else {
            return;
        };
        state.server = ServerState::Unsubscribed;
        if state.subscribers.is_empty() {
            self.states.remove(channel);
        }
    }

    /// Records that the server has refused to end the subscription. So the subscription continues.
    pub(super) fn unsubscribe_refused(&mut self, channel: &str) {
        self.subscribed(channel);
    }

    /// Records that the connection broke. All its subscriptions have ended.
    pub(super) fn connection_lost(&mut self) {
        self.states.retain(|_, state| !state.subscribers.is_empty());
        for state in self.states.values_mut() {
            // This also applies to a channel with an unanswered command: the server may have confirmed a subscription
            // to the channel before this command was sent.
            state.missed = true;
            state.ended = false;
            state.server = ServerState::Unsubscribed;
        }
    }

    /// Records that no connection could be opened. Every caller that waits for a confirmation gets this error.
    pub(super) fn connection_failed(&mut self, error: &Error) {
        for subscriber in self.states.values_mut().flat_map(|state| &mut state.subscribers) {
            subscriber.answer_caller(Err(error.clone()));
        }
    }
}

impl Subscriber {
    /// Answers the caller that waits for the confirmation. Returns false if no caller waits.
    fn answer_caller(&mut self, outcome: Result<SubscribeOutcome>) -> bool {
        let Some(caller) = self.caller.take() else {
            return false;
        };
        // The send fails if the caller no longer waits. Then its subscription is dropped, which removes the subscriber.
        let _ = caller.send(outcome);
        true
    }
}

#[cfg(test)]
mod tests;
