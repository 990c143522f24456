//! One worker: a client that takes a lock, holds it and releases it, again and again.

use std::{sync::Arc, time::Duration};

use bandog::{Client, Guard, SharedHold};
use tokio::{sync::watch, time::sleep};

use super::{
    cleaning::close,
    plan::{Name, Plan},
    tally::Tally,
};
use crate::lock::Handle;

/// Time limit of one call for a lock that is held for long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit of one call for a lock that is held for milliseconds. While the store answers that it cannot grant anything,
/// for example a quorum without votes, a call fails only at its limit.
const SHORT_PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a call that has failed.
const PAUSE: Duration = Duration::from_millis(50);
/// Greatest duration of a short hold.
const SHORT: Duration = Duration::from_millis(5);

/// One worker.
pub(super) struct Worker {
    number: usize,
    client: Client,
    tally: Arc<Tally>,
    plan: Arc<Plan>,
    /// True when the worker must end.
    stopped: watch::Receiver<bool>,
}

impl Worker {
    pub(super) fn new(
        number: usize,
        client: Client,
        tally: &Arc<Tally>,
        plan: &Arc<Plan>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self { number, client, tally: Arc::clone(tally), plan: Arc::clone(plan), stopped }
    }

    /// Works until it must end. Then closes the client.
    pub(super) async fn run(mut self) {
        // Half of the workers use the long names.
        let is_long = self.number % 2 == 1;
        let plan = Arc::clone(&self.plan);
        let names: Vec<_> = plan.names.iter().enumerate().filter(|(_, name)| name.is_long == is_long).collect();
        // The first workers take different names, so that each name is in use from the beginning. Then names are random.
        let mut next = self.number / 2;
        while !*self.stopped.borrow() {
            let Some((index, name)) = names.get(next % names.len().max(1)) else { break };
            self.turn(*index, name).await;
            next = fastrand::usize(..);
        }
        close(&self.client).await;
    }

    /// Takes one lock, holds it for some time, and releases it. Returns early if the worker must end.
    async fn turn(&mut self, index: usize, name: &Name) {
        let kind = name.family.random_kind();
        let handle = Handle::new(&self.client, &name.text, kind, self.plan.lease, &self.client.owner());
        if !name.is_long {
            self.tally.waits(self.number);
        }
        let limit = if name.is_long { PATIENCE } else { SHORT_PATIENCE };
        let guard = tokio::select! { biased;
            () = stop(&mut self.stopped) => None,
            guard = self.tally.until_granted(&handle, limit) => Some(guard),
        };
        self.tally.waited(self.number);
        let Some(guard) = guard else { return };
        let (hold, guard) = self.tally.granted(index, self.number, kind, guard);
        // Between half of the greatest duration and all of it, so that the workers do not stay in step.
        let longest = if name.is_long { self.plan.hold } else { SHORT };
        let length = longest.mul_f64(0.5 + 0.5 * fastrand::f64());
        tokio::select! { biased;
            () = guard.lost() => {}
            () = stop(&mut self.stopped) => {}
            () = sleep(length) => {}
        }
        // The use of the lock ends before its release begins.
        let was_lost = self.tally.ended(hold, &guard);
        // The tally has dropped its guard, so this one is the last.
        let released = match Arc::into_inner(guard) {
            Some(guard) => guard.release().await,
            None => Ok(()),
        };
        self.tally.released(was_lost, released);
    }
}

/// Returns when the worker must end.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, so the worker must end, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

impl Tally {
    /// Claims the lock until it is granted. Counts errors. `limit`: the time limit of one call.
    async fn until_granted(&self, handle: &Handle, limit: Duration) -> Guard<SharedHold> {
        loop {
            match handle.try_lock_for(limit).await {
                Ok(Some(guard)) => return guard,
                Ok(None) => {}
                Err(error) => {
                    self.failed(&error);
                    sleep(PAUSE).await;
                }
            }
        }
    }
}
