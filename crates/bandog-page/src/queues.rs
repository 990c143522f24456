//! The work queues of the store. Each answer of the store is kept for a time, and serves all clients.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bandog_core::queues::QueueStatus;
use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::StatusCode;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::{
    fresh::{Fetched, Fresh, Known},
    in_time::{STORE_TIME, in_time},
    query::WantedElements,
    queue_figures,
    rates::Rates,
    source::{ElementsPage, Source, Trouble},
};

/// Maximum number of queues of one answer.
pub(crate) const MOST: usize = 100;
/// Maximum number of queues whose names are known.
pub(crate) const MOST_NAMES: usize = 10_000;
/// Number of elements of one answer.
const ELEMENTS: usize = 50;
/// Number of queues whose states are read at the same time.
const AT_ONCE: usize = 8;
/// The state of a queue is kept for this multiple of the time that the store has taken.
const MULTIPLE: u32 = 20;
/// Maximum time for which a request for elements waits for other ones.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time for which the metrics wait for the store.
const FIGURES_TIME: Duration = Duration::from_secs(2);

/// The state of a queue.
#[derive(Debug)]
pub(crate) struct QueueState {
    pub(crate) status: QueueStatus,
    /// Done elements per second. None: not known yet.
    pub(crate) done_per_second: Option<f64>,
}

/// The last answers about queues.
#[derive(Debug)]
pub(crate) struct Queues<S> {
    source: Arc<S>,
    names: Fresh<Vec<String>>,
    states: Mutex<HashMap<String, Arc<Fresh<QueueState>>>>,
    rates: Arc<Mutex<Rates>>,
    /// The permit of the request for elements that queries the store.
    turn: Semaphore,
}

impl<S: Source> Queues<S> {
    pub(crate) fn new(source: Arc<S>) -> Self {
        let (names, states) = (Fresh::for_multiple(MULTIPLE), Mutex::default());
        Self { source, names, states, rates: Arc::default(), turn: Semaphore::new(1) }
    }

    /// The sorted names of the first [`MOST_NAMES`] queues.
    pub(crate) async fn names(&self) -> Fetched<Vec<String>> {
        let source = Arc::clone(&self.source);
        let ask = || async move {
            let mut names = in_time(STORE_TIME, source.queue_names(MOST_NAMES)).await?;
            names.sort_unstable();
            names.dedup();
            Ok(names)
        };
        self.names.get_soon(ask).await
    }

    /// The state of a queue.
    pub(crate) async fn state(&self, name: &str) -> Fetched<QueueState> {
        let (source, rates, queue) = (Arc::clone(&self.source), Arc::clone(&self.rates), name.to_owned());
        let ask = || async move {
            let status = in_time(STORE_TIME, source.queue(&queue)).await?;
            let done_per_second = locked(&rates).add(&queue, Instant::now(), &status.workers);
            Ok(QueueState { status, done_per_second })
        };
        self.kept(name).get(ask).await
    }

    /// The states of these queues, in this order.
    pub(crate) async fn states(&self, names: Vec<String>) -> Result<Vec<(String, Known<QueueState>)>, Trouble> {
        let states = stream::iter(names).map(async |name| {
            let known = self.state(&name).await?;
            Ok((name, known))
        });
        states.buffered(AT_ONCE).try_collect().await
    }

    /// The state of a queue, and some of its elements. One request at a time queries the store.
    pub(crate) async fn elements(
        &self,
        name: &str,
        wanted: &WantedElements,
    ) -> Result<(Known<QueueState>, ElementsPage), Trouble> {
        let state = self.state(name).await?;
        let Ok(Ok(_turn)) = timeout(PATIENCE, self.turn.acquire()).await else {
            let message = "other requests for elements are in progress: retry later";
            return Err(Trouble::new(StatusCode::TOO_MANY_REQUESTS, "busy", message));
        };
        let page = self.source.elements(name, wanted.phase, &wanted.from, ELEMENTS);
        Ok((state, in_time(STORE_TIME, page).await?))
    }

    /// The metrics of the first queues. Empty if the store has no queue, or does not answer soon.
    pub(crate) async fn figures(&self) -> String {
        if !self.source.has_queues() {
            return String::new();
        }
        let read = async {
            let names = self.names().await?.value;
            self.states(names.iter().take(MOST).cloned().collect()).await
        };
        match timeout(FIGURES_TIME, read).await {
            Ok(Ok(states)) => queue_figures::text(states.iter().map(|(name, known)| (&**name, &known.value.status))),
            Ok(Err(_)) | Err(_) => String::new(),
        }
    }

    /// Drops the answers about a queue that is changed.
    pub(crate) fn forget(&self, name: &str) {
        self.names.forget();
        self.kept(name).forget();
    }

    fn kept(&self, name: &str) -> Arc<Fresh<QueueState>> {
        let mut states = locked(&self.states);
        if states.len() >= 2 * MOST && !states.contains_key(name) {
            states.retain(|_, state| state.is_in_use());
        }
        Arc::clone(states.entry(name.to_owned()).or_insert_with(|| Arc::new(Fresh::for_multiple(MULTIPLE))))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs while the mutex is locked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
