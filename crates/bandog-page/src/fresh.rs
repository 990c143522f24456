//! A cache: one answer of the store is served to all clients that send the same query.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use futures_util::future::{FutureExt, Shared, WeakShared};
use tokio::time::{Instant, timeout};

use crate::source::Trouble;

/// An answer is served again for at least this time. The interval between two polls of the page is longer, so a single
/// viewer always gets current data.
const FRESH: Duration = Duration::from_secs(1);
/// An answer is served again for at least this multiple of its fetch time (the duration of the query). So a store
/// spends at most a fifth of its time on the queries of one kind.
const MULTIPLE: u32 = 4;
/// Time for which a client waits for a new answer. After this time, the client gets the previous answer.
const SOON: Duration = Duration::from_millis(300);
/// Maximum time for which a fetch continues after the waiting client has got the previous answer instead.
const LINGER: Duration = Duration::from_secs(10);
/// Maximum time for which an answer is served again.
const LONGEST: Duration = Duration::from_secs(600);

/// The last answer to one query. Clients that send the query during a fetch share that fetch.
///
/// A fetch is cancelled when no client waits for it any more.
#[derive(Debug)]
pub(crate) struct Fresh<T> {
    /// An answer is served again for this multiple of its fetch time.
    multiple: u32,
    state: Arc<Mutex<Cache<T>>>,
}

/// An answer, and the time at which the store gave this answer.
#[derive(Debug)]
pub(crate) struct Known<T> {
    pub(crate) at: SystemTime,
    pub(crate) value: Arc<T>,
}

/// The result of a fetch.
pub(crate) type Fetched<T> = Result<Known<T>, Trouble>;

/// A fetch in progress, which several clients can await.
type Fetch<T> = Shared<Pin<Box<dyn Future<Output = Fetched<T>> + Send>>>;

struct Cache<T> {
    /// The kept answer, or the fetch in progress.
    now: Slot<T>,
    /// Number of calls of [`Fresh::forget`]. If a fetch began before the latest of these calls, its answer is not kept.
    changes: u64,
}

/// The state of a cache. `Unknown`: there is no answer and no fetch. `Kept`: the result of the last fetch, which is
/// served until the time `until`.
enum Slot<T> {
    Unknown,
    /// A fetch is in progress. `last` is the previous answer, if the previous answer was not an error.
    Fetching {
        fetch: WeakShared<Pin<Box<dyn Future<Output = Fetched<T>> + Send>>>,
        last: Option<Known<T>>,
    },
    Kept {
        until: Instant,
        fetched: Fetched<T>,
    },
}

impl<T> Clone for Known<T> {
    fn clone(&self) -> Self {
        Self { at: self.at, value: Arc::clone(&self.value) }
    }
}

impl<T> std::fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self::for_multiple(MULTIPLE)
    }
}

impl<T> Fresh<T> {
    /// An answer is served again for this multiple of its fetch time, but for at least one second.
    pub(crate) fn for_multiple(multiple: u32) -> Self {
        Self { multiple, state: Arc::new(Mutex::new(Cache { now: Slot::Unknown, changes: 0 })) }
    }

    /// Drops the last answer.
    pub(crate) fn forget(&self) {
        let mut state = locked(&self.state);
        state.changes += 1;
        state.now = Slot::Unknown;
    }

    /// Whether a client waits for the answer, or a valid answer is kept.
    pub(crate) fn is_in_use(&self) -> bool {
        match &locked(&self.state).now {
            Slot::Unknown => false,
            Slot::Fetching { fetch, .. } => fetch.upgrade().is_some(),
            Slot::Kept { until, .. } => Instant::now() < *until,
        }
    }
}

impl<T: Send + Sync + 'static> Fresh<T> {
    /// Returns the last answer if this answer is still valid. Otherwise waits for a new answer. `ask` queries the
    /// store, if no fetch is in progress.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait of this client. If no other client waits, the fetch is cancelled.
    pub(crate) async fn get<F>(&self, ask: impl FnOnce() -> F) -> Fetched<T>
    where
        F: Future<Output = Result<T, Trouble>> + Send + 'static,
    {
        match self.now(ask) {
            Ok(fetched) => fetched,
            Err((fetch, _)) => fetch.await,
        }
    }

    /// Like [`Self::get`]. But if the fetch takes long and there is a previous answer, the caller gets the previous
    /// answer, and the fetch continues for the next client.
    pub(crate) async fn get_soon<F>(&self, ask: impl FnOnce() -> F) -> Fetched<T>
    where
        F: Future<Output = Result<T, Trouble>> + Send + 'static,
    {
        let (mut fetch, last) = match self.now(ask) {
            Ok(fetched) => return fetched,
            Err((fetch, Some(last))) => (fetch, last),
            Err((fetch, None)) => return fetch.await,
        };
        let Ok(fetched) = timeout(SOON, &mut fetch).await else {
            tokio::spawn(timeout(LINGER, fetch));
            return Ok(last);
        };
        fetched
    }

    /// The kept answer. `Err` means that no valid answer is kept: it contains the fetch to wait for, and the previous
    /// answer if there is one.
    #[expect(clippy::type_complexity, reason = "two values with a meaning each")]
    fn now<F>(&self, ask: impl FnOnce() -> F) -> Result<Fetched<T>, (Fetch<T>, Option<Known<T>>)>
    where
        F: Future<Output = Result<T, Trouble>> + Send + 'static,
    {
        let mut state = locked(&self.state);
        let last = match &state.now {
            Slot::Kept { until, fetched } if Instant::now() < *until => return Ok(fetched.clone()),
            Slot::Fetching { fetch, last } => match fetch.upgrade() {
                Some(fetch) => return Err((fetch, last.clone())),
                None => last.clone(),
            },
            Slot::Kept { fetched, .. } => fetched.clone().ok(),
            Slot::Unknown => None,
        };
        let fetch = fetch(ask(), Arc::clone(&self.state), state.changes, self.multiple);
        let previous = last.clone();
        state.now = fetch.downgrade().map_or(Slot::Unknown, |fetch| Slot::Fetching { fetch, last });
        Err((fetch, previous))
    }
}

/// Starts a fetch, which stores its answer in `kept`. `changes` is the present value of [`Cache::changes`].
fn fetch<T, F>(ask: F, kept: Arc<Mutex<Cache<T>>>, changes: u64, multiple: u32) -> Fetch<T>
where
    T: Send + Sync + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    let fetch = async move {
        let begun = Instant::now();
        let fetched = ask.await.map(|value| Known { at: SystemTime::now(), value: Arc::new(value) });
        let serve_for = begun.elapsed().saturating_mul(multiple).clamp(FRESH, LONGEST);
        let mut state = locked(&kept);
        if state.changes == changes {
            state.now = Slot::Kept { until: Instant::now() + serve_for, fetched: fetched.clone() };
        }
        drop(state);
        fetched
    };
    let fetch: Pin<Box<dyn Future<Output = Fetched<T>> + Send>> = Box::pin(fetch);
    fetch.shared()
}

fn locked<T>(state: &Mutex<Cache<T>>) -> MutexGuard<'_, Cache<T>> {
    // No code that can panic runs while the mutex is locked.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
