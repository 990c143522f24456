//! The keeper of a key: one task for all callers of this process that miss the same entry.
//!
//! It asks the store for the fill of the entry. If it gets the fill, the load of one caller runs, and all have its value. If
//! another process has the fill, they wait for that one. While a request is on its way, further callers wait for the next
//! request, whose answer says whether the load that runs still has the fill: a caller that comes after a removal never gets
//! a value that was loaded before it.

use std::{convert::Infallible, mem, sync::Arc, time::Duration};

use bandog_codec::{Decode, Encode};
use bandog_core::{
    Error, Moment, Notifier, Result, Subscription,
    structures::{BeginWhen, Bytes, CacheEntry, CacheOp, EntryKey, FillId, FillState, Op, Reply},
};
use futures_util::{
    StreamExt,
    future::{BoxFuture, pending},
    stream::FuturesUnordered,
};
use tokio::{
    select,
    sync::Notify,
    task::{AbortHandle, JoinError, JoinHandle},
    time::{sleep, timeout},
};

use super::{
    error::Failure,
    request::{Answer, Inbox, Load, Loading, Request, Wants},
    settings::{OnFailure, Settings},
    shared::Shared,
};
use crate::call::Writer;

/// The lease of a fill, which is renewed three times as often. A process that stops costs others this time at most.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// The interval of polls while another process loads.
const POLL: Duration = Duration::from_secs(1);
/// The interval of polls if the store does not report that a fill has ended.
const SILENT_POLL: Duration = Duration::from_millis(100);

/// Gives a request to the keeper of its key, which is started if there is none. The caller is in a Tokio runtime.
pub(super) fn submit<V, C>(
    shared: &Arc<Shared<V>>,
    codec: &C,
    settings: Settings,
    at: &EntryKey,
    request: Request<V>,
) -> Arc<Inbox<V>>
where
    V: Send + Sync + 'static,
    C: Encode<V> + Decode<V>,
{
    let mut keepers = shared.keepers();
    if let Some(inbox) = keepers.get(&at.key) {
        inbox.push(request);
        return inbox.clone();
    }
    let inbox = Arc::new(Inbox::default());
    inbox.push(request);
    keepers.insert(at.key.clone(), inbox.clone());
    drop(keepers); // A runtime that shuts down drops the new task immediately.
    let registered = Registered { shared: shared.clone(), key: at.key.clone(), inbox: inbox.clone() };
    let keeper = Keeper {
        shared: shared.clone(),
        codec: codec.clone(),
        settings,
        at: at.clone(),
        inbox: inbox.clone(),
        pending: Vec::new(),
        elsewhere: Vec::new(),
        next: Vec::new(),
        loads: Vec::new(),
        events: FuturesUnordered::new(),
        is_asking: false,
        is_waiting: false,
        last_load: 0,
        subscription: None,
    };
    drop(tokio::spawn(async move {
        let _registered = registered;
        keeper.run().await;
    }));
    inbox
}

/// The entry of a keeper in the list. A keeper that ends with its runtime leaves the list, and its callers get an error.
struct Registered<V: Send + Sync + 'static> {
    shared: Arc<Shared<V>>,
    key: Bytes,
    inbox: Arc<Inbox<V>>,
}

impl<V: Send + Sync + 'static> Drop for Registered<V> {
    fn drop(&mut self) {
        let mut keepers = self.shared.keepers();
        if keepers.get(&self.key).is_some_and(|inbox| Arc::ptr_eq(inbox, &self.inbox)) {
            keepers.remove(&self.key);
        }
        drop(keepers);
        drop(self.inbox.take());
    }
}

struct Keeper<V, C> {
    shared: Arc<Shared<V>>,
    codec: C,
    settings: Settings,
    at: EntryKey,
    inbox: Arc<Inbox<V>>,
    /// Requests that wait for the next answer of the store.
    pending: Vec<Request<V>>,
    /// Requests that wait for another process.
    elsewhere: Vec<Request<V>>,
    /// Requests that the store has not answered. They share a load that begins after the present one.
    next: Vec<Request<V>>,
    loads: Vec<Running<V>>,
    events: FuturesUnordered<BoxFuture<'static, Event<V>>>,
    /// Whether a request to the store is on its way.
    is_asking: bool,
    /// Whether an event reports the next change of the fill of another process.
    is_waiting: bool,
    last_load: u64,
    subscription: Option<(Subscription, Arc<Notify>)>,
}

