//! Caches of Redisson's cache manager for Spring.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use bandog_codec::{Decode, Encode, Kryo5, NullValue, OrNullValue, TextJson};
use bandog_core::{
    Error, ErrorKind, Result,
    structures::{CacheOp, FillId, Life, Op, Reply, Structure},
};
use tokio::time::timeout;

use super::{
    CacheStats, LoadError, Loading,
    keeper::LEASE,
    loading, reports,
    request::{Load, Wants},
    settings::OnFailure,
    shared::entry_key,
};
use crate::{Cache, Map, TimedMap, object::Object, store::Store};

/// A cache that programs in Java share: `@Cacheable` with Redisson's `RedissonSpringCacheManager`.
/// Created by [`Grid::spring_cache`](crate::Grid::spring_cache).
///
/// The codec is that of the Java client: [`Kryo5`], which Redisson has by default, or
/// [`TaggedJson`](bandog_codec::TaggedJson). A key is the argument of the cached method, if it has one: a `Long` is an
/// `i64`. That there is no value is written as Java's `NullValue`.
///
/// | `CacheConfig` in Java | here |
/// |---|---|
/// | none, or all times and sizes are 0: entries do not expire | `grid.spring_cache(name)?` |
/// | `ttl`, `maxIdleTime` or `maxSize` | [`lasting`](Self::lasting) |
/// | `RedissonSpringCacheNativeManager` | [`lasting`](Self::lasting) and [`native`](Self::native) |
///
/// ```
/// use bandog::grid::{ClientGrid, SpringCache};
/// use std::{io, time::Duration};
/// # async fn from_database(sku: i64) -> io::Result<f64> { Ok(sku as f64 / 100.0) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let prices: SpringCache<i64, f64> = grid.spring_cache("prices")?.lasting(Duration::from_secs(60))?;
///
/// let price = prices.get_or_load(&250, from_database).await?;
/// assert_eq!((*price, prices.get(&250).await?), (2.5, Some(2.5)));
/// # Ok(()) }
/// ```
///
/// # What is promised
/// Of the programs in Rust, one loads a missing value; those in Java know nothing of that. After
/// [`remove`](Self::remove), [`put`](Self::put) or [`clear`](Self::clear) has returned, no load of a program in Rust that
/// began before is found, unless its process dies within the round trip in which it writes. After a removal by Java, such a
/// load may be written, as between programs in Java. A [`Cache`] has more: stale values, copies, no old value at all.
///
/// A store that fails does not fail a request: values are loaded without it, as those of a [`Cache`].
pub struct SpringCache<K, V, C = Kryo5> {
    values: Map<K, V, C>,
    found: Map<K, Option<V>, OrNullValue<C>>,
    /// Its entries are never written. It has the loads that run.
    loads: Cache<K, V, C>,
    /// The map, if its entries expire.
    timed: Option<TimedMap<K, V, C>>,
}

impl<K, V: Send + Sync + 'static> SpringCache<K, V> {
    pub(crate) fn new(store: &Arc<Store>, name: &str) -> Result<Self> {
        let object = Object::new(store, name, Structure::Map)?;
        // A cache with the same name has other loads.
        let loads = Cache::new(store, &format!("spring:{name}"))?.fresh(Duration::ZERO).codec(Kryo5);
        let found = Map::new(object.clone(), OrNullValue::of(Kryo5));
        Ok(Self { values: Map::new(object, Kryo5), found, loads, timed: None })
    }
}

