//! The tasks that make rounds. All requests that wait when a round begins share the round.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bandog_core::{Error, Result};
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc, oneshot},
    task::AbortHandle,
    time::sleep_until,
};

use crate::options::Options;

/// Maximum number of rounds at the same time. Each of them has a connection.
const MAX_ROUNDS: u32 = 4;
/// Maximum interval between the beginnings of two rounds.
const MAX_INTERVAL: Duration = Duration::from_millis(25);
/// A shorter interval is not waited for, because timers are not more exact.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// The run id of a server, and the id of its replication history.
pub(super) type ServerId = Arc<str>;

/// The time limit of WAIT. It is less than half of the timeout of a request, so that a request that has waited for the
/// round before can wait for its own round, too.
pub(crate) fn wait_limit(options: &Options) -> Duration {
    Duration::from_millis(1).max(options.timeout * 2 / 5)
}

/// The connection of a task, on which it makes rounds one after another.
pub(crate) trait Rounds: Send + 'static {
    /// The subject of a request.
    type Subject: Send + 'static;
    /// The answer to a request.
    type Answer: Send + 'static;

    /// Makes a round for these requests, and answers them. Returns whether the round has succeeded.
    fn answer(&mut self, requests: Vec<Request<Self>>) -> impl Future<Output = bool> + Send;
}

/// A call that waits for acknowledgements.
pub(crate) struct Request<R: Rounds + ?Sized> {
    pub(crate) subject: R::Subject,
    pub(crate) answer: oneshot::Sender<Result<R::Answer>>,
}

/// The tasks that make the rounds of one server. They are started by the first request.
pub(crate) struct RoundTasks<R: Rounds>(Mutex<Option<Tasks<R>>>);

struct Tasks<R: Rounds> {
    requests: mpsc::UnboundedSender<Request<R>>,
    handles: Vec<AbortHandle>,
}

/// The state that the tasks share.
struct SharedRounds<R: Rounds> {
    inbox: AsyncMutex<Inbox<R>>,
    /// Duration of the last round that has succeeded, in microseconds.
    lag: AtomicU64,
}

struct Inbox<R: Rounds> {
    requests: mpsc::UnboundedReceiver<Request<R>>,
    /// When the last round began.
    last_start: Option<Instant>,
}

impl<R: Rounds> RoundTasks<R> {
    /// Waits for the answer of a round that begins after this call. If the tasks do not run, they are started on the
    /// runtime of this call, with the connections that `connect` makes.
    ///
    /// # Errors
    /// The error of the round. `Unavailable`: the runtime of the tasks has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped before the round begins, no round is made for it.
    pub(crate) async fn ask(&self, subject: R::Subject, connect: impl Fn() -> R) -> Result<R::Answer> {
        let (answer, acknowledged) = oneshot::channel();
        self.send(Request { subject, answer }, connect);
        let ended = || Error::unavailable("the Tokio runtime of the connections for acknowledgements has ended");
        acknowledged.await.map_err(|_| ended())?
    }

    /// Sends a request to the tasks, and starts them if necessary. If the runtime shuts down, the request is dropped.
    fn send(&self, request: Request<R>, connect: impl Fn() -> R) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*tasks
            && !running.handles.iter().any(AbortHandle::is_finished)
        {
            let _ = running.requests.send(request);
            return;
        }
        // The first request, or the runtime of the earlier tasks has ended.
        let started = Tasks::start(connect);
        let _ = started.requests.send(request);
        *tasks = Some(started);
    }
}

impl<R: Rounds> Default for RoundTasks<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Rounds> fmt::Debug for RoundTasks<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoundTasks").finish_non_exhaustive()
    }
}

impl<R: Rounds> Tasks<R> {
    fn start(connect: impl Fn() -> R) -> Self {
        let (requests, inbox) = mpsc::unbounded_channel();
        let inbox = AsyncMutex::new(Inbox { requests: inbox, last_start: None });
        let shared = Arc::new(SharedRounds { inbox, lag: AtomicU64::new(0) });
        let start = |_| tokio::spawn(make_rounds(shared.clone(), connect())).abort_handle();
        Self { requests, handles: (0..MAX_ROUNDS).map(start).collect() }
    }
}

impl<R: Rounds> Drop for Tasks<R> {
    fn drop(&mut self) {
        self.handles.iter().for_each(AbortHandle::abort);
    }
}

/// Makes rounds on one connection. Ends when the sender of requests is dropped.
async fn make_rounds<R: Rounds>(shared: Arc<SharedRounds<R>>, mut rounds: R) {
    while let Some(requests) = shared.next_requests().await {
        let began = Instant::now();
        if rounds.answer(requests).await {
            let lag = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            shared.lag.store(lag, Ordering::Relaxed);
        }
    }
}

impl<R: Rounds> SharedRounds<R> {
    /// The requests of the next round: all that have arrived when the round begins. None if no further request can
    /// arrive. A request whose caller has given up is dropped.
    async fn next_requests(&self) -> Option<Vec<Request<R>>> {
        let mut inbox = self.inbox.lock().await;
        loop {
            let mut requests = vec![inbox.requests.recv().await?];
            // If each round begins this interval after the one before it, a connection is free for each of them.
            let interval = Duration::from_micros(self.lag.load(Ordering::Relaxed)) / MAX_ROUNDS;
            if let Some(last_start) = inbox.last_start.filter(|_| interval >= MIN_INTERVAL) {
                sleep_until((last_start + interval.min(MAX_INTERVAL)).into()).await;
            }
            while let Ok(request) = inbox.requests.try_recv() {
                requests.push(request);
            }
            requests.retain(|request| !request.answer.is_closed());
            if !requests.is_empty() {
                inbox.last_start = Some(Instant::now());
                return Some(requests);
            }
        }
    }
}