/// A load that runs.
struct Running<V> {
    number: u64,
    /// The fill. None: the value is not written.
    fill: Option<FillId>,
    waiters: Vec<Request<V>>,
    place: Place,
    _task: AbortOnDrop,
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum Event<V> {
    /// The store has answered these requests.
    Answered { fill: FillId, requests: Vec<Request<V>>, answer: Result<(Option<CacheEntry>, FillState)> },
    /// A load has ended.
    Loaded { number: u64, answer: Answer<V> },
    /// Changes of the fill are reported from now on.
    Subscribed(Subscription, Arc<Notify>),
    /// The fill of another process may have ended.
    Changed,
}

impl<V, C> Keeper<V, C>
where
    V: Send + Sync + 'static,
    C: Encode<V> + Decode<V>,
{
    async fn run(mut self) {
        loop {
            self.pending.extend(self.inbox.take());
            self.forget_abandoned();
            self.load_overdue();
            if !self.next.is_empty() && !self.loads_without_store() {
                let next = mem::take(&mut self.next);
                self.load(None, next, Place::WithoutStore);
            }
            if !self.is_asking && !self.pending.is_empty() {
                self.ask();
            }
            if self.events.is_empty() && self.leave() {
                return;
            }
            let overdue = self.next_overdue();
            let left = overdue.map(|until| until.since(self.now())).unwrap_or_default();
            select! {
                Some(event) = self.events.next() => self.handle(event),
                () = self.inbox.changed.notified() => {}
                () = sleep(left), if overdue.is_some() => {}
            }
        }
    }

    fn now(&self) -> Moment {
        self.shared.store.clock().now()
    }

    /// Ends this keeper, unless there is a new request.
    fn leave(&self) -> bool {
        let mut keepers = self.shared.keepers();
        let is_done = self.inbox.is_empty();
        if is_done {
            keepers.remove(&self.at.key);
        }
        is_done
    }

    /// Drops the requests whose callers have gone, and ends loads that nobody needs.
    fn forget_abandoned(&mut self) {
        self.pending.retain(|request| !request.is_abandoned());
        self.elsewhere.retain(|request| !request.is_abandoned());
        self.next.retain(|request| !request.is_abandoned());
        self.loads.retain_mut(|load| {
            load.waiters.retain(|request| !request.is_abandoned());
            load.place == Place::Refresh || !load.waiters.is_empty()
        });
    }

    /// The requests that do not wait any longer than [`Request::until`]: those that wait for another process, and those that
    /// are made in a load, because two loads may wait for each other.
    fn next_overdue(&self) -> Option<Moment> {
        let nested = self.loads.iter().flat_map(|load| &load.waiters).filter(|request| can_be_overdue(request));
        self.elsewhere.iter().chain(nested).map(|request| request.until).min()
    }

    /// Begins own loads, whose values are not written, for the requests that have waited long enough.
    fn load_overdue(&mut self) {
        let now = self.now();
        let mut overdue: Vec<_> = self.elsewhere.extract_if(.., |request| request.until <= now).collect();
        for load in &mut self.loads {
            overdue.extend(load.waiters.extract_if(.., |request| can_be_overdue(request) && request.until <= now));
        }
        if !overdue.is_empty() {
            self.load(None, overdue, Place::Beside);
        }
    }

    /// Asks the store for the entry and for its fill.
    fn ask(&mut self) {
        self.is_asking = true;
        let (requests, fill) = (mem::take(&mut self.pending), FillId(fastrand::u128(..)));
        let needs_new = requests.iter().any(|request| request.wants == Wants::New);
        let unusable = requests.iter().filter_map(|request| request.unusable).max();
        let when = match unusable {
            _ if needs_new => BeginWhen::Always,
            Some(written) => BeginWhen::Instead(written),
            None => BeginWhen::Needed,
        };
        let (shared, settings) = (self.shared.clone(), self.settings);
        let begin = CacheOp::Begin { at: self.at.clone(), fill, when, lease: LEASE };
        self.events.push(Box::pin(async move {
            let answer = shared.ask(&settings, begin).await.and_then(Reply::fill);
            Event::Answered { fill, requests, answer }
        }));
    }

    fn handle(&mut self, event: Event<V>) {
        match event {
            Event::Answered { fill, requests, answer } => {
                self.is_asking = false;
                self.answered(fill, requests, answer);
            }
            Event::Loaded { number, answer } => {
                let ended = self.loads.iter().position(|load| load.number == number);
                let waiters = ended.map(|at| self.loads.swap_remove(at).waiters).unwrap_or_default();
                waiters.into_iter().for_each(|request| request.answer(answer.clone()));
            }
            Event::Subscribed(subscription, changed) => {
                self.is_waiting = false;
                self.subscription = Some((subscription, changed));
                self.pending.append(&mut self.elsewhere); // The fill may have ended before the subscription.
            }
            Event::Changed => {
                self.is_waiting = false;
                self.pending.append(&mut self.elsewhere);
            }
        }
    }

    fn answered(&mut self, fill: FillId, requests: Vec<Request<V>>, answer: Result<(Option<CacheEntry>, FillState)>) {
        let (entry, state) = match answer {
            Ok(answer) => answer,
            Err(error) if self.settings.on_failure == OnFailure::Fail => {
                requests.into_iter().for_each(|request| request.answer(Err(Failure::Store(error.clone()))));
                return;
            }
            Err(error) => return self.wait_without_store(requests, &error),
        };
        let is_fresh = entry.as_ref().is_some_and(|entry| entry.is_fresh);
        let written = entry.as_ref().map(|entry| entry.written);
        let found = entry.and_then(|entry| self.shared.read(&self.codec, entry));
        let (mut satisfied, mut others): (Vec<_>, Vec<_>) = match &found {
            Some(value) => requests.into_iter().partition(|request| request.takes(value.as_ref())),
            None => (Vec::new(), requests),
        };
        match state {
            FillState::Fresh(_) => {
                // An entry that cannot be used is loaded again.
                others.iter_mut().for_each(|request| request.unusable = written);
                self.pending.append(&mut others);
            }
            FillState::Granted => {
                // If all have the stale value, one of them begins the refresh.
                let is_refresh = others.is_empty() && !is_fresh;
                let first = satisfied.iter_mut().find(|request| request.load.is_some()).filter(|_| is_refresh);
                let refresh = first.map(|request| Request {
                    wants: Wants::Refresh,
                    settings: request.settings,
                    load: request.load.take(),
                    answer: request.answer.take_if(|_| request.wants == Wants::Refresh),
                    unusable: None,
                    until: request.until,
                    made_in: request.made_in.clone(),
                });
                others.extend(refresh);
                self.load(Some(fill), others, if is_refresh { Place::Refresh } else { Place::Fill });
            }
            FillState::Runs { fill: other, .. } => {
                self.shared.counters.waits.add(others.len() as u64);
                match self.loads.iter_mut().find(|load| load.fill == Some(other)) {
                    Some(load) => load.waiters.append(&mut others),
                    None => {
                        take_refreshes(&mut others).for_each(|request| request.answer(Ok(None)));
                        self.elsewhere.append(&mut others);
                        self.wait_elsewhere();
                    }
                }
            }
        }
        if let Some(value) = found {
            satisfied.into_iter().for_each(|request| request.answer(Ok(value.clone())));
        }
    }

    fn loads_without_store(&self) -> bool {
        self.loads.iter().any(|load| load.place == Place::WithoutStore)
    }

    /// Has requests wait for the next load without the store. They cannot join the one that runs: the entry may have been
    /// removed since it began.
    fn wait_without_store(&mut self, mut requests: Vec<Request<V>>, error: &Error) {
        take_refreshes(&mut requests).for_each(|request| request.answer(Err(Failure::Store(error.clone()))));
        if self.loads_without_store() {
            self.shared.counters.waits.add(requests.len() as u64);
        }
        self.next.append(&mut requests);
    }

    /// Waits for the end of the fill of another process.
    fn wait_elsewhere(&mut self) {
        if self.is_waiting || self.elsewhere.is_empty() {
            return;
        }
        self.is_waiting = true;
        let event: BoxFuture<'static, Event<V>> = match &self.subscription {
            Some((subscription, changed)) => {
                let (poll, changed) = (if subscription.is_silent() { SILENT_POLL } else { POLL }, changed.clone());
                Box::pin(async move {
                    let _ = timeout(poll, changed.notified()).await;
                    Event::Changed
                })
            }
            None => {
                let (shared, at) = (self.shared.clone(), self.at.clone());
                Box::pin(async move {
                    let changed = Arc::new(Notify::new());
                    let notified = changed.clone();
                    let notifier = Notifier::new(move || notified.notify_one());
                    let subscribed = shared.store.structures.subscribe_fill(&shared.key, &at, notifier);
                    let subscribed = timeout(POLL, subscribed).await;
                    Event::Subscribed(
                        subscribed.ok().and_then(Result::ok).unwrap_or_else(Subscription::silent),
                        changed,
                    )
                })
            }
        };
        self.events.push(event);
    }

