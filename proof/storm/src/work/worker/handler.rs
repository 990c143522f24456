//! The handler of deliveries: it records what it believes, and ends in every possible way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog::{Result, work::Delivery};
use tokio::time::{sleep, timeout};

use crate::{
    calls::{Context as _, Outcome},
    history::{CallId, Nanos, now},
    plan::TIMEOUT,
    work::{
        context::Context,
        history::{End, How, Note, Op, Queue},
    },
};

/// Interval at which a handler that works records that it has the element.
const HOLDS: Duration = Duration::from_millis(150);
/// Maximum time for which a handler waits for the loss of its delivery.
const ENDLESS: Duration = Duration::from_secs(8);
/// Maximum duration of a settlement: it is repeated for a lease, after the one before it.
const SETTLES: Duration = Duration::from_secs(2).saturating_add(TIMEOUT.saturating_mul(4));

/// The error of a handler.
type Failure = &'static str;

/// One handler.
struct Handler {
    context: Arc<Context>,
    calls: Arc<AtomicU64>,
    delivery: Delivery<u64>,
    queue: Queue,
    number: CallId,
    has_left: bool,
}

/// Handles a delivery.
pub(super) async fn handle(
    context: Arc<Context>,
    calls: Arc<AtomicU64>,
    queue: Queue,
    delivery: Delivery<u64>,
    mut random: fastrand::Rng,
) -> Result<(), Failure> {
    let mut handler = Handler::begin(context, calls, queue, delivery);
    let mut short = || Duration::from_micros(random.u64(..8_000));
    let (before, after) = (short(), short());
    handler.work(before).await;
    let end = random.bool().then_some(()).ok_or("the handler has settled the delivery itself");
    match random.u32(..1000) {
        0..480 => handler.returns(Ok(())),
        480..600 => handler.returns(Err("the handler has failed")),
        600..640 => handler.panics(),
        640..652 => {
            handler.work(Duration::from_millis(random.u64(1_000..5_000))).await;
            handler.returns(Ok(()))
        }
        652..655 => {
            handler.work(ENDLESS).await;
            handler.returns(Err("the delivery was not lost"))
        }
        655..656 => {
            handler.block(Duration::from_millis(random.u64(..3_000)));
            handler.returns(Ok(()))
        }
        656..720 => {
            let time = Duration::from_millis(random.u64(..300));
            let settled = handler.delivery.retry_after(time, "the handler wants it later");
            handler.settle(How::Retry, settled, &mut random, after).await;
            end
        }
        720..750 => {
            let settled = handler.delivery.fail("the handler has given it up");
            handler.settle(How::Fail, settled, &mut random, after).await;
            end
        }
        750..800 => {
            let settled = handler.delivery.hand_back();
            handler.settle(How::HandBack, settled, &mut random, after).await;
            end
        }
        _ => {
            let settled = handler.delivery.done();
            handler.settle(How::Done, settled, &mut random, after).await;
            end
        }
    }
}

impl Handler {
    fn begin(context: Arc<Context>, calls: Arc<AtomicU64>, queue: Queue, delivery: Delivery<u64>) -> Self {
        let number = context.recorder().next_call();
        context.recorder().note(Note::begun(number, queue, &delivery));
        Self { context, calls, delivery, queue, number, has_left: false }
    }

    /// Works for this time.
    async fn work(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(HOLDS);
            sleep(step).await;
            left -= step;
            if step == HOLDS {
                self.context.recorder().note(Note::held(self.number, &self.delivery));
            }
        }
    }

    /// Blocks a thread of the runtime.
    fn block(&self, time: Duration) {
        let from = now();
        std::thread::sleep(time);
        self.context.recorder().blocked(from, now());
    }

    fn returns(mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        self.leave(if result.is_ok() { End::Ok } else { End::Error });
        result
    }

    fn panics(mut self) -> Result<(), Failure> {
        self.leave(End::Panic);
        // This panic prints nothing.
        std::panic::resume_unwind(Box::new("the handler has panicked"))
    }

    /// Settles the delivery, and works for some time more. In some cases, the future of the settlement is dropped.
    async fn settle(
        &mut self,
        how: How,
        settled: impl Future<Output = Result<()>>,
        random: &mut fastrand::Rng,
        after: Duration,
    ) {
        let at = now();
        self.leave_at(at, End::Settles(how));
        let recorder = self.context.recorder();
        let call = recorder.begin_at(at, 0, self.queue, Op::Settle { handling: self.number, how }, SETTLES);
        let settled = match random.u8(..10) {
            0 => timeout(Duration::from_micros(random.u64(..500)), settled).await.ok(),
            _ => Some(settled.await),
        };
        recorder.end(
            call,
            match settled {
                None => Outcome::Cancelled,
                Some(Ok(())) => Outcome::Ok,
                Some(Err(error)) => Context::failed(self.queue, &error),
            },
        );
        sleep(after).await;
    }

    fn leave(&mut self, end: End) {
        self.leave_at(now(), end);
    }

    fn leave_at(&mut self, at: Nanos, end: End) {
        self.context.recorder().note(Note::Left { handling: self.number, at, end });
        self.has_left = true;
        self.calls.fetch_add(1, Relaxed);
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if !self.has_left {
            self.leave(End::Dropped);
        }
    }
}
