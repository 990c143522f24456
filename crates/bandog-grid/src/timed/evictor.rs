//! Removes expired entries: one task for all timed maps of a grid.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{
    Key,
    structures::{Action, Expiry, Op, Reply, TimedOp},
};
use tokio::runtime::Handle;

use crate::store::Store;

/// The time between two passes. Redisson's evictor begins with the same.
const PAUSE: Duration = Duration::from_secs(5);

/// The time between two passes while a map has more expired entries than one removes.
const SHORT_PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of entries of a map that one pass removes.
const AT_ONCE: u32 = 500;

/// Runs the task on the runtime of the caller, if it does not run.
pub(super) fn run(store: &Arc<Store>) {
    if store.timed_maps.runs() {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return };
    if store.timed_maps.begin() {
        let running = Running(Arc::downgrade(store));
        drop(runtime.spawn(async move { evict(&running.0).await }));
    }
}

/// The task that runs. If it ends, also because its runtime does, the next call starts another one.
struct Running(Weak<Store>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(store) = self.0.upgrade() {
            store.timed_maps.end();
        }
    }
}

/// Removes expired entries until there is no map.
async fn evict(store: &Weak<Store>) {
    let mut pause = PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        let Some(store) = store.upgrade() else { return };
        let keys = store.timed_maps.keys();
        if keys.is_empty() {
            return;
        }
        let evict = TimedOp::Evict { at_most: AT_ONCE, pause: PAUSE * 9 / 10 };
        let op = |key: &Key| Op::new(key, Action::Timed(Expiry::Operations, evict.clone()));
        let replies = store.run(&keys.iter().map(op).collect::<Vec<_>>(), &[]).await;
        let is_full = |reply: &_| matches!(reply, Ok(Reply::Int(removed)) if *removed >= i64::from(AT_ONCE));
        pause = if replies.iter().any(is_full) { SHORT_PAUSE } else { PAUSE };
    }
}
