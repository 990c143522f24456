//! What the clones of a cache share: the store, the running loads and the counts.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, UNIX_EPOCH},
};

use bandog_codec::Decode;
use bandog_core::{
    Error, ErrorKind, Key, Moment, Result, Subscription,
    structures::{Bytes, CacheChange, CacheChanges, CacheEntry, CacheOp, EntryKey, Op, Reply, millis},
};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{
    request::Inbox,
    settings::{OnFailure, Settings},
    stats::Counters,
};
use crate::{
    copies::Copies,
    store::{AnyCache, Store},
};

/// The time for which the store is not asked after it has not answered.
const AWAY: Duration = Duration::from_secs(1);
/// The time for which a cache of a cached function is kept after a call.
const LINGER: Duration = Duration::from_secs(120);

pub(super) struct Shared<V> {
    pub(super) store: Arc<Store>,
    pub(super) key: Key,
    pub(super) counters: Arc<Counters>,
    /// Limits the loads while the store is away.
    pub(super) loads: Semaphore,
    /// The inbox of each keeper that runs.
    keepers: Mutex<HashMap<Bytes, Arc<Inbox<V>>>>,
    /// Until when the store is not asked.
    away: Mutex<Option<Moment>>,
    has_warned: AtomicBool,
    has_warned_of_values: AtomicBool,
    /// Until when this is kept without a handle.
    lingers: Mutex<Option<Moment>>,
    near: OnceLock<Copies<V>>,
    tracking: Mutex<Option<Subscription>>,
}

impl<V: Send + Sync + 'static> Shared<V> {
    pub(super) fn new(store: &Arc<Store>, key: Key, loads: usize) -> Self {
        let counters = Arc::new(Counters::new(key.as_str()));
        store.cache_reports.add(&key, &counters);
        Self {
            store: store.clone(),
            counters,
            key,
            loads: Semaphore::new(loads),
            keepers: Mutex::default(),
            away: Mutex::default(),
            has_warned: AtomicBool::new(false),
            has_warned_of_values: AtomicBool::new(false),
            lingers: Mutex::default(),
            near: OnceLock::new(),
            tracking: Mutex::default(),
        }
    }

    pub(super) fn keepers(&self) -> MutexGuard<'_, HashMap<Bytes, Arc<Inbox<V>>>> {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn away(&self) -> MutexGuard<'_, Option<Moment>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store is not asked.
    pub(super) fn is_away(&self) -> bool {
        let now = self.store.clock().now();
        self.away().is_some_and(|until| now < until)
    }

    /// Applies an operation that belongs to a read. A store that has not answered in time is not asked again for [`AWAY`],
    /// unless the cache is strict.
    pub(super) async fn ask(&self, settings: &Settings, op: CacheOp) -> Result<Reply> {
        let op = Op::new(&self.key, op);
        if settings.on_failure == OnFailure::Fail {
            return self.counted(self.store.run_one(&op, 0, false).await);
        }
        let now = self.store.clock().now();
        {
            let mut away = self.away();
            match *away {
                Some(until) if now < until => return Err(Error::unavailable("the store did not answer in time")),
                // Until this request is answered, no other one is made.
                Some(_) => *away = Some(now + settings.timeout + AWAY),
                None => {}
            }
        }
        let late = |_| Err(Error::unavailable("the store did not answer in time"));
        let begun = self.store.clock().now();
        let answer = timeout(settings.timeout, self.store.run_one(&op, 0, false)).await.unwrap_or_else(late);
        let took = self.store.clock().now().since(begun);
        match &answer {
            Ok(_) => {
                let was_away = self.away().take().is_some();
                if was_away && self.has_warned.swap(false, Relaxed) {
                    tracing::info!(cache = %self.key, "the store answers again");
                }
            }
            Err(error) => {
                // A refusal is an answer, also that of a full memory, so the store is asked again.
                let is_away = error.kind() == ErrorKind::Unavailable && took >= settings.timeout / 10;
                *self.away() = is_away.then(|| self.store.clock().now() + AWAY);
                if !self.has_warned.swap(true, Relaxed) {
                    tracing::warn!(cache = %self.key, %error, "the cache loads without its store");
                }
            }
        }
        self.counted(answer)
    }

    /// A value was not written. The first refusal since the last answer is logged.
    pub(super) fn refused(&self, error: &Error) {
        self.counters.store_errors.one();
        if !self.has_warned.swap(true, Relaxed) {
            tracing::warn!(cache = %self.key, %error, "a value was loaded, but cannot be written to the store");
        }
    }

    /// A value cannot be written, because it is too large or cannot be encoded. The first one is logged.
    pub(super) fn unwritable(&self, error: &Error) {
        self.counters.unencodable.one();
        if !self.has_warned_of_values.swap(true, Relaxed) {
            tracing::warn!(cache = %self.key, %error, "a value cannot be cached; the entry before it is removed, and each call loads");
        }
    }

    /// Keeps what the handles share for [`LINGER`] after the last call of this, on the runtime of the call.
    pub(super) fn linger(self: &Arc<Self>) {
        let until = self.store.clock().now() + LINGER;
        let runs = self.lingers().replace(until).is_some();
        match Handle::try_current() {
            Ok(runtime) if !runs => drop(runtime.spawn(Lingering(self.clone()).run())),
            Ok(_) => {}
            Err(_) if !runs => *self.lingers() = None,
            Err(_) => {}
        }
    }

    fn lingers(&self) -> MutexGuard<'_, Option<Moment>> {
        self.lingers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of an entry, or that there is none. None if it cannot be decoded.
    pub(super) fn read<C: Decode<V>>(&self, codec: &C, entry: CacheEntry) -> Option<Option<Arc<V>>> {
        let now = self.store.clock().wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = millis(now).saturating_sub(entry.written);
        let value = match entry.value.map(|bytes| codec.decode(&bytes)).transpose() {
            Ok(value) => value,
            Err(error) => {
                self.counters.undecodable.one();
                tracing::debug!(cache = %self.key, %error, "an entry is a miss, because it cannot be decoded");
                return None;
            }
        };
        self.counters.age_ms.add(age);
        Some(value.map(Arc::new))
    }

    fn counted(&self, answer: Result<Reply>) -> Result<Reply> {
        answer.inspect_err(|_| self.counters.store_errors.one()).map_err(|error| error.at(&self.key))
    }
}

