//! Fetches the map of slots again in the background.

use std::{
    sync::{Arc, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    map::{Node, Topology},
    shared::{RefreshState, SharedCluster},
};
use crate::options::Host;

/// Minimum time between two requests for the map.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

impl SharedCluster {
    /// Corrects the owner of one slot, and fetches the whole map in the background.
    pub(super) fn slot_moved(self: &Arc<Self>, slot: u16, host: &Host) {
        let node = self.node_at(host);
        self.map().set_owner(slot, node);
        self.refresh_soon();
    }

    /// The node at this address, which another node has named.
    pub(super) fn node_at(self: &Arc<Self>, host: &Host) -> Arc<Node> {
        let mut map = self.map();
        map.keep(host);
        map.node(host, &|host, sharded| self.open_watched(host, sharded))
    }

    /// Replaces the map.
    pub(super) fn apply_topology(self: &Arc<Self>, topology: &Topology) {
        self.map().apply(topology, &|host, sharded| self.open_watched(host, sharded));
        self.track_masters();
    }

    /// A node that has the map fetched again when it loses the slot of a channel, or cannot be reached for subscriptions.
    fn open_watched(self: &Arc<Self>, host: &Host, sharded: bool) -> Node {
        let cluster = Arc::downgrade(self);
        self.open(host, sharded, move || {
            if let Some(cluster) = cluster.upgrade() {
                cluster.refresh_soon();
            }
        })
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
