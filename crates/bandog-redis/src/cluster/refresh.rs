//! Fetches the map of slots again in the background.

use std::{
    sync::{Arc, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    SharedCluster,
    map::{Endpoint, Node},
};

/// Minimum time between two requests for the map.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The state of the background task.
#[derive(Debug, Default)]
pub(super) struct RefreshState {
    is_running: bool,
    /// Whether a further request is needed after the present one.
    is_wanted: bool,
    last: Option<Instant>,
}

impl SharedCluster {
    /// Corrects the owner of one slot, and fetches the whole map in the background.
    pub(super) fn slot_moved(self: &Arc<Self>, slot: u16, endpoint: &Endpoint) {
        let node = self.node_at(endpoint);
        self.map().set_owner(slot, node);
        self.refresh_soon();
    }

    /// The node at this address, which another node has named.
    pub(super) fn node_at(self: &Arc<Self>, endpoint: &Endpoint) -> Arc<Node> {
        let cluster = Arc::downgrade(self);
        let mut map = self.map();
        map.keep(endpoint);
        map.node(endpoint, &self.options, &self.epoch, &cluster)
    }

    /// Fetches the map in the background. At most one task does so at any time.
    pub(super) fn refresh_soon(self: &Arc<Self>) {
        let mut state = self.refresh_state();
        state.is_wanted = true;
        // Without a runtime, the next call starts the task.
        if !state.is_running && tokio::runtime::Handle::try_current().is_ok() {
            state.is_running = true;
            drop(state);
            tokio::spawn(refresh(Running(Arc::downgrade(self))));
        }
    }

    fn refresh_state(&self) -> MutexGuard<'_, RefreshState> {
        self.refresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time until the next request is allowed. None if no request is needed; then the task has to end.
    fn next_refresh(&self) -> Option<Duration> {
        let mut state = self.refresh_state();
        if !std::mem::take(&mut state.is_wanted) {
            state.is_running = false;
            return None;
        }
        Some(state.last.map_or(Duration::ZERO, |last| MIN_INTERVAL.saturating_sub(last.elapsed())))
    }
}

/// Marks the task as ended when the task is dropped by a runtime that shuts down. A task that ends by itself has marked
/// this before, and a new task may run already.
struct Running(Weak<SharedCluster>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(cluster) = self.0.upgrade() {
            cluster.refresh_state().is_running = false;
        }
    }
}

/// The background task. It ends when no request is needed, or when the cluster is dropped.
async fn refresh(mut running: Running) {
    loop {
        let Some(wait) = running.0.upgrade().and_then(|cluster| cluster.next_refresh()) else {
            running.0 = Weak::new();
            return;
        };
        sleep(wait).await;
        let Some(cluster) = running.0.upgrade() else { return };
        cluster.refresh_state().last = Some(Instant::now());
        // If no node answers, the next call that fails asks again.
        if let Ok(topology) = cluster.fetch_topology().await {
            cluster.apply_topology(&topology);
        }
        // A subscription that is away has no call that fails, so the task that moves it asks again.
        cluster.move_soon();
    }
}
