//! Maps that are read from copies in this process.

use std::{
    borrow::Borrow,
    fmt,
    ops::Deref,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_codec::{Codec, Decode, Encode, hash::h128_bytes};
use bandog_core::{
    Key, Result, Subscription,
    structures::{Bytes, MapChange, MapChanges, MapOp, Reply, Structures},
};
use tokio::{runtime::Handle, time::sleep};

use crate::{
    Map,
    call::Writer,
    copies::{Copies, Offline},
    map::Kind,
    object::decode_option,
    store::{AnyCache, Store},
};

/// The time for which a copy is used, if no other is given.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The pause after changes could not be tracked.
const PAUSE: Duration = Duration::from_secs(1);

/// A map that is read from copies in this process, as Redisson's `RLocalCachedMap`. Created by [`Map::near`].
///
/// A read of a copy needs no request and no decoding. It has all methods of a [`Map`], which use the store; their writes remove
/// the copies of all programs, also those of Java. Clones share the copies, and so do all handles of a grid for the same map
/// whose values have the same type; the settings of the first one count.
///
/// A copy is as old as the report of a write is on its way, which is about a millisecond, for writes through a `NearMap` or
/// Java's `RLocalCachedMap`; 50 ms for those of a plain [`Map`], of Java's `RMap` or redis-cli; 1 s if both come at the same
/// time, or if the connection dies; and [`NearMap::max_age`] in any case. A write by this process is seen at once.
///
/// On a server that refuses `CLIENT TRACKING`, there are no copies, and a warning is logged.
///
/// ```
/// use bandog::grid::{ClientGrid, Map, NearMap};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let prices: Map<String, u32> = grid.map("prices")?;
/// let near: NearMap<String, u32> = prices.near(10_000);
/// near.put("apple", &5).await?;
/// assert_eq!(near.read("apple").await?.as_deref(), Some(&5)); // a request
/// assert_eq!(near.read("apple").await?.as_deref(), Some(&5)); // none
/// # Ok(()) }
/// ```
pub struct NearMap<K, V, C = bandog_codec::TextJson> {
    map: Map<K, V, C>,
    shared: Arc<Shared<V>>,
    entries: usize,
    max_age: Duration,
    offline: Offline,
}

/// What the handles of a map share.
struct Shared<V> {
    key: Key,
    store: Arc<Store>,
    copies: OnceLock<Copies<V>>,
    tracking: Mutex<Option<Subscription>>,
    /// Whether the task that begins the tracking was started.
    is_started: AtomicBool,
}

/// Caches and maps have different names in the store. The copies of a map are removed by its own handles.
impl<V: Send + Sync + 'static> AnyCache for Shared<V> {
    fn forget(&self, _: Option<&[u8]>) {}
}

impl<K, V: Send + Sync + 'static, C: Codec> Map<K, V, C> {
    /// The same map, which is read from at most this number of copies in the process.
    pub fn near(&self, entries: usize) -> NearMap<K, V, C> {
        let object = &self.object;
        let make = || Shared {
            key: object.key.clone(),
            store: object.store.clone(),
            copies: OnceLock::new(),
            tracking: Mutex::default(),
            is_started: AtomicBool::new(false),
        };
        let shared: Arc<Shared<V>> = object.store.shared_cache(&object.key, make);
        let weak = Arc::downgrade(&shared);
        let forget = move |field: &Bytes| {
            if let Some(copies) = weak.upgrade().as_ref().and_then(|shared| shared.copies.get()) {
                copies.remove(&h128_bytes(field));
            }
        };
        let map = self.clone().with_kind(Kind::Copied(Arc::new(forget)));
        NearMap { map, shared, entries, max_age: MAX_AGE, offline: Offline::Refuse }
    }
}

impl<K, V, C> NearMap<K, V, C> {
    /// The time for which a copy is used at most. Default: 1 min.
    #[must_use]
    pub fn max_age(self, max_age: Duration) -> Self {
        Self { max_age, ..self }
    }

    /// What happens while changes are not reported, because the connection is lost. Default: [`Offline::Refuse`].
    #[must_use]
    pub fn offline(self, offline: Offline) -> Self {
        Self { offline, ..self }
    }
}

impl<K, V: Send + Sync + 'static, C: Decode<V>> NearMap<K, V, C> {
    /// The value of a key, from a copy or from the store. That there is none is remembered, too.
    ///
    /// # Errors
    /// Those of [`Map::get`], if there is no copy.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn read<Q: ?Sized + Sync>(&self, key: &Q) -> Result<Option<Arc<V>>>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        let object = &self.map.object;
        let field = self.map.key(&mut Writer::new(&object.store), key).map_err(|error| error.at(&object.key))?;
        let (copies, hash, now) = (self.tracked(), h128_bytes(&field), object.store.clock().now());
        if let Some(value) = copies.get(&hash, now) {
            return Ok(value);
        }
        let hash = hash.to_vec();
        let read = copies.begin(&hash, now);
        let get = MapOp::Get(vec![field]);
        let found = object.call(get, Reply::options).await?.pop().flatten();
        let value = decode_option(&self.map.codec, found).map_err(|error| error.at(&object.key))?.map(Arc::new);
        if let Some(read) = read {
            read.keep(value.clone(), self.max_age);
        }
        Ok(value)
    }

    /// The copies. The first call in a Tokio runtime has changes reported.
    fn tracked(&self) -> &Copies<V> {
        let copies = self.shared.copies.get_or_init(|| Copies::new(self.entries, self.offline));
        if !self.shared.is_started.load(Relaxed)
            && Handle::try_current().is_ok()
            && !self.shared.is_started.swap(true, Relaxed)
        {
            drop(tokio::spawn(track(self.shared.clone())));
        }
        copies
    }
}

impl<V> Shared<V> {
    fn changed(&self, change: MapChange) {
        let Some(copies) = self.copies.get() else { return };
        let now = self.store.clock().now();
        match change {
            MapChange::Entries(hashes) => {
                copies.doubts.named(now);
                hashes.iter().for_each(|hash| copies.remove(hash));
            }
            MapChange::Written => copies.doubts.written(now),
            MapChange::Any => copies.begin_reports(),
            MapChange::Lost => copies.end_reports(),
            MapChange::Denied(error) => {
                tracing::warn!(map = %self.key, %error, "there are no copies in this process, because changes are not reported");
                copies.end_reports();
            }
        }
    }
}

/// Has changes reported, unless all handles are dropped before.
async fn track<V: Send + Sync + 'static>(shared: Arc<Shared<V>>) {
    let weak = Arc::downgrade(&shared);
    drop(shared);
    let of = weak.clone();
    let changes = MapChanges::new(move |change| {
        if let Some(shared) = of.upgrade() {
            shared.changed(change);
        }
    });
    while let Some(shared) = weak.upgrade() {
        let structures: &Arc<dyn Structures> = &shared.store.structures;
        if let Ok(subscription) = structures.track_map(&shared.key, changes.clone()).await {
            *shared.tracking.lock().unwrap_or_else(PoisonError::into_inner) = Some(subscription);
            return;
        }
        drop(shared);
        sleep(PAUSE).await;
    }
}

impl<K, V, C> Deref for NearMap<K, V, C> {
    type Target = Map<K, V, C>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl<K, V, C: Clone> Clone for NearMap<K, V, C> {
    fn clone(&self) -> Self {
        Self { map: self.map.clone(), shared: self.shared.clone(), ..*self }
    }
}

impl<K, V, C: fmt::Debug> fmt::Debug for NearMap<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NearMap").field("map", &self.map).field("entries", &self.entries).finish_non_exhaustive()
    }
}
