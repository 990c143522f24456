//! Caches.

mod error;
mod keeper;
mod reported;
mod reports;
mod request;
mod settings;
mod shared;
mod spring;
mod stats;

use std::{borrow::Borrow, fmt, marker::PhantomData, sync::Arc, time::Duration};

use bandog_codec::{Codec, Decode, Encode, TextJson};
use bandog_core::{
    Error, Key, Result,
    structures::{Bytes, CacheOp, EntryKey, Op, Reply},
};
use tokio::{runtime::Handle, sync::oneshot};

pub(crate) use self::reported::CacheReports;
#[doc(hidden)]
pub use self::request::InLoad;
use self::{
    error::Failure,
    request::{Inbox, Load, Loading, Request, Wants},
    settings::{OnFailure, Settings},
    shared::{PARTS, Shared, entry_key},
};
pub use self::{error::LoadError, spring::SpringCache, stats::CacheStats};
use crate::{Call, call::Writer, copies::Offline, object::MAX_TTL, store::Store};

/// A cache that programs share: values by key, which are loaded when they are missing.
///
/// An entry is *fresh* for a time, then *stale*, then gone. A fresh entry is returned. A stale one is returned at once too,
/// while one load refreshes it. Without an entry, one caller in the whole cluster loads the value, and the others wait for
/// it. Errors are not cached.
///
/// ```
/// use bandog::grid::{Cache, ClientGrid, LoadError};
/// use std::{io, time::Duration};
/// # async fn from_database(sku: u32) -> io::Result<f64> { Ok(f64::from(sku) / 100.0) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let prices: Cache<u32, f64> =
///     grid.cache("prices")?.fresh(Duration::from_secs(60)).stale(Duration::from_secs(3600));
///
/// let price = prices.get_or_load(&250, from_database).await?;
/// assert_eq!(*price, 2.5);
/// prices.remove(&250).await?; // The price has changed: nobody gets the old one any more.
/// # Ok(()) }
/// ```
///
/// # What is promised
/// - After [`remove`](Self::remove), [`put`](Self::put) or [`clear`](Self::clear) has returned, no caller gets a value that
///   was loaded or written before it, in any process. A load that runs meanwhile is not written. [Copies](Self::near) in
///   other processes follow a moment later.
/// - One load per key runs in the cluster. There are more only if a caller has waited for [`wait`](Self::wait), if a process
///   that loads dies or stops for 10 s, if the entry is removed during the load, or if the store does not answer.
/// - A store that fails does not fail a request: values are loaded without it, at most 64 at the same time. [`strict`]
///   changes that. A failover of Redis can lose a removal that was not replicated yet.
/// - An entry that cannot be decoded is loaded again.
///
/// [`strict`]: Self::strict
///
/// # In the store
/// On Redis, each entry is a key of its own, spread over all nodes of a cluster: `bandog:cache:NAME:{PART}:KEY`. All keys
/// expire. The handles of a cache that a [`Grid`](crate::Grid) has made share their loads and counts. All programs that use
/// a cache must use the same codec.
pub struct Cache<K, V, C = TextJson> {
    shared: Arc<Shared<V>>,
    prefix: usize,
    codec: C,
    settings: Settings,
    types: PhantomData<fn() -> K>,
}

/// An entry of a cache.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found<V> {
    /// The value. None: it is known that there is no value.
    pub value: Option<Arc<V>>,
    /// Whether it is fresh.
    pub is_fresh: bool,
}

impl<K, V: Send + Sync + 'static> Cache<K, V> {
    pub(crate) fn new(store: &Arc<Store>, name: &str) -> Result<Self> {
        let key = store.client.key(name)?;
        let prefix = key.as_str().len() - name.len();
        let settings = Settings::default();
        let shared = store.shared_cache(&key, || Shared::new(store, key.clone(), settings.loads));
        Ok(Self { shared, prefix, codec: TextJson, settings, types: PhantomData })
    }
}

