//! Queues, and how elements are taken out of lists, sets and sorted sets without losing one.
//!
//! An element that is taken stays in the store, with a lease, until it is done. One task for each queue, the *taker*
//! ([`taker`]), makes all requests of the queue: it takes elements for the calls that wait, gives them back if a call is
//! gone, renews the leases of those that are in use, and reports those that are done.
//!
//! # A dropped future
//! - A call that waits: its place in the taker's line is dropped with it, and the taker asks for one element less.
//! - A call whose element is on the way: the taker finds nobody to give it to. The next call in the line gets it, or it goes
//!   back to its place in the store ([`TakeEnd::Undelivered`]).
//! - A call that has its element, but was never polled again: the drop of [`Popped`] is a message to the taker.
//! - The task of the taker ends with its runtime: the leases of its elements expire, and they become available again.

mod lease;
mod message;
mod taker;

use std::{borrow::Borrow, collections::VecDeque, future::IntoFuture, time::Duration};

use bandog_codec::{Codec, Decode, Encode};
use bandog_core::{
    Portions, Result,
    structures::{Action, End, ListOp, Reply, Source, TakeOp},
};

use futures_util::stream::{BoxStream, Stream, unfold};

pub use self::lease::Taken;
pub(crate) use self::{
    message::{Popped, Takers},
    taker::{pop, pop_wait, take},
};
use crate::{
    Call,
    map::count,
    object::{Object, decode, decode_all, handle},
    pages::{PAGE, in_time},
};

