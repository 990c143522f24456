//! Executors: named tasks, which other programs submit and these programs run.

use std::{
    collections::HashMap,
    fmt,
    future::IntoFuture,
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bandog_codec::{Decode, Encode, TextJson};
use bandog_core::{
    Error, ErrorKind, Result,
    queues::{Change, ElementId, ElementRow, Outcome, Queues},
};
use bandog_sync::Client;
use futures_util::future::BoxFuture;

use crate::{
    new::{IntoPush, Push},
    results,
    shared::{Shared, decode},
};

/// The time for which results are kept, unless something else is said.
pub(crate) const KEEP: Duration = Duration::from_secs(3600);
/// The time for which a cancellation waits for the worker that pushes the call.
const CARRIED: Duration = Duration::from_secs(30);

/// Runs tasks by name in other programs. Created by [`ClientWork::executor`](crate::ClientWork::executor). Clones are the
/// same executor.
///
/// A task is a function with the attribute [`task`](https://docs.rs/bandog/latest/bandog/attr.task.html). Each task has a work
/// queue of its own, `NAME/TASK`: calls of a task that no program knows yet wait in it.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    name: Arc<str>,
    /// The queue of each task.
    queues: Arc<Mutex<HashMap<String, Arc<Shared>>>>,
}

/// A task with its arguments, for [`Executor::submit`]. Made by the attribute `task`.
#[derive(Debug)]
pub struct TaskCall<R> {
    pub(crate) task: &'static str,
    pub(crate) payload: Result<Vec<u8>>,
    result: PhantomData<fn() -> R>,
}

impl<R> TaskCall<R> {
    /// A call of the task with this name. Its arguments are written as JSON.
    pub fn new<A>(task: &'static str, args: &A) -> Self
    where
        TextJson: Encode<A>,
    {
        let mut payload = Vec::new();
        let encoded = TextJson.encode(args, &mut payload);
        let payload = encoded.map(|()| payload).map_err(|error| Error::misused(error.to_string()));
        Self { task, payload, result: PhantomData }
    }
}

impl Executor {
    pub(crate) fn new(client: &Client, name: &str) -> Result<Self> {
        Shared::new(client, name)?; // The store has work queues, and the name is allowed.
        Ok(Self { client: client.clone(), name: name.into(), queues: Arc::default() })
    }

    /// The name, without the prefix of the client.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queue of a task.
    pub(crate) fn queue(&self, task: &str) -> Result<Arc<Shared>> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(task) {
            return Ok(queue.clone());
        }
        let queue = Shared::new(&self.client, &format!("{}/{task}", self.name))?;
        queues.insert(task.to_owned(), queue.clone());
        Ok(queue)
    }

    /// Submits a call, when this is awaited.
    pub fn submit<R>(&self, call: TaskCall<R>) -> Submit<R> {
        let push = self.queue(call.task).map(|queue| Push::new(&queue, call.payload).keep_result(KEEP));
        Submit { push, result: PhantomData }
    }

    /// A call that was submitted before, by the name of its task and its id. That of
    /// [`SubmitAll::then`](crate::SubmitAll::then) is known when the others are done.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the name is not allowed.
    pub fn submitted<R>(&self, task: &str, id: ElementId) -> Result<Submitted<R>> {
        Ok(Submitted::new(&self.queue(task)?, id))
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A call that is submitted when this is awaited. Created by [`Executor::submit`]. Errors and cancel safety are those of
/// [`Push`].
#[must_use = "a call is submitted when this is awaited"]
#[derive(Debug)]
pub struct Submit<R> {
    pub(crate) push: Result<Push>,
    result: PhantomData<fn() -> R>,
}

impl<R> Submit<R> {
    fn with(self, set: impl FnOnce(Push) -> Push) -> Self {
        Self { push: self.push.map(set), ..self }
    }

    /// As [`Push::after`].
    pub fn after(self, delay: Duration) -> Self {
        self.with(|push| push.after(delay))
    }

    /// As [`Push::header`].
    pub fn header(self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.with(|push| push.header(name, value))
    }

    /// As [`Push::at`].
    pub fn at(self, time: SystemTime) -> Self {
        self.with(|push| push.at(time))
    }

    /// As [`Push::priority`].
    pub fn priority(self, priority: u8) -> Self {
        self.with(|push| push.priority(priority))
    }

    /// As [`Push::once`].
    pub fn once(self, id: impl AsRef<str>, window: Duration) -> Self {
        self.with(|push| push.once(id, window))
    }

    /// As [`Push::key`]: calls of the same task with the same key run one after another.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.with(|push| push.key(key))
    }

    /// The time for which the result is kept after the end. Default: 1 h.
    pub fn keep_result(self, time: Duration) -> Self {
        self.with(|push| push.keep_result(time))
    }
}

impl<R: 'static> IntoFuture for Submit<R> {
    type Output = Result<Submitted<R>>;
    type IntoFuture = BoxFuture<'static, Result<Submitted<R>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let push = self.push?;
            let queue = push.shared.clone();
            Ok(Submitted::new(&queue, push.await?.id))
        })
    }
}

