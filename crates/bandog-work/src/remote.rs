//! Remote services: calls of a trait that run in another program.

use std::{any::type_name, fmt, sync::Arc, time::Duration};

use bandog_codec::{Bytes, Decode, Encode, TextJson};
use bandog_core::{
    Error, Result,
    queues::{Change, ElementId, Outcome},
};
use bandog_sync::Client;
use futures_util::future::BoxFuture;
use serde::de::IgnoredAny;
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use crate::{
    Delivery, Push, results,
    shared::{Shared, decode},
    workers::{Running, Workers},
};

/// The time for which a call waits for its result, unless something else is said.
const WITHIN: Duration = Duration::from_secs(5);
/// The time for which a result is kept after a call: the caller may have gone.
const KEEP: Duration = Duration::from_secs(60);
/// The time for which a call whose time is over asks whether it was begun.
const GIVE_UP: Duration = Duration::from_secs(1);
/// The lease of a call on a server.
const LEASE: Duration = Duration::from_secs(5);

/// The calls of a service. The attribute [`remote`](https://docs.rs/bandog/latest/bandog/attr.remote.html) makes a client with
/// the methods of a trait over it. Clones are the same client.
#[derive(Debug, Clone)]
pub struct RemoteCalls {
    queue: Arc<Shared>,
    within: Duration,
}

/// Why a call has no value.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError<E> {
    /// No server has begun the call in time, and none will: the store has removed it before it was delivered to any.
    NoServer,
    /// A server has begun the call, and has not answered in time. The call may have an effect.
    Late,
    /// The method has returned this error.
    Refused(E),
    /// The server has ended during the call, has panicked, or does not know the method. The call may have an effect.
    Lost(String),
    /// The store has failed. The call may have an effect if [`Error::maybe_applied`] says so.
    Store(Error),
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer => f.write_str("no server has begun the call in time, and none will"),
            Self::Late => f.write_str("the server has not answered in time; the call may have an effect"),
            Self::Refused(error) => error.fmt(f),
            Self::Lost(error) => write!(f, "the call is lost, and may have an effect: {error}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> std::error::Error for CallError<E> {}

impl RemoteCalls {
    /// The calls of the service with this name. This does no I/O.
    ///
    /// # Errors
    /// As [`ClientWork::work_queue`](crate::ClientWork::work_queue).
    pub fn of(client: &Client, service: &str) -> Result<Self> {
        Ok(Self { queue: Shared::new(client, service)?, within: WITHIN })
    }

    /// The time after which a call fails. It travels with the call: a server does not begin it later. Default: 5 s.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        Self { within: time, ..self }
    }

    /// Calls a method. The arguments and the result are written as JSON.
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the call is cancelled: it is not begun, or the future of the server's method is dropped.
    pub async fn call<A, R, E>(&self, method: &str, args: A) -> Result<R, CallError<E>>
    where
        TextJson: for<'a> Encode<(&'a str, u64, A)> + Decode<Result<R, E>>,
    {
        let within = u64::try_from(self.within.as_millis()).unwrap_or(u64::MAX);
        if within == 0 {
            let error =
                Error::misused("a call with less than 1 ms would never be answered; give it more time by `within`");
            return Err(CallError::Store(error.at(&self.queue.key)));
        }
        let mut payload = Vec::new();
        let encoded = TextJson.encode(&(method, within, args), &mut payload);
        encoded.map_err(|error| CallError::Store(Error::misused(error.to_string()).at(&self.queue.key)))?;
        let begun = self.queue.clock().now();
        let left = || self.within.saturating_sub(self.queue.clock().now().since(begun));
        let late = || {
            let late = Error::unavailable("the store has not answered in time").ambiguous();
            CallError::Store(late.at(&self.queue.key))
        };
        let push = Push::new(&self.queue, Ok(payload)).keep_result(self.within.saturating_add(KEEP));
        let mut cancel = timeout(left(), self.push(push)).await.map_err(|_| late())?.map_err(CallError::Store)?;
        let waited = timeout(left().saturating_add(GIVE_UP), results::wait(&self.queue, cancel.id, left())).await;
        let outcome = match waited.map_err(|_| late())?.map_err(CallError::Store)? {
            Some(outcome) => Ok(outcome),
            None => {
                let given_up = timeout(GIVE_UP, self.give_up(cancel.id)).await;
                given_up.map_err(|_| late())?.map_err(CallError::Store)?
            }
        };
        cancel.is_ended = true;
        match outcome {
            Ok(Outcome::Done(bytes)) if bytes == TOO_LATE => Err(CallError::NoServer),
            Ok(Outcome::Done(bytes)) => {
                decode::<Result<R, E>, _>(&TextJson, &bytes).map_err(CallError::Store)?.map_err(CallError::Refused)
            }
            Ok(Outcome::Failed(error)) => {
                cancel.is_ended = false; // The dead call is removed.
                Err(CallError::Lost(error))
            }
            Ok(Outcome::Cancelled) => Err(CallError::Lost("an operator has removed it".to_owned())),
            Err(GaveUp { was_begun: true }) => Err(CallError::Late),
            Err(GaveUp { was_begun: false }) => Err(CallError::NoServer),
        }
    }

    /// Pushes a call. If the caller has gone meanwhile, the call is cancelled.
    async fn push(&self, push: Push) -> Result<Cancel> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::misused("remote services need a Tokio runtime; call this in one").at(&self.queue.key)
        })?;
        let (queue, (reply, answer)) = (self.queue.clone(), oneshot::channel());
        drop(runtime.spawn(async move {
            let pushed = push.await;
            // If the caller has gone, this is dropped here, which cancels the call.
            let _ = reply.send(pushed.map(|pushed| Cancel { queue, id: pushed.id, is_ended: false }));
        }));
        let ended = || Error::unavailable("the runtime that called this has ended").ambiguous().at(&self.queue.key);
        answer.await.map_err(|_| ended())?
    }

    /// Cancels a call whose time is over. Returns how it has ended, or that it was given up.
    async fn give_up(&self, id: ElementId) -> Result<Result<Outcome, GaveUp>> {
        let queue = &self.queue;
        let change =
            async |change| queue.queues.change(&queue.key, &change).await.map_err(|error| error.at(&queue.key));
        // Only the store knows in one step that no server has it, and that none will.
        if change(Change::Withdraw(vec![id])).await? > 0 {
            return Ok(Err(GaveUp { was_begun: false }));
        }
        let found = queue.queues.find(&queue.key, &[id], 0).await.map_err(|error| error.at(&queue.key))?;
        let ended = found.into_iter().next().flatten().and_then(|row| row.outcome);
        match ended {
            // If an earlier withdrawal was applied without an answer, this is not known to be it.
            Some(Outcome::Cancelled) => Ok(Err(GaveUp { was_begun: true })),
            Some(outcome) => Ok(Ok(outcome)),
            None => {
                change(Change::Remove(vec![id])).await?;
                Ok(Err(GaveUp { was_begun: true }))
            }
        }
    }
}

