//! One run, carried out as a task: tries, timeouts, pauses between tries, and an end that is always told.

use std::{pin::pin, sync::Arc, time::Duration};

use bandog_core::{Clock, Moment};
use futures_util::future::{AbortHandle, AbortRegistration, Abortable, Either, select};
use tokio::{sync::mpsc, time};
use tracing::Instrument;

use super::{JobId, Msg};
use crate::{
    Run, State,
    cancel::{Cancel, Why},
    job::{Body, attempt},
    meters,
    plan::Ended,
    policy::Policy,
    run::{Facts, Failure},
    trigger::Ms,
};

/// So many runs are begun by one task.
const CHUNK: usize = 128;

/// A hand on a run that is under way.
#[derive(Debug)]
pub(crate) struct Hand {
    pub(crate) job: JobId,
    pub(crate) began: Moment,
    /// The tick and the start of a run that nobody claimed.
    pub(crate) unclaimed: Option<(Ms, Ms)>,
    facts: Arc<Facts>,
    abort: AbortHandle,
}

impl Hand {
    /// Whether the record knows nothing of it.
    pub(crate) fn is_unclaimed(&self) -> bool {
        self.unclaimed.is_some()
    }

    /// Tells the run to stop; after its grace it is dropped.
    pub(crate) fn cancel(&self, why: Why) {
        self.facts.cancel.run(why);
    }

    /// Drops the run where it stands.
    pub(crate) fn drop_now(&self, why: Why) {
        self.cancel(why);
        self.abort.abort();
    }
}

