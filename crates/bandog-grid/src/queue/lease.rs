//! An element that a program works on.

use std::{fmt, ops::Deref, time::Duration};

use bandog_core::{
    Fence, Result,
    structures::{EntryId, TakeEnd},
};
use tokio::time::sleep;

use super::message::Popped;

/// An element that belongs to this program until it is done, or until it is [lost](Taken::lost). Created by
/// [`Queue::take`](crate::Queue::take) and [`Group::take`](crate::Group::take).
///
/// The lease is renewed in the background. A dropped `Taken` makes its element available again at once, before all others.
#[must_use = "a dropped Taken makes its element available again"]
pub struct Taken<T> {
    value: T,
    popped: Popped,
}

impl<T> Taken<T> {
    pub(crate) fn read(mut popped: Popped, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<Self> {
        let value = read(popped.bytes())?;
        popped.at_drop = Some(TakeEnd::Again);
        Ok(Self { value, popped })
    }

    /// The number of this delivery of the element. The first one is 1.
    pub fn delivery(&self) -> u32 {
        self.popped.element.delivery
    }

    /// The fence of this delivery: later deliveries of the element have greater ones. A resource that refuses smaller fences
    /// than the greatest one it has seen for this element refuses a program that has lost it.
    pub fn fence(&self) -> Fence {
        Fence::new(self.popped.element.id)
    }

    /// The id of the entry, if the element was taken from a [`Group`](crate::Group) of a journal.
    pub fn entry(&self) -> Option<EntryId> {
        self.popped.element.entry
    }

    /// Removes the element from the store; an entry of a journal is removed from its group only.
    ///
    /// # Errors
    /// - `ErrorKind::Lost`: the lease was over, so another program may have the element.
    /// - `ErrorKind::Unavailable`: the store does not answer, or an answer was lost until the lease was over. The element may be removed
    ///   ([`Error::maybe_applied`](bandog_core::Error::maybe_applied)); otherwise it becomes available again when the lease is over.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the element is removed in the background.
    pub async fn done(self) -> Result<()> {
        self.popped.end(TakeEnd::Done).await
    }

    /// Makes the element available again, before all others. Its number of deliveries is kept.
    ///
    /// # Errors
    /// As [`Taken::done`].
    ///
    /// # Cancel safety
    /// As [`Taken::done`].
    pub async fn release(self) -> Result<()> {
        self.popped.end(TakeEnd::Again).await
    }

    /// Whether the lease is over, or may be over soon without an answer of the store. Then another program may get the
    /// element.
    pub fn is_lost(&self) -> bool {
        self.popped.is_lost()
    }

    /// Time until the element is lost if no further renewal succeeds. Zero if it is lost.
    pub fn remaining(&self) -> Duration {
        self.popped.until().since(self.popped.clock.now())
    }

    /// Resolves when the element is lost ([`Taken::is_lost`]): before another program can get it.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<T> {
        self.expiring(Duration::ZERO)
    }

    /// Resolves when only `grace` is left before the element is lost. Use it if your work needs some time to stop. Each
    /// renewal postpones this moment, and a renewal can still succeed after it.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn expiring(&self, grace: Duration) -> impl Future<Output = ()> + Send + use<T> {
        let (mut until, clock) = (self.popped.until.clone(), self.popped.clock);
        async move {
            loop {
                let end = *until.borrow_and_update();
                let left = end.map_or(Duration::ZERO, |end| end.since(clock.now()).saturating_sub(grace));
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    changed = until.changed() => {
                        if changed.is_err() {
                            // Nobody renews the lease any more.
                            sleep(left).await;
                        }
                    }
                    () = sleep(left) => {}
                }
            }
        }
    }
}

impl<T> Deref for Taken<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Taken<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken")
            .field("value", &self.value)
            .field("delivery", &self.delivery())
            .field("fence", &self.fence())
            .finish_non_exhaustive()
    }
}
