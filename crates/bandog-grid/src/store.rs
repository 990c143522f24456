//! What all objects of a grid share: the store, the limits, and the ids of exact operations.

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{
    ClientId, Clock, Error, ErrorKind, Key, Moment, OperationId, PORTION, Portion, Portions, Result,
    messages::{Channel, Messages},
    structures::{Once, Op, Reply, Structures},
};
use bandog_sync::Client;
use tokio::{runtime::Handle, sync::oneshot};

use crate::{cache::CacheReports, limits::Limits, queue::Takers, timed::TimedMaps};

/// Minimum time for which the store remembers an exact operation.
const MIN_REMEMBERED: Duration = Duration::from_secs(30);

/// What all objects of a grid share.
pub(crate) struct Store {
    pub(crate) client: Client,
    pub(crate) structures: Arc<dyn Structures>,
    pub(crate) messages: Option<Arc<dyn Messages>>,
    pub(crate) limits: Limits,
    pub(crate) takers: Takers,
    pub(crate) timed_maps: TimedMaps,
    caches: Mutex<HashMap<Key, Vec<CacheOfType>>>,
    pub(crate) cache_reports: CacheReports,
    in_flight: Arc<InFlight>,
    shared: Shared,
    operations: Operations,
}

/// The type of the values of a cache, and what its handles share.
type CacheOfType = (TypeId, Weak<dyn AnyCache>);

/// What the handles of a cache or of the copies of a map share.
pub(crate) trait AnyCache: Any + Send + Sync {
    /// Removes the copy of an entry; None: all copies.
    fn forget(&self, key: Option<&[u8]>);
}

#[derive(Debug, Default)]
struct InFlight {
    operations: AtomicUsize,
    bytes: AtomicUsize,
}

impl Store {
    pub(crate) fn new(
        client: Client,
        structures: Arc<dyn Structures>,
        messages: Option<Arc<dyn Messages>>,
        limits: Limits,
    ) -> Self {
        Self {
            client,
            structures,
            messages,
            limits,
            takers: Takers::default(),
            timed_maps: TimedMaps::default(),
            caches: Mutex::default(),
            cache_reports: CacheReports::default(),
            in_flight: Arc::default(),
            shared: Shared::default(),
            operations: Operations::new(),
        }
    }

