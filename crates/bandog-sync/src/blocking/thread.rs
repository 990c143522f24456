//! The calling thread: whether it is allowed to block, and the owner for which it takes locks.

use std::{
    cell::RefCell,
    collections::HashMap,
    task::{Context, Poll, Waker},
};

use bandog_core::{ClientId, Error, Result};
use tokio::{runtime::Handle, task::coop};

use crate::{Owner, owner::WeakOwner};

thread_local! {
    /// This thread's owner for each client, while the thread holds a lock of the client or waits for one.
    static OWNERS: RefCell<HashMap<ClientId, WeakOwner>> = RefCell::default();
}

/// This thread's owner for a client. The owner stays the same while the thread has a guard.
pub(super) fn owner(client: ClientId) -> Result<Owner> {
    let owner = OWNERS.try_with(|owners| {
        let mut owners = owners.borrow_mut();
        if let Some(owner) = owners.get(&client).and_then(WeakOwner::upgrade) {
            return owner;
        }
        owners.retain(|_, owner| owner.upgrade().is_some());
        let owner = Owner::of_this_thread(client);
        owners.insert(client, owner.downgrade());
        owner
    });
    owner.map_err(|source| {
        let message = "this thread is ending, and its list of locks was already dropped; lock earlier than that";
        Error::misused(message).caused_by(source)
    })
}

/// Returns an error if a runtime polls a task on this thread, because the call would block other tasks.
pub(super) fn may_block(verb: &'static str) -> Result<()> {
    if !polls_a_task() {
        return Ok(());
    }
    let message = "a blocking call in async code would stop other tasks of its runtime; \
                   await the async call, or make the blocking call in tokio::task::spawn_blocking";
    Err(Error::misused(message).during(verb))
}

/// Whether Tokio polls a task, or the future of a `block_on`, on this thread right now.
///
/// Tokio has no API for this question. But Tokio limits the number of operations (the *budget*) while it polls a task.
/// In `spawn_blocking` and `block_in_place` there is no such limit. So this function tests whether there is a limit.
/// The check for a `Handle` alone would not be enough, because a thread has a `Handle` in all of these cases. A thread
/// that has only entered a runtime has a `Handle`, too.
fn polls_a_task() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    // `_first` is dropped at the end of the function. Its drop restores the budget.
    let Poll::Ready(_first) = coop::poll_proceed(&mut context) else { return true };
    // The budget is a number below 256. So if 256 operations are possible, there is no limit.
    (0..u8::MAX).any(|_| match coop::poll_proceed(&mut context) {
        Poll::Ready(taken) => {
            taken.made_progress();
            false
        }
        Poll::Pending => true,
    })
}
