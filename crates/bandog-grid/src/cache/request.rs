//! A call that needs a load, and the chain of loads in which it is made.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bandog_core::{
    Moment,
    structures::{Bytes, FillId},
};
use futures_util::future::BoxFuture;
use tokio::{
    sync::{Notify, oneshot},
    task_local,
};

use super::{error::Failure, settings::Settings};

/// A load. It does nothing until it is polled.
pub(super) type Load<V> = BoxFuture<'static, Result<Option<V>, Failure>>;
/// A value, or that there is none.
pub(super) type Answer<V> = Result<Option<Arc<V>>, Failure>;

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// A value, which may be stale.
    Value,
    /// A value, which may be stale, or that there is none.
    Option,
    /// That an entry that is not fresh is loaded again, unless another load runs. A caller waits for the load it begins only.
    Refresh,
    /// A value that is loaded after this request.
    New,
}

/// A call that needs a load.
pub(super) struct Request<V> {
    pub(super) wants: Wants,
    /// Those of the handle: they hold for what its load writes.
    pub(super) settings: Settings,
    /// None once the load has begun.
    pub(super) load: Option<Load<V>>,
    /// Where the answer goes.
    pub(super) answer: Option<oneshot::Sender<Answer<V>>>,
    /// The time at which a fresh entry was written that is no answer.
    pub(super) unusable: Option<u64>,
    /// When it begins its own load, if another process loads.
    pub(super) until: Moment,
    /// The load in which it is made.
    pub(super) made_in: Option<Arc<Loading>>,
}

impl<V> Request<V> {
    /// Whether an entry with this value, or without one, is an answer.
    pub(super) fn takes(&self, value: Option<&Arc<V>>) -> bool {
        match self.wants {
            Wants::Value => value.is_some(),
            Wants::Option | Wants::Refresh => true,
            Wants::New => false,
        }
    }

    /// Whether the caller has gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    pub(super) fn answer(self, answer: Answer<V>) {
        if let Some(to) = self.answer {
            // The caller may have gone.
            let _ = to.send(answer);
        }
    }
}

/// The requests that a keeper has not received yet.
pub(super) struct Inbox<V> {
    requests: Mutex<Vec<Request<V>>>,
    /// Notified about new requests, and about callers that have gone.
    pub(super) changed: Notify,
}

impl<V> Default for Inbox<V> {
    fn default() -> Self {
        Self { requests: Mutex::default(), changed: Notify::new() }
    }
}

impl<V> Inbox<V> {
    fn requests(&self) -> MutexGuard<'_, Vec<Request<V>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, request: Request<V>) {
        self.requests().push(request);
        self.changed.notify_one();
    }

    pub(super) fn take(&self) -> Vec<Request<V>> {
        mem::take(&mut *self.requests())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests().is_empty()
    }
}

/// A load that runs, and those in which it was started.
#[derive(Debug)]
pub(super) struct Loading {
    /// The address of what the clones of the cache share.
    pub(super) cache: usize,
    pub(super) key: Bytes,
    /// The fill that the load has. None: nothing is written.
    pub(super) fill: Option<FillId>,
    pub(super) made_in: Option<Arc<Self>>,
}

task_local! {
    /// The load in which this task runs.
    static LOADING: Arc<Loading>;
}

impl Loading {
    /// The load in which the caller runs.
    pub(super) fn current() -> Option<Arc<Self>> {
        LOADING.try_with(Arc::clone).ok()
    }

    /// Runs a function in this load.
    pub(super) fn run<R>(self: Arc<Self>, function: impl FnOnce() -> R) -> R {
        LOADING.sync_scope(self, function)
    }

    /// Runs a future in this load.
    pub(super) fn scope<F: Future>(self: Arc<Self>, future: F) -> impl Future<Output = F::Output> {
        LOADING.scope(self, future)
    }

    /// Whether this load is that of this key, or was started in it.
    pub(super) fn includes(&self, cache: usize, key: &[u8]) -> bool {
        let mut next = Some(self);
        while let Some(loading) = next {
            if loading.cache == cache && loading.key == key {
                return true;
            }
            next = loading.made_in.as_deref();
        }
        false
    }
}

/// The load in which code runs, for code that continues on another thread.
#[derive(Debug, Clone)]
pub struct InLoad(Option<Arc<Loading>>);

impl InLoad {
    /// That of the caller.
    pub fn current() -> Self {
        Self(Loading::current())
    }

    /// Runs a function in it.
    pub fn run<R>(self, function: impl FnOnce() -> R) -> R {
        match self.0 {
            Some(loading) => loading.run(function),
            None => function(),
        }
    }

    /// Runs a future in it.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        match self.0 {
            Some(loading) => loading.scope(future).await,
            None => future.await,
        }
    }
}
