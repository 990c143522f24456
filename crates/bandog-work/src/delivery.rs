//! An element on which a worker works.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use bandog_core::{
    Error, ErrorKind, Fence, Key, Moment, Result, SqlStatement,
    queues::{Delivered, DeliveryId, ElementId, Headers, Settle, SettleEnd},
};
use tokio::{
    sync::{mpsc::UnboundedSender, oneshot, watch},
    time::sleep,
};

use crate::shared::Shared;

/// Maximum length of an error and of a progress in the store, in bytes.
const MAX_TEXT: usize = 4096;

/// An element that this worker has. Clones are the same delivery.
///
/// The lease is extended in the background. When the handler ends, the element is settled: `Ok` means done, an error means
/// again after a time, as a panic does. If the delivery is [lost](Delivery::lost), the handler's future is dropped.
pub struct Delivery<T> {
    value: Arc<T>,
    pub(crate) link: Arc<Link>,
}

/// What a delivery knows of its worker.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: DeliveryId,
    shared: Arc<Shared>,
    attempt: u32,
    age: Duration,
    error: Option<String>,
    headers: Headers,
    until: watch::Receiver<Until>,
    events: UnboundedSender<Event>,
    settled: AtomicU8,
}

/// How a handler has ended.
#[derive(Debug)]
pub(crate) struct HandlerEnd {
    pub(crate) end: SettleEnd,
    /// Whether a transaction of the handler settles the element as done. Then `end` applies only if it was not committed.
    pub(crate) is_in_transaction: bool,
}

impl From<SettleEnd> for HandlerEnd {
    fn from(end: SettleEnd) -> Self {
        Self { end, is_in_transaction: false }
    }
}

/// How long a delivery belongs to its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until this time, if it is not extended.
    Time(Moment),
    /// Another worker may have the element.
    Lost,
    /// An operator has removed the element.
    Cancelled,
}

/// A message to the keeper.
#[derive(Debug)]
pub(crate) enum Event {
    /// A call of the handler settles the delivery.
    Settle(DeliveryId, SettleEnd, oneshot::Sender<Result<()>>),
    /// The progress for operators.
    Progress(DeliveryId, String),
    /// A transaction of the handler has settled the delivery as done.
    InTransaction(DeliveryId),
    /// The number of workers of the queue that have a free slot, also in other programs. Zero: it is unknown.
    Workers(u64),
}

/// The time that is left to a delivery without a deadline. It can be added to an instant.
const NO_DEADLINE: Duration = Duration::from_secs(365 * 86_400);

const OPEN: u8 = 0;
const SETTLED: u8 = 1;
const IN_TRANSACTION: u8 = 2;
/// A call has tried to settle the delivery, and the store has not done it.
const NOT_SETTLED: u8 = 3;