/// Defines the methods that queues and deques share.
macro_rules! queue_methods {
    ($name:ident) => {
        impl<T, C: Codec> $name<T, C> {
            /// The time after which an element of [`Self::take`] becomes available again if its program has died. Default:
            /// 30 s. It must be between 1 s and 1 day.
            #[must_use]
            pub fn lease(self, lease: Duration) -> Self {
                Self { lease, ..self }
            }

            /// With this, the store remembers the pushes, so a push is repeated after a lost answer, and counts once. It costs
            /// more in the store.
            #[must_use]
            pub fn exact(self) -> Self {
                Self { is_exact: true, ..self }
            }

            /// The number of elements that can be taken.
            pub fn len(&self) -> Call<u64> {
                let op = Action::Take(TakeOp::Count(Source::List(End::Front)));
                self.object.call(op, |reply| Ok(reply.queue()?.0))
            }

            /// The number of elements that are taken and not done.
            pub fn taken_len(&self) -> Call<u64> {
                let op = Action::Take(TakeOp::Count(Source::List(End::Front)));
                self.object.call(op, |reply| Ok(reply.queue()?.1))
            }

            /// Moves at most this number of elements to the end of another queue, in one step. Returns their number.
            pub fn move_to<U, D: Codec>(&self, other: &$name<U, D>, at_most: u32) -> Call<u64> {
                self.object.write(
                    |_| {
                        let to = self.object.others([&other.object].into_iter())?.remove(0);
                        Ok(TakeOp::MoveTo { from: End::Front, to, at: End::Back, at_most })
                    },
                    count,
                )
            }

            fn push_at(&self, end: End, elements: Result<Vec<Vec<u8>>>, bytes: usize) -> Call<u64> {
                let push = |elements| ListOp::Push { end, elements, once: None };
                match elements {
                    Ok(elements) if elements.is_empty() => self.len(),
                    Ok(elements) => {
                        let op = Action::List(push(elements));
                        let call = Call::send(&self.object.store, &self.object.key, (op, bytes), count);
                        if self.is_exact { call.exact() } else { call }
                    }
                    Err(error) => Call::known(Err(error.at(&self.object.key))),
                }
            }

            fn write_all<'a, Q: ?Sized + 'a>(
                &self,
                elements: impl Iterator<Item = &'a Q>,
            ) -> (Result<Vec<Vec<u8>>>, usize)
            where
                C: Encode<Q>,
            {
                let mut writer = crate::call::Writer::new(&self.object.store);
                let written = elements.map(|element| writer.write(&self.codec, element)).collect();
                (written, writer.bytes())
            }
        }

        impl<T, C: Encode<T>> $name<T, C> {
            /// Adds an element at the end. Returns the number of elements in the list of the store.
            pub fn push<Q: ?Sized>(&self, element: &Q) -> Call<u64>
            where
                T: Borrow<Q>,
                C: Encode<Q>,
            {
                let (elements, bytes) = self.write_all([element].into_iter());
                self.push_at(End::Back, elements, bytes)
            }

            /// Adds elements at the end, in one step. Returns the number of elements in the list of the store.
            pub fn push_all<Q>(&self, elements: &[Q]) -> Call<u64>
            where
                T: Borrow<Q>,
                C: Encode<Q>,
            {
                let (elements, bytes) = self.write_all(elements.iter());
                self.push_at(End::Back, elements, bytes)
            }
        }

        impl<T, C: Decode<T>> $name<T, C> {
            /// The next elements, at most this number. They stay where they are.
            pub fn peek(&self, at_most: u32) -> Call<Vec<T>> {
                let codec = self.codec.clone();
                let op = TakeOp::Peek { from: Source::List(End::Front), skip: 0, at_most, bytes: u32::MAX };
                self.object.call(Action::Take(op), move |reply: Reply| decode_all(&codec, reply.list()?))
            }

            /// All elements that can be taken, in their order, in pages. They stay where they are. Elements that are taken or come
            /// again meanwhile may cause others to be missing or to come twice. An element that cannot be read is one error.
            pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T, C>
            where
                T: 'static,
            {
                let codec = self.codec.clone();
                peeked(&self.object, move |element| decode(&codec, &element))
            }

            /// Takes out the first element.
            ///
            /// No element is lost: it stays in the store until this call has returned it. If the process ends in the
            /// milliseconds after that, the element may come a second time; with [`Self::take`], the program decides when
            /// an element is done.
            ///
            /// # Errors
            /// - `ErrorKind::Unavailable`: the store does not answer.
            /// - `ErrorKind::Denied`: the name has data of another type, or the user lacks a right.
            /// - `ErrorKind::Corrupt`: the element cannot be read. It stays the first element.
            ///
            /// # Cancel safety
            /// If the future is dropped, the element stays in the queue or returns to it.
            pub async fn pop(&self) -> Result<Option<T>> {
                self.accept(pop(&self.object, Source::List(End::Front)).await?)
            }

            /// Takes out the first element, as [`Self::pop`]. If the queue is empty, waits for an element for at most this
            /// time. All waiting calls of a grid share one subscription, and get elements in the order of the calls.
            ///
            /// # Errors
            /// As [`Self::pop`]. A store that does not answer is retried until the time is over.
            ///
            /// # Cancel safety
            /// If the future is dropped, the element stays in the queue or returns to it.
            pub async fn pop_wait(&self, at_most: Duration) -> Result<Option<T>> {
                self.accept(pop_wait(&self.object, Source::List(End::Front), at_most).await?)
            }

            /// Takes at most this number of elements out, as that number of calls of [`Self::pop`].
            ///
            /// # Errors
            /// As [`Self::pop`]. Elements that were read before the error are in the queue again.
            ///
            /// # Cancel safety
            /// If the future is dropped, the elements stay in the queue or return to it.
            pub async fn drain(&self, at_most: usize) -> Result<Vec<T>> {
                let (mut popped, mut failed) = (Vec::new(), None);
                let mut is_empty = false;
                while popped.len() < at_most && !is_empty && failed.is_none() {
                    let calls = (at_most - popped.len()).min(DRAINED);
                    let calls = (0..calls).map(|_| pop(&self.object, Source::List(End::Front)));
                    for each in futures_util::future::join_all(calls).await {
                        match each {
                            Ok(Some(element)) => popped.push(element),
                            Ok(None) => is_empty = true,
                            Err(error) => failed = Some(error),
                        }
                    }
                }
                let read = |popped: &Popped| decode(&self.codec, popped.bytes());
                let elements: Result<Vec<T>> = popped.iter().map(read).collect();
                let elements = elements.map_err(|error| error.at(&self.object.key));
                let elements = match failed.map_or(elements, Err) {
                    Ok(elements) => elements,
                    Err(error) => {
                        // The last one returns first, so that their order stays.
                        popped.sort_by_key(Popped::id);
                        while popped.pop().is_some() {}
                        return Err(error);
                    }
                };
                popped.into_iter().for_each(Popped::done);
                Ok(elements)
            }

            /// Takes the first element, with a lease. If the queue is empty, waits for at most this time.
            ///
            /// The element belongs to the caller until [`Taken::done`]. Meanwhile the lease is renewed. If the program dies,
            /// the element becomes available again when the lease is over. A dropped [`Taken`] becomes available again at
            /// once, before all other elements.
            ///
            /// # Errors
            /// As [`Self::pop_wait`].
            ///
            /// # Cancel safety
            /// If the future is dropped, the element stays in the queue or returns to it.
            pub async fn take(&self, at_most: Duration) -> Result<Option<Taken<T>>> {
                self.take_at(End::Front, at_most).await
            }

            async fn take_at(&self, end: End, at_most: Duration) -> Result<Option<Taken<T>>> {
                let taken = take(&self.object, Source::List(end), self.lease, at_most).await?;
                let read = |popped: Popped| Taken::read(popped, |bytes| decode(&self.codec, bytes));
                taken.map(read).transpose().map_err(|error| error.at(&self.object.key))
            }

            fn accept(&self, popped: Option<Popped>) -> Result<Option<T>> {
                let accepted = popped.map(|popped| popped.accept(|element| decode(&self.codec, &element.bytes)));
                accepted.transpose().map_err(|error| error.at(&self.object.key))
            }
        }
    };
}

