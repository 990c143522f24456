//! What workers do, whatever their handler is.

use std::{sync::Arc, time::Duration};

use bandog_core::{Error, Result, queues::SettleEnd};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::Backoff;

/// The allowed leases.
const LEASES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// Maximum number of slots.
const MAX_SLOTS: u32 = 10_000;

/// The options of workers.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) slots: u32,
    /// Slots that other workers use, too.
    pub(crate) shared: Option<Arc<Slots>>,
    pub(crate) lease: Duration,
    pub(crate) deliveries: u32,
    pub(crate) backoff: Backoff,
    pub(crate) drain: Duration,
    /// Whether an element whose handler was begun is dead when its workers end, and is not handed back.
    pub(crate) begins_once: bool,
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let Self { slots, lease, deliveries, .. } = self;
        if !(1..=MAX_SLOTS).contains(slots) {
            return Err(Error::misused(format!("there are {slots} slots; there must be from 1 to {MAX_SLOTS}")));
        }
        if !LEASES.contains(lease) {
            return Err(Error::misused(format!("the lease is {lease:?}; it must be between 1 s and 1 day")));
        }
        if *deliveries == 0 {
            return Err(Error::misused("an element must be delivered at least once"));
        }
        Ok(())
    }

    /// The settlement of a delivery with this attempt that has failed.
    pub(crate) fn failed(&self, attempt: u32, error: String) -> SettleEnd {
        match attempt >= self.deliveries {
            true => SettleEnd::Fail(error),
            false => SettleEnd::Retry(self.backoff.after(attempt), error),
        }
    }
}

/// Slots that several workers share.
#[derive(Debug)]
pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    /// Notified when one is free again.
    pub(crate) freed: Notify,
}

/// A slot, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(crate) fn new(number: u32) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(number as usize));
        Arc::new(Self { permits, freed: Notify::new() })
    }

    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// A free slot, if there is one.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Slot> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        Some(Slot { slots: self.clone(), permit: Some(permit) })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.permit = None;
        self.slots.freed.notify_waiters();
    }
}
