//! Singleton tasks. Several processes offer to run the same task, and exactly one of them runs it at a time.

use std::{any::Any, panic::AssertUnwindSafe, pin::pin, time::Duration};

use bandog_core::{Failure, Fence, Key, Outcome, Result, rounded};
use futures_util::{
    FutureExt,
    future::{Either, select},
};

use crate::{
    Client, Guard, Mutex,
    pause::{check_timer, pause},
    retry::Retries,
};

/// Maximum delay before any retry. A run that takes at least this time also resets the number of failures to zero.
const MAX_DELAY: Duration = Duration::from_secs(30);

impl Client {
    /// Runs a task in one process at a time. Each replica of a service calls this with the same name. One of these
    /// replicas runs the task, and the other replicas wait to take over.
    ///
    /// The call waits for the lock of this name, and runs the task while it holds the lock. What happens next depends
    /// on the task:
    /// - **It never ends.** It runs until the lock is lost. Then the task is cancelled (its future is dropped) before
    ///   another process can get the lock, and the call waits for the lock again.
    /// - **It returns an error or panics.** The failure is logged, and the lock is released, so that another replica
    ///   can run the task. This call waits for the lock again after a random delay. The maximum delay is 100 ms after
    ///   the first failure, and doubles with each further failure, up to 30 s. After a run of 30 s or more, the delays
    ///   begin at 100 ms again.
    /// - **It returns an error that can never succeed**, such as one of `ErrorKind::Unsupported`
    ///   ([`bandog_core::Error::is_permanent`], also as a source of the task's error). It is logged as an error, and the call
    ///   returns it.
    /// - **It returns `Ok(())` or `()`.** The lock is released, and the call returns. This ends the task only in this process:
    ///   a waiting replica runs it next. For work that must run once in the whole cluster, use a job.
    ///
    /// The task returns `()`, or `Result<(), E>` with any type of error, such as `anyhow::Result<()>` ([`Outcome`]). If the
    /// closure uses `?`, write its return type.
    ///
    /// Each run gets a clone of the closure. So everything that the closure captures must be borrowed or `Clone`. A run
    /// does not see changes that an earlier run made to its clone.
    ///
    /// If a replica dies, another replica takes over when the ttl has passed. The ttl is that of the client
    /// ([`crate::ClientOptions::watchdog`]). For another ttl see [`Mutex::singleton`]. A singleton task has the same
    /// limits as [`Guard::lost`]: a task that blocks its thread cannot be cancelled. And after a failover of the store,
    /// two tasks might run at the same time for a moment. So send [`Guard::fence`] with each write.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # use std::{cell::Cell, time::Duration};
    /// # let client = bandog::testing::client();
    /// # let sent = Cell::new(0);
    /// # async fn shutdown(sent: &Cell<u32>) { while sent.get() < 2 { tokio::task::yield_now().await } }
    /// # let send_batch = async |_fence: bandog::Fence| { sent.set(sent.get() + 1); Ok::<(), std::io::Error>(()) };
    /// let relay = client.singleton("outbox-relay", async |guard: &bandog::Guard| -> std::io::Result<()> {
    ///     loop {
    ///         send_batch(guard.fence()).await?; // An error is logged. Another replica can take over.
    ///         tokio::time::sleep(Duration::from_millis(10)).await;
    ///     }
    /// });
    /// tokio::select! {
    ///     ended = relay => ended?,
    ///     () = shutdown(&sent) => {} // `relay` is dropped, so its task ends and the lock is released.
    /// }
    /// client.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name is not allowed, or the call was made outside a Tokio runtime.
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - The task's error, if it can never succeed: `ErrorKind::Unsupported`, `Misused` or `Denied`.
    /// - `ErrorKind::Closed`: the client was closed with [`Client::close`], which also cancels the task.
    ///
    /// It is no error if the store does not answer: the call continues to wait.
    ///
    /// # Panics
    /// Panics in a Tokio runtime without timers.
    ///
    /// # Cancel safety
    /// If the future is dropped while the task runs, the task is dropped, and then the lock is released. If the call
    /// still waits for the lock, the call leaves the queue.
    pub async fn singleton<R: Outcome>(
        &self,
        name: impl AsRef<str>,
        task: impl AsyncFnOnce(&Guard) -> R + Clone,
    ) -> Result<()> {
        self.mutex(name).singleton(task).await
    }
}

