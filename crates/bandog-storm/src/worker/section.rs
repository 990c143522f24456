//! The work of a task while it holds a lock.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use bandog::{Guard, Mutex};
use tokio::time;

use super::{client_context::ClientContext, traffic::outcome};
use crate::history::{CallId, Event, Outcome};

/// Interval at which the holder of a long section checks its guard.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The critical section of one holder.
pub(super) struct Section<'a> {
    pub(super) context: &'a ClientContext,
    pub(super) random: &'a mut fastrand::Rng,
    pub(super) call: CallId,
    pub(super) name: usize,
    /// The ttl of the lock.
    pub(super) ttl: Duration,
    /// Whether the lock is held for longer than a renewal interval.
    pub(super) long: bool,
    /// Set to true when all tasks must end.
    pub(super) stop: &'a AtomicBool,
}

impl Section<'_> {
    /// Runs the section. At its beginning and at its end, the section writes to the resource and records the state of
    /// the guard. If `reenters` is true, the owner also locks the same lock a second time.
    pub(super) async fn run(mut self, guard: Guard, mutex: &Mutex, reenters: bool) -> Outcome {
        let call = self.call;
        let (at, until) = self.context.deadline(&guard);
        self.context.note(&Event::Granted { call, at, fence: guard.fence().get(), until });
        self.context.write(self.name, &guard, call);
        let again = if reenters { self.reenter(&guard, mutex).await } else { None };
        self.body(&guard).await;
        // Some holders write although they have lost the lock. A process that is paused between its check of the guard
        // and its write does the same. The resource must refuse such a write because of the fence.
        if !guard.is_lost() || self.random.bool() {
            self.context.write(self.name, &guard, call);
        }
        let (at, held) = (self.context.now(), !guard.is_lost());
        self.context.note(&Event::Ended { call, at, held, writes: 2 });
        // An owner can have two guards, and is allowed to drop them in any order.
        let last = match again {
            Some(again) if self.random.bool() => {
                drop(guard);
                again
            }
            Some(_) | None => guard,
        };
        self.release(last, held).await
    }

    /// The owner locks the same lock again, and must get it immediately.
    async fn reenter(&mut self, guard: &Guard, mutex: &Mutex) -> Option<Guard> {
        let again = mutex.try_lock().await.ok().flatten();
        // The second call can be refused only if the owner has lost the lock. If the second call is refused although
        // the lock is held, the fence 0 is recorded, which the checker reports.
        if again.is_some() || !guard.is_lost() {
            let fence = again.as_ref().map_or(0, |again| again.fence().get());
            self.context.note(&Event::Reentered { call: self.call, at: self.context.now(), fence });
        }
        again
    }

    /// The work between the two writes: usually nothing, sometimes a pause or a long section.
    async fn body(&mut self, guard: &Guard) {
        match self.random.u32(..10_000) {
            _ if self.long => self.long(guard).await,
            0..9_000 => {}
            9_000..9_800 => tokio::task::yield_now().await,
            9_800..9_960 => time::sleep(Duration::from_millis(self.random.u64(..3))).await,
            9_960..9_992 => time::sleep(Duration::from_millis(self.random.u64(3..20))).await,
            9_992..9_999 => self.long(guard).await,
            _ => self.block(),
        }
    }

    /// A long section. It usually lasts longer than a third of the ttl, so that the lock is renewed. Sometimes it lasts
    /// longer than the ttl, so that a fixed lease expires.
    async fn long(&mut self, guard: &Guard) {
        let length = self.ttl.mul_f64(0.3 + 1.5 * self.random.f64());
        let end = time::Instant::now() + length;
        while time::Instant::now() < end && !self.stop.load(Relaxed) {
            tokio::select! { biased;
                () = guard.lost() => return,
                () = time::sleep(CHECK_INTERVAL) => {}
            }
            let (at, until) = self.context.deadline(guard);
            if until > at {
                self.context.note(&Event::Held { call: self.call, at, until, writes: 1 });
            }
        }
    }

    /// Blocks the thread of the runtime, as a blocking call in an async function of a real service does.
    fn block(&mut self) {
        let from = self.context.now();
        std::thread::sleep(self.ttl.mul_f64(self.random.f64() * 1.5));
        self.context.note(&Event::Blocked { from, to: self.context.now() });
    }

    /// Releases or drops the guard. `held` says whether the lock was held at the last check.
    async fn release(&mut self, guard: Guard, held: bool) -> Outcome {
        // The outcome of a drop, which returns no result.
        let outcome_of_drop = if held { Outcome::Released } else { Outcome::Lost };
        match self.random.u8(..20) {
            0..9 => drop(guard),
            9 => {
                // The lock is released even if the future of the release is dropped.
                tokio::select! { biased;
                    _ = guard.release() => {}
                    () = tokio::task::yield_now() => {}
                }
            }
            _ => {
                let outcome = guard.release().await.map_or_else(|error| outcome(&error), |()| Outcome::Released);
                self.context.note(&Event::Answered { call: self.call, at: self.context.now(), outcome });
                return outcome;
            }
        }
        outcome_of_drop
    }
}
