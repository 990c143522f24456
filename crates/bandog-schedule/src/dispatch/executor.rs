//! Executes one run as a tokio task. The task executes the attempts with their timeouts, waits between them, and
//! reports the end of the run to the dispatcher.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bandog_core::{Clock, Failure, Moment, rounded};
use bandog_sync::Client;
use futures_util::future::{BoxFuture, Either, select};
use tokio::{sync::mpsc, time};
use tracing::Instrument;

use super::{entry::JobId, mailbox::Message};
use crate::{
    Kind, Run, State,
    cancel::{CancelReason, CancelToken},
    job::{Body, run_body},
    meters,
    policy::Policy,
    run::RunInfo,
};

/// Maximum number of runs in a chunk. Each full chunk has a tokio task that spawns the tasks of its runs.
const CHUNK: usize = 128;

/// The dispatcher's handle of a run. A drop of the handle drops the run.
#[derive(Debug)]
pub(crate) struct RunHandle {
    pub(crate) job: JobId,
    pub(crate) started: Moment,
    info: Arc<RunInfo>,
}

impl RunHandle {
    /// Whether the run has no claim. Such a run is not in the job's record.
    pub(crate) fn is_unclaimed(&self) -> bool {
        self.info.kind == Kind::Unclaimed
    }

    /// Asks the run to end. The job's policy sets the grace: the time for which the run can continue after this call.
    /// When the grace is over, the run is dropped.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        self.info.cancel.cancel_run(reason);
    }

    /// The reason of the run's cancellation, if it was cancelled.
    #[cfg(test)]
    pub(crate) fn cancelled(&self) -> Option<CancelReason> {
        self.info.cancel.reason()
    }

    /// Notifies the run that its node stops.
    pub(crate) fn stop(&self) {
        self.info.cancel.stop();
    }

    /// Cancels the run, and drops its future at the await where the future waits.
    pub(crate) fn drop_now(&self, reason: CancelReason) {
        self.cancel(reason);
        self.info.cancel.drop_now();
    }
}

/// Drops the run. The dispatcher owns the handles, so no run outlives its dispatcher.
impl Drop for RunHandle {
    fn drop(&mut self) {
        self.info.cancel.drop_now();
    }
}

/// A run that is ready to start.
pub(crate) struct PreparedRun {
    pub(crate) job: JobId,
    /// The number of the first attempt.
    pub(crate) attempt: u32,
    pub(crate) info: Arc<RunInfo>,
    pub(crate) body: Body,
    pub(crate) policy: Arc<Policy>,
    /// The deadline for retries, if the policy limits their time.
    pub(crate) limit: Option<Box<RetryDeadline>>,
    pub(crate) messages: MessageSender,
}

impl PreparedRun {
    /// The handle of this run.
    pub(crate) fn handle(&self, started: Moment) -> RunHandle {
        RunHandle { job: self.job, started, info: Arc::clone(&self.info) }
    }
}

/// Sends messages to the dispatcher. The runs of a chunk share one sender. If all runs shared a single sender, the
/// worker threads would contend for the sender's reference counter.
pub(crate) type MessageSender = Arc<Outlet>;

/// The connection of a run to its scheduler.
#[derive(Debug)]
pub(crate) struct Outlet {
    messages: mpsc::UnboundedSender<Message>,
    /// The client of the store. None for a scheduler without a store.
    client: Option<Arc<Client>>,
}

/// A deadline: each retry must start before `until`.
pub(crate) struct RetryDeadline {
    pub(crate) clock: Clock,
    pub(crate) until: Moment,
}

impl RetryDeadline {
    /// Whether a retry after this backoff starts before the deadline.
    fn allows(&self, backoff: Duration) -> bool {
        self.clock.now() + backoff < self.until
    }
}

/// Starts the runs of the dispatcher's current round. It takes long to spawn many tasks, and the dispatcher is a single
/// task. So each full chunk of [`CHUNK`] runs is given to a new task, which spawns the tasks of these runs. The
/// dispatcher itself starts only the runs of the last, incomplete chunk.
pub(crate) struct RunStarter {
    runs: Vec<PreparedRun>,
    messages: MessageSender,
}

