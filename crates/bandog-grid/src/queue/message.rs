//! What calls, taken elements and the taker of a queue send to each other.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bandog_core::{
    Clock, Error, ErrorKind, Key, Moment, Result,
    structures::{Source, TakeEnd, TakenElement},
};
use tokio::sync::{
    mpsc::{UnboundedSender, error::SendError},
    oneshot, watch,
};

/// The takers of a grid. Each belongs to an object, an end of it, and a lease.
#[derive(Debug, Default)]
pub(crate) struct Takers(Mutex<HashMap<TakerId, Contact>>);

/// The object, its end, and the lease in ms.
pub(super) type TakerId = (Key, Source, u64);

impl Takers {
    /// Sends a call to the taker with this id, and returns what the taker knows of the store. `start` starts it if there is
    /// none. A taker leaves under the same lock, so it has received all calls before, and none is sent to it afterwards.
    pub(super) fn call(&self, id: TakerId, caller: Caller, start: impl FnOnce() -> Result<Contact>) -> Result<Called> {
        let mut takers = self.takers();
        let mut message = Message::Call(caller);
        if let Some(contact) = takers.get(&id) {
            let called = contact.called();
            match contact.messages.send(message) {
                Ok(()) => return Ok(called),
                Err(SendError(returned)) => message = returned, // The taker has ended with its runtime.
            }
        }
        takers.retain(|_, contact| !contact.messages.is_closed());
        let contact = start()?;
        // If its runtime ends, the taker drops the call, which is an error of the call.
        let called = contact.called();
        let _ = contact.messages.send(message);
        takers.insert(id, contact);
        Ok(called)
    }

    /// Removes a taker that has nothing to do. Returns false, and does nothing, if it is not idle any more.
    pub(super) fn leave(&self, id: &TakerId, is_idle: impl FnOnce() -> bool) -> bool {
        let mut takers = self.takers();
        let leaves = is_idle();
        if leaves {
            takers.remove(id);
        }
        leaves
    }

    fn takers(&self) -> MutexGuard<'_, HashMap<TakerId, Contact>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the store has confirmed all elements that have ended.
    pub(crate) async fn flush(&self) {
        let senders: Vec<_> = {
            let takers = self.takers();
            takers.values().map(|contact| contact.messages.clone()).collect()
        };
        for messages in senders {
            let (reply, flushed) = oneshot::channel();
            if messages.send(Message::Flush(reply)).is_ok() {
                // If the taker has ended with its runtime, it confirms nothing any more.
                let _ = flushed.await;
            }
        }
    }
}

/// How calls reach a taker.
#[derive(Debug, Clone)]
pub(super) struct Contact {
    /// Unbounded: each message belongs to a call that waits, or to an element that was taken.
    pub(super) messages: UnboundedSender<Message>,
    pub(super) status: watch::Receiver<Status>,
}

impl Contact {
    fn called(&self) -> Called {
        Called { after: self.status.borrow().begun, status: self.status.clone() }
    }
}

/// A call that was sent to a taker.
pub(super) struct Called {
    pub(super) status: watch::Receiver<Status>,
    /// The number of the last request for elements that began before the call.
    after: u64,
}

impl Called {
    /// Whether the store has answered a request for elements that began after the call.
    pub(super) fn is_answered(&self, status: &Status) -> bool {
        status.answered > self.after
    }
}

/// What a taker knows of the store. Its requests for elements have numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Status {
    /// The last one that has begun.
    pub(super) begun: u64,
    /// The last one that was answered.
    pub(super) answered: u64,
    /// The error of the last request, if it failed.
    pub(super) error: Option<Error>,
}

/// A message to a taker.
#[derive(Debug)]
pub(super) enum Message {
    Call(Caller),
    End(End),
    /// The reply comes when the store has confirmed all elements that have ended.
    Flush(oneshot::Sender<()>),
}

/// A call that wants one element.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) reply: oneshot::Sender<Result<Option<Popped>>>,
    /// Whether it waits if there is none.
    pub(super) waits: bool,
}

/// The end of a taken element.
#[derive(Debug)]
pub(super) struct End {
    pub(super) id: u64,
    pub(super) end: TakeEnd,
    /// Where a call waits for the answer.
    pub(super) reply: Option<oneshot::Sender<Result<()>>>,
    /// The time at which the element becomes available again by itself.
    pub(super) until: Moment,
    /// The requests without an answer, and whether one of them may have been applied.
    pub(super) attempts: u32,
    pub(super) maybe_applied: bool,
}

impl End {
    pub(super) fn new(id: u64, end: TakeEnd, until: Moment, reply: Option<oneshot::Sender<Result<()>>>) -> Self {
        Self { id, end, reply, until, attempts: 0, maybe_applied: false }
    }
}

/// An element on its way to a caller. Without [`Popped::done`], it goes back to its place in the store.
#[derive(Debug)]
pub(crate) struct Popped {
    pub(super) element: TakenElement,
    key: Key,
    pub(super) clock: Clock,
    /// The end of the lease. `None`: the element is lost.
    pub(super) until: watch::Receiver<Option<Moment>>,
    taker: UnboundedSender<Message>,
    /// What becomes of the element when this is dropped.
    pub(super) at_drop: Option<TakeEnd>,
}

impl Popped {
    pub(super) fn new(
        element: TakenElement,
        (key, clock): (Key, Clock),
        until: watch::Receiver<Option<Moment>>,
        taker: UnboundedSender<Message>,
    ) -> Self {
        Self { element, key, clock, until, taker, at_drop: Some(TakeEnd::Undelivered) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.element.bytes
    }

    pub(crate) fn id(&self) -> u64 {
        self.element.id
    }

    /// Removes the element from the store.
    pub(crate) fn done(mut self) {
        self.at_drop = Some(TakeEnd::Done);
    }

    /// Reads the element, and removes it from the store. An element that cannot be read goes back.
    pub(crate) fn accept<T>(self, read: impl FnOnce(&TakenElement) -> Result<T>) -> Result<T> {
        let value = read(&self.element)?;
        self.done();
        Ok(value)
    }

    /// Whether the lease is over, so that another program may have the element.
    pub(super) fn is_lost(&self) -> bool {
        let until = *self.until.borrow();
        until.is_none_or(|until| self.clock.now() >= until)
    }

    /// When the element becomes available again by itself.
    pub(super) fn until(&self) -> Moment {
        self.until.borrow().unwrap_or_else(|| self.clock.now())
    }

    /// Ends the element, and waits until the store has answered.
    pub(super) async fn end(mut self, end: TakeEnd) -> Result<()> {
        self.at_drop = None;
        let (reply, answer) = oneshot::channel();
        let id = self.element.id;
        let until = self.until.clone();
        // A taker that has lost all its elements ends, too.
        let is_lost = || until.borrow().is_none_or(|until| self.clock.now() >= until);
        let ended = || match is_lost() {
            true => lost().at(&self.key),
            false => Error::unavailable("the runtime of the queue has ended").ambiguous().at(&self.key),
        };
        self.taker.send(Message::End(End::new(id, end, self.until(), Some(reply)))).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

/// The error about an element that does not belong to this program any more.
pub(super) fn lost() -> Error {
    Error::new(ErrorKind::Lost, "the lease was over: another program may have the element")
}

impl Drop for Popped {
    fn drop(&mut self) {
        if let Some(end) = self.at_drop {
            // If the taker has ended, the lease expires.
            let _ = self.taker.send(Message::End(End::new(self.element.id, end, self.until(), None)));
        }
    }
}