    /// Begins the load of one of these requests.
    fn load(&mut self, fill: Option<FillId>, mut requests: Vec<Request<V>>, place: Place) {
        let Some(first) = requests.iter_mut().find(|request| request.load.is_some()) else {
            return self.pending.append(&mut requests);
        };
        let Some(load) = first.load.take() else { return };
        let settings = first.settings;
        self.last_load += 1;
        let number = self.last_load;
        self.shared.counters.loads.one();
        let loading = Loading {
            cache: Arc::as_ptr(&self.shared).addr(),
            key: self.at.key.clone(),
            fill,
            made_in: first.made_in.clone(),
        };
        // The load around this one is counted, and waits for it.
        let is_limited = place == Place::WithoutStore && loading.made_in.is_none();
        if place == Place::WithoutStore {
            self.shared.counters.loads_without_store.one();
        }
        let limited = is_limited.then(|| (self.shared.clone(), settings.wait));
        let task = tokio::spawn(Arc::new(loading).scope(limited_load(limited, load)));
        let abort = AbortOnDrop(task.abort_handle());
        let job = Job { shared: self.shared.clone(), codec: self.codec.clone(), settings, at: self.at.clone(), fill };
        self.events.push(Box::pin(async move { Event::Loaded { number, answer: job.run(task).await } }));
        self.loads.push(Running { number, fill, place, waiters: requests, _task: abort });
    }
}

