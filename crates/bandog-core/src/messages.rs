//! Messages on channels: a message reaches the subscribers of this moment, and is not stored.

use std::{
    collections::VecDeque,
    fmt::{self, Debug},
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;

use crate::{Key, Notifier, Pattern, Result, Subscription};

/// A channel of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Channel {
    /// A channel of all servers of the store. Patterns match its messages.
    Plain(Key),
    /// A channel of the server that has the slot of its name. No pattern matches its messages.
    Sharded(Key),
}

/// The channels of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channels {
    /// One channel.
    One(Channel),
    /// All plain channels whose names match and are valid keys.
    Matching(Pattern),
}

/// Messages that reach the subscribers of this moment.
#[async_trait]
pub trait Messages: Debug + Send + Sync + 'static {
    /// Publishes the messages in one round trip to each server, and returns one answer for each in the same order: the
    /// number of receivers, as far as the store knows it. The messages of a channel keep their order.
    ///
    /// # Errors
    /// - [`ErrorKind::Denied`](crate::ErrorKind::Denied): the user has no right to publish there.
    /// - [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable): no answer. The backend does not send a message twice.
    async fn publish(&self, messages: &[(Channel, Vec<u8>)]) -> Vec<Result<u64>>;

    /// Gives the messages of these channels to the sink, until the subscription is dropped. When the call returns, the
    /// store has confirmed the subscription. The subscription is renewed after each loss of the connection, and the sink
    /// gets a [`Message::Gap`] then. If the store refuses that, because the user has lost the right, the sink ends.
    ///
    /// # Errors
    /// - [`ErrorKind::Denied`](crate::ErrorKind::Denied): the user has no right to subscribe there.
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the server has no channels of this kind.
    /// - [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable): no answer.
    async fn subscribe_messages(&self, channels: &Channels, sink: Sink) -> Result<Subscription>;
}

/// A message on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The payload of a published message.
    Payload(Arc<[u8]>),
    /// The channel and the payload of a message, in a subscription of [`Channels::Matching`].
    Matched(Key, Arc<[u8]>),
    /// Messages may be missing here: the connection broke, the channel moved to another node, or the queue was full.
    Gap,
}

/// A receiver of the messages on a channel. Its copies are one receiver.
#[derive(Debug, Clone)]
pub struct Sink(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Notifier(Notifier),
    /// None is the end.
    Call(Call),
    /// With a pattern, messages on channels that do not match are dropped.
    Queue(Arc<Sender>, Option<Pattern>),
}

/// What is called with each message.
#[derive(Clone)]
struct Call(Arc<dyn Fn(Option<Message>) + Send + Sync>);

impl Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Call")
    }
}

impl Sink {
    /// Calls `take` with each message, and with None if no message follows, because the store refuses the subscription. It
    /// must not block.
    pub fn of_messages(take: impl Fn(Option<Message>) + Send + Sync + 'static) -> Self {
        Self(Kind::Call(Call(Arc::new(take))))
    }

    /// Notifies with each message and after each gap. The payloads are dropped.
    pub fn of(notifier: Notifier) -> Self {
        Self(Kind::Notifier(notifier))
    }

    /// Keeps at most this number of messages. If more arrive, a [`Message::Gap`] takes their place.
    pub fn queue(limit: usize) -> (Self, Inbox) {
        let queue = Arc::new(Queue { state: Mutex::default(), limit });
        (Self(Kind::Queue(Arc::new(Sender(queue.clone())), None)), Inbox(queue))
    }

    /// Drops each [`Message::Matched`] whose channel does not match, for stores whose own patterns match too much. A notifier
    /// may get unnecessary calls, so it stays as it is.
    #[must_use]
    pub fn matching(self, pattern: &Pattern) -> Self {
        match self.0 {
            Kind::Queue(sender, _) => Self(Kind::Queue(sender, Some(pattern.clone()))),
            other @ (Kind::Notifier(_) | Kind::Call(_)) => Self(other),
        }
    }