impl Mutex {
    /// The same as [`Client::singleton`], with this lock. If a replica dies, another replica takes over after the ttl
    /// of this lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # use std::time::Duration;
    /// # let client = bandog::testing::client();
    /// let relay = client.mutex("outbox-relay").watchdog(Duration::from_secs(5));
    /// relay.singleton(async |guard| println!("leads under fence {}", guard.fence())).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::singleton`], and `ErrorKind::Misused` if the ttl is not allowed.
    ///
    /// # Panics
    /// As [`Client::singleton`].
    ///
    /// # Cancel safety
    /// As [`Client::singleton`].
    pub async fn singleton<R: Outcome>(&self, task: impl AsyncFnOnce(&Guard) -> R + Clone) -> Result<()> {
        let key = self.lock.key()?;
        check_timer("singleton")?;
        let (clock, mut retries) = (self.lock.handle().clock, Retries::up_to(MAX_DELAY));
        loop {
            let guard = self.lock.acquire_through_outages("a singleton task", &mut retries).await?;
            let (began, fence) = (clock.now(), guard.fence());
            tracing::info!(%key, %fence, "this process runs the singleton task");
            let end = run(guard, task.clone()).await?;
            if clock.now().since(began) >= MAX_DELAY {
                retries.reset();
            }
            let Some(delay) = end.log(key, fence, retries.next_delay())? else { return Ok(()) };
            pause(self.lock.handle(), delay).await.map_err(|error| error.during("lock").at(key))?;
        }
    }
}

/// How one run of the task ended.
enum RunEnd {
    Done,
    Failed(Failure),
    Lost,
}

impl RunEnd {
    /// Logs how the run ended. Returns the delay before the next run, or `None` if there is no next run.
    ///
    /// # Errors
    /// The error of the task, if it can never succeed.
    fn log(self, key: &Key, fence: Fence, delay: Duration) -> Result<Option<Duration>> {
        match self {
            Self::Done => {
                tracing::info!(%key, %fence, "the singleton task is done");
                Ok(None)
            }
            Self::Failed(failure) => {
                let error = failure.text();
                if let Some(permanent) = failure.permanent() {
                    tracing::error!(%key, %fence, error, "the singleton task ends, because it can never succeed");
                    return Err(permanent.clone());
                }
                tracing::warn!(%key, %fence, error, retry_in = %rounded(delay), "the singleton task failed");
                Ok(Some(delay))
            }
            Self::Lost => {
                tracing::warn!(%key, %fence, retry_in = %rounded(delay), "the singleton task was cancelled: its lock was lost");
                Ok(Some(delay))
            }
        }
    }
}

/// Runs the task until the task ends or the lock is lost. Then releases the lock.
async fn run<R: Outcome>(guard: Guard, task: impl AsyncFnOnce(&Guard) -> R) -> Result<RunEnd> {
    let end = {
        // The closure is called inside the async block, so that a panic is caught even if it happens before the closure
        // returns its future.
        let running = AssertUnwindSafe(async { task(&guard).await }).catch_unwind();
        match select(guard.lost(), pin!(running)).await {
            Either::Left(((), _)) => RunEnd::Lost,
            Either::Right((Ok(outcome), _)) => outcome.failure().map_or(RunEnd::Done, RunEnd::Failed),
            Either::Right((Err(panic), _)) => {
                RunEnd::Failed(Failure::new(format!("it panicked: {}", panic_message(&*panic))))
            }
        }
    };
    match (end, guard.check_held()) {
        // The lock has ended because the client was closed. The caller gets `ErrorKind::Closed` instead of a loss.
        (RunEnd::Lost, Err(error)) if error.kind() == bandog_core::ErrorKind::Closed => Err(error),
        (RunEnd::Lost, _) => {
            drop(guard);
            Ok(RunEnd::Lost)
        }
        (end @ (RunEnd::Done | RunEnd::Failed(_)), _) => {
            // The task's result counts even if the release fails.
            let _ = guard.release().await;
            Ok(end)
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