/// A run does not outlive its dispatcher.
impl Drop for Hand {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// What a run needs.
pub(crate) struct Order {
    pub(crate) job: JobId,
    pub(crate) body: Body,
    pub(crate) policy: Arc<Policy>,
    pub(crate) facts: Arc<Facts>,
    /// The first attempt's number.
    pub(crate) attempt: u32,
    /// How much later than due it was begun.
    pub(crate) late: Ms,
    /// When it is too late for another try, if it ever is.
    pub(crate) limit: Option<Box<Limit>>,
}

/// A try must begin before this.
pub(crate) struct Limit {
    pub(crate) clock: Clock,
    pub(crate) until: Moment,
}

impl Limit {
    fn allows(&self, pause: Duration) -> bool {
        self.clock.now() + pause < self.until
    }
}

/// A run that is to begin.
pub(crate) struct Start {
    order: Order,
    abort: AbortRegistration,
}

impl Order {
    /// The hand on it, and what begins it.
    pub(crate) fn prepare(self, began: Moment, unclaimed: Option<(Ms, Ms)>) -> (Hand, Start) {
        let (abort, registration) = AbortHandle::new_pair();
        let hand = Hand { job: self.job, began, unclaimed, facts: Arc::clone(&self.facts), abort };
        (hand, Start { order: self, abort: registration })
    }
}

/// Begins runs as tasks of the current runtime. Very many are begun by other tasks, so that the dispatcher, which is one,
/// has its time for what only it can do.
pub(crate) fn begin(starts: &mut Vec<Start>, mail: &mpsc::UnboundedSender<Msg>) {
    while !starts.is_empty() {
        let some = starts.split_off(starts.len().saturating_sub(CHUNK));
        // Those that begin together share a sender: clones of one would be counted in one place by all workers.
        let mail = Arc::new(mail.clone());
        let begin = move || some.into_iter().for_each(|start| start.begin(Arc::clone(&mail)));
        if starts.is_empty() { begin() } else { drop(tokio::spawn(async move { begin() })) }
    }
}

impl Start {
    fn begin(self, mail: Arc<mpsc::UnboundedSender<Msg>>) {
        let Self { order: Order { job, body, policy, facts, attempt, limit, late }, abort } = self;
        let span = tracing::info_span!("bandog.run", job = %facts.name, tick = %facts.tick, attempt,
            fence = facts.fence.get());
        let report = Report { job, facts, mail, attempt, end: None };
        let carrying = async move {
            meters::began(&report.facts.name, late);
            carry(body, policy, limit, report).await;
        };
        tokio::spawn(Abortable::new(carrying.instrument(span), abort));
    }
}

/// What most runs never come to stands behind a pointer, so that a run is small.
async fn carry(body: Body, policy: Arc<Policy>, limit: Option<Box<Limit>>, mut report: Report) {
    let mut again = 0;
    loop {
        let end = once(&body, &policy, &report).await;
        let failed = match end {
            End::Well => return report.end(State::Ok, None),
            End::Cancelled => return report.end(report.cancelled(), Some("it was cancelled".into())),
            End::Failed(state, error) => (state, error),
        };
        again += 1;
        let in_time = |pause: &Duration| limit.as_ref().is_none_or(|limit| limit.allows(*pause));
        let Some(pause) = policy.retry.pause(again).filter(in_time) else {
            return report.end(failed.0, Some(failed.1));
        };
        let job = &report.facts.name;
        tracing::warn!(%job, error = failed.1, "the job failed; it is tried again in {pause:.1?}");
        if Box::pin(time::timeout(pause, report.facts.cancel.cancelled())).await.is_ok() {
            return report.end(report.cancelled(), Some(failed.1));
        }
        report.attempt += 1;
    }
}

enum End {
    Well,
    Failed(State, String),
    Cancelled,
}

/// One try.
async fn once(body: &Body, policy: &Policy, report: &Report) -> End {
    let cancel = &report.facts.cancel;
    let run = Run::new(Arc::clone(&report.facts), report.attempt);
    let mut going = pin!(attempt(body, run));
    let ending = async {
        match policy.timeout {
            Some(limit) => Box::pin(time::timeout(limit, cancel.cancelled())).await.is_err(),
            None => {
                cancel.cancelled().await;
                false
            }
        }
    };
    let is_late = match select(going.as_mut(), pin!(ending)).await {
        Either::Left((done, _)) => return finished(done, cancel),
        Either::Right((is_late, _)) => is_late,
    };
    cancel.attempt(report.attempt);
    let rest = Box::pin(time::timeout(policy.grace, going)).await;
    match (is_late, rest) {
        // It was nearly done, and did it.
        (_, Ok(None)) => End::Well,
        (true, Ok(Some(Failure(error)))) => End::Failed(State::TimedOut, error),
        (true, Err(_)) => End::Failed(State::TimedOut, took_longer(policy.timeout)),
        (false, Ok(Some(_)) | Err(_)) => End::Cancelled,
    }
}

fn finished(done: Option<Failure>, cancel: &Cancel) -> End {
    match done {
        None => End::Well,
        Some(_) if cancel.why().is_some() => End::Cancelled,
        Some(Failure(error)) => End::Failed(State::Failed, error),
    }
}

fn took_longer(timeout: Option<Duration>) -> String {
    format!("it took longer than {:?}", timeout.unwrap_or_default())
}

/// Tells the dispatcher how the run ended, even if its task is dropped.
struct Report {
    job: JobId,
    facts: Arc<Facts>,
    mail: Arc<mpsc::UnboundedSender<Msg>>,
    attempt: u32,
    end: Option<(State, Option<String>)>,
}

impl Report {
    fn end(&mut self, state: State, error: Option<String>) {
        self.end = Some((state, error));
    }

    fn cancelled(&self) -> State {
        match self.facts.cancel.why() {
            Some(Why::Stop) => State::Interrupted,
            Some(Why::Lost) => State::Lost,
            Some(Why::Asked) | None => State::Cancelled,
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let (state, error) = self.end.take().unwrap_or_else(|| (self.cancelled(), Some("it was dropped".into())));
        let ended = Ended {
            id: self.facts.id,
            fence: self.facts.fence.get(),
            attempt: self.attempt,
            state,
            at: 0,
            error,
            note: self.facts.take_note(),
        };
        // Without a dispatcher nobody is left who wants to know.
        let _ = self.mail.send(Msg::Ended { job: self.job, ended });
    }
}