/// Whether a request that waits for a load of this process begins its own one after a time.
fn can_be_overdue<V>(request: &Request<V>) -> bool {
    request.made_in.is_some() && request.load.is_some()
}

/// Removes the requests for refreshes.
fn take_refreshes<V>(requests: &mut Vec<Request<V>>) -> impl Iterator<Item = Request<V>> {
    requests.extract_if(.., |request| request.wants == Wants::Refresh)
}

/// Why a load begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Callers wait for the entry.
    Fill,
    /// The callers have the stale entry.
    Refresh,
    /// Another process loads for too long.
    Beside,
    /// The store does not answer.
    WithoutStore,
}

/// Runs a load. While the store is away, their number is limited; one that has waited for this time runs nevertheless, because
/// the others may wait for it.
async fn limited_load<V: Send + Sync + 'static>(
    limited: Option<(Arc<Shared<V>>, Duration)>,
    load: Load<V>,
) -> Result<Option<V>, Failure> {
    let Some((shared, wait)) = limited else { return load.await };
    // The semaphore is never closed.
    let _permit = timeout(wait, shared.loads.acquire()).await;
    load.await
}

/// A load that runs, and the fill that it has.
struct Job<V, C> {
    shared: Arc<Shared<V>>,
    codec: C,
    settings: Settings,
    at: EntryKey,
    fill: Option<FillId>,
}

impl<V: Send + Sync + 'static, C: Encode<V>> Job<V, C> {
    /// Waits for the load, renews its fill, and writes the value.
    async fn run(self, task: JoinHandle<Result<Option<V>, Failure>>) -> Answer<V> {
        let ended = select! {
            ended = task => ended,
            never = self.renew() => match never {},
        };
        let (at, counters) = (self.at.clone(), &self.shared.counters);
        let is_cancelled = ended.as_ref().is_err_and(JoinError::is_cancelled);
        let mut unwritable = None;
        let (answer, bytes) = match ended.unwrap_or(Err(Failure::Panicked)) {
            Ok(Some(value)) => {
                let bytes = Writer::new(&self.shared.store).write(&self.codec, &value);
                unwritable = bytes.as_ref().err().cloned();
                (Ok(Some(Arc::new(value))), bytes.ok().map(Some))
            }
            Ok(None) => (Ok(None), Some(None)),
            Err(failure) => {
                if !is_cancelled {
                    counters.failed_loads.one();
                }
                (Err(failure), None)
            }
        };
        if let Some(error) = &unwritable {
            self.shared.unwritable(error);
        }
        let Some(fill) = self.fill else { return answer };
        let op = match bytes.and_then(|bytes| self.settings.entry(bytes)) {
            Some(entry) => CacheOp::Fill { at, fill, entry },
            // The old value is not the newest one any more.
            None if unwritable.is_some() => CacheOp::Remove(at),
            None => CacheOp::End { at, fill },
        };
        let is_end = matches!(op, CacheOp::End { .. });
        // Without an answer, the fill ends with its lease. The callers do not wait longer for it than a read waits.
        let limit = if self.settings.on_failure == OnFailure::Fail { LEASE } else { self.settings.timeout };
        match timeout(limit, self.send(op)).await {
            Ok(Ok(Reply::Flag(false))) if !is_end => counters.overtaken_loads.one(),
            Ok(Err(error)) => self.shared.refused(&error),
            _ => {}
        }
        if unwritable.is_some() {
            self.shared.store.forget_copies(&self.shared.key, Some(&self.at.key));
        }
        answer
    }

    /// Renews the fill until it is over.
    async fn renew(&self) -> Infallible {
        if let Some(fill) = self.fill {
            loop {
                sleep(LEASE / 3).await;
                let extend = CacheOp::Extend { at: self.at.clone(), fill, lease: LEASE };
                if let Ok(Reply::Flag(false)) = self.send(extend).await {
                    break;
                }
            }
        }
        pending().await
    }

    async fn send(&self, op: CacheOp) -> Result<Reply> {
        let op = Op::new(&self.shared.key, op);
        let late = |_| Err(Error::unavailable("the store did not answer in time"));
        timeout(self.settings.timeout.max(LEASE / 3), self.shared.store.run_one(&op, 0, false))
            .await
            .unwrap_or_else(late)
    }
}
