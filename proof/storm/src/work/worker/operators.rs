//! What operators do.

use std::{num::NonZeroU32, time::Duration};

use bandog::work::{Phase, Rate};

use super::task::{ONCE, SEVERAL, Task};
use crate::{
    calls::Outcome,
    work::history::{Op, Queue},
};

/// Maximum number of elements in a queue until clients stop to push.
const CROWDED: u64 = 300;
/// The limits of the queue that is limited.
const LIMITS: [u32; 2] = [3, 6];
/// The limits of the queue whose rate is limited: numbers of deliveries in each second.
const RATES: [u32; 2] = [20, 60];
/// Maximum duration of a pause, in milliseconds.
const PAUSED: u64 = 300;
/// Maximum duration of a pause of the queue whose rate is limited, in milliseconds. No handler begins in the last part of a
/// long pause.
const PAUSED_LONG: u64 = 5_000;
/// One of this number of pauses is a long one.
const LONG: u8 = 8;
/// The queues with short pauses.
const SHORTLY_PAUSED: [Queue; 3] = [Queue::Plain(0), Queue::Plain(1), Queue::Limited];
/// Number of dead elements that an operator sees.
const PAGE: usize = 20;
/// Number of attempts to end a pause.
const RESUMES: usize = 20;

impl Task {
    /// Removes an element.
    pub(super) async fn remove(&mut self) {
        let context = self.context.clone();
        let Some((queue, element)) = context.any_known(&mut self.random) else { return };
        let removed = async { context.queue(queue).remove(&[element]).await };
        self.call((queue, Op::Remove(element)), ONCE, removed, |number| Outcome::Found(*number)).await;
    }

    /// Looks for a dead element and retries it, or retries all of them.
    pub(super) async fn retry(&mut self) {
        let (queue, context) = (self.any_queue(), self.context.clone());
        let handle = context.queue(queue);
        if self.random.u8(..4) == 0 {
            let retried = async { handle.retry_all().await };
            self.call((queue, Op::RetryAll), SEVERAL, retried, |number| Outcome::Found(*number)).await;
            return;
        }
        let page = context.page(queue, Phase::Dead, PAGE);
        let found = |rows: &Vec<_>| Outcome::Found(rows.len() as u64);
        let listed = self.call((queue, Op::List(Phase::Dead)), ONCE, page, found).await.1;
        let Some(row) = self.random.choice(listed.unwrap_or_default()) else { return };
        if self.random.bool() {
            return context.learn(queue, row.id, &mut self.random);
        }
        let ids = [row.id];
        self.call((queue, Op::Retry(row.id)), ONCE, handle.retry(&ids), |number| Outcome::Found(*number)).await;
    }

    /// Pauses a queue for some time.
    pub(super) async fn pause(&mut self) {
        let context = self.context.clone();
        let is_long = self.random.u8(..LONG) == 0;
        let queue = if is_long { Queue::Rated } else { self.random.choice(SHORTLY_PAUSED).unwrap_or(Queue::Limited) };
        let handle = context.queue(queue);
        self.call((queue, Op::Pause), ONCE, handle.pause(), |()| Outcome::Ok).await;
        let paused = self.random.u64(..if is_long { PAUSED_LONG } else { PAUSED });
        tokio::time::sleep(Duration::from_millis(paused)).await;
        for _ in 0..RESUMES {
            if self.call((queue, Op::Resume), ONCE, handle.resume(), |()| Outcome::Ok).await.1.is_some() {
                return;
            }
        }
    }

    /// Changes the limit of a queue that has one.
    pub(super) async fn limit(&mut self) {
        let context = self.context.clone();
        if self.random.bool() {
            let limit = self.random.choice(LIMITS).unwrap_or(LIMITS[0]);
            let limited = context.queue(Queue::Limited).limit_concurrency(NonZeroU32::new(limit));
            self.call((Queue::Limited, Op::Limit(limit)), ONCE * 2, limited, |()| Outcome::Ok).await;
        } else {
            let limit = self.random.choice(RATES).unwrap_or(RATES[0]);
            let rate = NonZeroU32::new(limit).map(|deliveries| Rate { deliveries, per: Duration::from_secs(1) });
            let limited = context.queue(Queue::Rated).limit_rate(rate);
            self.call((Queue::Rated, Op::Rate(limit)), ONCE * 2, limited, |()| Outcome::Ok).await;
        }
    }

    /// Counts the elements of a queue.
    pub(super) async fn status(&mut self) {
        let (queue, context) = (self.any_queue(), self.context.clone());
        let handle = context.queue(queue);
        let status = self.call((queue, Op::Status), ONCE, handle.status(), |_| Outcome::Ok).await.1;
        if let Some(status) = status {
            let waiting = [Phase::Ready, Phase::Delayed, Phase::Blocked].map(|phase| status.count(phase));
            context.set_crowded(queue, waiting.iter().sum::<u64>() > CROWDED);
        }
    }
}
