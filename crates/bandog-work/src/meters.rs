//! Metrics, through the `metrics` facade, by the name of the queue. docs/observability.md explains them.

use std::{sync::Arc, time::Duration};

use bandog_core::{
    Clock, Moment,
    queues::{Pushed, SettleEnd},
};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// How a delivery has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The element is done.
    Done,
    /// It has failed, and comes again.
    Retried,
    /// It has failed for good: the element is dead.
    Failed,
    /// It was given back, and does not count.
    HandedBack,
    /// An operator or the caller has removed the element.
    Cancelled,
    /// Its lease was over: another worker may have the element.
    Lost,
}

/// The metrics of the workers of a queue, in the recorder that was installed when they were made.
pub(crate) struct Meters {
    queue: String,
    clock: Clock,
    done: Counter,
    retried: Counter,
    failed: Counter,
    handed_back: Counter,
    cancelled: Counter,
    lost: Counter,
    dead: Counter,
    wait: Histogram,
    run: Histogram,
    running: Gauge,
}

/// A handler that runs. When this is dropped, its time is recorded.
pub(crate) struct Run {
    histogram: Histogram,
    running: Gauge,
    clock: Clock,
    begun: Moment,
}

/// Counts the elements of a push that are new.
pub(crate) fn pushed(queue: &str, pushed: &[Pushed]) {
    let new = pushed.iter().filter(|pushed| pushed.is_new).count();
    counter!("bandog_work_pushed_total", "queue" => queue.to_owned()).increment(new as u64);
}

impl Meters {
    pub(crate) fn new(queue: &str, clock: Clock) -> Arc<Self> {
        let name = || queue.to_owned();
        let deliveries = |end| counter!("bandog_work_deliveries_total", "queue" => name(), "end" => end);
        Arc::new(Self {
            queue: name(),
            clock,
            done: deliveries("done"),
            retried: deliveries("retried"),
            failed: deliveries("failed"),
            handed_back: deliveries("handed_back"),
            cancelled: deliveries("cancelled"),
            lost: deliveries("lost"),
            dead: deliveries("dead"),
            wait: histogram!("bandog_work_wait_seconds", "queue" => name()),
            run: histogram!("bandog_work_run_seconds", "queue" => name()),
            running: gauge!("bandog_work_running", "queue" => name()),
        })
    }

    /// A handler starts. `waited`: the time since the push, if this is the first delivery.
    pub(crate) fn began(&self, waited: Option<Duration>) -> Run {
        if let Some(waited) = waited {
            self.wait.record(waited);
        }
        self.running.increment(1);
        let (histogram, running) = (self.run.clone(), self.running.clone());
        Run { histogram, running, clock: self.clock, begun: self.clock.now() }
    }

    /// Counts a delivery that has ended.
    pub(crate) fn ended(&self, end: End) {
        let counter = match end {
            End::Done => &self.done,
            End::Retried => &self.retried,
            End::Failed => &self.failed,
            End::HandedBack => &self.handed_back,
            End::Cancelled => &self.cancelled,
            End::Lost => &self.lost,
        };
        counter.increment(1);
    }

    /// Counts elements whose last delivery had no end, so that a take of this program has made them dead.
    pub(crate) fn died(&self, elements: u32) {
        self.dead.increment(u64::from(elements));
    }
}

impl From<&SettleEnd> for End {
    fn from(end: &SettleEnd) -> Self {
        match end {
            SettleEnd::Done(_) => Self::Done,
            SettleEnd::Retry(..) => Self::Retried,
            SettleEnd::Fail(_) => Self::Failed,
            SettleEnd::HandBack(_) => Self::HandedBack,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.running.decrement(1);
        self.histogram.record(self.clock.now().since(self.begun));
    }
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meters").field("queue", &self.queue).finish_non_exhaustive()
    }
}
