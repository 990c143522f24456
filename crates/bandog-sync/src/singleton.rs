//! A task that runs in one process at a time, as long as there is any process to run it.

use std::{any::Any, panic::AssertUnwindSafe, pin::pin, time::Duration};

use bandog_core::{Error, Fence, Key, Result};
use futures_util::{
    FutureExt,
    future::{Either, select},
};
use tokio::{runtime, time};

use crate::{Client, Guard, Mutex};

/// The result of a task. Its error may be any, so that `?` takes every type of error.
type TaskResult = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Maximum delay before the first retry.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Maximum delay before any retry. After a run of at least this length, the next failure counts as the first.
const LAST_DELAY: Duration = Duration::from_secs(30);

impl Client {
    /// Runs a task in exactly one process at a time: each replica of a service calls this with the same name, one of
    /// them runs the task, and the others wait to take over.
    ///
    /// The call waits for the lock of this name, runs the task under it, and keeps the lock renewed. Then, if the task
    /// - **never ends**: it runs until the lock is lost. Then the task is cancelled (its future is dropped) before any
    ///   other process can be granted the lock, and the call waits for the lock again;
    /// - returns an **error or panics**: this is logged, the lock is released, so that another replica may run the
    ///   task, and this call waits for the lock again after a delay. The delay is random, at most 100 ms after the
    ///   first failure and twice as long after each further one, up to 30 s; a run of 30 s or more resets it;
    /// - returns **`Ok(())`**: the lock is released and the call returns. This ends the task in this process only:
    ///   replicas that wait run it next. Work that is to run once in the whole cluster is a job.
    ///
    /// Each run gets a clone of the closure. So the closure's captures are borrowed or `Clone`, and a run does not see
    /// changes that a failed run made to its clone.
    ///
    /// A replica that dies is replaced when its ttl has passed ([`crate::ClientOptions::watchdog`]; for another ttl see
    /// [`Mutex::singleton`]). What [`Guard::lost`] promises holds here too: a task that blocks its thread cannot be
    /// cancelled, and after a failover of the store two may run for a moment. So send [`Guard::fence`] with each write.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # use std::{cell::Cell, time::Duration};
    /// # let client = bandog::testing::client();
    /// # let sent = Cell::new(0);
    /// # async fn shutdown(sent: &Cell<u32>) { while sent.get() < 2 { tokio::task::yield_now().await } }
    /// # let send_batch = async |_fence: bandog::Fence| { sent.set(sent.get() + 1); Ok::<(), std::io::Error>(()) };
    /// let relay = client.singleton("outbox-relay", async |guard| {
    ///     loop {
    ///         send_batch(guard.fence()).await?; // any error: logged, another replica may go on, this one retries later
    ///         tokio::time::sleep(Duration::from_millis(10)).await;
    ///     }
    /// });
    /// tokio::select! {
    ///     ended = relay => ended?,
    ///     () = shutdown(&sent) => {} // the future is dropped: the task ends, and the lock is released
    /// }
    /// client.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Misused` for a bad name and outside a Tokio runtime, `Denied` when the store refuses, `Closed` after
    /// [`Client::close`], which cancels the task. A store that does not answer is no error: the call continues to wait.
    ///
    /// # Panics
    /// In a Tokio runtime without timers.
    ///
    /// # Cancel safety
    /// Dropping the future drops the task, then releases the lock, or gives up the place in the queue.
    pub async fn singleton(
        &self,
        name: impl AsRef<str>,
        task: impl AsyncFnOnce(&Guard) -> TaskResult + Clone,
    ) -> Result<()> {
        self.mutex(name).singleton(task).await
    }
}

impl Mutex {
    /// As [`Client::singleton`], under this lock: its ttl is the time after which a dead replica is replaced.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # use std::time::Duration;
    /// # let client = bandog::testing::client();
    /// let relay = client.mutex("outbox-relay").watchdog(Duration::from_secs(5));
    /// relay.singleton(async |guard| Ok(println!("leads under fence {}", guard.fence()))).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::singleton`]; `Misused` for a bad ttl.
    ///
    /// # Panics
    /// As [`Client::singleton`].
    ///
    /// # Cancel safety
    /// As [`Client::singleton`].
    pub async fn singleton(&self, task: impl AsyncFnOnce(&Guard) -> TaskResult + Clone) -> Result<()> {
        let key = self.lock.key()?;
        runtime::Handle::try_current().map_err(|source| {
            Error::misused("singleton() retries by Tokio's timers; call it in a Tokio runtime").caused_by(source)
        })?;
        let (clock, mut failures) = (self.lock.handle().clock, 0);
        loop {
            let guard = match self.lock().await {
                Err(error) if error.is_retryable() => {
                    let delay = delay(failures);
                    tracing::warn!(%key, %error, retry_in = ?delay, "a singleton task could not wait for its lock");
                    self.rest(key, delay).await?;
                    failures += 1;
                    continue;
                }
                locked => locked?,
            };
            let (began, fence) = (clock.now(), guard.fence());
            tracing::info!(%key, %fence, "this process runs the singleton task");
            let end = run(guard, task.clone()).await?;
            if clock.now().since(began) >= LAST_DELAY {
                failures = 0;
            }
            let Some(delay) = end.log(key, fence, delay(failures)) else { return Ok(()) };
            self.rest(key, delay).await?;
            failures += 1;
        }
    }

    /// Waits for the delay, unless the client ends meanwhile.
    async fn rest(&self, key: &Key, delay: Duration) -> Result<()> {
        match select(pin!(self.lock.handle().ended()), pin!(time::sleep(delay))).await {
            Either::Left(((), _)) => Err(Error::closed().during("lock").at(key)),
            Either::Right(((), _)) => Ok(()),
        }
    }
}

/// How one run of the task ended.
enum RunEnd {
    Done,
    Failed(String),
    Lost,
}

impl RunEnd {
    /// Logs the end. Returns the delay before the next run, if there is one.
    fn log(self, key: &Key, fence: Fence, delay: Duration) -> Option<Duration> {
        match self {
            Self::Done => {
                tracing::info!(%key, %fence, "the singleton task is done");
                None
            }
            Self::Failed(error) => {
                tracing::warn!(%key, %fence, error, retry_in = ?delay, "the singleton task failed");
                Some(delay)
            }
            Self::Lost => {
                tracing::warn!(%key, %fence, retry_in = ?delay, "the singleton task was cancelled: its lock was lost");
                Some(delay)
            }
        }
    }
}

/// Runs the task until it ends or the lock is lost, and releases the lock.
async fn run(guard: Guard, task: impl AsyncFnOnce(&Guard) -> TaskResult) -> Result<RunEnd> {
    let end = {
        // The closure may panic before it returns its future; that is caught as well.
        let running = AssertUnwindSafe(async { task(&guard).await }).catch_unwind();
        match select(guard.lost(), pin!(running)).await {
            Either::Left(((), _)) => RunEnd::Lost,
            Either::Right((Ok(Ok(())), _)) => RunEnd::Done,
            Either::Right((Ok(Err(error)), _)) => RunEnd::Failed(error.to_string()),
            Either::Right((Err(panic), _)) => RunEnd::Failed(format!("it panicked: {}", panic_message(&*panic))),
        }
    };
    match (end, guard.check_held()) {
        // The client was closed; this is not a loss of the lock.
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

/// The delay after this number of failures: random, so that replicas which failed together do not retry together.
fn delay(failures: u32) -> Duration {
    let max = FIRST_DELAY.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(LAST_DELAY);
    max.mul_f64(0.5 + fastrand::f64() / 2.0)
}
