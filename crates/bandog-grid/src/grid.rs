//! The grid of a client.

use std::sync::Arc;

use bandog_codec::TextJson;
use bandog_core::{
    Error, ErrorKind, Pattern, Result,
    messages::Channel,
    structures::{Structure, Values},
};
use bandog_sync::Client;

use crate::{
    Batch, BitSet, Cache, Counter, Deque, FloatCounter, Ids, Journal, Limits, List, Live, LiveObjects, Map, Multimap,
    PatternTopic, Queue, Set, SortedSet, SpringCache, TimedMap, Topic, UnopenedBloom, Value, object::Object,
    store::Store, topic::Hub,
};

/// The objects of a client's store, on connections of their own. Clones are the same grid. It keeps its client open.
///
/// An object has a name, and exists while it has elements. The type of its handle must be the one with which it was written.
/// Names have the prefix of the client. Making a handle does no I/O; it is `ErrorKind::Unsupported` if the store has no
/// objects, and `ErrorKind::Misused` if the name is not allowed.
///
/// A queue runs a task on the Tokio runtime of the call that uses it.
#[derive(Debug, Clone)]
pub struct Grid {
    /// The store, or its name if it has no objects.
    store: Result<Arc<Store>, String>,
}

/// Makes the grid of a client.
pub trait ClientGrid {
    /// A grid with the default [`Limits`]. Each call makes a grid with limits and queues of its own, so a program calls it
    /// once, and clones the grid.
    fn grid(&self) -> Grid {
        self.grid_with(Limits::default())
    }

    /// A grid with these limits.
    fn grid_with(&self, limits: Limits) -> Grid;
}

impl ClientGrid for Client {
    fn grid_with(&self, limits: Limits) -> Grid {
        let store = match self.structures() {
            Some(structures) => {
                let (structures, messages) = (structures.clone(), self.messages().cloned());
                Ok(Arc::new(Store::new(self.clone(), structures, messages, limits)))
            }
            None => Err(self.profile().store.clone()),
        };
        Grid { store }
    }
}