    /// What the handles of the cache with this name share. `make` makes it for the first one.
    pub(crate) fn shared_cache<S: AnyCache>(&self, key: &Key, make: impl FnOnce() -> S) -> Arc<S> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let of_type = |(of, shared): &CacheOfType| match *of == TypeId::of::<S>() {
            true => (shared.upgrade()? as Arc<dyn Any + Send + Sync>).downcast::<S>().ok(),
            false => None,
        };
        if let Some(found) = caches.get(key).and_then(|caches| caches.iter().find_map(of_type)) {
            return found;
        }
        for of_name in caches.values_mut() {
            of_name.retain(|(_, shared)| shared.strong_count() > 0);
        }
        caches.retain(|_, of_name| !of_name.is_empty());
        let made = Arc::new(make());
        let shared: Arc<dyn AnyCache> = made.clone();
        caches.entry(key.clone()).or_default().push((TypeId::of::<S>(), Arc::downgrade(&shared)));
        made
    }

    /// Removes the copies of an entry, or of all entries, whatever the types of their values are.
    pub(crate) fn forget_copies(&self, cache: &Key, entry: Option<&[u8]>) {
        let caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let shared: Vec<_> =
            caches.get(cache).into_iter().flatten().filter_map(|(_, shared)| shared.upgrade()).collect();
        drop(caches); // The last handle of one may be dropped here.
        shared.iter().for_each(|shared| shared.forget(entry));
    }

    pub(crate) fn clock(&self) -> Clock {
        self.client.clock()
    }

    /// The maximum duration of one request.
    pub(crate) fn timeout(&self) -> Duration {
        self.client.profile().request_timeout
    }

    /// Applies operations in their order, in one round trip for each portion of bytes. `bytes` are those of each operation; of
    /// operations without content there may be none. After a round trip that may have been applied without an answer, the later
    /// operations are not sent: the order would be lost.
    pub(crate) async fn run(&self, ops: &[Op], bytes: &[usize]) -> Vec<Result<Reply>> {
        let admitted = match self.admit(ops.len(), bytes.iter().sum()) {
            Ok(admitted) => admitted,
            Err(error) => return vec![Err(error); ops.len()],
        };
        let mut replies = Vec::with_capacity(ops.len());
        let mut is_lost = false;
        while replies.len() < ops.len() && !is_lost {
            let mut portion = Portion::new(ops.len(), PORTION);
            let from = replies.len();
            let fits = |at: &usize| portion.takes(bytes.get(*at).copied().unwrap_or(0));
            let part = &ops[from..][..(from..ops.len()).take_while(fits).count()];
            let mut answers = self.structures.run(part).await;
            answers.resize_with(part.len(), || Err(missing()));
            is_lost = answers.iter().any(|answer| matches!(answer, Err(error) if error.maybe_applied()));
            replies.extend(answers);
        }
        drop(admitted);
        let unsent = || Err(Error::unavailable("an earlier part of the batch had no answer, so this one was not sent"));
        replies.resize_with(ops.len(), unsent);
        replies
    }

    /// Applies operations that keep leases, give elements back, or free memory. The limits of the grid do not refuse them:
    /// each taker has one such request at a time.
    pub(crate) async fn run_always(&self, ops: &[Op]) -> Vec<Result<Reply>> {
        let mut replies = self.structures.run(ops).await;
        replies.resize_with(ops.len(), || Err(missing()));
        replies
    }

    /// Applies one operation, alone if nothing else is in flight, and otherwise together with others that are made at the
    /// same time.
    async fn run_shared(self: &Arc<Self>, op: &Op, bytes: usize) -> Result<Reply> {
        let admitted = self.admit(1, bytes)?;
        if let Some(runtime) = Handle::try_current().ok().filter(|_| !admitted.is_alone) {
            let (reply, answer) = oneshot::channel();
            if self.shared.push(SharedOp { op: op.clone(), reply, admitted }) {
                drop(runtime.spawn(send_shared(Waiting { store: self.clone(), is_taken: false })));
            }
            let ended = || Error::unavailable("the runtime that sent this call for another one has ended").ambiguous();
            if let Some(reply) = answer.await.map_err(|_| ended())? {
                return reply;
            }
        }
        // Not sent: nothing else is in flight, or the task that would have sent it has ended.
        let reply = self.structures.run(std::slice::from_ref(op)).await.pop();
        reply.unwrap_or_else(|| Err(missing()))
    }

    /// Publishes a message. Returns the number of receivers that the store knows.
    pub(crate) async fn publish(&self, to: &dyn Messages, channel: &Channel, payload: Vec<u8>) -> Result<u64> {
        let admitted = self.admit(1, payload.len())?;
        let answer = to.publish(&[(channel.clone(), payload)]).await.pop();
        drop(admitted);
        answer.unwrap_or_else(|| Err(missing()))
    }

    /// Applies one operation. If it is exact, it is repeated until the store has answered it, for three timeouts.
    pub(crate) async fn run_one(self: &Arc<Self>, op: &Op, bytes: usize, is_exact: bool) -> Result<Reply> {
        let (first, mut maybe_applied) = (self.clock().now(), false);
        loop {
            let begin = self.clock().now();
            match self.run_shared(op, bytes).await {
                Err(error) if is_exact && error.is_retryable() && begin.since(first) < self.timeout() * 2 => {
                    maybe_applied |= error.maybe_applied();
                    tokio::time::sleep(Duration::from_millis(20 + fastrand::u64(0..60))).await;
                }
                Err(error) if maybe_applied => return Err(error.ambiguous()),
                reply => return reply,
            }
        }
    }

    /// Counts operations in flight. They are refused if there are too many.
    fn admit(&self, operations: usize, bytes: usize) -> Result<Admitted> {
        let before = self.in_flight.operations.fetch_add(operations, Relaxed);
        let bytes_before = self.in_flight.bytes.fetch_add(bytes, Relaxed);
        let in_flight = self.in_flight.clone();
        let admitted = Admitted { in_flight, operations, bytes, is_alone: before == 0 };
        let Limits { operations: max_operations, bytes: max_bytes, .. } = self.limits;
        // One call may be larger than the limit of bytes, as long as nothing else is in flight.
        let is_full = before + operations > max_operations || bytes_before > 0 && bytes_before + bytes > max_bytes;
        if is_full {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "{before} operations with {bytes_before} bytes are in flight; a grid sends at most {max_operations} \
                     operations and {max_bytes} bytes at the same time (see Limits)"
                ),
            ));
        }
        Ok(admitted)
    }

    /// A new exact operation.
    pub(crate) fn exact(self: &Arc<Self>) -> Exact {
        let remember = MIN_REMEMBERED.max(self.timeout() * 8);
        let (begin, number) = (self.clock().now(), self.operations.begin());
        Exact { begin, maybe_applied: false, number, remember, store: self.clone(), is_answered: false }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("structures", &self.structures).finish_non_exhaustive()
    }
}

/// Operations that are in flight until this is dropped.
#[derive(Debug)]
struct Admitted {
    in_flight: Arc<InFlight>,
    operations: usize,
    bytes: usize,
    /// Whether nothing else was in flight.
    is_alone: bool,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.in_flight.operations.fetch_sub(self.operations, Relaxed);
        self.in_flight.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// Operations that wait for the next round trip.
#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Vec<SharedOp>>,
    portions: Mutex<Portions>,
}

