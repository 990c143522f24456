//! A lane: one connection, and the task that executes requests on it, in their order.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bandog_core::{Error, Result, rounded};
use bandog_net::{Backoff, random_fraction, retryable};
use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, sleep_until, timeout, timeout_at},
};

use crate::{
    apply::Steps,
    context::{Context, CountedLane},
    dial::is_full,
    job::{Job, Request, Work},
    mutexes::Renewals,
    session::Session,
    swaps::SwapCalls,
};

/// Number of requests that wait in a lane. Further callers wait until there is room, in their order.
const CAPACITY: usize = 1024;
/// Maximum number of calls that are taken from the queue together.
const MAX_CALLS: usize = 64;
/// Maximum number of steps that are executed together, unless one call has more. With more steps, the server needs more time
/// for each of them.
const MAX_STEPS: usize = 64;
/// Maximum number of attempts at a request that other transactions disturb. Each attempt lasts as long as the timeout of
/// a lock at most, so the deadline of the request is usually earlier.
const MAX_ATTEMPTS: u32 = 50;
/// Maximum delay before a request is repeated for the first time. Each further maximum is twice the last one, up to
/// [`MAX_RETRY_DELAY`].
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(1);
const MAX_RETRY_DELAY: Duration = Duration::from_millis(10);
/// A lane ends a request by this part of the timeout before its caller stops waiting. So the caller gets the answers that
/// are known.
const PART_FOR_ANSWER: u32 = 20;

/// A connection for one purpose, and its queue. Renewals have a lane of their own, so they never wait for other requests.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// The queue of the task. None until the first request.
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    /// Whether the server had no free connection for the last attempt.
    is_refused: Arc<AtomicBool>,
    /// Whether the task connects at its start, and again when the connection ends, without a request.
    reconnects: bool,
}

impl Lane {
    /// A lane that keeps its connection open. So a client learns soon that the server has restarted.
    pub(crate) fn reconnecting() -> Self {
        Self { reconnects: true, ..Self::default() }
    }

    /// Starts the task, if it does not run.
    pub(crate) fn open(&self, context: &Arc<Context>) {
        drop(self.running(context));
    }

    /// Whether the server had no free connection for the last attempt.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Does this work until the deadline, and returns its answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the work may still be done.
    pub(crate) async fn call<T>(
        &self,
        context: &Arc<Context>,
        deadline: Instant,
        work: impl FnOnce(oneshot::Sender<T>) -> Work,
    ) -> Result<T> {
        let limit = context.options.timeout;
        let (reply, answer) = oneshot::channel();
        let work = work(reply);
        let late = || {
            let error =
                Error::unavailable(format!("{} did not answer within {}", context.options.store(), rounded(limit)));
            error.ambiguous()
        };
        let answered = async {
            let queue = self.running(context);
            let ended = || Error::unavailable("the Tokio runtime of the connection has shut down");
            queue.send(Job { deadline: deadline - limit / PART_FOR_ANSWER, work }).await.map_err(|_| ended())?;
            drop(queue);
            answer.await.map_err(|_| ended().ambiguous())
        };
        timeout_at(deadline.into(), answered).await.unwrap_or_else(|_| Err(late()))
    }

    /// The queue of the task. If there is no task, or if its runtime has ended, a task is started on the runtime of the
    /// caller.
    fn running(&self, context: &Arc<Context>) -> mpsc::Sender<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match &*queue {
            Some(running) if !running.is_closed() => running.clone(),
            Some(_) | None => {
                let (sender, jobs) = mpsc::channel(CAPACITY);
                tokio::spawn(serve(context.clone(), jobs, self.reconnects, self.is_refused.clone()));
                queue.insert(sender).clone()
            }
        }
    }
}

/// The task of a lane. It ends when the lane is dropped.
async fn serve(context: Arc<Context>, mut jobs: mpsc::Receiver<Job>, reconnects: bool, is_refused: Arc<AtomicBool>) {
    let backoff = Backoff::default();
    let (session, opening, counted, refused, opened) = (None, None, None, None, None);
    let mut server = Server { context, session, opening, counted, reconnects, backoff, refused, is_refused, opened };
    let (mut waiting, mut left) = (VecDeque::with_capacity(MAX_CALLS), None);
    loop {
        while waiting.len() < MAX_CALLS
            && let Ok(job) = jobs.try_recv()
        {
            waiting.push_back(job);
        }
        let late = || late(&server.context.options.store());
        match join_calls(left.take(), &mut waiting, late) {
            Some(joined) => left = server.execute(joined).await,
            None => match server.next(&mut jobs).await {
                Some(job) => waiting.push_back(job),
                None => break,
            },
        }
    }
    if let Some(session) = server.session.take() {
        session.close().await;
    }
}