impl RunStarter {
    /// `client`: the client of the store, if the scheduler has one.
    pub(crate) fn new(messages: mpsc::UnboundedSender<Message>, client: Option<Client>) -> Self {
        Self { runs: Vec::new(), messages: Arc::new(Outlet { messages, client: client.map(Arc::new) }) }
    }

    /// The sender for the next run that is added.
    pub(crate) fn messages(&self) -> MessageSender {
        Arc::clone(&self.messages)
    }

    /// Adds a run. If the run completes a chunk, all runs of the chunk start immediately.
    pub(crate) fn push(&mut self, run: PreparedRun) {
        self.runs.push(run);
        if self.runs.len() == CHUNK {
            let runs = std::mem::replace(&mut self.runs, Vec::with_capacity(CHUNK));
            let Outlet { messages, client } = &*self.messages;
            let client = client.as_deref().map(|client| Arc::new(client.clone()));
            self.messages = Arc::new(Outlet { messages: messages.clone(), client });
            tokio::spawn(async move { runs.into_iter().for_each(PreparedRun::begin) });
        }
    }

    /// Starts the added runs that have not started yet: the runs of the incomplete chunk.
    pub(crate) fn begin(&mut self) {
        self.runs.drain(..).for_each(PreparedRun::begin);
    }
}

/// The tokio task of a run. The task is small, because a hundred thousand runs might start at the same time. The future
/// of the run is allocated at the first poll, by the worker thread that executes the run. The reason: an allocation is
/// slow if one thread allocates the memory and another thread frees it.
enum RunTask {
    Prepared(Option<PreparedRun>),
    Executing(Arc<RunInfo>, BoxFuture<'static, ()>),
}

impl Future for RunTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut *self {
                Self::Executing(info, future) => return info.cancel.until_dropped(future.as_mut(), context),
                Self::Prepared(run) => {
                    let Some(run) = run.take() else { return Poll::Ready(()) };
                    *self = Self::Executing(Arc::clone(&run.info), run.execute());
                }
            }
        }
    }
}

impl PreparedRun {
    fn begin(self) {
        tokio::spawn(RunTask::Prepared(Some(self)));
    }

    fn execute(self) -> BoxFuture<'static, ()> {
        let Self { job, attempt, info, body, policy, limit, messages } = self;
        // The report is created first. So the end of the run is reported even if the user's `tracing` subscriber
        // panics.
        Box::pin(execute(body, policy, limit, EndReport { job, info, messages, attempt, end: None }))
    }
}

/// Executes the attempts of a run. Futures that most runs do not need are boxed. So a run takes little memory.
async fn execute(body: Body, policy: Arc<Policy>, limit: Option<Box<RetryDeadline>>, mut report: EndReport) {
    meters::began(&report.info);
    let mut retries = 0;
    loop {
        let span = report.span();
        let end = run_attempt(&body, &policy, &report).instrument(span.clone()).await;
        let failed = match end {
            AttemptEnd::Ok => return report.end(State::Ok, None),
            AttemptEnd::Cancelled => return report.end(report.cancelled(), Some("it was cancelled".into())),
            AttemptEnd::Failed(state, failure) => (state, failure),
        };
        retries += 1;
        // Whether the retry after this backoff starts before the deadline.
        let in_time = |backoff: &Duration| limit.as_ref().is_none_or(|limit| limit.allows(*backoff));
        let (job, error) = (&report.info.name, failed.1.text().to_owned());
        let Some(backoff) = policy.retry.backoff(retries).filter(in_time) else {
            return report.end(failed.0, Some(error));
        };
        if failed.1.permanent().is_some() {
            span.in_scope(|| {
                tracing::error!(%job, error, "the job failed, and is not retried, because it can never succeed");
            });
            return report.end(failed.0, Some(error));
        }
        span.in_scope(|| tracing::warn!(%job, error, "the job failed; the retry starts in {}", rounded(backoff)));
        if Box::pin(time::timeout(backoff, report.info.cancel.cancelled())).await.is_ok() {
            return report.end(report.cancelled(), Some(error));
        }
        report.attempt += 1;
    }
}

