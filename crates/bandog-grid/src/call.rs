//! A call on an object: one operation, and how its answer is read.

use std::{
    fmt,
    future::IntoFuture,
    sync::{Arc, Mutex, PoisonError},
};

use bandog_core::{
    Error, Key, Result,
    structures::{Action, Bytes, CounterOp, FloatOp, JournalOp, ListOp, Once, Op, Reply},
};
use futures_util::future::BoxFuture;

use crate::store::{Exact, Store};

type Read<T> = Box<dyn FnOnce(Reply) -> Result<T> + Send>;

/// A call on an object. It does nothing until it is awaited, or sent in a [`Batch`].
///
/// # Cancel safety
/// If the future of a call is dropped after its first poll, a write might be applied nevertheless.
#[must_use = "a call does nothing until it is awaited, or added to a batch"]
pub struct Call<T>(State<T>);

enum State<T> {
    Send {
        store: Arc<Store>,
        op: Box<Op>,
        bytes: usize,
        exact: Option<Exact>,
        read: Read<T>,
    },
    /// The answer needs no store.
    Known(Result<T>),
}

impl<T> Call<T> {
    pub(crate) fn known(answer: Result<T>) -> Self {
        Self(State::Known(answer))
    }

    pub(crate) fn send(
        store: &Arc<Store>,
        key: &Key,
        (action, bytes): (Action, usize),
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
    ) -> Self {
        let op = Box::new(Op { key: key.clone(), action });
        Self(State::Send { store: store.clone(), op, bytes, exact: None, read: Box::new(read) })
    }

    /// Makes the write exact: a repeated request is not applied twice.
    pub(crate) fn exact(self) -> Self {
        match self.0 {
            State::Send { store, op, bytes, read, .. } => {
                let exact = Some(store.exact());
                Self(State::Send { store, op, bytes, exact, read })
            }
            known @ State::Known(_) => Self(known),
        }
    }

    /// Fails with this error after the operation was applied.
    pub(crate) fn then_fail(self, error: Error) -> Self
    where
        T: 'static,
    {
        match self.0 {
            State::Send { store, op, bytes, exact, read } => {
                let read = Box::new(move |reply| read(reply).and(Err(error)));
                Self(State::Send { store, op, bytes, exact, read })
            }
            known @ State::Known(_) => Self(known),
        }
    }
}

impl<T: Send + 'static> IntoFuture for Call<T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'static, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (store, mut op, bytes, exact, read) = match self.0 {
                State::Known(answer) => return answer,
                State::Send { store, op, bytes, exact, read } => (store, op, bytes, exact, read),
            };
            if let Some(exact) = &exact {
                set_once(&mut op.action, exact.once());
            }
            let reply = store.run_one(&op, bytes, exact.is_some()).await;
            if let (Some(exact), Ok(_)) = (exact, &reply) {
                exact.answered();
            }
            read(reply?).map_err(|error| error.at(&op.key))
        })
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut call = f.debug_struct("Call");
        match &self.0 {
            State::Send { op, .. } => call.field("key", &op.key).finish_non_exhaustive(),
            State::Known(_) => call.finish_non_exhaustive(),
        }
    }
}

/// Writes the id of an exact operation into it.
fn set_once(action: &mut Action, id: Once) {
    let (Action::Counter(CounterOp::Add { once, .. })
    | Action::Float(FloatOp::Add { once, .. })
    | Action::List(ListOp::Push { once, .. })
    | Action::Journal(JournalOp::Append { once, .. })) = action
    else {
        return;
    };
    *once = Some(id);
}

/// Calls that are sent in one round trip, or in several if they have more than 1 MiB. Created by
/// [`Grid::batch`](crate::Grid::batch).
///
/// Each call is atomic; the batch is not. Calls on the same object are applied in their order, and a failed call does not
/// affect the others.
///
/// ```
/// # use bandog::grid::{ClientGrid, Counter, Map};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let (names, hits): (Map<u32, String>, Counter) = (grid.map("names")?, grid.counter("hits")?);
///
/// let mut batch = grid.batch();
/// let old_name = batch.add(names.insert(&7, "Ann"));
/// let sum = batch.add(hits.add(1));
/// batch.send().await?;
/// assert_eq!((old_name.get()?, sum.get()?), (None, 1));
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    /// The store of the first call.
    store: Option<Arc<Store>>,
    sent: Vec<Sent>,
    known_error: Option<Error>,
}

