//! One answer for all clients that ask the same question.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use futures_util::future::{FutureExt, Shared, WeakShared};
use tokio::time::{Instant, timeout};

use crate::source::Trouble;

/// Minimum time for which an answer is served again. It is shorter than the page's own interval, so a single viewer
/// always sees current data.
const FRESH: Duration = Duration::from_secs(1);
/// An answer is served again for at least this multiple of the time that it took to get. So the questions of one kind
/// keep a store busy for at most a fifth of the time.
const MULTIPLE: u32 = 4;
/// Time that a client waits for a new answer before it gets the last one.
const SOON: Duration = Duration::from_millis(300);
/// Time for which a fetch goes on for the next client.
const LINGER: Duration = Duration::from_secs(10);
/// Maximum time for which an answer is served again, however long it took to get.
const LONGEST: Duration = Duration::from_secs(600);

/// The last answer to one question. Clients that ask while it is being fetched share that fetch.
///
/// A fetch is dropped, and so cancelled, when the last client that waits for it has gone.
#[derive(Debug)]
pub(crate) struct Fresh<T> {
    multiple: u32,
    state: Arc<Mutex<State<T>>>,
}

/// An answer and the time at which it was given.
#[derive(Debug)]
pub(crate) struct Known<T> {
    pub(crate) at: SystemTime,
    pub(crate) value: Arc<T>,
}

pub(crate) type Told<T> = Result<Known<T>, Trouble>;

type Fetch<T> = Shared<Pin<Box<dyn Future<Output = Told<T>> + Send>>>;

struct State<T> {
    now: Now<T>,
    /// Number of changes of which [`Fresh::forget`] was notified. An answer that was fetched before the last change
    /// is not kept.
    changes: u64,
}

enum Now<T> {
    Unknown,
    /// The last answer is the one before, if it was no failure.
    Fetching {
        fetch: WeakShared<Pin<Box<dyn Future<Output = Told<T>> + Send>>>,
        last: Option<Known<T>>,
    },
    Kept {
        until: Instant,
        told: Told<T>,
    },
}

impl<T> Clone for Known<T> {
    fn clone(&self) -> Self {
        Self { at: self.at, value: Arc::clone(&self.value) }
    }
}

impl<T> std::fmt::Debug for State<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self::for_multiple(MULTIPLE)
    }
}

impl<T> Fresh<T> {
    /// An answer of this kind serves for this multiple of the time that it took to get, and for a second at least.
    pub(crate) fn for_multiple(multiple: u32) -> Self {
        Self { multiple, state: Arc::new(Mutex::new(State { now: Now::Unknown, changes: 0 })) }
    }

    /// The last answer will not be served again.
    pub(crate) fn forget(&self) {
        let mut state = locked(&self.state);
        state.changes += 1;
        state.now = Now::Unknown;
    }

    /// Whether a client waits for the answer, or an answer is kept that can still be served.
    pub(crate) fn is_in_use(&self) -> bool {
        match &locked(&self.state).now {
            Now::Unknown => false,
            Now::Fetching { fetch, .. } => fetch.upgrade().is_some(),
            Now::Kept { until, .. } => Instant::now() < *until,
        }
    }
}

impl<T: Send + Sync + 'static> Fresh<T> {
    /// The last answer, if it can still be served; else what `ask` returns.
    ///
    /// # Cancel safety
    /// Dropping the future gives up this client's share of the fetch.
    pub(crate) async fn get<F>(&self, ask: impl FnOnce() -> F) -> Told<T>
    where
        F: Future<Output = Result<T, Trouble>> + Send + 'static,
    {
        match self.now(ask) {
            Ok(told) => told,
            Err((fetch, _)) => fetch.await,
        }
    }

    /// The same. But if the fetch takes long and there is an earlier answer, the client gets that one, and the fetch
    /// goes on for the next client.
    pub(crate) async fn get_soon<F>(&self, ask: impl FnOnce() -> F) -> Told<T>
    where
        F: Future<Output = Result<T, Trouble>> + Send + 'static,
    {
        let (mut fetch, last) = match self.now(ask) {
            Ok(told) => return told,
            Err((fetch, Some(last))) => (fetch, last),
            Err((fetch, None)) => return fetch.await,
        };
        let Ok(told) = timeout(SOON, &mut fetch).await else {
            tokio::spawn(timeout(LINGER, fetch));
            return Ok(last);
        };
        told
    }

    /// The answer that is kept, or the fetch to wait for and the answer before.
    #[expect(clippy::type_complexity, reason = "two values with a meaning each")]
    fn now<F>(&self, ask: impl FnOnce() -> F) -> Result<Told<T>, (Fetch<T>, Option<Known<T>>)>
    where
        F: Future<Output = Result<T, Trouble>> + Send + 'static,
    {
        let mut state = locked(&self.state);
        let last = match &state.now {
            Now::Kept { until, told } if Instant::now() < *until => return Ok(told.clone()),
            Now::Fetching { fetch, last } => match fetch.upgrade() {
                Some(fetch) => return Err((fetch, last.clone())),
                None => last.clone(),
            },
            Now::Kept { told, .. } => told.clone().ok(),
            Now::Unknown => None,
        };
        let fetch = fetch(ask(), Arc::clone(&self.state), state.changes, self.multiple);
        let again = last.clone();
        state.now = fetch.downgrade().map_or(Now::Unknown, |fetch| Now::Fetching { fetch, last });
        Err((fetch, again))
    }
}

fn fetch<T, F>(ask: F, kept: Arc<Mutex<State<T>>>, changes: u64, multiple: u32) -> Fetch<T>
where
    T: Send + Sync + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    let fetch = async move {
        let begun = Instant::now();
        let told = ask.await.map(|value| Known { at: SystemTime::now(), value: Arc::new(value) });
        let rest = begun.elapsed().saturating_mul(multiple).clamp(FRESH, LONGEST);
        let mut state = locked(&kept);
        if state.changes == changes {
            state.now = Now::Kept { until: Instant::now() + rest, told: told.clone() };
        }
        drop(state);
        told
    };
    let fetch: Pin<Box<dyn Future<Output = Told<T>> + Send>> = Box::pin(fetch);
    fetch.shared()
}

fn locked<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    // No code that can panic runs while it is locked.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
