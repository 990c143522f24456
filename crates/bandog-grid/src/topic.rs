//! Topics: messages to the subscribers of this moment.

use std::{
    borrow::Borrow,
    fmt,
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bandog_codec::{Codec, Decode, Encode, TextJson};
use bandog_core::{
    Error, ErrorKind, Key, Pattern, Result, Subscription,
    messages::{Channel, Channels, Inbox, Message, Messages, Sink},
};
use futures_util::Stream;

use crate::{call::Writer, object::decode, store::Store};

/// The default number of messages that a subscriber keeps.
const BUFFER: usize = 1_024;

/// The messages of a store.
#[derive(Debug, Clone)]
pub(crate) struct Hub {
    store: Arc<Store>,
    messages: Arc<dyn Messages>,
    /// The length of the prefix of the client.
    prefix: usize,
    buffer: usize,
}

impl Hub {
    /// # Errors
    /// `Unsupported`: the store has no messages.
    pub(crate) fn new(store: &Arc<Store>) -> Result<Self> {
        let Some(messages) = store.messages.clone() else {
            let message = format!("{} has no topics; Redis and memory have them", store.client.profile().store);
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let prefix = store.client.key("x")?.as_str().len() - 1;
        Ok(Self { store: store.clone(), messages, prefix, buffer: BUFFER })
    }

    pub(crate) fn key(&self, name: &str) -> Result<Key> {
        self.store.client.key(name)
    }

    /// The pattern for names with the prefix of the client.
    pub(crate) fn pattern(&self, pattern: &Pattern) -> Result<Pattern> {
        Ok(pattern.after(&self.key("x")?.as_str()[..self.prefix]))
    }

    /// The name without the prefix of the client.
    fn name<'a>(&self, key: &'a Key) -> &'a str {
        &key.as_str()[self.prefix..]
    }

    async fn subscribe<T>(
        &self,
        channels: &Channels,
        read: impl Fn(Message) -> Event<T> + Send + Sync + 'static,
    ) -> Result<Subscriber<T>> {
        let (sink, inbox) = Sink::queue(self.buffer);
        let subscription = self.messages.subscribe_messages(channels, sink).await;
        let subscription = subscription.map_err(|error| error.during("subscribe"))?;
        Ok(Subscriber { _subscription: subscription, inbox, read: Box::new(read), _store: self.store.clone() })
    }
}

/// Messages to the subscribers of this moment, as Redisson's `RTopic` and `RShardedTopic`. Created by
/// [`Grid::topic`](crate::Grid::topic) and [`Grid::sharded_topic`](crate::Grid::sharded_topic).
///
/// A message is not stored: it reaches each subscriber that is connected at this moment, at most once. The messages of one
/// publisher keep their order. A subscriber gets an [`Event::Gap`] where messages may be missing. For messages that must not
/// be lost, use a [`Queue`](crate::Queue) or a [`Journal`](crate::Journal).
///
/// In a cluster, a message of a topic is sent to all nodes, and one of a sharded topic to the nodes that have the slot of the
/// name. So sharded topics carry more messages. A plain and a sharded topic with the same name are two topics.
///
/// ```
/// use bandog::grid::{ClientGrid, Event, Topic};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let news: Topic<String> = grid.topic("news")?;
///
/// let mut subscriber = news.subscribe().await?;
/// news.publish("the shop is open").await?;
/// match subscriber.next().await {
///     Some(Event::Message(text)) => assert_eq!(text, "the shop is open"),
///     Some(Event::Gap) => println!("some news may be missing: read the state of the shop again"),
///     Some(Event::Corrupt(error)) => println!("not written by this program: {error}"),
///     None => println!("this user may not subscribe any more"),
/// }
/// # Ok(()) }
/// ```
pub struct Topic<T, C = TextJson> {
    hub: Hub,
    channel: Channel,
    codec: C,
    types: PhantomData<fn() -> T>,
}