/// Calls that are executed together, and the latest of their deadlines.
struct Joined {
    calls: Calls,
    deadline: Instant,
}

enum Calls {
    Apply(Steps),
    Renew(Renewals),
    Swap(SwapCalls),
    Other(Box<dyn Request>),
}

impl Joined {
    fn of(Job { deadline, work }: Job) -> Self {
        let calls = match work {
            Work::Apply(steps, reply) => {
                let mut call = Steps::default();
                call.add(steps, deadline, reply);
                Calls::Apply(call)
            }
            Work::Renew(claims, reply) => {
                let mut call = Renewals::default();
                call.add(claims, reply);
                Calls::Renew(call)
            }
            Work::Swap(swaps, reply) => {
                let mut call = SwapCalls::default();
                call.add(swaps, reply);
                Calls::Swap(call)
            }
            Work::Other(request) => Calls::Other(request),
        };
        Self { calls, deadline }
    }

    /// Adds a call of the same kind. Returns the call if it must be executed later.
    fn add(&mut self, Job { deadline, work }: Job) -> Option<Job> {
        match (&mut self.calls, work) {
            (Calls::Apply(call), Work::Apply(steps, reply)) if call.len() + steps.len() <= MAX_STEPS => {
                call.add(steps, deadline, reply);
            }
            (Calls::Renew(call), Work::Renew(claims, reply)) => call.add(claims, reply),
            (Calls::Swap(call), Work::Swap(swaps, reply)) if call.has_room_for(&swaps) => call.add(swaps, reply),
            (_, work) => return Some(Job { deadline, work }),
        }
        self.deadline = deadline;
        None
    }
}

/// Joins the first calls with what is left of earlier ones, as far as they are of the same kind. Calls whose deadline has
/// passed are not executed. They get the error `late`. Returns None if no call waits.
fn join_calls(left: Option<Joined>, waiting: &mut VecDeque<Job>, late: impl Fn() -> Error) -> Option<Joined> {
    let (mut joined, now) = (left, Instant::now());
    while let Some(job) = waiting.pop_front() {
        if job.deadline <= now {
            job.work.refuse(late());
            continue;
        }
        match &mut joined {
            None => joined = Some(Joined::of(job)),
            Some(joined) => {
                if let Some(job) = joined.add(job) {
                    waiting.push_front(job);
                    break;
                }
            }
        }
    }
    joined
}

/// The connection of a lane.
struct Server {
    context: Arc<Context>,
    session: Option<Session>,
    /// The attempt to connect, from its delay on. No request stops it: the server would count a session that no client uses.
    opening: Option<BoxFuture<'static, Result<Session>>>,
    /// Counts this lane while it has a session.
    counted: Option<CountedLane>,
    /// Whether it connects without a request.
    reconnects: bool,
    /// The delays between connection attempts.
    backoff: Backoff,
    /// The end of the delay after a failed attempt, and its error.
    refused: Option<(Instant, Error)>,
    /// Whether the server had no free connection for the last attempt. Other lanes serve the requests meanwhile.
    is_refused: Arc<AtomicBool>,
    /// When the last connection was opened. None before the first.
    opened: Option<Instant>,
}

impl Server {
    /// Waits for a job. Notices meanwhile if the connection ends. Returns None if no job will come.
    async fn next(&mut self, jobs: &mut mpsc::Receiver<Job>) -> Option<Job> {
        loop {
            let Some(session) = &mut self.session else {
                // After an error that is not retryable, such as a refused login, the next request connects.
                let reconnects = self.reconnects || self.is_refused.load(Ordering::Relaxed);
                let may_connect = self.refused.as_ref().is_none_or(|(_, error)| error.is_retryable());
                let connects = self.opening.is_some() || reconnects && may_connect;
                tokio::select! {
                    biased;
                    job = jobs.recv() => return job,
                    _ = self.session(), if connects => continue,
                }
            };
            tokio::select! {
                biased;
                job = jobs.recv() => return job,
                _ = session.ended() => self.lose_session(),
            }
        }
    }

