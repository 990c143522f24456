//! The grid: maps, sets, queues and other objects that programs share, on Redis in the layouts of Redisson, and in memory.
//!
//! ```
//! use bandog::grid::{ClientGrid, Map, Queue};
//! use std::time::Duration;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
//! let grid = bandog::connect("memory:").await?.grid();
//!
//! let stock: Map<String, u32> = grid.map("stock")?;
//! stock.put("apple", &5).await?;
//!
//! let orders: Queue<String> = grid.queue("orders")?;
//! orders.push("apple").await?;
//! while let Some(order) = orders.take(Duration::from_millis(10)).await? {
//!     stock.update(&*order, |left| left.map(|left| left - 1)).await?;
//!     order.done().await?; // Until then, no other program gets it; if this one dies, another one does.
//! }
//! assert_eq!(stock.get("apple").await?, Some(4));
//! # Ok(()) }
//! ```
//!
//! # Which object
//!
//! | object | in Java | for |
//! |---|---|---|
//! | [`Value`] | `RBucket` | one value, with a ttl if you like |
//! | [`Counter`], [`FloatCounter`] | `RAtomicLong`, `RAtomicDouble` | sums, limits of calls in a time |
//! | [`Ids`] | `RIdGenerator` | unique numbers, a request for each 5,000 |
//! | [`Map`] | `RMap` | values by key |
//! | [`NearMap`] | `RLocalCachedMap` | the same, read from copies in the process |
//! | [`TimedMap`] | `RMapCache`, `RMapCacheNative` | sessions: values by key, each with an end |
//! | [`Set`] | `RSet` | members, each once |
//! | [`List`] | `RList` | elements with an index |
//! | [`SortedSet`] | `RScoredSortedSet` | rankings, what is due first |
//! | [`Multimap`] | `RSetMultimapCache`, `RListMultimapCache` | several values for each key |
//! | [`BitSet`] | `RBitSet` | millions of flags, small numbers |
//! | [`Bloom`] | `RBloomFilter` | was it there before? in little memory |
//! | [`Cache`] | Spring's `@Cacheable` | values that are slow to load |
//! | [`SpringCache`] | `RedissonSpringCacheManager` | a cache that Java programs with Spring use too |
//! | [`LiveObjects`] | `RLiveObjectService` | structs whose fields are in the store, found by their fields |
//! | [`Queue`], [`Deque`] | `RBlockingQueue`, `RBlockingDeque` | work for other programs |
//! | [`Journal`] | `RStream`, `RReliableTopic` | messages that each group of programs gets, also those that were away |
//! | [`Topic`], [`PatternTopic`] | `RTopic`, `RShardedTopic`, `RPatternTopic` | messages to programs that are connected |
//!
//! # Calls
//! A method returns a [`Call`], which is sent when it is awaited. Calls that are made at the same time share round trips.
//! A [`Batch`] sends several calls in one round trip. Each call is atomic, and none is sent twice, unless its handle is
//! `exact`: if the answer to a write is lost, [`Error::maybe_applied`](bandog_core::Error::maybe_applied) is true.
//!
//! Errors of each call:
//! - `ErrorKind::Unavailable`: the store has not answered in time.
//! - `ErrorKind::Denied`: the name has data of another type, or the user lacks a right. Nothing was changed.
//! - `ErrorKind::Misused`: a value cannot be encoded or is too large, or the names of one call are on different servers of a
//!   cluster. Nothing was sent.
//! - `ErrorKind::Corrupt`: a value of the store cannot be decoded. The error names the codec, and never the value.
//! - `ErrorKind::Overloaded`: too many calls wait for an answer ([`Limits`]).
//!
//! # Codecs
//! A handle writes values with a codec. The default is [`codec::TextJson`]; `handle.codec(codec::Kryo5)` is another one.
//! [`codec`] has a table of them. All programs that use an object must use the same codec.

mod bits;
mod bloom;
mod cache;
mod call;
mod copies;
mod counter;
mod grid;
mod journal;
mod limits;
mod list;
mod live;
mod map;
mod multimap;
mod near_map;
mod object;
mod pages;
mod queue;
mod set;
mod sorted;
mod store;
mod timed;
mod topic;
mod value;

pub use bandog_codec as codec;
#[doc(inline)]
pub use bandog_core::structures::{BloomSizes, EntryId, GroupRow, Life, Ttl, Victim};

#[doc(hidden)]
pub use self::cache::InLoad;
/// The types that the code of `#[derive(bandog::Live)]` names.
#[doc(hidden)]
pub mod __live {
    pub use bandog_codec::{Codec, Decode, Encode};
    pub use bandog_core::structures::Bytes;

    pub use crate::live::{
        FieldIndex, FieldReader, FieldWriter, LiveAs, LiveAt, LiveClass, LiveField, Optional, Required, WrittenField,
        WrittenId,
    };
}
pub use self::{
    bits::{BitNumber, BitSet},
    bloom::{Bloom, UnopenedBloom},
    cache::{Cache, CacheStats, Found, LoadError, SpringCache},
    call::{Answer, Batch, Call},
    copies::Offline,
    counter::{Counter, FloatCounter, Ids},
    grid::{ClientGrid, Grid},
    journal::{Entry, Group, Journal, UnopenedGroup},
    limits::Limits,
    list::List,
    live::{
        Condition, FieldAt, Live, LiveInteger, LiveNumber, LiveObjects, Matches, NumberAt, NumberField, Saved, Stored,
        ValueField,
    },
    map::Map,
    multimap::Multimap,
    near_map::NearMap,
    queue::{Deque, Queue, Taken},
    set::Set,
    sorted::SortedSet,
    timed::{MapEvent, MapEvents, TimedMap},
    topic::{Event, PatternTopic, Subscriber, Topic},
    value::Value,
};
