//! Who listens to which channel, and how far the server has followed.

use std::{collections::HashMap, sync::Arc};

use bandog_core::{Error, Notifier, Result};
use tokio::sync::oneshot;

/// The channels that somebody listens to, and those that the server does not know yet to be left.
#[derive(Debug, Default)]
pub(super) struct Table {
    channels: HashMap<Arc<str>, Entry>,
    last_id: u64,
}

#[derive(Debug, Default)]
struct Entry {
    listeners: Vec<Listener>,
    line: Line,
    /// The line was on and broke: a message may have been missed.
    missed: bool,
}

#[derive(Debug)]
struct Listener {
    id: u64,
    notifier: Notifier,
    /// Who waits for the confirmation.
    answer: Option<oneshot::Sender<Result<Armed>>>,
}

/// What the server knows of a channel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Nothing.
    #[default]
    Off,
    /// A subscription is under way.
    Asking,
    /// It sends us the messages.
    On,
    /// A subscription had no answer: it may be on.
    Unsure,
    /// The end of the subscription is under way.
    Leaving,
}

/// What came of a wish to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Armed {
    /// Every message rings.
    Notifications,
    /// This user may not subscribe.
    Denied,
}

/// What to ask the server next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Subscribe,
    Unsubscribe,
}

/// A new listener.
pub(super) struct Joined {
    pub(super) channel: Arc<str>,
    pub(super) id: u64,
    /// The confirmation to wait for; none where the channel is on already.
    pub(super) answer: Option<oneshot::Receiver<Result<Armed>>>,
}

impl Table {
    pub(super) fn join(&mut self, channel: &str, notifier: Notifier) -> Joined {
        self.last_id += 1;
        let id = self.last_id;
        let channel = match self.channels.get_key_value(channel) {
            Some((channel, _)) => channel.clone(),
            None => channel.into(),
        };
        let entry = self.channels.entry(channel.clone()).or_default();
        let (answer, waiting) = match entry.line {
            Line::On => (None, None),
            Line::Off | Line::Asking | Line::Unsure | Line::Leaving => Some(oneshot::channel()).unzip(),
        };
        entry.listeners.push(Listener { id, notifier, answer });
        Joined { channel, id, answer: waiting }
    }

    pub(super) fn leave(&mut self, channel: &str, id: u64) {
        let Some(entry) = self.channels.get_mut(channel) else {
            return;
        };
        // Mostly there is one listener, and otherwise the youngest often leaves first.
        if let Some(at) = entry.listeners.iter().rposition(|listener| listener.id == id) {
            entry.listeners.swap_remove(at);
        }
        if entry.listeners.is_empty() && entry.line == Line::Off {
            self.channels.remove(channel);
        }
    }

    pub(super) fn hears(&self, channel: &str) -> bool {
        self.channels.get(channel).is_some_and(|entry| entry.line == Line::On)
    }

    pub(super) fn ring(&self, channel: &str) {
        for listener in self.channels.get(channel).into_iter().flat_map(|entry| &entry.listeners) {
            listener.notifier.notify();
        }
    }

    /// Whether anybody listens, once the connection is lost.
    pub(super) fn is_wanted(&self) -> bool {
        !self.channels.is_empty()
    }

    /// Whether anybody waits for a confirmation.
    pub(super) fn is_awaited(&self) -> bool {
        let mut listeners = self.channels.values().flat_map(|entry| &entry.listeners);
        listeners.any(|listener| listener.answer.is_some())
    }

    pub(super) fn channels(&self) -> impl Iterator<Item = &Arc<str>> {
        self.channels.keys()
    }

    /// What to ask for this channel, if it is not as it should be and nothing is under way. It is then under way.
    pub(super) fn next(&mut self, channel: &str) -> Option<Ask> {
        let entry = self.channels.get_mut(channel)?;
        let (line, ask) = match (entry.line, entry.listeners.is_empty()) {
            (Line::Off, false) => (Line::Asking, Ask::Subscribe),
            (Line::On, true) | (Line::Unsure, _) => (Line::Leaving, Ask::Unsubscribe),
            (Line::Off | Line::Asking | Line::Leaving, _) | (Line::On, false) => return None,
        };
        entry.line = line;
        Some(ask)
    }

    /// The server has confirmed the subscription.
    pub(super) fn subscribed(&mut self, channel: &str) {
        let Some(entry) = self.channels.get_mut(channel) else {
            return;
        };
        entry.line = Line::On;
        let missed = std::mem::take(&mut entry.missed);
        for listener in &mut entry.listeners {
            listener.tell(Ok(Armed::Notifications));
            if missed {
                listener.notifier.notify();
            }
        }
    }

    /// The server has refused the subscription. Those who believed in it are rung once, so that they look.
    pub(super) fn refused(&mut self, channel: &str, reason: &Result<Armed>) {
        let Some(entry) = self.channels.get_mut(channel) else {
            return;
        };
        entry.line = Line::Off;
        entry.missed = false;
        for listener in &mut entry.listeners {
            if !listener.tell(reason.clone()) {
                listener.notifier.notify();
            }
        }
        if entry.listeners.is_empty() {
            self.channels.remove(channel);
        }
    }

    /// The server has not answered whether it subscribed us.
    pub(super) fn unsure(&mut self, channel: &str, error: &Error) {
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.line = Line::Unsure;
            entry.listeners.iter_mut().for_each(|listener| _ = listener.tell(Err(error.clone())));
        }
    }

    /// The server has confirmed that the subscription is over.
    pub(super) fn unsubscribed(&mut self, channel: &str) {
        let Some(entry) = self.channels.get_mut(channel) else {
            return;
        };
        entry.line = Line::Off;
        if entry.listeners.is_empty() {
            self.channels.remove(channel);
        }
    }

    /// The server has refused to end the subscription, so it goes on.
    pub(super) fn stays(&mut self, channel: &str) {
        self.subscribed(channel);
    }

    /// The connection is gone, and every subscription with it.
    pub(super) fn lose(&mut self) {
        self.channels.retain(|_, entry| !entry.listeners.is_empty());
        for entry in self.channels.values_mut() {
            // Also one that was being left or begun: somebody may count on it since before.
            entry.missed = true;
            entry.line = Line::Off;
        }
    }

    /// There is no connection: tells those who wait for a confirmation.
    pub(super) fn fail(&mut self, error: &Error) {
        for listener in self.channels.values_mut().flat_map(|entry| &mut entry.listeners) {
            listener.tell(Err(error.clone()));
        }
    }
}

impl Listener {
    /// Answers who waits, if anybody does.
    fn tell(&mut self, answer: Result<Armed>) -> bool {
        let Some(waiting) = self.answer.take() else {
            return false;
        };
        // Whoever has stopped waiting takes the listener off.
        let _ = waiting.send(answer);
        true
    }
}

#[cfg(test)]
mod tests;
