//! Maps whose entries expire.

mod events;
mod evictor;
mod kept;
mod timing;

use std::{borrow::Borrow, fmt, ops::Deref};

use bandog_codec::{Codec, Decode, Encode, TextJson};
use bandog_core::{
    Result,
    structures::{Expiry, Life, Reply, Structure, TimedOp, Ttl, Victim},
};

pub use self::events::{MapEvent, MapEvents};
pub(crate) use self::{kept::TimedMaps, timing::Timing};
use crate::{
    Call, Map,
    map::Kind,
    object::{Object, checked_ttl},
};

/// A map whose entries expire, as Redisson's `RMapCache`. Created by [`Grid::timed_map`](crate::Grid::timed_map).
///
/// It has all methods of a [`Map`]. An entry that they write has the life of the handle: [`TimedMap::lasting`], and without
/// it no end. [`Map::swap`], [`Map::update`], [`Map::add`] and [`Map::add_float`] keep the life of an entry that exists.
///
/// An entry that has expired is not read any more. It is removed from the store by the next call that uses it, and otherwise
/// by the clients that have a handle of the map and a Tokio runtime, each 5 s; if there is none, its bytes stay. With
/// [`TimedMap::native`], the server removes it.
///
/// ```
/// use std::time::Duration;
/// use bandog::grid::{ClientGrid, Life, TimedMap};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let sessions: TimedMap<String, u32> = grid.timed_map("sessions")?.lasting(Life::idle(Duration::from_secs(1800)))?;
/// sessions.put("ann", &7).await?; // until it was not read for half an hour
/// sessions.put_for("bob", &8, Duration::from_millis(20)).await?;
/// tokio::time::sleep(Duration::from_millis(30)).await;
/// assert_eq!((sessions.get("ann").await?, sessions.get("bob").await?), (Some(7), None));
/// # Ok(()) }
/// ```
pub struct TimedMap<K, V, C = TextJson> {
    map: Map<K, V, C>,
    timing: Timing,
}

impl<K, V> TimedMap<K, V> {
    pub(crate) fn new(object: Object, codec: TextJson) -> Self {
        let kept = object.store.timed_maps.keep(&object.key);
        let timing = Timing { expiry: Expiry::Operations, life: Life::default(), _kept: kept };
        Self { map: Map::new(object, codec).with_kind(Kind::Timed(timing.clone())), timing }
    }
}

impl<K, V, C: Codec> TimedMap<K, V, C> {
    /// The same map, with another codec. Default: [`TextJson`].
    #[must_use]
    pub fn codec<D: Codec>(self, codec: D) -> TimedMap<K, V, D> {
        TimedMap { map: self.map.codec(codec), timing: self.timing }
    }

    fn timed(self, timing: Timing) -> Self {
        Self { map: self.map.with_kind(Kind::Timed(timing.clone())), timing }
    }

    /// A handle whose written entries have this life: a [`Duration`](std::time::Duration) from the write to the end, or a
    /// [`Life`]. Times are rounded up to milliseconds.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: a time is longer than 100 years.
    pub fn lasting(self, life: impl Into<Life>) -> Result<Self> {
        let life = checked(life.into()).map_err(|error| error.at(&self.map.object.key))?;
        let timing = Timing { life, ..self.timing.clone() };
        Ok(self.timed(timing))
    }

    /// A handle for the layout in which the server itself lets entries expire (`RMapCacheNative`): Redis since version 7.4,
    /// Valkey since version 9. Expired entries are removed also if no program runs. It is another layout, so all programs must
    /// use it for this map.
    ///
    /// Idle times, bounds and events are `ErrorKind::Unsupported`, and on an older server so are writes with a ttl, swaps and
    /// updates, which change nothing then.
    #[must_use]
    pub fn native(mut self) -> Self {
        self.map.object.structure = Structure::Map;
        let timing = Timing { expiry: Expiry::Server, ..self.timing.clone() };
        self.timed(timing)
    }

