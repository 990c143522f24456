//! The handler of deliveries: it records what it believes, and ends in every possible way.

use std::{
    error::Error,
    fmt,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::panicking,
    time::Duration,
};

use bandog::{Result, work::Delivery};
use tokio::time::{sleep, timeout};

use crate::{
    calls::{
        Context as _, Outcome,
        item::{Item, size},
    },
    history::{CallId, Nanos, now},
    plan::TIMEOUT,
    settings::Profile,
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

/// The byte of which results consist.
pub(super) const RESULT_BYTE: u8 = b'r';
/// The number of bytes of the largest result that a queue keeps.
const LARGEST: usize = 1 << 20;

/// How an error behaves.
#[derive(Debug, Clone, Copy)]
struct Failing {
    /// The number of bytes of its text, at least.
    bytes: usize,
    is_unreadable: bool,
    explodes: bool,
}

/// The error of a handler.
#[derive(Debug)]
pub(super) struct Failure {
    text: &'static str,
    is: Failing,
}

/// One handler.
struct Handler {
    context: Arc<Context>,
    calls: Arc<AtomicU64>,
    delivery: Delivery<Item>,
    queue: Queue,
    number: CallId,
    has_left: bool,
}

/// Handles a delivery.
pub(super) async fn handle(
    context: Arc<Context>,
    calls: Arc<AtomicU64>,
    queue: Queue,
    delivery: Delivery<Item>,
    mut random: fastrand::Rng,
) -> Result<Vec<u8>, Failure> {
    let (has_sizes, has_panics) = (context.has(Profile::Sizes), context.has(Profile::Panics));
    let failure = Failing::random(has_sizes, has_panics, &mut random);
    let mut handler = Handler::begin(context, calls, queue, delivery);
    if has_sizes && random.u8(..4) == 0 {
        let bytes = size(random.u64(..), LARGEST);
        handler.delivery.progress("p".repeat(bytes));
    }
    let mut short = || Duration::from_micros(random.u64(..8_000));
    let (before, after) = (short(), short());
    handler.work(before).await;
    let returned = |is_ok| match is_ok {
        true => Ok(Vec::new()),
        false => Err(failure.with("the handler has settled the delivery itself")),
    };
    let is_ok = random.bool();
    let result = if has_sizes && random.bool() { size(random.u64(..), LARGEST) } else { 0 };
    // The drop of the payload panics.
    let explodes = has_panics && random.u8(..20) == 0;
    match random.u32(..1000) {
        0..480 if explodes => {
            handler.leave(End::Panic);
            handler.delivery.explode();
            Ok(Vec::new())
        }
        0..480 => handler.returns(Ok(result)),
        480..600 => handler.returns(Err(failure.with("the handler has failed"))),
        600..640 => handler.panics(has_panics && random.bool()),
        640..652 => {
            if has_panics && random.bool() {
                // In some cases, its future is dropped before.
                handler.delivery.explode();
                handler.work(Duration::from_millis(random.u64(1_000..5_000))).await;
                handler.leave(End::Panic);
                return Ok(Vec::new());
            }
            handler.work(Duration::from_millis(random.u64(1_000..5_000))).await;
            handler.returns(Ok(result))
        }
        652..655 => {
            handler.work(ENDLESS).await;
            handler.returns(Err(failure.with("the delivery was not lost")))
        }
        655..656 => {
            handler.block(Duration::from_millis(random.u64(..3_000)));
            handler.returns(Ok(result))
        }
        656..720 => {
            let time = Duration::from_millis(random.u64(..300));
            let settled = handler.delivery.retry_after(time, "the handler wants it later");
            handler.settle(How::Retry, settled, &mut random, after).await;
            returned(is_ok)
        }
        720..750 => {
            let settled = handler.delivery.fail("the handler has given it up");
            handler.settle(How::Fail, settled, &mut random, after).await;
            returned(is_ok)
        }
        750..800 => {
            let settled = handler.delivery.hand_back();
            handler.settle(How::HandBack, settled, &mut random, after).await;
            returned(is_ok)
        }
        _ => {
            let settled = handler.delivery.done();
            handler.settle(How::Done, settled, &mut random, after).await;
            returned(is_ok)
        }
    }
}

impl Handler {
    fn begin(context: Arc<Context>, calls: Arc<AtomicU64>, queue: Queue, delivery: Delivery<Item>) -> Self {
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

    /// Returns a result with this number of bytes, or an error.
    fn returns(mut self, result: Result<usize, Failure>) -> Result<Vec<u8>, Failure> {
        self.leave(match &result {
            Ok(0) => End::Ok,
            Ok(bytes) => End::Answers(u32::try_from(*bytes).unwrap_or(u32::MAX)),
            Err(_) => End::Error,
        });
        result.map(|bytes| vec![RESULT_BYTE; bytes])
    }

    /// Panics. In some cases, the drop of what it panics with panics, too.
    fn panics(mut self, explodes: bool) -> Result<Vec<u8>, Failure> {
        self.leave(End::Panic);
        // This panic prints nothing.
        if explodes {
            let bomb = Item::new(0);
            bomb.explode();
            resume_unwind(Box::new(bomb));
        }
        resume_unwind(Box::new("the handler has panicked"))
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

impl Failing {
    fn random(has_sizes: bool, has_panics: bool, random: &mut fastrand::Rng) -> Self {
        let bytes = if has_sizes && random.u8(..8) == 0 { size(random.u64(..), LARGEST) } else { 0 };
        let mut panics = || has_panics && random.u8(..8) == 0;
        Self { bytes, is_unreadable: panics(), explodes: panics() }
    }

    fn with(self, text: &'static str) -> Failure {
        Failure { text, is: self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is.is_unreadable {
            resume_unwind(Box::new("the text of an error has panicked"));
        }
        f.write_str(self.text)?;
        (self.text.len()..self.is.bytes).try_for_each(|_| f.write_str("é"))
    }
}

impl Error for Failure {}

impl Drop for Failure {
    fn drop(&mut self) {
        if self.is.explodes && !panicking() {
            resume_unwind(Box::new("the drop of an error has panicked"));
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if !self.has_left {
            self.leave(End::Dropped);
        }
    }
}