    /// Executes calls. Returns those that have no answer yet.
    async fn execute(&mut self, joined: Joined) -> Option<Joined> {
        let Joined { calls, deadline } = joined;
        match calls {
            Calls::Apply(mut steps) => {
                let failed = self.attempt(deadline, &mut steps).await;
                if failed.is_none() && steps.keep_open_calls(|| late(&self.context.options.store())) {
                    return Some(Joined { calls: Calls::Apply(steps), deadline });
                }
                steps.finish(failed);
            }
            Calls::Renew(mut renewals) => {
                let failed = self.attempt(deadline, &mut renewals).await;
                renewals.finish(failed);
            }
            Calls::Swap(mut swaps) => {
                let failed = self.attempt(deadline, &mut swaps).await;
                swaps.finish(failed);
            }
            Calls::Other(mut request) => {
                let failed = self.attempt(deadline, &mut *request).await;
                request.finish(failed);
            }
        }
        None
    }

    /// Executes a request until it succeeds, fails for good, or its deadline has passed. Returns the error.
    async fn attempt<R: Request + ?Sized>(&mut self, deadline: Instant, request: &mut R) -> Option<Error> {
        let context = self.context.clone();
        let store = context.options.store();
        let late = || late(&store);
        if deadline <= Instant::now() {
            // The requests before this one took too long.
            return Some(self.refused.clone().map_or_else(late, |(_, error)| error));
        }
        let mut attempts = 0;
        loop {
            let session = match timeout_at(deadline.into(), self.session()).await {
                Ok(Ok(session)) => session,
                Ok(Err(error)) => return Some(error),
                Err(_) => return Some(self.refused.clone().map_or_else(late, |(_, error)| error)),
            };
            attempts += 1;
            let run = session.drive(|link| request.run(link, &context));
            let fault = match timeout_at(deadline.into(), run).await {
                Ok(Ok(())) => return None,
                Ok(Err(fault)) => fault,
                Err(_) => {
                    self.lose_session();
                    return Some(late().ambiguous());
                }
            };
            let limit = context.options.timeout;
            let is_clean = !fault.ends_session() && matches!(timeout(limit, session.roll_back()).await, Ok(Ok(())));
            if !is_clean {
                self.lose_session();
            }
            if !is_clean || !fault.is_transient() || attempts == MAX_ATTEMPTS {
                return Some(fault.describe(&store));
            }
            let delay = FIRST_RETRY_DELAY * 2_u32.saturating_pow(attempts - 1);
            sleep(delay.min(MAX_RETRY_DELAY).mul_f64(random_fraction())).await;
        }
    }

    /// The session. Connects if there is none.
    async fn session(&mut self) -> Result<&mut Session> {
        if self.session.is_none() {
            let opening = self.opening.get_or_insert_with(|| {
                let (context, is_refused) = (self.context.clone(), self.is_refused.clone());
                let until = self.refused.as_ref().map_or_else(Instant::now, |(until, _)| *until);
                Box::pin(async move {
                    sleep_until(until.into()).await;
                    // Calls may wait for this attempt.
                    is_refused.store(false, Ordering::Relaxed);
                    Session::open(&context).await
                })
            });
            let opened = opening.await;
            self.opening = None;
            let is_refused = opened.as_ref().is_err_and(is_full);
            self.is_refused.store(is_refused, Ordering::Relaxed);
            if is_refused {
                self.context.yield_to_lanes();
            }
            match opened {
                Ok(session) => {
                    self.context.connected(self.opened.is_some());
                    (self.opened, self.refused) = (Some(Instant::now()), None);
                    self.counted = Some(CountedLane::new(&self.context));
                    self.session = Some(session);
                }
                Err(error) => {
                    let error = if self.opened.is_some() { retryable(error) } else { error };
                    self.refused = Some((Instant::now() + self.backoff.next_delay(), error.clone()));
                    return Err(error);
                }
            }
        }
        self.session.as_mut().ok_or_else(|| Error::unavailable("no connection"))
    }

    /// Closes the connection. Requests that have not reached the server are discarded.
    fn lose_session(&mut self) {
        if let Some(session) = self.session.take() {
            session.discard();
        }
        self.counted = None;
        if let Some(opened) = self.opened {
            self.backoff.connection_lasted(opened.elapsed());
        }
    }
}

/// The error of a request whose deadline has passed.
fn late(store: &str) -> Error {
    Error::unavailable(format!("{store} did not answer in time"))
}

#[cfg(test)]
mod tests;