handle! {
    /// Elements in the order in which they are pushed, as Redisson's `RQueue` and `RBlockingQueue`. Created by
    /// [`Grid::queue`](crate::Grid::queue).
    ///
    /// ```
    /// # use bandog::grid::{ClientGrid, Queue};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let orders: Queue<u64> = grid.queue("orders")?;
    /// orders.push_all(&[7, 8]).await?;
    /// if let Some(order) = orders.take(Duration::from_secs(1)).await? {
    ///     assert_eq!((*order, order.delivery()), (7, 1)); // Work on it, while it is leased.
    ///     order.done().await?;
    /// }
    /// assert_eq!(orders.pop().await?, Some(8));
    /// # Ok(()) }
    /// ```
    Queue<T> { lease: Duration = DEFAULT_LEASE, is_exact: bool = false }
}

/// Reads the elements of a list that can be taken, in pages.
fn peeked<T: 'static>(
    object: &Object,
    read: impl Fn(Vec<u8>) -> Result<T> + Send + 'static,
) -> BoxStream<'static, Result<T>> {
    let state = (object.clone(), VecDeque::new(), Some(0), Portions::default(), read);
    Box::pin(unfold(state, |(object, mut elements, mut next, mut portions, read)| async move {
        loop {
            if let Some(element) = elements.pop_front() {
                let element = read(element).map_err(|error| error.at(&object.key));
                return Some((element, (object, elements, next, portions, read)));
            }
            let skip = next?;
            let page = in_time(&mut portions, |portions| {
                let [at_most, bytes] = portions.next(PAGE).limits();
                let peek = TakeOp::Peek { from: Source::List(End::Front), skip, at_most, bytes };
                object.call(Action::Take(peek), Reply::list).into_future()
            });
            match page.await {
                Ok(page) => {
                    let number = u32::try_from(page.len()).unwrap_or(u32::MAX);
                    next = skip.checked_add(number).filter(|_| number > 0);
                    elements = page.into();
                }
                Err(error) => return Some((Err(error), (object, elements, None, portions, read))),
            }
        }
    }))
}

/// Number of elements that `drain` takes out together.
const DRAINED: usize = 256;

/// The lease of a taken element.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(30);

queue_methods!(Queue);

handle! {
    /// A queue with two ends, as Redisson's `RDeque` and `RBlockingDeque`. Created by [`Grid::deque`](crate::Grid::deque).
    ///
    /// ```
    /// # use bandog::grid::{ClientGrid, Deque};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let stack: Deque<String> = grid.deque("stack")?;
    /// stack.push("first").await?;
    /// stack.push_front("before").await?;
    /// assert_eq!(stack.pop_back().await?.as_deref(), Some("first"));
    /// # Ok(()) }
    /// ```
    Deque<T> { lease: Duration = DEFAULT_LEASE, is_exact: bool = false }
}

queue_methods!(Deque);

impl<T, C: Encode<T>> Deque<T, C> {
    /// Adds an element at the front. Returns the number of elements in the list of the store.
    pub fn push_front<Q: ?Sized>(&self, element: &Q) -> Call<u64>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (elements, bytes) = self.write_all([element].into_iter());
        self.push_at(End::Front, elements, bytes)
    }
}

impl<T, C: Decode<T>> Deque<T, C> {
    /// Takes out the last element, as [`Deque::pop`].
    ///
    /// # Errors
    /// As [`Deque::pop`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the element stays in the queue or returns to it.
    pub async fn pop_back(&self) -> Result<Option<T>> {
        self.accept(pop(&self.object, Source::List(End::Back)).await?)
    }

    /// Takes out the last element, as [`Deque::pop_wait`].
    ///
    /// # Errors
    /// As [`Deque::pop_wait`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the element stays in the queue or returns to it.
    pub async fn pop_back_wait(&self, at_most: Duration) -> Result<Option<T>> {
        self.accept(pop_wait(&self.object, Source::List(End::Back), at_most).await?)
    }

    /// Takes the last element, with a lease, as [`Deque::take`].
    ///
    /// # Errors
    /// As [`Deque::take`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the element stays in the queue or returns to it.
    pub async fn take_back(&self, at_most: Duration) -> Result<Option<Taken<T>>> {
        self.take_at(End::Back, at_most).await
    }
}