/// Defines the methods that make handles.
macro_rules! handles {
    ($($(#[$docs:meta])* $name:ident: $handle:ident $(<$($type:ident),+>)? = $structure:expr;)*) => {
        impl Grid {
            $(
                $(#[$docs])*
                ///
                /// # Errors
                /// - `ErrorKind::Unsupported`: the store has no objects.
                /// - `ErrorKind::Misused`: the name is not allowed.
                pub fn $name$(<$($type),+>)?(&self, name: impl AsRef<str>) -> Result<$handle$(<$($type),+>)?> {
                    Ok($handle::new(self.object(name.as_ref(), $structure)? $(, codec!($($type)+))?))
                }
            )*
        }
    };
}

/// The codec of a handle with these types.
macro_rules! codec {
    ($($type:ident)+) => {
        TextJson
    };
}

handles! {
    /// A single value.
    value: Value<T> = Structure::Value;
    /// A counter of 64 bits.
    counter: Counter = Structure::Value;
    /// A counter of floating-point numbers.
    float_counter: FloatCounter = Structure::Value;
    /// Unique numbers.
    ids: Ids = Structure::Ids;
    /// A map.
    map: Map<K, V> = Structure::Map;
    /// A map whose entries expire.
    timed_map: TimedMap<K, V> = Structure::TimedMap;
    /// A set.
    set: Set<T> = Structure::Set;
    /// A list.
    list: List<T> = Structure::List;
    /// A sorted set.
    sorted_set: SortedSet<T> = Structure::Sorted;
    /// A multimap that has each value of a key once.
    set_multimap: Multimap<K, V> = Structure::Multimap(Values::Set);
    /// A multimap whose values have an order.
    list_multimap: Multimap<K, V> = Structure::Multimap(Values::List);
    /// A bit set.
    bits: BitSet = Structure::Bits;
    /// A Bloom filter, which must be opened.
    bloom: UnopenedBloom<T> = Structure::Bloom;
    /// A queue.
    queue: Queue<T> = Structure::List;
    /// A queue with two ends.
    deque: Deque<T> = Structure::List;
    /// A journal.
    journal: Journal<T> = Structure::Journal;
}

impl Grid {
    /// An empty batch of calls on objects of this grid.
    pub fn batch(&self) -> Batch {
        Batch::default()
    }

    /// A cache.
    ///
    /// # Errors
    /// - `ErrorKind::Unsupported`: the store has no objects.
    /// - `ErrorKind::Misused`: the name is not allowed.
    pub fn cache<K, V: Send + Sync + 'static>(&self, name: impl AsRef<str>) -> Result<Cache<K, V>> {
        Cache::new(self.store()?, name.as_ref())
    }

    /// A cache of Redisson's cache manager for Spring.
    ///
    /// # Errors
    /// - `ErrorKind::Unsupported`: the store has no objects.
    /// - `ErrorKind::Misused`: the name is not allowed.
    pub fn spring_cache<K, V: Send + Sync + 'static>(&self, name: impl AsRef<str>) -> Result<SpringCache<K, V>> {
        SpringCache::new(self.store()?, name.as_ref())
    }

    /// The live objects of a class.
    ///
    /// # Errors
    /// `ErrorKind::Unsupported`: the store has no objects.
    pub fn live<T: Live>(&self) -> Result<LiveObjects<T>> {
        Ok(LiveObjects::new(self.store()?))
    }

    /// A topic.
    ///
    /// # Errors
    /// - `ErrorKind::Unsupported`: the store has no topics.
    /// - `ErrorKind::Misused`: the name is not allowed.
    pub fn topic<T>(&self, name: impl AsRef<str>) -> Result<Topic<T>> {
        let hub = Hub::new(self.store()?)?;
        let channel = Channel::Plain(hub.key(name.as_ref())?);
        Ok(Topic::new(hub, channel))
    }

    /// A sharded topic: in a cluster, only the nodes that have the slot of its name get its messages.
    ///
    /// # Errors
    /// - `ErrorKind::Unsupported`: the store has no topics.
    /// - `ErrorKind::Misused`: the name is not allowed.
    pub fn sharded_topic<T>(&self, name: impl AsRef<str>) -> Result<Topic<T>> {
        let hub = Hub::new(self.store()?)?;
        let channel = Channel::Sharded(hub.key(name.as_ref())?);
        Ok(Topic::new(hub, channel))
    }

    /// The topics whose names match. The names and the pattern have the prefix of the client.
    ///
    /// # Errors
    /// `ErrorKind::Unsupported`: the store has no topics.
    pub fn pattern_topic<T>(&self, pattern: Pattern) -> Result<PatternTopic<T>> {
        let hub = Hub::new(self.store()?)?;
        let pattern = hub.pattern(&pattern)?;
        Ok(PatternTopic::new(hub, pattern))
    }

    /// Waits until the store has confirmed all elements that this grid has popped, for at most two request timeouts. Call it
    /// before the program ends: an element that was popped in the last milliseconds comes a second time otherwise.
    ///
    /// The grid can be used afterwards. Elements that are taken stay taken.
    ///
    /// # Errors
    /// `ErrorKind::Unavailable`: the store has not answered in time.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn close(&self) -> Result<()> {
        let Ok(store) = &self.store else { return Ok(()) };
        let flushed = tokio::time::timeout(store.timeout() * 2, store.takers.flush()).await;
        flushed.map_err(|_| Error::unavailable("the store has not confirmed in time which elements were popped"))
    }

    pub(crate) fn store(&self) -> Result<&Arc<Store>> {
        self.store.as_ref().map_err(|store| {
            let message = format!("{store} has no maps, queues and other objects; Redis and memory have them");
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    fn object(&self, name: &str, structure: Structure) -> Result<Object> {
        Object::new(self.store()?, name, structure)
    }
}