/// A call of a batch, without the type of its answer.
struct Sent {
    op: Box<Op>,
    bytes: usize,
    exact: Option<Exact>,
    give: Box<dyn FnOnce(Result<Reply>) -> Option<Error> + Send>,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").field("key", &self.op.key).finish_non_exhaustive()
    }
}

impl Batch {
    /// Adds a call. The returned value has the answer after [`Batch::send`]. A call of another grid than the first one is
    /// `ErrorKind::Misused`.
    pub fn add<T: Send + 'static>(&mut self, call: Call<T>) -> Answer<T> {
        let answer = Answer(Arc::new(Mutex::new(None)));
        let call = match call.0 {
            State::Send { store, .. } if !Arc::ptr_eq(self.store.get_or_insert_with(|| store.clone()), &store) => {
                State::Known(Err(Error::misused("the calls of a batch must belong to one grid")))
            }
            call => call,
        };
        match call {
            State::Known(known) => {
                self.known_error = self.known_error.take().or_else(|| known.as_ref().err().cloned());
                answer.set(known);
            }
            State::Send { op, bytes, exact, read, .. } => {
                let (to, key) = (answer.clone(), op.key.clone());
                let give = Box::new(move |reply: Result<Reply>| {
                    let read = reply.and_then(read).map_err(|error| error.at(&key));
                    let error = read.as_ref().err().cloned();
                    to.set(read);
                    error
                });
                self.sent.push(Sent { op, bytes, exact, give });
            }
        }
        answer
    }

    /// The number of calls that need the store.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Whether no call needs the store.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Sends all calls, and waits for their answers.
    ///
    /// # Errors
    /// The first error of a call. All other calls have their answers nevertheless; but if a round trip has no answer, those of later
    /// round trips are not sent.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, any of the writes might be applied nevertheless.
    pub async fn send(self) -> Result<()> {
        let mut first_error = self.known_error;
        let (mut ops, mut waiting, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for mut sent in self.sent {
            if let Some(exact) = &sent.exact {
                set_once(&mut sent.op.action, exact.once());
            }
            bytes.push(sent.bytes);
            ops.push(*sent.op);
            waiting.push((sent.exact, sent.bytes, sent.give));
        }
        if let Some(store) = self.store.filter(|_| !ops.is_empty()) {
            let replies = store.run(&ops, &bytes).await;
            for ((op, reply), (exact, bytes, give)) in ops.iter().zip(replies).zip(waiting) {
                let reply = match (&exact, reply) {
                    (Some(_), Err(error)) if error.is_retryable() => {
                        let unclear = error.maybe_applied();
                        let repeated = store.run_one(op, bytes, true).await;
                        repeated.map_err(|error| if unclear { error.ambiguous() } else { error })
                    }
                    (_, reply) => reply,
                };
                if let (Some(exact), Ok(_)) = (exact, &reply) {
                    exact.answered();
                }
                let error = give(reply);
                first_error = first_error.or(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}

/// The answer to a call of a [`Batch`].
#[derive(Debug)]
pub struct Answer<T>(Arc<Mutex<Option<Result<T>>>>);

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Answer<T> {
    fn set(&self, answer: Result<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// The answer.
    ///
    /// # Errors
    /// The error of the call. `ErrorKind::Misused`: the batch was not sent.
    pub fn get(self) -> Result<T> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.unwrap_or_else(|| Err(Error::misused("the batch of this call was not sent; await Batch::send first")))
    }
}

/// Bytes of a call that is being made.
#[derive(Debug)]
pub(crate) struct Writer {
    limit: usize,
    bytes: usize,
}

impl Writer {
    pub(crate) fn new(store: &Store) -> Self {
        Self { limit: store.limits.element, bytes: 0 }
    }

    /// The bytes of a value.
    pub(crate) fn write<C: bandog_codec::Encode<T>, T: ?Sized>(&mut self, codec: &C, value: &T) -> Result<Bytes> {
        let mut bytes = Vec::new();
        codec.encode(value, &mut bytes).map_err(|error| Error::misused(error.to_string()))?;
        if bytes.len() > self.limit {
            return Err(Error::misused(format!(
                "an element has {} bytes; at most {} are allowed (Limits::element)",
                bytes.len(),
                self.limit
            )));
        }
        self.bytes += bytes.len();
        Ok(bytes)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
