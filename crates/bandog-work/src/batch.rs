//! Calls of one task that are submitted together, and a call that runs when all of them are done.
//!
//! Elements can wait for each other within one queue only, and each task has its own. So the last call of another task is
//! carried: an element in the queue of the parts waits for them. The worker that gets it pushes the last call, with the same
//! id and with an id of `once`, and then settles it.

use std::{
    future::IntoFuture,
    marker::PhantomData,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bandog_codec::{Encode, TextJson};
use bandog_core::{
    Error, Result,
    queues::{ElementId, NewElement, OnceId, Queues},
};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{
    executor::{Executor, KEEP, Submitted, TaskCall},
    new::{IntoPush, Push, PushAll, PushBatch},
    sender,
    shared::{Shared, decode},
};

/// The first bytes of an element that carries a call. No JSON begins so.
const MARK: &[u8] = b"\x01then ";
/// The time for which a carried call is pushed once, however often its element is delivered.
const WINDOW: Duration = Duration::from_secs(7 * 86_400);

/// Calls of one task that are submitted in one step when this is awaited. Created by [`Executor::submit_all`]. Errors and
/// cancel safety are those of [`PushAll`].
#[must_use = "calls are submitted when this is awaited"]
#[derive(Debug)]
pub struct SubmitAll<R> {
    executor: Executor,
    push: Result<PushAll>,
    result: PhantomData<fn() -> R>,
}

/// Calls of one task, and a last one, that are submitted in one step when this is awaited. Created by [`SubmitAll::then`].
#[must_use = "calls are submitted when this is awaited"]
#[derive(Debug)]
pub struct SubmitBatch<R, L> {
    /// The elements, and the queue of the last call.
    push: Result<(PushBatch, Arc<Shared>)>,
    result: PhantomData<fn() -> (R, L)>,
}

/// Calls that were submitted together.
#[derive(Debug)]
pub struct Batch<R, L> {
    /// The calls, in their order.
    pub parts: Vec<Submitted<R>>,
    /// The one that runs when all of them are done.
    pub last: Submitted<L>,
}

impl Executor {
    /// Submits calls of one task in one step, when this is awaited; with [`SubmitAll::then`], also one that runs when all of them
    /// are done. The most are 10,000 calls and 16 MiB.
    ///
    /// ```
    /// # use bandog::work::{ClientWork, TaskCall, TaskHandler, TaskRun};
    /// # use std::{fmt, time::Duration};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let billing = bandog::connect("memory:").await?.executor("billing")?;
    /// let charge = TaskHandler::new("charge", |_: TaskRun, cents: u64| async move { Ok::<_, fmt::Error>(cents) });
    /// let report = TaskHandler::new("report", |_: TaskRun, day: String| async move { Ok::<_, fmt::Error>(day) });
    /// let workers = billing.workers(4).task(charge).task(report).start()?;
    ///
    /// let charges = [100_u64, 200].map(|cents| TaskCall::<u64>::new("charge", &cents));
    /// let batch = billing.submit_all(charges).then(TaskCall::<String>::new("report", &"Monday")).await?;
    /// assert_eq!(batch.last.result(Duration::from_secs(60)).await?, "Monday");
    /// # Ok(()) }
    /// ```
    pub fn submit_all<R>(&self, calls: impl IntoIterator<Item = TaskCall<R>>) -> SubmitAll<R> {
        SubmitAll::new(self, calls)
    }
}

impl<R> SubmitAll<R> {
    pub(crate) fn new(executor: &Executor, calls: impl IntoIterator<Item = TaskCall<R>>) -> Self {
        let push = (|| {
            let calls: Vec<_> = calls.into_iter().collect();
            let Some(first) = calls.first() else {
                return Err(Error::misused("there is no call to submit: a batch has at least one"));
            };
            let task = first.task;
            if let Some(other) = calls.iter().find(|call| call.task != task) {
                let message =
                    format!("the calls of a batch are of one task, and {:?} is another than {task:?}", other.task);
                return Err(Error::misused(message));
            }
            let push = PushAll::new(&executor.queue(task)?, calls.into_iter().map(|call| call.payload));
            Ok(push.keep_results(KEEP))
        })();
        Self { executor: executor.clone(), push, result: PhantomData }
    }

    fn with(self, set: impl FnOnce(PushAll) -> PushAll) -> Self {
        Self { push: self.push.map(set), ..self }
    }

    /// As [`Push::after`], for each.
    pub fn after(self, delay: Duration) -> Self {
        self.with(|push| push.after(delay))
    }

    /// As [`Push::header`], for each.
    pub fn header(self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.with(|push| push.header(name, value))
    }

    /// As [`Push::at`], for each.
    pub fn at(self, time: SystemTime) -> Self {
        self.with(|push| push.at(time))
    }

    /// As [`Push::priority`], for each.
    pub fn priority(self, priority: u8) -> Self {
        self.with(|push| push.priority(priority))
    }

    /// As [`Push::key`], for each: they run one after another.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.with(|push| push.key(key))
    }

    /// Submits one more call, of any task of this executor, which runs when all others are done. While one of them is dead, or
    /// if one was cancelled, it waits; [`Submitted::cancel`] removes it.
    pub fn then<L>(self, last: TaskCall<L>) -> SubmitBatch<R, L> {
        let push = self.push.and_then(|push| {
            let queue = self.executor.queue(last.task)?;
            let element = if queue.key == push.shared.key {
                Push::new(&queue, last.payload)
            } else {
                Push::new(&push.shared, Carried::of(last).and_then(|carried| carried.write()))
            };
            Ok((push.then(element.keep_result(KEEP)), queue))
        });
        SubmitBatch { push, result: PhantomData }
    }
}