impl<K, V: Send + Sync + 'static, C: Codec> Cache<K, V, C> {
    /// The same cache, with another codec. Default: [`TextJson`](bandog_codec::TextJson).
    #[must_use]
    pub fn codec<D: Codec>(self, codec: D) -> Cache<K, V, D> {
        Cache { shared: self.shared, prefix: self.prefix, codec, settings: self.settings, types: PhantomData }
    }

    /// The time for which an entry that is written is fresh. It is shortened at random by up to 10 %, so that entries that
    /// were written together do not end together. At most 100 years, as the other times. Default: 1 min.
    #[must_use]
    pub fn fresh(mut self, time: Duration) -> Self {
        self.settings.fresh = time.min(MAX_TTL);
        self
    }

    /// The time for which an entry is stale after it was fresh: it is returned at once, while one load refreshes it. If
    /// that load fails, the entry stays, and the next caller starts another load. Default: 0.
    #[must_use]
    pub fn stale(mut self, time: Duration) -> Self {
        self.settings.stale = time.min(MAX_TTL);
        self
    }

    /// The time for which [`get_or_find`](Self::get_or_find) knows that there is no value. Default: this is not cached.
    #[must_use]
    pub fn none(mut self, time: Duration) -> Self {
        self.settings.none = Some(time.min(MAX_TTL));
        self
    }

    /// Maximum time for which a caller waits for the load of another process. Then it loads the value itself, and does not
    /// write it. It is longer than a process that dies while it loads costs the others, which is 10 s. Default: 15 s.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.settings.wait = time;
        self
    }

    /// Maximum time for which a read waits for the store. Then the value is loaded without it, and the store is not asked
    /// for 1 s. A [strict](Self::strict) cache waits for the timeout of the client. Default: 500 ms.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.settings.timeout = time;
        self
    }

    /// Keeps copies of at most this number of fresh entries in this process, so most reads need no request. Values are decoded
    /// once. The first handle of a cache with this setting decides for all of the grid.
    ///
    /// Each change by any program is reported, and removes the copy. A copy is not older than the report needs on its way,
    /// and never used after [`max_age`](Self::max_age). While the connection for the reports is lost, which is found within
    /// 1 s, [`offline`](Self::offline) decides. If the user has no right to `CLIENT TRACKING`, there are no copies.
    /// Default: no copies.
    #[must_use]
    pub fn near(mut self, entries: usize) -> Self {
        self.settings.near = Some(entries);
        self
    }

    /// Maximum time for which a copy is used. Default: 1 min.
    #[must_use]
    pub fn max_age(mut self, time: Duration) -> Self {
        self.settings.max_age = time;
        self
    }

    /// What happens to copies while changes are not reported. Default: they are not used.
    #[must_use]
    pub fn offline(mut self, offline: Offline) -> Self {
        self.settings.offline = offline;
        self
    }

    /// A read fails with [`LoadError::Store`] if the store fails. Default: the value is loaded without it.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.settings.on_failure = OnFailure::Fail;
        self
    }

    /// The name, without the prefix of the client.
    pub fn name(&self) -> &str {
        &self.shared.key.as_str()[self.prefix..]
    }

    /// What the handles of this cache have counted in this grid.
    pub fn stats(&self) -> CacheStats {
        self.shared.counters.stats()
    }

    /// Keeps what the handles share for two minutes after the last call of this, for a function that makes a handle in each
    /// call.
    #[doc(hidden)]
    pub fn linger(&self) {
        self.shared.linger();
    }

    /// Removes all copies of this process, now and when the returned value is dropped.
    fn forget_copies(&self) -> OnDrop<impl FnOnce()> {
        let forget = || self.shared.store.forget_copies(self.key(), None);
        forget();
        OnDrop(Some(forget))
    }

    fn key(&self) -> &Key {
        &self.shared.key
    }

    /// A write, and the key of its entry.
    fn write(&self, op: impl FnOnce(&mut Writer) -> Result<(CacheOp, Bytes)>) -> Call<()> {
        let mut writer = Writer::new(&self.shared.store);
        match op(&mut writer) {
            Ok((op, key)) => {
                let shared = self.shared.clone();
                let forget = move || shared.store.forget_copies(&shared.key, Some(&key));
                forget();
                Call::send(&self.shared.store, self.key(), (op.into(), writer.bytes()), move |reply| {
                    forget(); // A read may have begun before the write.
                    reply.done()
                })
            }
            Err(error) => Call::known(Err(error.at(self.key()))),
        }
    }

    /// Removes all entries. No load that runs is written. The time does not depend on the number of entries: their bytes stay
    /// in the store until they expire.
    ///
    /// # Errors
    /// As those of a [`Call`]. If the error says that the store has not answered, entries of some keys may have been removed.
    ///
    /// # Cancel safety
    /// If the future is dropped, entries may have been removed.
    pub async fn clear(&self) -> Result<()> {
        let clear = |part| Op::new(self.key(), CacheOp::Clear { part });
        let ops: Vec<_> = (0..PARTS).map(clear).collect();
        let _forget = self.forget_copies();
        let replies = self.shared.store.run(&ops, &[]).await;
        replies.into_iter().try_for_each(|reply| reply.and_then(Reply::done)).map_err(|error| error.at(self.key()))
    }
}