/// The topics whose names match a pattern, as Redisson's `RPatternTopic`. Created by
/// [`Grid::pattern_topic`](crate::Grid::pattern_topic).
///
/// Sharded topics do not match. The messages of different topics have no common order.
///
/// ```
/// use bandog::{Pattern, grid::{ClientGrid, Event, PatternTopic, Topic}};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let all: PatternTopic<u32> = grid.pattern_topic(Pattern::new("price:*"))?;
/// let mut subscriber = all.subscribe().await?;
/// let apple: Topic<u32> = grid.topic("price:apple")?;
/// apple.publish(&5).await?;
/// let Some(Event::Message((name, price))) = subscriber.next().await else { panic!("a message is missing") };
/// assert_eq!((&*name, price), ("price:apple", 5));
/// # Ok(()) }
/// ```
pub struct PatternTopic<T, C = TextJson> {
    hub: Hub,
    pattern: Pattern,
    codec: C,
    types: PhantomData<fn() -> T>,
}

/// Defines what both kinds of topics have.
macro_rules! topic {
    ($name:ident: $field:ident $of:ty) => {
        impl<T> $name<T> {
            pub(crate) fn new(hub: Hub, $field: $of) -> Self {
                Self { hub, $field, codec: TextJson, types: PhantomData }
            }
        }

        impl<T, C: Codec> $name<T, C> {
            /// The same topic, with another codec. Default: [`TextJson`](bandog_codec::TextJson).
            #[must_use]
            pub fn codec<D: Codec>(self, codec: D) -> $name<T, D> {
                $name { hub: self.hub, $field: self.$field, codec, types: PhantomData }
            }

            /// Maximum number of messages that a subscriber keeps until they are read. An [`Event::Gap`] takes the place of
            /// further ones. Default: 1,024.
            #[must_use]
            pub fn buffer(mut self, messages: usize) -> Self {
                self.hub.buffer = messages.max(1);
                self
            }
        }

        impl<T, C: Clone> Clone for $name<T, C> {
            fn clone(&self) -> Self {
                let Self { hub, $field, codec, types } = self;
                Self { hub: hub.clone(), $field: $field.clone(), codec: codec.clone(), types: *types }
            }
        }

        impl<T, C: fmt::Debug> fmt::Debug for $name<T, C> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field(stringify!($field), &self.$field)
                    .field("codec", &self.codec)
                    .finish_non_exhaustive()
            }
        }
    };
}

topic!(Topic: channel Channel);
topic!(PatternTopic: pattern Pattern);

impl<T, C> Topic<T, C> {
    fn key(&self) -> &Key {
        let (Channel::Plain(key) | Channel::Sharded(key)) = &self.channel;
        key
    }

    /// The name, without the prefix of the client.
    pub fn name(&self) -> &str {
        self.hub.name(self.key())
    }

    /// Sends a message to the subscribers of this moment when it is awaited. Returns their number, as far as the store knows
    /// it: in a cluster, the node counts only its own. The number is no proof of delivery, because a subscriber can lose its
    /// connection or be too slow.
    ///
    /// # Errors
    /// - `ErrorKind::Unavailable`: the store has not answered in time. The message is not sent twice; if
    ///   [`Error::maybe_applied`] is true, it may have been published.
    /// - `ErrorKind::Denied`: the user has no right to publish on this channel.
    /// - `ErrorKind::Unsupported`: the topic is sharded, and the server has no sharded channels (Redis before version 7).
    /// - `ErrorKind::Misused`: the message cannot be encoded, or is larger than [`Limits::element`](crate::Limits::element).
    /// - `ErrorKind::Overloaded`: too many calls wait for an answer ([`Limits`](crate::Limits)).
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the message may be published nevertheless.
    pub fn publish<'a, Q: ?Sized>(&'a self, message: &Q) -> impl Future<Output = Result<u64>> + Send + use<'a, T, C, Q>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let payload = Writer::new(&self.hub.store).write(&self.codec, message);
        async move {
            let sent = match payload {
                Ok(payload) => self.hub.store.publish(&*self.hub.messages, &self.channel, payload).await,
                Err(error) => Err(error),
            };
            sent.map_err(|error| error.during("publish").at(self.key()))
        }
    }
}

