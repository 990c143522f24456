//! Moves the subscriptions whose slot has moved, in the background. A node that does not answer delays only the
//! subscriptions that move to this node, and not the next request for the map.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until};

use super::shared::{Moves, SharedCluster};

/// Maximum number of subscriptions that move at the same time.
const MAX_MOVES: usize = 64;
/// The pause before subscriptions that could not move are tried again. Each further pause is twice the previous pause.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

impl SharedCluster {
    /// Moves the subscriptions that are not at the node of their slot. At most one task does so at any time.
    pub(super) fn move_soon(self: &Arc<Self>) {
        let mut is_running = self.moves.is_running();
        if *is_running {
            self.moves.wanted.notify_one();
        } else if self.has_away() {
            *is_running = true;
            drop(is_running);
            tokio::spawn(move_all(Running(Arc::downgrade(self)), self.moves.clone()));
        }
    }

    /// Ends the task, unless a subscription is away. Returns whether the task has ended.
    fn end_moves(&self) -> bool {
        // A call of `move_soon` waits for this lock, so it sees that the task has ended.
        let mut is_running = self.moves.is_running();
        *is_running = self.has_away();
        !*is_running
    }
}

/// Marks the task as ended when the task is dropped by a runtime that shuts down.
struct Running(Weak<SharedCluster>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(cluster) = self.0.upgrade() {
            *cluster.moves.is_running() = false;
        }
    }
}

/// The background task. It ends when all subscriptions are at their nodes, or when the cluster is dropped.
async fn move_all(mut running: Running, moves: Arc<Moves>) {
    // The subscriptions that are being moved, and those that could not move.
    let (mut moving, mut in_progress, mut failed) = (FuturesUnordered::new(), HashSet::new(), HashSet::new());
    let (mut pause, mut next_try) = (FIRST_PAUSE, None);
    // The subscriptions that are moved next. All subscribers are searched only if some of them may be missing here, and not
    // after each move.
    let (mut queue, mut is_outdated) = (VecDeque::new(), true);
    loop {
        let Some(cluster) = running.0.upgrade() else { return };
        if moving.is_empty() && queue.is_empty() {
            if cluster.end_moves() {
                running.0 = Weak::new();
                return;
            }
            // If all subscriptions that are away have failed, they wait for the next try.
            is_outdated |= next_try.is_none();
        }
        if std::mem::take(&mut is_outdated) {
            queue = cluster.away().into();
        }
        while moving.len() < MAX_MOVES
            && let Some(id) = queue.pop_front()
        {
            if !failed.contains(&id) && in_progress.insert(id) {
                let cluster = cluster.clone();
                moving.push(async move { (id, cluster.move_subscription(id).await) });
            }
        }
        drop(cluster);
        if moving.is_empty() && next_try.is_none() {
            continue; // No subscription is away any more.
        }
        tokio::select! {
            Some((id, has_moved)) = moving.next() => {
                in_progress.remove(&id);
                if has_moved {
                    pause = FIRST_PAUSE;
                } else {
                    failed.insert(id);
                    next_try.get_or_insert(Instant::now() + pause);
                }
            }
            () = moves.wanted.notified() => is_outdated = true,
            () = sleep_until(next_try.unwrap_or_else(Instant::now)), if next_try.is_some() => {
                failed.clear();
                (next_try, is_outdated) = (None, true);
                pause = (pause * 2).min(MAX_PAUSE);
                if let Some(cluster) = running.0.upgrade() {
                    cluster.refresh_soon();
                }
            }
        }
    }
}