    /// A handle whose written entries have this life, for one call.
    fn with<T>(&self, life: Life, call: impl FnOnce(Map<K, V, C>) -> Call<T>) -> Call<T> {
        match checked(life) {
            Ok(life) => {
                let timing = Timing { life, ..self.timing.clone() };
                call(self.map.clone().with_kind(Kind::Timed(timing)))
            }
            Err(error) => Call::known(Err(error.at(&self.map.object.key))),
        }
    }

    /// Writes an entry with this life.
    pub fn put_for<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W, life: impl Into<Life>) -> Call<()>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
        C::Keys: Encode<Q>,
        C: Encode<V> + Encode<W>,
    {
        self.with(life.into(), |map| map.put(key, value))
    }

    /// Writes an entry with this life if the key has none. Returns whether it was written.
    pub fn insert_new_for<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W, life: impl Into<Life>) -> Call<bool>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
        C::Keys: Encode<Q>,
        C: Encode<V> + Encode<W>,
    {
        self.with(life.into(), |map| map.insert_new(key, value))
    }

    /// Writes an entry with this life, and returns the former value.
    pub fn insert_for<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W, life: impl Into<Life>) -> Call<Option<V>>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
        C::Keys: Encode<Q>,
        C: Encode<V> + Encode<W> + Decode<V>,
    {
        self.with(life.into(), |map| map.insert(key, value))
    }

    /// Gives an entry another life, which begins now. Returns whether the entry exists.
    pub fn set_life<Q: ?Sized>(&self, key: &Q, life: impl Into<Life>) -> Call<bool>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        let life = checked(life.into());
        self.map.object.write(
            |to| Ok(self.timing.timed(&self.map.object, TimedOp::SetLife(self.map.key(to, key)?, life?))),
            Reply::flag,
        )
    }

    /// The remaining time of an entry. Asking does not begin its idle time again.
    pub fn left<Q: ?Sized>(&self, key: &Q) -> Call<Ttl>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        self.map
            .object
            .write(|to| Ok(self.timing.timed(&self.map.object, TimedOp::Left(self.map.key(to, key)?))), Reply::ttl)
    }

    /// Limits the number of entries, for all programs: a write to a full map removes those that were not used for the longest
    /// time, or least often. A map with more entries than this loses 1,000 of them with each write. 0: no limit.
    pub fn bound(&self, entries: u32, victim: Victim) -> Call<()> {
        let action = self.timing.timed(&self.map.object, TimedOp::Bound { entries, victim });
        self.map.object.call(action, Reply::done)
    }
}

impl<K: 'static, V: 'static, C: Decode<V>> TimedMap<K, V, C>
where
    C::Keys: Decode<K>,
{
    /// The changes of the entries by all programs, in their order. An entry that has expired is reported when it is removed,
    /// which may be 5 s later.
    ///
    /// The changes of this moment are reported to those who listen, and not stored: a [`MapEvent::Gap`] says where some may
    /// be missing. From the first subscription on, all programs publish the changes of this map.
    ///
    /// # Errors
    /// - `ErrorKind::Denied`: the user has no right to subscribe.
    /// - `ErrorKind::Unavailable`: the store has not confirmed the subscription in time.
    /// - `ErrorKind::Unsupported`: the map is [`TimedMap::native`].
    ///
    /// # Cancel safety
    /// If the future is dropped, there is no subscription.
    pub async fn events(&self) -> Result<MapEvents<K, V>> {
        events::subscribe(&self.map.object, &self.map.codec, self.timing.is_by_operations()).await
    }
}

/// A life that a store can have.
fn checked(life: Life) -> Result<Life> {
    for time in [life.ttl, life.idle].into_iter().flatten() {
        checked_ttl(time)?;
    }
    Ok(life)
}

impl<K, V, C> Deref for TimedMap<K, V, C> {
    type Target = Map<K, V, C>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl<K, V, C: Clone> Clone for TimedMap<K, V, C> {
    fn clone(&self) -> Self {
        Self { map: self.map.clone(), timing: self.timing.clone() }
    }
}

impl<K, V, C: fmt::Debug> fmt::Debug for TimedMap<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedMap")
            .field("map", &self.map)
            .field("expiry", &self.timing.expiry)
            .field("life", &self.timing.life)
            .finish()
    }
}
