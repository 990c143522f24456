//! One run, carried out as a task: tries, timeouts, pauses between tries, and an end that is told while there is a
//! dispatcher.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bandog_core::{Clock, Moment};
use futures_util::future::{BoxFuture, Either, select};
use tokio::{sync::mpsc, time};
use tracing::Instrument;

use super::{JobId, Msg};
use crate::{
    Kind, Run, State,
    cancel::{Cancel, Why},
    job::{Body, attempt},
    meters,
    policy::Policy,
    run::{Facts, Failure},
};

/// So many runs are begun by one task.
const CHUNK: usize = 128;

/// A hand on a run that is under way.
#[derive(Debug)]
pub(crate) struct Hand {
    pub(crate) job: JobId,
    pub(crate) began: Moment,
    facts: Arc<Facts>,
}

impl Hand {
    /// Whether the record knows nothing of it.
    pub(crate) fn is_unclaimed(&self) -> bool {
        self.facts.kind == Kind::Unclaimed
    }

    /// Tells the run to stop; after its grace it is dropped.
    pub(crate) fn cancel(&self, why: Why) {
        self.facts.cancel.run(why);
    }

    /// Tells the run that its node begins to stop.
    pub(crate) fn stop(&self) {
        self.facts.cancel.stop();
    }

    /// Drops the run where it stands.
    pub(crate) fn drop_now(&self, why: Why) {
        self.cancel(why);
        self.facts.cancel.drop_now();
    }
}

/// A run does not outlive its dispatcher.
impl Drop for Hand {
    fn drop(&mut self) {
        self.facts.cancel.drop_now();
    }
}

/// What a run needs.
pub(crate) struct Order {
    pub(crate) job: JobId,
    /// The first attempt's number.
    pub(crate) attempt: u32,
    pub(crate) facts: Arc<Facts>,
    pub(crate) body: Body,
    pub(crate) policy: Arc<Policy>,
    /// When it is too late for another try, if it ever is.
    pub(crate) limit: Option<Box<Limit>>,
    pub(crate) mail: Mail,
}

impl Order {
    /// A hand on its run.
    pub(crate) fn hand(&self, began: Moment) -> Hand {
        Hand { job: self.job, began, facts: Arc::clone(&self.facts) }
    }
}

/// Runs share a sender, but not all of them one: its users would be counted in one place by all workers.
pub(crate) type Mail = Arc<mpsc::UnboundedSender<Msg>>;

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

/// Runs that are to begin, as tasks of the current runtime. Very many are begun by other tasks, so that the dispatcher,
/// which is one, has its time for what only it can do.
pub(crate) struct Starts {
    orders: Vec<Order>,
    mail: Mail,
}

impl Starts {
    pub(crate) fn new(mail: mpsc::UnboundedSender<Msg>) -> Self {
        Self { orders: Vec::new(), mail: Arc::new(mail) }
    }

    /// The sender of those that begin next.
    pub(crate) fn mail(&self) -> Mail {
        Arc::clone(&self.mail)
    }

    /// Begins many together once there are so many.
    pub(crate) fn push(&mut self, order: Order) {
        self.orders.push(order);
        if self.orders.len() == CHUNK {
            let orders = std::mem::replace(&mut self.orders, Vec::with_capacity(CHUNK));
            self.mail = Arc::new((*self.mail).clone());
            tokio::spawn(async move { orders.into_iter().for_each(Order::begin) });
        }
    }

    /// Begins the rest.
    pub(crate) fn begin(&mut self) {
        self.orders.drain(..).for_each(Order::begin);
    }
}

/// A run's task. It is small, and what it needs beside is made by the worker that carries it out: a hundred thousand may
/// begin at once, and memory that one worker makes and another drops is slow.
enum Carrying {
    Waits(Option<Order>),
    Goes(Arc<Facts>, BoxFuture<'static, ()>),
}

impl Future for Carrying {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut *self {
                Self::Goes(facts, going) => return facts.cancel.until_dropped(going.as_mut(), context),
                Self::Waits(order) => {
                    let Some(order) = order.take() else { return Poll::Ready(()) };
                    *self = Self::Goes(Arc::clone(&order.facts), order.carry());
                }
            }
        }
    }
}

impl Order {
    fn begin(self) {
        tokio::spawn(Carrying::Waits(Some(self)));
    }

    fn carry(self) -> BoxFuture<'static, ()> {
        let Self { job, attempt, facts, body, policy, limit, mail } = self;
        // It is made first: from here on the end is told, whatever the listeners of a user do.
        let report = Report { job, facts, mail, attempt, end: None };
        let facts = &report.facts;
        let span = tracing::info_span!("bandog.run", job = %facts.name, tick = %facts.tick, attempt,
            fence = facts.fence.get());
        Box::pin(carry(body, policy, limit, report).instrument(span))
    }
}

/// What most runs never come to stands behind a pointer, so that a run is small.
async fn carry(body: Body, policy: Arc<Policy>, limit: Option<Box<Limit>>, mut report: Report) {
    meters::began(&report.facts);
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

/// Tells the dispatcher how the run ended, even if it is dropped or panics.
struct Report {
    job: JobId,
    facts: Arc<Facts>,
    mail: Mail,
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
        let (job, facts, attempt) = (self.job, Arc::clone(&self.facts), self.attempt);
        let note = facts.take_note();
        // Without a dispatcher nobody is left who wants to know.
        let _ = self.mail.send(Msg::Ended { job, attempt, state, facts, error, note });
    }
}