impl Link {
    pub(crate) fn new(
        delivered: &Delivered,
        headers: Headers,
        shared: &Arc<Shared>,
        until: watch::Receiver<Until>,
        events: UnboundedSender<Event>,
    ) -> Self {
        Self {
            id: delivered.delivery(),
            shared: shared.clone(),
            attempt: delivered.attempt,
            age: delivered.age,
            error: delivered.error.clone(),
            headers,
            until,
            events,
            settled: AtomicU8::new(OPEN),
        }
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What the end of the handler means: nothing, if a call has settled the delivery.
    pub(crate) fn end(&self, of_handler: SettleEnd) -> Option<HandlerEnd> {
        match (self.settled.load(Ordering::Acquire), of_handler) {
            (OPEN, end) => Some(end.into()),
            // If the transaction was committed, the element is gone, and this changes nothing.
            (IN_TRANSACTION, SettleEnd::Done(_)) => {
                let error = "the handler has ended, but its transaction was not committed";
                let end = SettleEnd::Retry(Duration::ZERO, error.to_owned());
                Some(HandlerEnd { end, is_in_transaction: true })
            }
            (IN_TRANSACTION, end) => Some(end.into()),
            _ => None,
        }
    }

    /// The time until the delivery is lost, if it is not extended. Zero: it is lost.
    fn remaining(&self) -> Duration {
        match *self.until.borrow() {
            _ if self.is_settled() => NO_DEADLINE,
            Until::Time(until) => until.since(self.shared.clock().now()),
            Until::Lost | Until::Cancelled => Duration::ZERO,
        }
    }

    /// Whether a call has settled the delivery. Then it is never lost, and its handler may go on.
    fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire) == SETTLED
    }

    /// Whether the delivery is lost or cancelled.
    pub(crate) fn is_lost(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Resolves when the delivery is lost or cancelled.
    pub(crate) async fn lost(&self) {
        let mut changes = self.until.clone();
        loop {
            changes.borrow_and_update();
            let left = self.remaining();
            if left.is_zero() {
                return;
            }
            tokio::select! {
                biased;
                // Without a keeper, nothing extends the lease.
                Ok(()) = changes.changed() => {}
                () = sleep(left) => {}
            }
        }
    }

    async fn settle(self: Arc<Self>, end: SettleEnd) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        let ended = || Error::unavailable("the workers have ended").ambiguous().at(&self.shared.key);
        let before = self.settled.swap(SETTLED, Ordering::AcqRel);
        if matches!(before, SETTLED | NOT_SETTLED) {
            self.settled.store(before, Ordering::Release);
            return Err(Error::misused("this delivery is settled already").at(&self.shared.key));
        }
        let settled = match self.events.send(Event::Settle(self.id, end, reply)) {
            Ok(()) => answer.await.map_err(|_| ended()).flatten(),
            Err(_) => Err(ended()),
        };
        settled.map_err(|error| {
            self.settled.store(NOT_SETTLED, Ordering::Release);
            error.at(&self.shared.key)
        })
    }
}

impl<T> Delivery<T> {
    pub(crate) fn new(value: T, link: Arc<Link>) -> Self {
        Self { value: Arc::new(value), link }
    }

    /// The id of the element.
    pub fn id(&self) -> ElementId {
        self.link.id.id
    }

    /// The number of this delivery of the element. The first one is 1.
    pub fn attempt(&self) -> u32 {
        self.link.attempt
    }

    /// The fence of this delivery: later deliveries of the element, and of elements with the same key, have greater ones. A
    /// resource that refuses smaller fences than the greatest one it has seen refuses a worker that has lost the element.
    pub fn fence(&self) -> Fence {
        self.link.id.fence
    }

    /// The time between the push and this delivery.
    pub fn age(&self) -> Duration {
        self.link.age
    }

