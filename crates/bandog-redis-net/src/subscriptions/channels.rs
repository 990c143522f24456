//! The subscribers of each source, and the state of the server's subscription to each source.

use std::{collections::HashMap, sync::Arc};

use bandog_core::{
    Error, Key, Reports, Result,
    messages::{Message, Sink},
};
use tokio::sync::oneshot;

use super::source::Source;

/// The channels and other sources that are in use: those with subscribers, and those whose subscription on the server has
/// not ended yet.
#[derive(Debug, Default)]
pub(super) struct Channels {
    states: HashMap<Source, ChannelState>,
    /// The id of the subscriber that was added last.
    last_id: u64,
    /// Calls of the sinks, made when the lock is released.
    pub(super) reports: Reports,
}

#[derive(Debug, Default)]
struct ChannelState {
    subscribers: Vec<Subscriber>,
    server: ServerState,
    /// Whether the server has ended the subscription while its confirmation was on the way.
    ended: bool,
    /// Whether a message may have been missed, because the connection broke. The subscribers get a gap before the next
    /// message, or when the subscription is confirmed again.
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
#[derive(Debug, Clone)]
pub(super) enum SubscribeOutcome {
    /// The server has confirmed the subscription. The subscriber gets every message on the channel.
    Subscribed,
    /// This user has no right to subscribe.
    Denied(Error),
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
    pub(super) source: Source,
    pub(super) id: u64,
    /// Receives the outcome. None if the server has already confirmed a subscription to this channel.
    pub(super) outcome: Option<oneshot::Receiver<Result<SubscribeOutcome>>>,
}

impl Channels {
    pub(super) fn add(&mut self, source: &Source, sink: Sink) -> AddedSubscriber {
        self.last_id += 1;
        let id = self.last_id;
        let source = match self.states.get_key_value(source) {
            Some((source, _)) => source.clone(),
            None => source.clone(),
        };
        let state = self.states.entry(source.clone()).or_default();
        let (caller, outcome) = match state.server {
            ServerState::Subscribed => (None, None),
            ServerState::Unsubscribed | ServerState::Subscribing | ServerState::Unsure | ServerState::Unsubscribing => {
                Some(oneshot::channel()).unzip()
            }
        };
        state.subscribers.push(Subscriber { id, sink, caller });
        AddedSubscriber { source, id, outcome }
    }

    pub(super) fn remove(&mut self, source: &Source, id: u64) {
        let Some(state) = self.states.get_mut(source) else {
            return;
        };
        // Most channels have one subscriber. If there are several, the subscriber that was added last is often removed
        // first. So the search starts at the end.
        if let Some(at) = state.subscribers.iter().rposition(|subscriber| subscriber.id == id) {
            let removed = state.subscribers.swap_remove(at);
            self.reports.add(move || drop(removed.sink));
        }
        if state.subscribers.is_empty() && state.server == ServerState::Unsubscribed {
            self.states.remove(source);
        }
    }

    pub(super) fn is_subscribed(&self, source: &Source) -> bool {
        self.states.get(source).is_some_and(|state| state.server == ServerState::Subscribed)
    }

    /// Whether UNSUBSCRIBE was sent for this channel and is not answered yet.
    pub(super) fn is_unsubscribing(&self, source: &Source) -> bool {
        self.states.get(source).is_some_and(|state| state.server == ServerState::Unsubscribing)
    }