impl<K, V: Send + Sync + 'static, C: NullValue> SpringCache<K, V, C> {
    /// The same cache, with another codec. Default: [`Kryo5`].
    #[must_use]
    pub fn codec<D: NullValue>(self, codec: D) -> SpringCache<K, V, D> {
        SpringCache {
            values: self.values.codec(codec.clone()),
            found: self.found.codec(OrNullValue::of(codec.clone())),
            loads: self.loads.codec(codec.clone()),
            timed: self.timed.map(|timed| timed.codec(codec)),
        }
    }

    /// The layout of caches whose entries expire, and the life of the entries that this handle writes: the `ttl` and
    /// `maxIdleTime` of the cache in Java. `Life::default()` has no end, for a cache that has only a `maxSize`, which Java
    /// sets.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: a time is longer than 100 years.
    pub fn lasting(self, life: impl Into<Life>) -> Result<Self> {
        let timed = self.timed().lasting(life)?;
        Ok(self.with(timed))
    }

    /// The layout in which the server lets entries expire, as [`TimedMap::native`].
    #[must_use]
    pub fn native(self) -> Self {
        let timed = self.timed().native();
        self.with(timed)
    }

    fn timed(&self) -> TimedMap<K, V, C> {
        let new = || {
            let mut object = self.values.object.clone();
            object.structure = Structure::TimedMap;
            TimedMap::new(object, TextJson).codec(self.values.codec.clone())
        };
        self.timed.clone().unwrap_or_else(new)
    }

    fn with(self, timed: TimedMap<K, V, C>) -> Self {
        let values = timed.deref().clone();
        let found = values.of(OrNullValue::of(values.codec.clone()));
        Self { values, found, timed: Some(timed), ..self }
    }

    /// Maximum time for which a caller waits for the load of another process, as [`Cache::wait`]. Default: 15 s.
    #[must_use]
    pub fn wait(self, time: Duration) -> Self {
        Self { loads: self.loads.wait(time), ..self }
    }

    /// Maximum time for which a read waits for the store, as [`Cache::timeout`]. Default: 500 ms.
    #[must_use]
    pub fn timeout(self, time: Duration) -> Self {
        Self { loads: self.loads.timeout(time), ..self }
    }

    /// A read fails with [`LoadError::Store`] if the store fails. Default: the value is loaded without it.
    #[must_use]
    pub fn strict(self) -> Self {
        Self { loads: self.loads.strict(), ..self }
    }

    /// The name, without the prefix of the client.
    pub fn name(&self) -> &str {
        self.values.name()
    }

    /// What the handles of this cache have counted in this grid.
    pub fn stats(&self) -> CacheStats {
        self.loads.stats()
    }

    /// The map behind the cache, in which None is the `NullValue`.
    pub fn map(&self) -> &Map<K, Option<V>, OrNullValue<C>> {
        &self.found
    }

    /// Removes all entries. No load of a program in Rust that runs is written.
    ///
    /// # Errors
    /// As those of a [`Call`](crate::Call).
    ///
    /// # Cancel safety
    /// If the future is dropped, entries may have been removed.
    pub async fn clear(&self) -> Result<()> {
        self.loads.clear().await?;
        self.values.delete().await?;
        Ok(())
    }
}

impl<K, V, C> SpringCache<K, V, C>
where
    K: Sync,
    V: Send + Sync + 'static,
    C: NullValue + Encode<V> + Decode<V>,
    C::Keys: Encode<K>,
{
    /// The value of an entry. Nothing is loaded. None: there is no entry, or it is known that there is no value.
    ///
    /// # Errors
    /// The store has failed, also if the cache is not strict; or the key cannot be encoded, or the value not be decoded.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn get(&self, key: &K) -> Result<Option<V>> {
        Ok(self.found.get(key).await?.flatten())
    }

    /// Writes a value. No load of a program in Rust that runs is written. If the value is too large or cannot be encoded, the entry is
    /// removed: it is not the newest value any more.
    ///
    /// # Errors
    /// As those of a [`Call`](crate::Call).
    ///
    /// # Cancel safety
    /// If the future is dropped, the value may have been written.
    pub async fn put(&self, key: &K, value: &V) -> Result<()> {
        self.loads.remove(key).await?;
        let put = self.values.put(key, value).await;
        if put.as_ref().is_err_and(|error| error.kind() == ErrorKind::Misused) {
            self.values.remove(key).await?;
        }
        put
    }

    /// Removes an entry. No load of a program in Rust that runs is written.
    ///
    /// # Errors
    /// As those of a [`Call`](crate::Call).
    ///
    /// # Cancel safety
    /// If the future is dropped, the entry may have been removed.
    pub async fn remove(&self, key: &K) -> Result<()> {
        // First: a load that is written after the removal finds that it has ended, and removes its entry.
        self.loads.remove(key).await?;
        self.values.remove(key).await?;
        Ok(())
    }

    /// The entry: a value, or that there is none. It is not asked for while the store is away.
    async fn read(&self, key: &K) -> Result<Option<Option<V>>> {
        let (shared, settings) = (&self.loads.shared, &self.loads.settings);
        reports::run(&shared.store);
        let is_strict = settings.on_failure == OnFailure::Fail;
        let late = || Error::unavailable("the store did not answer in time").at(&shared.key);
        if !is_strict && shared.is_away() {
            return Err(late());
        }
        let answer = match is_strict {
            true => self.found.get(key).await,
            false => timeout(settings.timeout, self.found.get(key).into_future()).await.unwrap_or_else(|_| Err(late())),
        };
        match &answer {
            Ok(Some(_)) => shared.counters.hits.one(),
            Ok(None) => shared.counters.misses.one(),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                shared.counters.undecodable.one();
                return Ok(None);
            }
            Err(_) => shared.counters.store_errors.one(),
        }
        answer
    }
}

