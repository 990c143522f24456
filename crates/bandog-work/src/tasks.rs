//! The tasks that a program runs.

use std::{fmt, sync::Arc, time::Duration};

use bandog_codec::{Bytes, Decode, Encode, TextJson};
use bandog_core::{Error, Result};
use futures_util::future::BoxFuture;

use crate::{
    Backoff, Delivery,
    batch::Carried,
    executor::Executor,
    options::Slots,
    shared::decode,
    workers::{Running, Workers},
};

/// What a task knows of its run: the id, the attempt, the fence and so on.
pub type TaskRun = Delivery<()>;

type Answered = BoxFuture<'static, Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>>;

/// A task that a program can run. Made by the attribute `task`.
#[derive(Clone)]
pub struct TaskHandler {
    task: &'static str,
    deliveries: u32,
    backoff: Backoff,
    timeout: Option<Duration>,
    handle: Arc<dyn Fn(Delivery<Vec<u8>>) -> Answered + Send + Sync>,
}

impl TaskHandler {
    /// Runs the task with this name by this function.
    pub fn new<A, R, F, Fut, E>(task: &'static str, handle: F) -> Self
    where
        F: Fn(TaskRun, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
        TextJson: Decode<A> + Encode<R>,
    {
        let handle = move |delivery: Delivery<Vec<u8>>| -> Answered {
            let args = match decode::<A, _>(&TextJson, &delivery) {
                Ok(args) => args,
                // Not repeated: a newer version may know the arguments.
                Err(error) => {
                    return Box::pin(
                        async move { delivery.fail(&error).await.map(|()| Vec::new()).map_err(Into::into) },
                    );
                }
            };
            let result = handle(delivery.without_value(), args);
            Box::pin(async move {
                let result = result.await.map_err(Into::into)?;
                let mut bytes = Vec::new();
                TextJson.encode(&result, &mut bytes)?;
                Ok(bytes)
            })
        };
        Self { task, deliveries: 5, backoff: Backoff::default(), timeout: None, handle: Arc::new(handle) }
    }

    /// The number of deliveries after which a failed call is dead. Default: 5.
    #[must_use]
    pub fn deliveries(self, deliveries: u32) -> Self {
        Self { deliveries, ..self }
    }

    /// The time after which a failed call comes again. Default: that of [`Backoff`].
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// The time after which a run fails: its future is dropped. Default: none.
    #[must_use]
    pub fn timeout(self, time: Duration) -> Self {
        Self { timeout: Some(time), ..self }
    }
}

impl Executor {
    /// Workers of this program: they run this number of tasks at the same time, at least 1.
    pub fn workers(&self, slots: u32) -> TaskWorkers {
        let (lease, drain) = (Duration::from_secs(30), Duration::from_secs(30));
        TaskWorkers { executor: self.clone(), slots, lease, drain, tasks: Vec::new() }
    }
}

/// The tasks that a program runs. Created by [`Executor::workers`].
#[must_use = "tasks do not run until they are started"]
pub struct TaskWorkers {
    executor: Executor,
    slots: u32,
    lease: Duration,
    drain: Duration,
    tasks: Vec<TaskHandler>,
}

impl TaskWorkers {
    /// Runs this task.
    pub fn task(mut self, handler: TaskHandler) -> Self {
        self.tasks.push(handler);
        self
    }

    /// As [`Workers::lease`](crate::Workers::lease).
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// As [`Workers::drain`](crate::Workers::drain).
    pub fn drain(self, drain: Duration) -> Self {
        Self { drain, ..self }
    }

    /// Starts, on the runtime of the caller.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: there is no task, or two have the same name, or an option is not allowed.
    pub fn start(self) -> Result<RunningTasks> {
        let Self { executor, slots, lease, drain, tasks } = self;
        if tasks.is_empty() {
            return Err(Error::misused(format!("the executor {} has no task; add one with task(…)", executor.name())));
        }
        let all = Slots::new(slots);
        let mut running = Vec::with_capacity(tasks.len());
        for (at, handler) in tasks.iter().enumerate() {
            if tasks[..at].iter().any(|other| other.task == handler.task) {
                return Err(Error::misused(format!(
                    "the executor {} has two tasks {:?}",
                    executor.name(),
                    handler.task
                )));
            }
            let TaskHandler { task, deliveries, backoff, timeout, handle } = handler.clone();
            let workers: Workers<Vec<u8>, Bytes> = Workers::new(&executor.queue(task)?, Bytes, slots);
            let workers = workers.lease(lease).drain(drain).deliveries(deliveries).backoff(backoff);
            let executor = executor.clone();
            running.push(workers.sharing(all.clone()).answer(move |delivery| match Carried::read(&delivery) {
                None => limited(handle(delivery), timeout),
                Some(carried) => limited(push_carried(carried, &executor, delivery), None),
            }));
        }
        Ok(RunningTasks(running))
    }
}

/// Pushes the call that the element carries.
fn push_carried(carried: Result<Carried>, executor: &Executor, delivery: Delivery<Vec<u8>>) -> Answered {
    let (executor, id) = (executor.clone(), delivery.id());
    Box::pin(async move {
        match carried?.push(&executor, id).await {
            // The store does not answer. The parts are done, so this delivery must not count.
            Err(error) if error.is_retryable() => delivery.hand_back().await?,
            pushed => pushed?,
        }
        Ok(Vec::new())
    })
}

/// Limits the time of a run.
async fn limited(
    run: Answered,
    timeout: Option<Duration>,
) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    match timeout {
        Some(time) => match tokio::time::timeout(time, run).await {
            Ok(result) => result,
            Err(_) => Err(format!("the task did not end within {time:?}").into()),
        },
        None => run.await,
    }
}

impl fmt::Debug for TaskWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskWorkers")
            .field("executor", &self.executor)
            .field("tasks", &self.tasks)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TaskHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandler").field("task", &self.task).finish_non_exhaustive()
    }
}

/// Tasks that a program runs. If it is dropped, they stop as dropped [`Running`] workers do.
#[must_use = "dropped workers stop"]
#[derive(Debug)]
pub struct RunningTasks(Vec<Running>);

impl RunningTasks {
    /// Stops as [`Running::stop`].
    ///
    /// # Errors
    /// As [`Running::stop`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the workers stop without waiting for tasks.
    pub async fn stop(self) -> Result<()> {
        let stopped = futures_util::future::join_all(self.0.into_iter().map(Running::stop)).await;
        stopped.into_iter().collect()
    }

    /// Waits until this future resolves, or until workers end by an error; then stops as [`Running::stop`].
    ///
    /// # Errors
    /// As of awaiting [`Running`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the workers stop without waiting for tasks.
    pub async fn until(self, stop: impl Future) -> Result<()> {
        let (stopping, stopped) = tokio::sync::watch::channel(());
        let each = self.0.into_iter().map(|running| {
            let mut stopped = stopped.clone();
            // An error of one stops all: the sender is dropped.
            running.until(async move { stopped.changed().await })
        });
        let all = futures_util::future::try_join_all(each);
        let stop = async {
            stop.await;
            drop(stopping);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = all => ended.map(drop),
            () = stop => Ok(()),
        }
    }
}