    /// Gives a message to the subscribers of this source. `matched` is its channel if the source is a glob.
    pub(super) fn message(&mut self, source: &Source, matched: Option<&Key>, payload: &[u8]) {
        let Some(state) = self.states.get_mut(source) else { return };
        if state.server == ServerState::Unsubscribing {
            return; // The next messages will be missing, so a subscriber that waits for a new subscription gets none.
        }
        state.report_gap(&mut self.reports);
        let mut shared: Option<Arc<[u8]>> = None;
        for subscriber in &state.subscribers {
            let payload = shared.get_or_insert_with(|| Arc::from(payload)).clone();
            let (sink, matched) = (subscriber.sink.clone(), matched.cloned());
            self.reports.add(move || {
                sink.message(|| match matched {
                    Some(channel) => Message::Matched(channel, payload),
                    None => Message::Payload(payload),
                });
            });
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

    pub(super) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.states.keys()
    }

    /// The next command to send for this channel. None if no command is needed, or if the previous command is not
    /// answered yet. The caller must send the returned command, because the command counts as sent after this call.
    pub(super) fn next_request(&mut self, source: &Source) -> Option<ChannelRequest> {
        let state = self.states.get_mut(source)?;
        let (server, request) = match (state.server, state.subscribers.is_empty()) {
            (ServerState::Unsubscribed, false) => (ServerState::Subscribing, ChannelRequest::Subscribe),
            (ServerState::Subscribed, true) | (ServerState::Unsure, _) => {
                (ServerState::Unsubscribing, ChannelRequest::Unsubscribe)
            }
            (ServerState::Unsubscribed | ServerState::Subscribing | ServerState::Unsubscribing, _)
            | (ServerState::Subscribed, false) => return None,
        };
        // While an unsure subscription is ended and made again, messages may be missing.
        state.missed |= state.server == ServerState::Unsure;
        state.server = server;
        Some(request)
    }

    /// Records that the server has confirmed the subscription.
    pub(super) fn subscribed(&mut self, source: &Source) {
        let Some(state) = self.states.get_mut(source) else {
            return;
        };
        state.server =
            if std::mem::take(&mut state.ended) { ServerState::Unsubscribed } else { ServerState::Subscribed };
        state.report_gap(&mut self.reports);
        for subscriber in &mut state.subscribers {
            subscriber.answer_caller(Ok(SubscribeOutcome::Subscribed));
        }
    }

    /// Records that the server has ended the subscription by itself. The channel needs a new one.
    pub(super) fn ended(&mut self, source: &Source) {
        let Some(state) = self.states.get_mut(source) else {
            return;
        };
        match state.server {
            ServerState::Subscribed => state.server = ServerState::Unsubscribed,
            ServerState::Subscribing => state.ended = true,
            ServerState::Unsubscribed | ServerState::Unsure | ServerState::Unsubscribing => {}
        }
    }

    /// Records that the server has refused the subscription. Callers that wait for the confirmation get the reason.
    /// Subscribers whose subscription was confirmed earlier get a gap, or the end if this user has no right to subscribe.
    pub(super) fn refused(&mut self, source: &Source, reason: &Result<SubscribeOutcome>) {
        let Some(state) = self.states.get_mut(source) else {
            return;
        };
        state.server = ServerState::Unsubscribed;
        state.missed = false;
        for subscriber in &mut state.subscribers {
            match (subscriber.answer_caller(reason.clone()), reason) {
                (true, _) => {}
                (false, Ok(SubscribeOutcome::Denied(_))) => {
                    let sink = subscriber.sink.clone();
                    self.reports.add(move || sink.end());
                }
                (false, _) => subscriber.report_gap(&mut self.reports),
            }
        }
        if state.subscribers.is_empty() {
            self.states.remove(source);
        }
    }

    /// Records that the server has not answered a command for this channel. Callers that wait for the confirmation get
    /// this error.
    pub(super) fn unsure(&mut self, source: &Source, error: &Error) {
        if let Some(state) = self.states.get_mut(source) {
            state.server = ServerState::Unsure;
            state.subscribers.iter_mut().for_each(|subscriber| _ = subscriber.answer_caller(Err(error.clone())));
        }
    }

    /// Records that the server has confirmed the end of the subscription.
    pub(super) fn unsubscribed(&mut self, source: &Source) {
        let Some(state) = self.states.get_mut(source) else {
            return;
        };
        state.server = ServerState::Unsubscribed;
        if state.subscribers.is_empty() {
            self.states.remove(source);
        }
    }

    /// Records that the server has refused to end the subscription. So the subscription continues.
    pub(super) fn unsubscribe_refused(&mut self, source: &Source) {
        self.subscribed(source);
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

impl ChannelState {
    /// Gives the subscribers a gap if messages may have been missed.
    fn report_gap(&mut self, reports: &mut Reports) {
        if std::mem::take(&mut self.missed) {
            self.subscribers.iter().for_each(|subscriber| subscriber.report_gap(reports));
        }
    }
}

impl Subscriber {
    fn report_gap(&self, reports: &mut Reports) {
        let sink = self.sink.clone();
        reports.add(move || sink.gap());
    }

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