impl<T: 'static, C: Decode<T>> Topic<T, C> {
    /// Subscribes. The subscriber gets each message that is published after this call has returned. All subscribers of a
    /// topic share one subscription in the store.
    ///
    /// # Errors
    /// - `ErrorKind::Denied`: the user has no right to subscribe to this channel.
    /// - `ErrorKind::Unsupported`: the topic is sharded, and the server has no sharded channels (Redis before version 7).
    /// - `ErrorKind::Unavailable`: the store has not confirmed the subscription in time.
    ///
    /// # Cancel safety
    /// If the future is dropped, there is no subscription.
    pub async fn subscribe(&self) -> Result<Subscriber<T>> {
        let (codec, key) = (self.codec.clone(), self.key().clone());
        let read = move |message| match message {
            Message::Payload(payload) | Message::Matched(_, payload) => Event::of(decode(&codec, &payload), &key),
            Message::Gap => Event::Gap,
        };
        let subscribed = self.hub.subscribe(&Channels::One(self.channel.clone()), read).await;
        subscribed.map_err(|error| error.at(self.key()))
    }
}

impl<T: 'static, C: Decode<T>> PatternTopic<T, C> {
    /// Subscribes to all topics that match, also to future ones. A message has the name of its topic, without the prefix of
    /// the client.
    ///
    /// # Errors
    /// - `ErrorKind::Denied`: the user has no right to subscribe to this pattern.
    /// - `ErrorKind::Unavailable`: the store has not confirmed the subscription in time.
    ///
    /// # Cancel safety
    /// If the future is dropped, there is no subscription.
    pub async fn subscribe(&self) -> Result<Subscriber<(String, T)>> {
        let (codec, prefix) = (self.codec.clone(), self.hub.prefix);
        let read = move |message| match message {
            Message::Matched(key, payload) => {
                let name = key.as_str().get(prefix..).unwrap_or_default().to_owned();
                Event::of(decode(&codec, &payload).map(|message| (name, message)), &key)
            }
            // A pattern has no other messages.
            Message::Payload(_) | Message::Gap => Event::Gap,
        };
        self.hub.subscribe(&Channels::Matching(self.pattern.clone()), read).await
    }
}

/// An event of a [`Subscriber`].
#[derive(Debug, Clone)]
pub enum Event<T> {
    /// A message.
    Message(T),
    /// Messages may be missing here, because the connection broke, the channel moved to another node, or the subscriber read
    /// too slowly. A program whose messages report changes of a state reads the whole state again.
    Gap,
    /// A message that the codec cannot read: `ErrorKind::Corrupt`. The error names the codec, and never the message.
    Corrupt(Error),
}

impl<T> Event<T> {
    fn of(message: Result<T>, key: &Key) -> Self {
        match message {
            Ok(message) => Self::Message(message),
            Err(error) => Self::Corrupt(error.at(key)),
        }
    }
}

/// A subscriber of a topic, and the stream of its events. Dropping it ends the subscription.
///
/// It keeps a limited number of messages until they are read ([`Topic::buffer`]). After a lost connection, the subscription
/// is renewed, and the subscriber gets an [`Event::Gap`]. The stream ends if the store refuses that, because the user has lost
/// the right to subscribe.
pub struct Subscriber<T> {
    _subscription: Subscription,
    inbox: Inbox,
    read: Box<dyn Fn(Message) -> Event<T> + Send + Sync>,
    /// Keeps the connections open.
    _store: Arc<Store>,
}

impl<T> Subscriber<T> {
    /// The next event. None if the subscription has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub async fn next(&mut self) -> Option<Event<T>> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        self.inbox.poll_next(context).map(|message| message.map(&self.read))
    }
}

impl<T> Stream for Subscriber<T> {
    type Item = Event<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        self.get_mut().poll(context)
    }
}

impl<T> fmt::Debug for Subscriber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("inbox", &self.inbox).finish_non_exhaustive()
    }
}