impl<R: 'static> IntoFuture for SubmitAll<R> {
    type Output = Result<Vec<Submitted<R>>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let push = self.push?;
            let queue = push.shared.clone();
            Ok(push.await?.into_iter().map(|pushed| Submitted::new(&queue, pushed.id)).collect())
        })
    }
}

impl<R: 'static, L: 'static> IntoFuture for SubmitBatch<R, L> {
    type Output = Result<Batch<R, L>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (push, of_last) = self.push?;
            let queue = push.0.shared.clone();
            let mut pushed = push.await?;
            let last = pushed.pop().ok_or_else(|| Error::unavailable("the push was not answered").ambiguous())?;
            let parts = pushed.iter().map(|pushed| Submitted::new(&queue, pushed.id)).collect();
            Ok(Batch { parts, last: Submitted::new(&of_last, last.id).carried_in(queue) })
        })
    }
}

impl<R> IntoPush for SubmitAll<R> {
    fn into_push(self) -> Result<(Arc<dyn Queues>, bandog_core::queues::Push)> {
        self.push?.into_push()
    }
}

impl<R, L> IntoPush for SubmitBatch<R, L> {
    fn into_push(self) -> Result<(Arc<dyn Queues>, bandog_core::queues::Push)> {
        self.push?.0.into_push()
    }
}

/// A call that an element in the queue of another task carries.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Carried {
    task: String,
    /// The arguments, as JSON.
    args: String,
}

impl Carried {
    fn of<R>(call: TaskCall<R>) -> Result<Self> {
        let args = String::from_utf8(call.payload?).map_err(|_| Error::misused("the arguments are not UTF-8"))?;
        Ok(Self { task: call.task.to_owned(), args })
    }

    fn write(&self) -> Result<Vec<u8>> {
        let mut bytes = MARK.to_vec();
        TextJson.encode(self, &mut bytes).map_err(|error| Error::misused(error.to_string()))?;
        Ok(bytes)
    }

    /// Reads the payload of an element. None: it is an ordinary call.
    pub(crate) fn read(payload: &[u8]) -> Option<Result<Self>> {
        payload.strip_prefix(MARK).map(|json| decode(&TextJson, json))
    }

    /// Pushes the call, with this id.
    pub(crate) async fn push(self, executor: &Executor, id: ElementId) -> Result<()> {
        let once = OnceId { id: format!("then {id}").into(), window: WINDOW };
        let element =
            NewElement { once: Some(once), keep_result: Some(KEEP), ..NewElement::new(id, self.args.into_bytes()) };
        sender::push_named(&*executor.queue(&self.task)?, element).await
    }
}