/// How an attempt ended.
enum AttemptEnd {
    Ok,
    /// The state of the run if there is no retry, and the failure.
    Failed(State, Failure),
    Cancelled,
}

/// Executes one attempt.
async fn run_attempt(body: &Body, policy: &Policy, report: &EndReport) -> AttemptEnd {
    let cancel = &report.info.cancel;
    let run = Run::new(Arc::clone(&report.info), report.attempt, report.messages.client.clone());
    let mut body_future = pin!(run_body(body, run));
    // Waits until the attempt has to end. Returns true if the attempt has reached the timeout, false if the run was
    // cancelled.
    let ending = async {
        match policy.timeout {
            Some(limit) => Box::pin(time::timeout(limit, cancel.cancelled())).await.is_err(),
            None => {
                cancel.cancelled().await;
                false
            }
        }
    };
    let is_timeout = match select(body_future.as_mut(), pin!(ending)).await {
        Either::Left((done, _)) => return finished(done, cancel, report.attempt),
        Either::Right((is_timeout, _)) => is_timeout,
    };
    cancel.cancel_attempt(report.attempt);
    // The result of the body if the body ends within the job's grace, otherwise an error.
    let rest = Box::pin(time::timeout(policy.grace, body_future)).await;
    match (is_timeout, rest) {
        // The body succeeded within the job's grace, and was not cut short.
        (_, Ok(None)) if !cancel.is_observed(report.attempt) => AttemptEnd::Ok,
        (true, Ok(Some(failure))) => AttemptEnd::Failed(State::TimedOut, failure),
        (true, Ok(None) | Err(_)) => AttemptEnd::Failed(State::TimedOut, Failure::new(timeout_text(policy.timeout))),
        (false, _) => AttemptEnd::Cancelled,
    }
}

/// The end of an attempt whose body has returned. `done`: the failure, if the body failed. The cause of the end decides,
/// not the result: a body that has observed the cancellation may have done half of its work.
fn finished(done: Option<Failure>, cancel: &CancelToken, attempt: u32) -> AttemptEnd {
    match done {
        None if !cancel.is_observed(attempt) => AttemptEnd::Ok,
        None => AttemptEnd::Cancelled,
        Some(_) if cancel.reason().is_some() => AttemptEnd::Cancelled,
        Some(failure) => AttemptEnd::Failed(State::Failed, failure),
    }
}

/// The error of an attempt that has exceeded this timeout.
fn timeout_text(timeout: Option<Duration>) -> String {
    format!("it took longer than {:?}", timeout.unwrap_or_default())
}

/// Reports the end of a run to the dispatcher when this value is dropped. So the end is also reported if the run panics
/// or is dropped.
struct EndReport {
    job: JobId,
    info: Arc<RunInfo>,
    messages: MessageSender,
    /// The number of the current attempt.
    attempt: u32,
    /// The state and the error with which the run ended. None if the run was dropped before its end.
    end: Option<(State, Option<String>)>,
}

impl EndReport {
    /// The span of the current attempt.
    fn span(&self) -> tracing::Span {
        let Self { info, attempt, .. } = self;
        tracing::info_span!("bandog.run", job = %info.name, tick = %info.tick, attempt, fence = info.fence.get())
    }

    /// Sets the end of the run.
    fn end(&mut self, state: State, error: Option<String>) {
        self.end = Some((state, error));
    }

    /// The state of a run that was cancelled. The state depends on the reason of the cancellation.
    fn cancelled(&self) -> State {
        match self.info.cancel.reason() {
            Some(CancelReason::NodeStops) => State::Interrupted,
            Some(CancelReason::SessionLost) => State::Lost,
            Some(CancelReason::Requested) | None => State::Cancelled,
        }
    }
}

impl Drop for EndReport {
    fn drop(&mut self) {
        let (state, error) = self.end.take().unwrap_or_else(|| (self.cancelled(), Some("it was dropped".into())));
        let (job, info, attempt) = (self.job, Arc::clone(&self.info), self.attempt);
        // The text that the job's body has set for the run's history entry.
        let note = info.take_note();
        // The send fails if the dispatcher has ended. Then nothing needs the message.
        let _ = self.messages.messages.send(Message::RunEnded { job, attempt, state, info, error, note });
    }
}