impl<R> IntoPush for Submit<R> {
    fn into_push(self) -> Result<(Arc<dyn Queues>, bandog_core::queues::Push)> {
        self.push?.into_push()
    }
}

/// A call that was submitted.
#[derive(Debug)]
pub struct Submitted<R> {
    queue: Arc<Shared>,
    /// The queue in which an element with the same id carries the call, until others are done.
    carrier: Option<Arc<Shared>>,
    id: ElementId,
    result: PhantomData<fn() -> R>,
}

/// Why a call has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// It has not ended in this time.
    Late,
    /// It has failed too often; the text is its last error. An operator can retry it.
    Failed(String),
    /// It was cancelled.
    Cancelled,
    /// The store has failed, the call is not known (`ErrorKind::Lost`), or its result cannot be read.
    Store(Error),
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late => f.write_str("the task has not ended in time"),
            Self::Failed(error) => write!(f, "the task has failed: {error}"),
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TaskError {}

impl<R> Submitted<R> {
    pub(crate) fn new(queue: &Arc<Shared>, id: ElementId) -> Self {
        Self { queue: queue.clone(), carrier: None, id, result: PhantomData }
    }

    /// The call is carried by an element in this queue, unless that is its own queue.
    pub(crate) fn carried_in(self, queue: Arc<Shared>) -> Self {
        Self { carrier: Some(queue).filter(|queue| queue.key != self.queue.key), ..self }
    }

    /// The id, with which [`Executor::submitted`] finds the call again.
    pub fn id(&self) -> ElementId {
        self.id
    }

    /// The result. Waits for it for at most this time.
    ///
    /// # Errors
    /// [`TaskError`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn result(&self, at_most: Duration) -> Result<R, TaskError>
    where
        TextJson: Decode<R>,
    {
        let begun = self.queue.clock().now();
        if let Some(carrier) = &self.carrier {
            match results::wait(carrier, self.id, at_most).await {
                // Its result is not kept any more.
                Err(error) if error.kind() == ErrorKind::Lost => {}
                ended => _ = done(ended)?,
            }
        }
        let left = at_most.saturating_sub(self.queue.clock().now().since(begun));
        let bytes = done(results::wait(&self.queue, self.id, left).await)?;
        decode(&TextJson, &bytes).map_err(TaskError::Store)
    }

    /// What the call is doing. None: it has ended, and its result is not kept.
    ///
    /// # Errors
    /// - `ErrorKind::Unavailable`: the store has not answered in time.
    /// - `ErrorKind::Denied`: the user lacks a right.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn status(&self) -> Result<Option<ElementRow>> {
        if let Some(carrier) = &self.carrier {
            let carried = carrier.find(self.id).await?;
            if let Some(row) = carried.filter(|row| !matches!(row.outcome, Some(Outcome::Done(_)))) {
                return Ok(Some(row));
            }
        }
        self.queue.find(self.id).await
    }

    /// Cancels the call: it is not begun, or its future is dropped at its next await. Returns whether it had not ended.
    ///
    /// # Errors
    /// As [`Submitted::status`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the call may be cancelled.
    pub async fn cancel(&self) -> Result<bool> {
        if let Some(carrier) = &self.carrier
            && remove(carrier, self.id).await?
        {
            // A worker that has the carrying element may push the call nevertheless.
            match results::wait(carrier, self.id, CARRIED).await {
                Ok(Some(Outcome::Done(_))) => {}
                Ok(Some(Outcome::Failed(_) | Outcome::Cancelled)) => return Ok(true),
                Ok(None) => return Err(Error::unavailable("the call is being handed on; cancel it again").ambiguous()),
                Err(error) if error.kind() == ErrorKind::Lost => {}
                Err(error) => return Err(error),
            }
        }
        remove(&self.queue, self.id).await
    }
}

/// The result of an element that is done.
fn done(ended: Result<Option<Outcome>>) -> Result<Vec<u8>, TaskError> {
    match ended.map_err(TaskError::Store)? {
        None => Err(TaskError::Late),
        Some(Outcome::Done(bytes)) => Ok(bytes),
        Some(Outcome::Failed(error)) => Err(TaskError::Failed(error)),
        Some(Outcome::Cancelled) => Err(TaskError::Cancelled),
    }
}

/// Removes an element. Returns whether it had not ended.
async fn remove(queue: &Shared, id: ElementId) -> Result<bool> {
    let removed = queue.queues.change(&queue.key, &Change::Remove(vec![id])).await;
    Ok(removed.map_err(|error| error.at(&queue.key))? > 0)
}
