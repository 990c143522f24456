//! The work of a task while it holds a lock.

use std::time::Duration;

use bandog::WriteGuard;
use tokio::time;

use super::{
    context::deadline,
    handle::{Handle, Held, Proof},
    task::Task,
};
use crate::{
    calls::Outcome,
    history::{CallId, now},
    locks::{
        history::{Note, Op, Verb},
        share::Share,
    },
    plan::TTL,
};

/// Interval at which the holder of a long section checks its guard.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The critical section of one holder.
pub(super) struct Section<'a> {
    pub(super) task: &'a mut Task,
    pub(super) call: CallId,
    pub(super) name: usize,
    /// The ttl of the lock.
    pub(super) ttl: Duration,
    /// Whether a watchdog renews the lock. If not, the lock has a fixed lease.
    pub(super) watched: bool,
    /// Whether the lock is held for longer than a renewal interval.
    pub(super) long: bool,
}

impl Section<'_> {
    /// Runs the section. At its beginning and at its end, the section writes to the resource and records the state of
    /// the guard. If `reenters` is true, the owner also locks the same lock a second time. Some writers become readers
    /// at the end of the section, and then run a second section.
    pub(super) async fn run(mut self, held: Held, handle: &Handle, reenters: bool) -> Outcome {
        self.task.context.begin(self.name, self.call, &*held);
        let again = if reenters { self.reenter(&*held, handle).await } else { None };
        self.body(&*held).await;
        let is_held = self.end(&*held);
        // An owner can have two guards, and is allowed to drop them in any order. A writer with two guards cannot become
        // a reader.
        let last = match (held, again) {
            (held, Some(again)) if self.task.random.bool() => {
                drop(held);
                again
            }
            (held, Some(_)) => held,
            (Held::Writer(guard), None) if is_held && self.task.random.u8(..4) == 0 => {
                return self.downgrade(guard).await;
            }
            (held, None) => held,
        };
        self.release(last, is_held).await
    }

    /// Writes a second time, and records the last check of the guard. Returns whether the lock was held.
    fn end(&mut self, guard: &dyn Proof) -> bool {
        // Some holders write although they have lost the lock. A process that is paused between its check of the guard
        // and its write does the same. The resource must refuse such a write because of the fence.
        let late = self.task.random.bool();
        self.task.context.end(self.name, self.call, guard, late)
    }

    /// Turns the writer into a reader. The history has a new call for the reader, which begins before the request.
    async fn downgrade(mut self, guard: WriteGuard) -> Outcome {
        let (name, verb, recorder) = (self.name, Verb::Downgrade, &self.task.context.recorder);
        recorder.end(self.task.begin(name, Op::Release { of: self.call }, Duration::MAX), Outcome::Ok);
        // If the deadline of the write lock has passed, the call fails.
        self.call = self.task.begin(name, Op::lock(Share::Read, verb, self.ttl, self.watched), self.ttl);
        let (is_dropped, polls) = (self.task.random.u8(..8) == 0, self.task.random.u8(1..6));
        let give_up = async {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
        };
        let answer = tokio::select! { biased;
            answer = guard.downgrade() => answer,
            () = give_up, if is_dropped => {
                self.task.context.recorder.end(self.call, Outcome::Cancelled);
                return Outcome::Cancelled;
            }
        };
        match answer {
            Ok(guard) => {
                self.task.context.begin(name, self.call, &guard);
                self.body(&guard).await;
                let is_held = self.end(&guard);
                self.release(Held::Guard(guard), is_held).await
            }
            Err(error) => self.task.failed(name, self.call, &error),
        }
    }

    /// The owner locks the same lock again, and must get it immediately.
    async fn reenter(&mut self, guard: &dyn Proof, handle: &Handle) -> Option<Held> {
        let again = handle.try_lock().await.ok().flatten();
        // The second call can be refused only if the owner has lost the lock. If the second call is refused although
        // the lock is held, the fence 0 is recorded, which the checker reports.
        if again.is_some() || !guard.is_lost() {
            let fence = again.as_ref().map_or(0, |again| again.fence());
            self.task.context.recorder.note(Note::Again { call: self.call, fence });
        }
        again
    }

    /// The work between the two writes: usually nothing, sometimes a pause or a long section.
    async fn body(&mut self, guard: &dyn Proof) {
        match self.task.random.u32(..10_000) {
            _ if self.long => self.long(guard).await,
            0..9_000 => {}
            9_000..9_800 => tokio::task::yield_now().await,
            9_800..9_960 => time::sleep(Duration::from_millis(self.task.random.u64(..3))).await,
            9_960..9_992 => time::sleep(Duration::from_millis(self.task.random.u64(3..20))).await,
            9_992..9_999 => self.long(guard).await,
            _ => self.block(),
        }
    }

    /// A long section. It usually lasts longer than a third of the ttl, so that the lock is renewed. Sometimes it lasts
    /// longer than the ttl, so that a fixed lease expires.
    async fn long(&mut self, guard: &dyn Proof) {
        // On servers with replicas, the ttl is longer than a failover. So some holders are still there when it has ended.
        let ttl = if self.task.random.u8(..4) == 0 { self.ttl } else { self.ttl.min(TTL) };
        let length = ttl.mul_f64(0.3 + 1.5 * self.task.random.f64());
        hold(self.task, self.call, guard, length).await;
    }

    /// Blocks the thread of the runtime, as a blocking call in an async function of a real service does.
    fn block(&mut self) {
        let from = now();
        std::thread::sleep(self.ttl.min(TTL).mul_f64(self.task.random.f64() * 1.5));
        self.task.context.recorder.blocked(from, now());
    }

    /// Releases or drops the guard. `held` says whether the lock was held at the last check.
    async fn release(&mut self, guard: Held, held: bool) -> Outcome {
        match self.task.random.u8(..20) {
            0..9 => {
                drop(guard);
                // A drop returns no result.
                if held { Outcome::Ok } else { Outcome::Lost }
            }
            chosen => self.task.release((self.name, self.call), chosen == 9, guard.release()).await,
        }
    }
}

/// Holds a lock for this time, and checks the guard at an interval. Ends early if the lock is lost, or if all tasks must
/// end.
pub(super) async fn hold(task: &Task, call: CallId, guard: &dyn Proof, length: Duration) {
    let end = time::Instant::now() + length;
    while time::Instant::now() < end && !task.must_stop() {
        tokio::select! { biased;
            () = guard.lost() => return,
            () = time::sleep(CHECK_INTERVAL) => {}
        }
        let (at, until) = deadline(guard);
        if until > at {
            task.context.recorder.note(Note::Held { call, at, until, writes: 1 });
        }
    }
}