/// An operation that is sent together with others.
#[derive(Debug)]
struct SharedOp {
    op: Op,
    /// Where the answer goes: `None` if the operation was not sent.
    reply: oneshot::Sender<Option<Result<Reply>>>,
    /// The operation is in flight until it is answered, also if its caller has gone.
    admitted: Admitted,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Vec<SharedOp>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn portions(&self) -> MutexGuard<'_, Portions> {
        self.portions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation. Returns whether it is the first one, for which the caller starts [`send_shared`].
    fn push(&self, operation: SharedOp) -> bool {
        let mut waiting = self.waiting();
        waiting.push(operation);
        waiting.len() == 1
    }
}

/// The task that will send the operations that wait. If it ends with its runtime before that, their callers send them, and
/// the next call starts a task.
struct Waiting {
    store: Arc<Store>,
    is_taken: bool,
}

impl Waiting {
    fn take(&mut self) -> Vec<SharedOp> {
        self.is_taken = true;
        std::mem::take(&mut *self.store.shared.waiting())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_taken {
            for SharedOp { reply, .. } in self.take() {
                let _ = reply.send(None);
            }
        }
    }
}

/// Sends the operations that wait, after the tasks that are ready have added theirs. Each portion is a request of its own, so one
/// that is too long for the wire fails alone.
async fn send_shared(mut waiting: Waiting) {
    tokio::task::yield_now().await;
    let (store, taken) = (waiting.store.clone(), waiting.take());
    // A caller that has gone already does not need its operation.
    let wanted = taken.into_iter().filter(|operation| !operation.reply.is_closed());
    let mut wanted = wanted.peekable();
    let mut requests = Vec::new();
    while wanted.peek().is_some() {
        let mut portion = store.shared.portions().next(store.limits.operations);
        requests.push(send_portion(&store, {
            let mut part = Vec::new();
            while let Some(operation) = wanted.next_if(|next| portion.takes(next.admitted.bytes)) {
                part.push(operation);
            }
            part
        }));
    }
    futures_util::future::join_all(requests).await;
}

/// Sends operations in one round trip.
async fn send_portion(store: &Store, part: Vec<SharedOp>) {
    let (ops, waiting): (Vec<Op>, Vec<_>) =
        part.into_iter().map(|SharedOp { op, reply, admitted }| (op, (reply, admitted))).unzip();
    let replies = store.structures.run(&ops).await;
    let is_lost = |reply: &Result<Reply>| matches!(reply, Err(error) if error.maybe_applied());
    match replies.iter().any(is_lost) {
        true => store.shared.portions().failed(),
        false => store.shared.portions().answered(),
    }
    let mut replies = replies.into_iter();
    for (reply, admitted) in waiting {
        drop(admitted);
        let _ = reply.send(Some(replies.next().unwrap_or_else(|| Err(missing()))));
    }
}

fn missing() -> Error {
    Error::new(ErrorKind::Corrupt, "the backend returned fewer answers than operations").ambiguous()
}

/// The exact operations of a grid. Their ids have a client of their own, because the store remembers them for each client.
#[derive(Debug)]
struct Operations {
    client: ClientId,
    state: Mutex<OperationsState>,
}

#[derive(Debug, Default)]
struct OperationsState {
    last: u64,
    /// The operations that a store may still apply: those without an answer, until the store may forget them.
    open: BTreeMap<u64, Option<Moment>>,
}

impl Operations {
    fn new() -> Self {
        Self { client: ClientId::random(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, OperationsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> u64 {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.open.insert(number, None);
        number
    }

    /// The number below which no operation can be repeated or arrive late.
    fn first_open(&self, now: Moment) -> u64 {
        let mut state = self.state();
        while let Some(first) = state.open.first_entry() {
            match first.get() {
                Some(until) if *until <= now => _ = first.remove(),
                _ => return *first.key(),
            }
        }
        state.last + 1
    }
}

/// An exact operation. If it ends without an answer, later operations do not make the store forget it before it cannot
/// arrive any more.
#[derive(Debug)]
pub(crate) struct Exact {
    /// Before the first attempt.
    pub(crate) begin: Moment,
    /// Whether an attempt without an answer may have been applied.
    pub(crate) maybe_applied: bool,
    number: u64,
    remember: Duration,
    store: Arc<Store>,
    is_answered: bool,
}

impl Exact {
    /// The id for the next attempt.
    pub(crate) fn once(&self) -> Once {
        let operations = &self.store.operations;
        Once {
            id: OperationId { client: operations.client, number: self.number },
            remember: self.remember,
            forget_before: operations.first_open(self.store.clock().now()),
        }
    }

    /// Whether the store might not remember the operation any more.
    pub(crate) fn is_old(&self, now: Moment) -> bool {
        now.since(self.begin) >= self.remember / 2
    }

    /// The store has answered, so the operation is not repeated.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Exact {
    fn drop(&mut self) {
        let until = self.store.clock().now() + self.remember;
        let mut state = self.store.operations.state();
        if self.is_answered {
            state.open.remove(&self.number);
        } else {
            state.open.insert(self.number, Some(until));
        }
    }
}