impl<K, V, C> Cache<K, V, C>
where
    V: Send + Sync + 'static,
    C: Encode<V> + Decode<V>,
{
    fn encoded<Q: ?Sized>(&self, key: &Q) -> Result<Bytes>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        Writer::new(&self.shared.store).write(&self.codec.keys(), key).map_err(|error| error.at(self.key()))
    }

    /// The entry, fresh or stale. Nothing is loaded. None: there is no entry, or it is known that there is no value.
    ///
    /// # Errors
    /// The store has failed, also if the cache is not strict; or the key cannot be encoded.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn get<Q: Sync + ?Sized>(&self, key: &Q) -> Result<Option<Arc<V>>>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        Ok(self.entry(key).await?.and_then(|found| found.value))
    }

    /// As [`get`](Self::get), with the state of the entry. None: there is no entry.
    ///
    /// # Errors
    /// As those of [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn entry<Q: Sync + ?Sized>(&self, key: &Q) -> Result<Option<Found<V>>>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        let key = self.encoded(key)?;
        Ok(self.look(&key).await?.map(|(value, is_fresh)| Found { value, is_fresh }))
    }

    /// The value, or that there is none, and whether it is fresh. None: there is no entry.
    async fn look(&self, key: &Bytes) -> Result<Option<(Option<Arc<V>>, bool)>> {
        reports::run(&self.shared.store);
        let (counters, now) = (&self.shared.counters, self.shared.store.clock().now());
        let near = self.shared.near(&self.settings);
        if let Some(value) = near.and_then(|near| near.get(key, now)) {
            counters.near_hits.one();
            return Ok(Some((value, true)));
        }
        let (at, read) = (entry_key(key.clone()), near.and_then(|near| near.begin(key, now)));
        let (entry, fresh) = if read.is_some() {
            self.shared.ask(&self.settings, CacheOp::Look(at)).await?.look()?.unzip()
        } else {
            (self.shared.ask(&self.settings, CacheOp::Get(at)).await?.cache_entry()?, None)
        };
        let Some(entry) = entry else {
            counters.misses.one();
            return Ok(None);
        };
        let is_fresh = entry.is_fresh;
        let Some(value) = self.shared.read(&self.codec, entry) else { return Ok(None) };
        if is_fresh {
            counters.hits.one()
        } else {
            counters.stale_hits.one()
        }
        if let (Some(read), Some(fresh), true) = (read, fresh, is_fresh) {
            read.keep(value.clone(), fresh.min(self.settings.max_age));
        }
        Ok(Some((value, is_fresh)))
    }

    /// The value of this key. It is loaded if there is no entry.
    ///
    /// The load runs in a task of its own. If it needs the same key of this cache, that call fails with
    /// [`LoadError::Recursive`].
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the load continues for other callers that wait for it. If there are none, it is ended.
    pub async fn get_or_load<F, L, E>(&self, key: &K, load: F) -> Result<Arc<V>, LoadError<E>>
    where
        K: Clone + Send + Sync + 'static,
        C::Keys: Encode<K>,
        F: FnOnce(K) -> L + Send + 'static,
        L: Future<Output = Result<V, E>> + Send + 'static,
        E: Send + Sync + 'static,
    {
        let load = || loading(key, async move |key| load(key).await.map(Some));
        let value = self.find(key, Wants::Value, load).await?;
        value.ok_or(LoadError::Panicked) // A value was wanted, so there is one.
    }

    /// As [`get_or_load`](Self::get_or_load), if there may be no value. [`none`](Self::none) is the time for which this is
    /// known then.
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// # Cancel safety
    /// As [`get_or_load`](Self::get_or_load).
    pub async fn get_or_find<F, L, E>(&self, key: &K, load: F) -> Result<Option<Arc<V>>, LoadError<E>>
    where
        K: Clone + Send + Sync + 'static,
        C::Keys: Encode<K>,
        F: FnOnce(K) -> L + Send + 'static,
        L: Future<Output = Result<Option<V>, E>> + Send + 'static,
        E: Send + Sync + 'static,
    {
        self.find(key, Wants::Option, || loading(key, load)).await
    }

    /// Loads the value now, and writes it, also if the entry is fresh. A load that runs in another process is not written.
    ///
    /// # Errors
    /// [`LoadError`]. The entry stays if the load fails.
    ///
    /// # Cancel safety
    /// As [`get_or_load`](Self::get_or_load).
    pub async fn refresh<F, L, E>(&self, key: &K, load: F) -> Result<Arc<V>, LoadError<E>>
    where
        K: Clone + Send + Sync + 'static,
        C::Keys: Encode<K>,
        F: FnOnce(K) -> L + Send + 'static,
        L: Future<Output = Result<V, E>> + Send + 'static,
        E: Send + Sync + 'static,
    {
        let load = || loading(key, async move |key| load(key).await.map(Some));
        let value = self.find(key, Wants::New, load).await?;
        value.ok_or(LoadError::Panicked) // A value was loaded.
    }

    /// Loads the value and writes it, if the entry is not fresh and no other load of it runs, in any process. Returns the value
    /// of the entry: the new one, if it was loaded.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::Store`] if the store fails, also if the cache is not strict. The entry stays.
    ///
    /// # Cancel safety
    /// If the future is dropped, the load may continue.
    pub async fn refresh_if_stale<F, L, E>(&self, key: &K, load: F) -> Result<Option<Arc<V>>, LoadError<E>>
    where
        K: Clone + Send + Sync + 'static,
        C::Keys: Encode<K>,
        F: FnOnce(K) -> L + Send + 'static,
        L: Future<Output = Result<Option<V>, E>> + Send + 'static,
        E: Send + Sync + 'static,
    {
        self.find(key, Wants::Refresh, || loading(key, load)).await
    }

    /// Finds a value: in the store, or by a load.
    async fn find<E>(
        &self,
        key: &K,
        wants: Wants,
        load: impl FnOnce() -> Load<V>,
    ) -> Result<Option<Arc<V>>, LoadError<E>>
    where
        K: Sync,
        C::Keys: Encode<K>,
        E: Send + Sync + 'static,
    {
        let key = self.encoded(key).map_err(LoadError::Store)?;
        let made_in = self.made_in(&key)?;
        if matches!(wants, Wants::Value | Wants::Option) {
            match self.look(&key).await {
                Ok(Some((value, is_fresh))) if value.is_some() || wants == Wants::Option => {
                    if !is_fresh {
                        drop(self.submit(&entry_key(key), self.request(Wants::Refresh, load(), made_in)));
                    }
                    return Ok(value);
                }
                Err(error) if self.settings.on_failure == OnFailure::Fail => return Err(LoadError::Store(error)),
                Ok(_) | Err(_) => {}
            }
        }
        self.load(&entry_key(key), self.request(wants, load(), made_in)).await
    }

    /// The load in which a call is made that needs this key.
    fn made_in<E>(&self, key: &Bytes) -> Result<Option<Arc<Loading>>, LoadError<E>> {
        let made_in = Loading::current();
        if made_in.as_ref().is_some_and(|loading| loading.includes(Arc::as_ptr(&self.shared).addr(), key)) {
            return Err(LoadError::Recursive);
        }
        if Handle::try_current().is_err() {
            let error = Error::misused("loads need a Tokio runtime; call this in one");
            return Err(LoadError::Store(error.at(self.key())));
        }
        Ok(made_in)
    }

    fn request(&self, wants: Wants, load: Load<V>, made_in: Option<Arc<Loading>>) -> Request<V> {
        let until = self.shared.store.clock().now() + self.settings.wait;
        Request { wants, settings: self.settings, load: Some(load), answer: None, unusable: None, until, made_in }
    }

    fn submit(&self, at: &EntryKey, request: Request<V>) -> Arc<Inbox<V>> {
        keeper::submit(&self.shared, &self.codec, self.settings, at, request)
    }

    /// Waits for a load: that of this request, or one that runs.
    async fn load<E: Send + Sync + 'static>(
        &self,
        at: &EntryKey,
        request: Request<V>,
    ) -> Result<Option<Arc<V>>, LoadError<E>> {
        let (answer, answered) = oneshot::channel();
        let inbox = self.submit(at, Request { answer: Some(answer), ..request });
        let mut leaving = OnDrop(Some(|| inbox.changed.notify_one()));
        let answer = answered.await.unwrap_or(Err(Failure::Panicked));
        leaving.0 = None;
        answer.map_err(Failure::into_error)
    }
}