    /// The value that the pusher has given to this header ([`Push::header`](crate::Push::header)).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.link.headers.get(name)
    }

    /// All headers.
    pub fn headers(&self) -> &Headers {
        &self.link.headers
    }

    /// Why the delivery before has failed.
    pub fn last_error(&self) -> Option<&str> {
        self.link.error.as_deref()
    }

    /// Whether the lease is over, or may be over soon without an answer of the store, or an operator has removed the element.
    pub fn is_lost(&self) -> bool {
        self.link.is_lost()
    }

    /// Time until the delivery is lost if its lease is not extended. Zero if it is lost, and a year after a call has settled
    /// it: it has no deadline then.
    pub fn remaining(&self) -> Duration {
        self.link.remaining()
    }

    /// Resolves when the delivery is lost ([`Delivery::is_lost`]): before another worker can get the element. The future of the
    /// handler is dropped at that time; a thread or a process that it has started must be stopped by this.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<T> {
        let link = self.link.clone();
        async move { link.lost().await }
    }

    /// Shows a text to operators, of at most 4 KiB. It is written with the next extension of the lease.
    pub fn progress(&self, text: impl Into<String>) {
        // If the workers have ended, nobody shows it.
        let _ = self.link.events.send(Event::Progress(self.link.id, shortened(text.into())));
    }

    /// Settles the element as done, and waits for the store. What the handler returns does not count any more. The handler may go
    /// on for as long as it wants: it keeps its slot, and `stop` waits for it as for every other one.
    ///
    /// # Errors
    /// - `ErrorKind::Lost`: the lease was over, and another worker has got the element; or the element was removed.
    /// - `ErrorKind::Unavailable`: the store has not answered while the lease lasted. The element may be settled.
    /// - `ErrorKind::Misused`: the delivery is settled already.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the element is settled in the background.
    pub fn done(&self) -> impl Future<Output = Result<()>> + Send + use<T> {
        self.link.clone().settle(SettleEnd::Done(Vec::new()))
    }

    /// Settles the element as failed: it is delivered again after this time, unless this was its last delivery. Otherwise as
    /// [`Delivery::done`].
    ///
    /// # Errors
    /// As [`Delivery::done`].
    ///
    /// # Cancel safety
    /// As [`Delivery::done`].
    pub fn retry_after<E: fmt::Display>(
        &self,
        time: Duration,
        error: E,
    ) -> impl Future<Output = Result<()>> + Send + use<T, E> {
        self.link.clone().settle(SettleEnd::Retry(time, shortened(error.to_string())))
    }

    /// Settles the element as dead, whatever its attempts are. Otherwise as [`Delivery::done`].
    ///
    /// # Errors
    /// As [`Delivery::done`].
    ///
    /// # Cancel safety
    /// As [`Delivery::done`].
    pub fn fail<E: fmt::Display>(&self, error: E) -> impl Future<Output = Result<()>> + Send + use<T, E> {
        self.link.clone().settle(SettleEnd::Fail(shortened(error.to_string())))
    }

    /// Gives the element back: it is ready at its place, and the delivery does not count. Otherwise as [`Delivery::done`].
    ///
    /// # Errors
    /// As [`Delivery::done`].
    ///
    /// # Cancel safety
    /// As [`Delivery::done`].
    pub fn hand_back(&self) -> impl Future<Output = Result<()>> + Send + use<T> {
        self.link.clone().settle(SettleEnd::HandBack(Duration::ZERO))
    }

    /// The same delivery, without its value.
    pub(crate) fn without_value(&self) -> Delivery<()> {
        Delivery { value: Arc::new(()), link: self.link.clone() }
    }

    /// The statements that settle the element as done in a transaction of the program.
    #[doc(hidden)]
    pub fn done_sql(&self) -> impl Future<Output = Result<Vec<SqlStatement>>> + Send + use<T> {
        let (link, is_lost) = (self.link.clone(), self.is_lost());
        async move {
            if is_lost {
                return Err(lost().at(&link.shared.key));
            }
            let settle = Settle { delivery: link.id, end: SettleEnd::Done(Vec::new()) };
            link.shared.queues.settle_sql(&link.shared.key, &settle).await
        }
    }

    /// A transaction has executed these statements. If the handler ends and the transaction was not committed, the element is
    /// delivered again.
    #[doc(hidden)]
    pub fn done_in_transaction(&self) {
        self.link.settled.store(IN_TRANSACTION, Ordering::Release);
        // Without workers, nothing extends the lease.
        let _ = self.link.events.send(Event::InTransaction(self.link.id));
    }

    /// The queue, for errors.
    #[doc(hidden)]
    pub fn key(&self) -> &Key {
        &self.link.shared.key
    }
}

/// The error about an element that does not belong to this program any more.
pub(crate) fn lost() -> Error {
    Error::new(ErrorKind::Lost, "the lease was over, or the element was removed: another worker may have it")
}

/// A text that a store takes: at most [`MAX_TEXT`] bytes, without the character 0.
pub(crate) fn shortened(mut text: String) -> String {
    text.retain(|char| char != '\0');
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

impl<T> Deref for Delivery<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for Delivery<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), link: self.link.clone() }
    }
}

/// The value is not shown: it may be secret.
impl<T> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("link", &self.link).finish_non_exhaustive()
    }
}
