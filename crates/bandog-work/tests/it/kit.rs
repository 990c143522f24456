//! Helper functions of the tests.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog::{
    testing::Store,
    work::{ClientWork, Delivery, ElementRow, Phase, WorkQueue},
};
use futures_util::TryStreamExt;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A queue in memory, and the same one in another program.
pub(crate) fn queues() -> (WorkQueue<String>, WorkQueue<String>) {
    let store = Store::new();
    let queue = || store.client().work_queue("orders").unwrap();
    (queue(), queue())
}

pub(crate) async fn elements(queue: &WorkQueue<String>, phase: Phase) -> Vec<ElementRow> {
    queue.elements(phase).try_collect().await.unwrap()
}

pub(crate) async fn count(queue: &WorkQueue<String>, phase: Phase) -> u64 {
    queue.status().await.unwrap().count(phase)
}

/// Waits until the queue has no element.
pub(crate) async fn empty(queue: &WorkQueue<String>) {
    bandog_testkit::eventually_async(SECOND * 3600, async || {
        queue.status().await.unwrap().counts.values().sum::<u64>() == 0
    })
    .await;
}

/// What handlers have seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn add(&self, delivery: &Delivery<String>) {
        self.0.lock().unwrap().push(delivery.to_string());
    }

    pub(crate) fn add_attempt(&self, delivery: &Delivery<String>) {
        self.0.lock().unwrap().push(format!("{} {}", **delivery, delivery.attempt()));
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
