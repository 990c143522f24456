//! The calling thread: whether it may block, and its owner.

use std::{
    cell::RefCell,
    collections::HashMap,
    task::{Context, Poll, Waker},
};

use bandog_core::{ClientId, Error, Result};
use tokio::{runtime::Handle, task::coop};

use crate::{Owner, owner::WeakOwner};

thread_local! {
    /// This thread's owner for each client of which it holds or awaits a lock.
    static OWNERS: RefCell<HashMap<ClientId, WeakOwner>> = RefCell::default();
}

/// This thread's owner. It is the same one as long as a guard of it lives.
pub(super) fn owner(client: ClientId) -> Result<Owner> {
    let owner = OWNERS.try_with(|owners| {
        let mut owners = owners.borrow_mut();
        if let Some(owner) = owners.get(&client).and_then(WeakOwner::upgrade) {
            return owner;
        }
        owners.retain(|_, owner| owner.upgrade().is_some());
        let owner = Owner::new(client);
        owners.insert(client, owner.downgrade());
        owner
    });
    owner.map_err(|source| {
        let message =
            "this thread is ending and does not know which locks it holds; lock before its locals are dropped";
        Error::misused(message).caused_by(source)
    })
}

/// Refuses to block a thread on which a runtime polls tasks.
pub(super) fn may_block(verb: &'static str) -> Result<()> {
    if !polls_a_task() {
        return Ok(());
    }
    let message = "a blocking call in async code would stop other tasks of its runtime; \
                   await the async one, or call it in tokio::task::spawn_blocking";
    Err(Error::misused(message).during(verb))
}

/// Whether Tokio polls a task, or the future of a `block_on`, on this thread right now.
///
/// Tokio has no API for that. But each such poll has a budget, which `spawn_blocking` and `block_in_place` lift. A
/// runtime's `Handle` is current in all of them, and on threads that have only entered it.
fn polls_a_task() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    // Dropped last, it restores the budget.
    let Poll::Ready(_first) = coop::poll_proceed(&mut context) else { return true };
    // A budget is a byte.
    (0..u8::MAX).any(|_| match coop::poll_proceed(&mut context) {
        Poll::Ready(taken) => {
            taken.made_progress();
            false
        }
        Poll::Pending => true,
    })
}
