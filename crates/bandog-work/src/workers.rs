//! Workers: their options, and the handle of those that run.

use std::{fmt, future::IntoFuture, marker::PhantomData, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bandog_codec::{Codec, Decode, TextJson};
use bandog_core::{Error, Result, queues::SettleEnd};
use futures_util::{FutureExt, future::BoxFuture};
use tokio::{runtime::Handle, sync::watch, task::JoinHandle};

use crate::{
    Backoff, Delivery,
    delivery::{Link, shortened},
    keeper::{self, Start, Stop},
    meters::Meters,
    options::{Options, Slots},
    shared::{MAX_PAYLOAD, Shared, decode},
};

/// The options of workers. Created by [`WorkQueue::workers`](crate::WorkQueue::workers).
#[must_use = "workers do nothing until they run"]
pub struct Workers<T, C = TextJson> {
    shared: Arc<Shared>,
    codec: C,
    options: Options,
    types: PhantomData<fn() -> T>,
}

impl<T, C: Codec> Workers<T, C> {
    pub(crate) fn new(shared: &Arc<Shared>, codec: C, slots: u32) -> Self {
        let (lease, drain) = (Duration::from_secs(30), Duration::from_secs(30));
        let backoff = Backoff::default();
        let options = Options { slots, shared: None, lease, deliveries: 5, backoff, drain, begins_once: false };
        Self { shared: shared.clone(), codec, options, types: PhantomData }
    }

    /// The lease of a delivery: if this program dies or is stopped, others get its elements after this time. It is extended
    /// while the handler runs, however long that takes. Default: 30 s; from 1 s to 1 day.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// The number of deliveries after which a failed element is dead. Default: 5; at least 1.
    pub fn deliveries(mut self, deliveries: u32) -> Self {
        self.options.deliveries = deliveries;
        self
    }

    /// The time after which a failed element comes again. Default: 1 s, twice as long after each attempt, at most 1 h.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = backoff;
        self
    }

    /// The time for which [`Running::stop`] waits for handlers. Default: 30 s.
    pub fn drain(mut self, time: Duration) -> Self {
        self.options.drain = time;
        self
    }

    /// Each element is begun once.
    pub(crate) fn once(mut self) -> Self {
        (self.options.deliveries, self.options.begins_once) = (1, true);
        self
    }

    /// Shares slots with other workers.
    pub(crate) fn sharing(mut self, slots: Arc<Slots>) -> Self {
        self.options.shared = Some(slots);
        self
    }

    /// Starts the workers, on the runtime of the caller. `handle` is called with each delivery, and its future is a task of
    /// its own.
    ///
    /// - `Ok`: the element is done.
    /// - An error or a panic: the element comes again after the backoff, and is dead after the last delivery. Operators see
    ///   the error.
    /// - A payload that cannot be read makes its element dead at once: a newer version may read it after a
    ///   [`WorkQueue::retry`](crate::WorkQueue::retry).
    ///
    /// While the store does not answer, the workers wait, and log it once.
    pub fn run<F, Fut, E>(self, handle: F) -> Running
    where
        F: Fn(Delivery<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
        T: Send + Sync + 'static,
        C: Decode<T>,
    {
        self.answer(move |delivery| {
            let handled = handle(delivery);
            async move { handled.await.map(|()| Vec::new()) }
        })
    }

    /// As [`Workers::run`]; the bytes are the result of the element, which its pusher can get
    /// ([`WorkQueue::result`](crate::WorkQueue::result)).
    pub fn answer<F, Fut, E>(self, handle: F) -> Running
    where
        F: Fn(Delivery<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<u8>, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
        T: Send + Sync + 'static,
        C: Decode<T>,
    {
        let Self { shared, codec, options, .. } = self;
        let (stop, stopped) = watch::channel(Stop::No);
        let (codec, handle, of_handler) = (Arc::new(codec), Arc::new(handle), options.clone());
        let start: Start = Arc::new(move |payload: Vec<u8>, link: Link| {
            let (codec, handle, options, link) = (codec.clone(), handle.clone(), of_handler.clone(), Arc::new(link));
            Box::pin(async move {
                // All code of the user, which may panic: the payload's type, the handler, its error, and what they drop.
                let handled = AssertUnwindSafe(async {
                    let handled = async {
                        let value =
                            decode::<T, C>(&codec, &payload).map_err(|error| Failure::Unreadable(error.to_string()))?;
                        let handled = handle(Delivery::new(value, link.clone())).await;
                        handled.map_err(|error| Failure::Handler(described(&*error.into())))
                    };
                    tokio::select! {
                        biased;
                        () = link.lost() => None,
                        handled = handled => Some(handled),
                    }
                });
                let end = match handled.catch_unwind().await {
                    Ok(Some(Ok(result))) if result.len() > MAX_PAYLOAD => SettleEnd::Fail(format!(
                        "the handler is done, but its result has {} bytes, and a work queue keeps at most {MAX_PAYLOAD}; keep large \
                         data elsewhere, and answer with its name",
                        result.len()
                    )),
                    Ok(Some(Ok(result))) => SettleEnd::Done(result),
                    Ok(Some(Err(Failure::Unreadable(error)))) => SettleEnd::Fail(shortened(error)),
                    Ok(Some(Err(Failure::Handler(error)))) => options.failed(link.attempt(), error),
                    Ok(None) => return None,
                    Err(_) if link.is_lost() => return None, // The drop of the handler has panicked.
                    Err(panic) => options.failed(link.attempt(), panicked(&*panic)),
                };
                link.end(end)
            })
        });
        let meters = Meters::new(shared.name(), shared.clock());
        let checked = options.check().map_err(|error| error.at(&shared.key));
        let task = checked.and_then(|()| {
            let runtime = Handle::try_current();
            let runtime = runtime.map_err(|_| Error::misused("workers need a Tokio runtime; call this in one"))?;
            Ok(runtime.spawn(keeper::run(shared, options, start, meters, stopped)))
        });
        Running { task: Some(task), stop }
    }
}

/// Why a delivery has failed.
enum Failure {
    /// The payload is not one of this type.
    Unreadable(String),
    /// The error of the handler.
    Handler(String),
}

/// The text of an error, with its causes.
fn described(error: &(dyn std::error::Error + Send + Sync)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let further = error.to_string();
        if !text.contains(&further) {
            text = format!("{text}: {further}");
        }
        cause = error.source();
    }
    shortened(text)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    shortened(format!("the handler has panicked: {}", text.unwrap_or("without a text")))
}

/// Workers that run. Created by [`Workers::run`]. Awaiting it waits until they end by an error.
///
/// If it is dropped, the workers stop: the futures of their handlers are dropped, and their elements are handed back, in the
/// background.
#[must_use = "dropped workers stop"]
pub struct Running {
    /// None after the end.
    task: Option<Result<JoinHandle<Result<()>>>>,
    stop: watch::Sender<Stop>,
}

impl Running {
    /// Stops: takes nothing more, hands back what was not begun, and waits for the handlers, for at most the time of
    /// [`Workers::drain`]. Then the futures of the other handlers are dropped, and their elements are handed back.
    ///
    /// # Errors
    /// As of awaiting the workers.
    ///
    /// # Cancel safety
    /// If the future is dropped, the workers stop without waiting for handlers.
    pub async fn stop(mut self) -> Result<()> {
        self.stop.send_replace(Stop::Drain);
        self.ended().await
    }

    /// Waits until this future resolves, or until the workers end by an error; then stops as [`Running::stop`].
    ///
    /// # Errors
    /// As of awaiting the workers.
    ///
    /// # Cancel safety
    /// If the future is dropped, the workers stop without waiting for handlers.
    pub async fn until(mut self, stop: impl Future) -> Result<()> {
        tokio::select! {
            biased;
            ended = self.ended() => return ended,
            _ = stop => {}
        }
        self.stop().await
    }

    async fn ended(&mut self) -> Result<()> {
        let ended = match &mut self.task {
            Some(Ok(task)) => task.await,
            Some(Err(error)) => return Err(error.clone()),
            None => return Ok(()),
        };
        self.task = None;
        ended.unwrap_or_else(|_| Err(Error::unavailable("the runtime of the workers has ended")))
    }
}

/// # Errors
/// - `ErrorKind::Misused`: an option is not allowed, or there is no runtime.
/// - `ErrorKind::Denied`, `ErrorKind::Unsupported`: the store refuses the first request. Later, such errors are logged, and
///   the workers try again.
/// - `ErrorKind::Unavailable`: the runtime has ended.
impl IntoFuture for Running {
    type Output = Result<()>;
    type IntoFuture = BoxFuture<'static, Result<()>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { self.ended().await })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(Stop::Abort);
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Workers<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("key", &self.shared.key).field("options", &self.options).finish_non_exhaustive()
    }
}