impl<K, V, C> Cache<K, V, C>
where
    V: Send + Sync + 'static,
    C: Codec,
{
    /// Writes a value, which is fresh then. No load that runs is written.
    pub fn put<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W) -> Call<()>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
        C: Encode<W>,
        C::Keys: Encode<Q>,
    {
        let mut unwritable = None;
        let call = self.write(|to| {
            let at = entry_key(to.write(&self.codec.keys(), key)?);
            let key = at.key.clone();
            let value = match to.write(&self.codec, value) {
                Ok(value) => Some(value),
                Err(error) => {
                    unwritable = Some(error.at(self.key()));
                    return Ok((CacheOp::Remove(at), key)); // The old value is not the newest one any more.
                }
            };
            let Some(entry) = self.settings.entry(value) else {
                return Err(Error::misused("`fresh` and `stale` are 0, so nothing is written"));
            };
            Ok((CacheOp::Put(at, entry), key))
        });
        match unwritable {
            Some(error) => call.then_fail(error),
            None => call,
        }
    }

    /// Removes an entry. No load that runs is written, in any process.
    pub fn remove<Q: ?Sized>(&self, key: &Q) -> Call<()>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        self.write(|to| {
            let key = to.write(&self.codec.keys(), key)?;
            Ok((CacheOp::Remove(entry_key(key.clone())), key))
        })
    }

    /// Removes entries, in one round trip to each server for each MiB of keys. No load that runs is written.
    ///
    /// # Errors
    /// As those of a [`Call`]. Other entries may have been removed.
    ///
    /// # Cancel safety
    /// If the future is dropped, entries may have been removed.
    pub async fn remove_all<'a, Q>(&self, keys: impl IntoIterator<Item = &'a Q>) -> Result<()>
    where
        Q: ?Sized + 'a,
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        let mut to = Writer::new(&self.shared.store);
        let keys = keys.into_iter().map(|key| to.write(&self.codec.keys(), key)).collect::<Result<Vec<_>>>();
        let keys = keys.map_err(|error| error.at(self.key()))?;
        let bytes: Vec<_> = keys.iter().map(Vec::len).collect();
        let remove = |key| Op::new(self.key(), CacheOp::Remove(entry_key(key)));
        let ops: Vec<_> = keys.into_iter().map(remove).collect();
        let _forget = self.forget_copies();
        let replies = self.shared.store.run(&ops, &bytes).await;
        replies.into_iter().try_for_each(|reply| reply.and_then(Reply::done)).map_err(|error| error.at(self.key()))
    }
}

/// A load without the type of its error.
fn loading<K, V, F, L, E>(key: &K, load: F) -> Load<V>
where
    K: Clone + Send + 'static,
    F: FnOnce(K) -> L + Send + 'static,
    L: Future<Output = Result<Option<V>, E>> + Send + 'static,
    E: Send + Sync + 'static,
{
    let key = key.clone();
    Box::pin(async move { load(key).await.map_err(|error| Failure::Load(Arc::new(error))) })
}

/// Calls a function when it is dropped, if there still is one.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

impl<K, V, C: Clone> Clone for Cache<K, V, C> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            prefix: self.prefix,
            codec: self.codec.clone(),
            settings: self.settings,
            types: PhantomData,
        }
    }
}

impl<K, V, C: fmt::Debug> fmt::Debug for Cache<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { codec, settings, .. } = self;
        f.debug_struct("Cache")
            .field("key", &self.shared.key)
            .field("codec", codec)
            .field("settings", settings)
            .finish()
    }
}