impl<V: Send + Sync + 'static> Shared<V> {
    /// The copies of this process, if the settings have some. The first call has changes reported, if it is in a Tokio
    /// runtime.
    pub(super) fn near(self: &Arc<Self>, settings: &Settings) -> Option<&Copies<V>> {
        let entries = settings.near?;
        if let Some(near) = self.near.get() {
            return Some(near);
        }
        let near = self.near.get_or_init(|| Copies::new(entries, settings.offline));
        self.track();
        Some(near)
    }

    /// Has changes reported, on the runtime of this call. Without a runtime there are no copies.
    fn track(self: &Arc<Self>) {
        if Handle::try_current().is_err() {
            return;
        }
        let weak = Arc::downgrade(self);
        let changes = CacheChanges::new(move |change| {
            if let Some(shared) = weak.upgrade() {
                shared.changed(&change);
            }
        });
        let weak = Arc::downgrade(self);
        drop(tokio::spawn(async move {
            while let Some(shared) = weak.upgrade() {
                let tracked = shared.store.structures.track_cache(&shared.key, changes.clone()).await;
                match tracked {
                    Ok(subscription) => {
                        *shared.tracking.lock().unwrap_or_else(PoisonError::into_inner) = Some(subscription);
                        return;
                    }
                    Err(_) => drop(shared),
                }
                sleep(AWAY).await;
            }
        }));
    }

    fn changed(&self, change: &CacheChange) {
        if let CacheChange::Denied(error) = change {
            tracing::warn!(cache = %self.key, %error, "there are no copies in this process, because changes are not reported");
        }
        let Some(near) = self.near.get() else { return };
        match change {
            CacheChange::Entry(at) => near.remove(&at.key),
            CacheChange::Any => near.begin_reports(),
            CacheChange::Lost | CacheChange::Denied(_) => near.end_reports(),
        }
    }
}

/// Keeps what the handles share. If it is dropped with its runtime, the next call starts another one.
struct Lingering<V: Send + Sync + 'static>(Arc<Shared<V>>);

impl<V: Send + Sync + 'static> Lingering<V> {
    async fn run(self) {
        loop {
            let left = self.0.lingers().map(|until| until.since(self.0.store.clock().now()));
            match left {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return,
            }
        }
    }
}

impl<V: Send + Sync + 'static> Drop for Lingering<V> {
    fn drop(&mut self) {
        *self.0.lingers() = None;
    }
}

impl<V: Send + Sync + 'static> AnyCache for Shared<V> {
    fn forget(&self, key: Option<&[u8]>) {
        if let Some(near) = self.near.get() {
            match key {
                Some(key) => near.remove(key),
                None => near.clear(),
            }
        }
    }
}

impl<V> fmt::Debug for Shared<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The part of a cache with this key.
pub(super) fn entry_key(key: Bytes) -> EntryKey {
    let [hash, _] = bandog_codec::hash::h128(&key);
    let part = u8::try_from(hash % u64::from(PARTS)).unwrap_or(0);
    EntryKey { part, key }
}

/// The number of parts of a cache, which are spread over the nodes of a cluster.
pub(super) const PARTS: u8 = 64;