/// A call that its caller has given up.
struct GaveUp {
    /// Whether a server may have begun it.
    was_begun: bool,
}

/// The result of a call that a server has not begun, because its time was over. Results in JSON have at least a byte.
const TOO_LATE: &[u8] = &[];

/// Cancels a call when it is dropped, unless it has ended.
struct Cancel {
    queue: Arc<Shared>,
    id: ElementId,
    is_ended: bool,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        let Some(runtime) = Handle::try_current().ok().filter(|_| !self.is_ended) else { return };
        let (queue, id) = (self.queue.clone(), self.id);
        drop(runtime.spawn(async move {
            // Otherwise the call ends by its deadline.
            let _ = queue.queues.change(&queue.key, &Change::Remove(vec![id])).await;
        }));
    }
}

type Answered = BoxFuture<'static, Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>>;

/// Runs a method by its name with the bytes of a call. None: there is no such method.
pub type Dispatch = Arc<dyn Fn(&str, &[u8]) -> Option<Answered> + Send + Sync>;

/// A service that this program serves, when it is started. The attribute `remote` makes it from an implementation of a trait.
#[must_use = "a service does not run until it is started"]
pub struct Service {
    name: &'static str,
    dispatch: Dispatch,
}

impl Service {
    /// Made by the attribute `remote`.
    #[doc(hidden)]
    pub fn new(name: &'static str, dispatch: Dispatch) -> Self {
        Self { name, dispatch }
    }

    /// Serves calls with this number of slots, on the runtime of the caller. Calls whose time is over are not begun. A call
    /// is begun once: it is not repeated if the server dies, and lost if the server is dropped or does not end it in the time of
    /// [`Running::stop`].
    ///
    /// # Errors
    /// As [`ClientWork::work_queue`](crate::ClientWork::work_queue).
    pub fn serve(self, client: &Client, slots: u32) -> Result<Running> {
        let Self { name, dispatch } = self;
        let queue = Shared::new(client, name)?;
        let workers: Workers<Vec<u8>, Bytes> = Workers::new(&queue, Bytes, slots);
        Ok(workers.lease(LEASE).once().answer(move |delivery| serve_one(&dispatch, &delivery)))
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("name", &self.name).finish_non_exhaustive()
    }
}

fn serve_one(dispatch: &Dispatch, delivery: &Delivery<Vec<u8>>) -> Answered {
    let call: Result<(String, u64, IgnoredAny)> = decode(&TextJson, delivery);
    let (method, within, _) = match call {
        Ok(call) => call,
        Err(error) => return Box::pin(async move { Err(error.into()) }),
    };
    if delivery.age() > Duration::from_millis(within) {
        return Box::pin(async { Ok(TOO_LATE.to_vec()) }); // The caller has gone.
    }
    match dispatch(&method, delivery) {
        Some(answer) => answer,
        None => Box::pin(async move { Err(format!("the server does not know the method {method:?}").into()) }),
    }
}

/// Calls a method of a service with arguments of this type.
#[doc(hidden)]
pub fn answer<A, R, E, Fut>(payload: &[u8], method: impl FnOnce(A) -> Fut) -> Answered
where
    Fut: Future<Output = Result<R, E>> + Send + 'static,
    R: 'static,
    E: 'static,
    TextJson: Decode<(IgnoredAny, IgnoredAny, A)> + Encode<Result<R, E>>,
{
    let call: Result<(IgnoredAny, IgnoredAny, A)> = decode(&TextJson, payload);
    match call {
        Ok((_, _, args)) => {
            let result = method(args);
            Box::pin(async move {
                let result = result.await;
                let mut bytes = Vec::new();
                TextJson.encode(&result, &mut bytes)?;
                Ok(bytes)
            })
        }
        Err(_) => {
            let error = format!("the arguments are not {}: the trait of the caller differs", type_name::<A>());
            Box::pin(async move { Err(error.into()) })
        }
    }
}
