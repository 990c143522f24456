//! Works on all elements at the end of a run, and reads what is left.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bandog::{
    Client, Result,
    work::{Delivery, Phase},
};

use super::{
    context::Context,
    history::{End, Note, Op, Queue},
};
use crate::{
    calls::{
        Context as _, JUDGE, Outcome,
        item::{self, Item},
    },
    history::{Files, now},
    settings::Profile,
};

/// Longer than all leases, delays and pauses between attempts together.
const WORKS_WITHIN: Duration = Duration::from_secs(30);
/// Interval of the checks whether elements are left.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// A limit that no call reaches when there are no faults.
const LIMIT: Duration = Duration::from_secs(20);
/// Maximum number of attempts of a call.
const ATTEMPTS: usize = 20;
/// Number of elements that a handler works on at the same time.
const SLOTS: u32 = 16;
/// The words by which the errors of dead elements name the limit that a result exceeds.
const LIMITS: [&str; 2] = ["a work queue keeps at most", "max_allowed_packet"];
/// Maximum number of elements that are read.
const PAGE: usize = 10_000;

/// Removes the limits, works on all elements, reads the others, and removes them. The calls are those of the client
/// [`JUDGE`].
pub(super) async fn drain(client: &Client, files: &Files) {
    item::read_calmly();
    let judge = Judge(Arc::new(Context::open(client, JUDGE, &files.client(JUDGE), Profile::Calm)));
    for queue in Queue::ALL {
        judge.empty(queue).await;
    }
}

struct Judge(Arc<Context>);

impl Judge {
    async fn empty(&self, queue: Queue) {
        let handle = self.0.queue(queue);
        self.call(queue, Op::Resume, async || handle.resume().await).await;
        self.call(queue, Op::Limit(0), async || handle.limit_concurrency(None).await).await;
        self.call(queue, Op::Rate(0), async || handle.limit_rate(None).await).await;
        let context = Arc::clone(&self.0);
        let workers = handle.workers(SLOTS).run(move |delivery| {
            handle_one(&context, queue, &delivery);
            std::future::ready(Ok::<_, String>(()))
        });
        let start = Instant::now();
        while self.is_at_work(queue).await && start.elapsed() < WORKS_WITHIN {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        let stop = self.0.recorder().begin(0, queue, Op::Stop, LIMIT);
        let stopped = workers.stop().await;
        self.0.recorder().end(stop, stopped.map_or_else(|error| Context::failed(queue, &error), |()| Outcome::Ok));
        for phase in Phase::IN_QUEUE {
            let rows = self
                .call(queue, Op::List(phase), async || self.0.page(queue, phase, PAGE).await)
                .await
                .unwrap_or_default();
            for row in rows {
                let (element, attempt) = (row.id, row.attempt);
                let names_limit = row.error.is_some_and(|error| LIMITS.iter().any(|limit| error.contains(limit)));
                self.0.recorder().note(Note::There { queue, element, phase, attempt, names_limit });
                self.call(queue, Op::Remove(element), async || handle.remove(&[element]).await).await;
            }
        }
    }

    /// Whether there are elements on which workers will work.
    async fn is_at_work(&self, queue: Queue) -> bool {
        let Some(status) = self.call(queue, Op::Status, async || self.0.queue(queue).status().await).await else {
            return true;
        };
        [Phase::Ready, Phase::Delayed, Phase::Taken].into_iter().any(|phase| status.count(phase) > 0)
    }

    /// Makes a call. On a busy machine the store may answer late, so it is repeated.
    async fn call<T>(&self, queue: Queue, op: Op, call: impl AsyncFn() -> Result<T>) -> Option<T> {
        for _ in 0..ATTEMPTS {
            let id = self.0.recorder().begin(0, queue, op, LIMIT);
            let answer = call().await;
            let outcome = |answer: &Result<T>| match answer {
                Ok(_) => Outcome::Ok,
                Err(error) => Context::failed(queue, error),
            };
            self.0.recorder().end(id, outcome(&answer));
            match answer {
                Err(error) if error.is_retryable() => tokio::time::sleep(CHECK_INTERVAL).await,
                answer => return answer.ok(),
            }
        }
        None
    }
}

/// Records a delivery.
fn handle_one(context: &Context, queue: Queue, delivery: &Delivery<Item>) {
    let recorder = context.recorder();
    let handling = recorder.next_call();
    recorder.note(Note::begun(handling, queue, delivery));
    recorder.note(Note::Left { handling, at: now(), end: End::Ok });
}