    /// Takes a message. `message` is called if its content is needed.
    pub fn message(&self, message: impl FnOnce() -> Message) {
        match &self.0 {
            Kind::Notifier(notifier) => notifier.notify(),
            Kind::Call(Call(take)) => take(Some(message())),
            Kind::Queue(sender, pattern) => match (pattern, message()) {
                (Some(pattern), Message::Matched(channel, _)) if !pattern.matches(channel.as_str()) => {}
                (_, message) => sender.0.push(message),
            },
        }
    }

    /// Records that messages may be missing.
    pub fn gap(&self) {
        self.message(|| Message::Gap);
    }

    /// Records that no message follows, because the store refuses the subscription. A notifier is notified.
    pub fn end(&self) {
        match &self.0 {
            Kind::Notifier(notifier) => notifier.notify(),
            Kind::Call(Call(take)) => take(None),
            Kind::Queue(sender, _) => sender.0.end(),
        }
    }
}

/// The messages of a [`Sink::queue`].
#[derive(Debug)]
pub struct Inbox(Arc<Queue>);

impl Inbox {
    /// The next message, in the order in which the server has published them. None if the subscription has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, no message is lost.
    pub async fn next(&mut self) -> Option<Message> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next message.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Message>> {
        let mut state = self.0.state();
        match state.messages.pop_front() {
            None if !state.has_ended => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
            message => Poll::Ready(message),
        }
    }
}

struct Queue {
    state: Mutex<QueueState>,
    limit: usize,
}

#[derive(Default)]
struct QueueState {
    /// At most `limit` messages, and one gap.
    messages: VecDeque<Message>,
    has_ended: bool,
    /// Wakes the reader that waits for a message or the end.
    reader: Option<Waker>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, message: Message) {
        let mut state = self.state();
        if state.has_ended {
            return;
        }
        let is_full = state.messages.len() >= self.limit;
        let message = if is_full { Message::Gap } else { message };
        // A second gap directly after a gap says nothing.
        if message != Message::Gap || state.messages.back() != Some(&Message::Gap) {
            state.messages.push_back(message);
        }
        state.wake_reader();
    }

    fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.wake_reader();
    }
}

impl QueueState {
    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Ends the queue when the last copy of its sink is dropped.
#[derive(Debug)]
struct Sender(Arc<Queue>);

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(text: &str) -> Arc<[u8]> {
        text.as_bytes().into()
    }

    #[tokio::test]
    async fn a_full_queue_has_one_gap_where_messages_are_missing() {
        let (sink, mut messages) = Sink::queue(2);
        for text in ["a", "b", "c", "d"] {
            sink.message(|| Message::Payload(payload(text)));
        }
        sink.gap();
        assert_eq!(messages.next().await, Some(Message::Payload(payload("a"))));
        sink.message(|| Message::Payload(payload("e")));
        assert_eq!(messages.next().await, Some(Message::Payload(payload("b"))));
        sink.message(|| Message::Payload(payload("f")));
        assert_eq!(messages.next().await, Some(Message::Gap), "c, d and e are missing here");
        assert_eq!(messages.next().await, Some(Message::Payload(payload("f"))));
        sink.clone().message(|| Message::Payload(payload("g")));
        drop(sink);
        assert_eq!(messages.next().await, Some(Message::Payload(payload("g"))));
        assert_eq!(messages.next().await, None);
    }

    #[tokio::test]
    async fn an_ended_queue_gives_what_it_has_and_takes_nothing() {
        let (sink, mut messages) = Sink::queue(2);
        let matching = sink.clone().matching(&Pattern::new("a?"));
        for channel in ["ab", "abc"] {
            matching.message(|| Message::Matched(Key::new(channel).unwrap(), payload("x")));
        }
        sink.end();
        sink.message(|| Message::Payload(payload("late")));
        assert_eq!(messages.next().await, Some(Message::Matched(Key::new("ab").unwrap(), payload("x"))));
        assert_eq!(messages.next().await, None);
    }

    #[tokio::test]
    async fn a_notifier_gets_messages_and_gaps_and_needs_no_payload() {
        let (sender, mut notified) = tokio::sync::mpsc::unbounded_channel();
        let sink = Sink::of(Notifier::new(move || _ = sender.send(())));
        sink.message(|| panic!("the payload is not needed"));
        sink.gap();
        sink.end();
        assert_eq!([notified.recv().await, notified.recv().await, notified.recv().await], [Some(()); 3]);
    }
}