impl<K, V, C> SpringCache<K, V, C>
where
    K: Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    C: NullValue + Encode<V> + Decode<V>,
    C::Keys: Encode<K>,
{
    /// The value of this key. It is loaded if there is no entry, or if the entry says that there is no value.
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// # Cancel safety
    /// As [`Cache::get_or_load`].
    pub async fn get_or_load<F, L, E>(&self, key: &K, load: F) -> Result<Arc<V>, LoadError<E>>
    where
        F: FnOnce(K) -> L + Send + 'static,
        L: Future<Output = Result<V, E>> + Send + 'static,
        E: Send + Sync + 'static,
    {
        let load = loading(key, async move |key| load(key).await.map(Some));
        let value = self.find(key, Wants::Value, load).await?;
        value.ok_or(LoadError::Panicked) // A value was wanted, so there is one.
    }

    /// As [`get_or_load`](Self::get_or_load), if there may be no value. That is cached, too.
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// # Cancel safety
    /// As [`Cache::get_or_load`].
    pub async fn get_or_find<F, L, E>(&self, key: &K, load: F) -> Result<Option<Arc<V>>, LoadError<E>>
    where
        F: FnOnce(K) -> L + Send + 'static,
        L: Future<Output = Result<Option<V>, E>> + Send + 'static,
        E: Send + Sync + 'static,
    {
        self.find(key, Wants::Option, loading(key, load)).await
    }

    async fn find<E>(&self, key: &K, wants: Wants, load: Load<V>) -> Result<Option<Arc<V>>, LoadError<E>>
    where
        E: Send + Sync + 'static,
    {
        let takes = move |found: &Option<V>| found.is_some() || wants == Wants::Option;
        match self.read(key).await {
            Ok(Some(found)) if takes(&found) => return Ok(found.map(Arc::new)),
            Err(error) if error.kind() == ErrorKind::Misused || self.is_strict() => {
                return Err(LoadError::Store(error));
            }
            Ok(_) | Err(_) => {}
        }
        let at = entry_key(self.loads.encoded(key).map_err(LoadError::Store)?);
        let made_in = self.loads.made_in(&at.key)?;
        let (cache, key) = (self.clone(), key.clone());
        let load: Load<V> = Box::pin(async move {
            let Some(fill) = Loading::current().and_then(|loading| loading.fill) else { return load.await };
            // Another process may have written it.
            if let Ok(Some(found)) = cache.read(&key).await
                && takes(&found)
            {
                return Ok(found);
            }
            let value = load.await?;
            cache.write(&key, value, fill).await
        });
        self.loads.load(&at, self.loads.request(wants, load, made_in)).await
    }

    fn is_strict(&self) -> bool {
        self.loads.settings.on_failure == OnFailure::Fail
    }

    /// Writes a value that was loaded, if the load still has its fill. An entry that is written although the fill has ended
    /// meanwhile is removed again.
    async fn write(&self, key: &K, value: Option<V>, fill: FillId) -> Result<Option<V>, super::Failure> {
        let written = async {
            if !self.runs(key, fill).await? {
                return Ok(());
            }
            self.found.put(key, &value).await?;
            if !self.runs(key, fill).await? {
                self.values.remove(key).await?;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = timeout(LEASE, written).await.unwrap_or_else(|_| Err(Error::unavailable("no answer"))) {
            tracing::debug!(cache = %self.loads.shared.key, %error, "a value that was loaded may not be written");
        }
        Ok(value)
    }

    /// Whether this fill has not ended.
    async fn runs(&self, key: &K, fill: FillId) -> Result<bool> {
        let extend = CacheOp::Extend { at: entry_key(self.loads.encoded(key)?), fill, lease: LEASE };
        let shared = &self.loads.shared;
        shared.store.run_one(&Op::new(&shared.key, extend), 0, false).await.and_then(Reply::flag)
    }
}

impl<K, V, C: Clone> Clone for SpringCache<K, V, C> {
    fn clone(&self) -> Self {
        let (values, found) = (self.values.clone(), self.found.clone());
        Self { values, found, loads: self.loads.clone(), timed: self.timed.clone() }
    }
}

impl<K, V, C: fmt::Debug> fmt::Debug for SpringCache<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timed = self.timed.as_ref();
        f.debug_struct("SpringCache").field("map", &self.values).field("timed", &timed).finish_non_exhaustive()
    }
}
