//! What is done while a lock is held.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use bandog::{Guard, Mutex};
use tokio::time;

use super::{desk::Desk, traffic::outcome};
use crate::history::{CallId, Event, Outcome};

/// How often the holder of a long section looks at its guard.
const LOOK: Duration = Duration::from_millis(20);

/// One holder's time with the lock.
pub(super) struct Section<'a> {
    pub(super) desk: &'a Desk,
    pub(super) random: &'a mut fastrand::Rng,
    pub(super) call: CallId,
    pub(super) name: usize,
    /// The ttl of the lock.
    pub(super) ttl: Duration,
    /// Whether it is held for longer than a renewal takes.
    pub(super) long: bool,
    /// Whether all are to end.
    pub(super) stop: &'a AtomicBool,
}

impl Section<'_> {
    /// Writes to the resource at the beginning and at the end, and notes what the guard says at each point.
    pub(super) async fn run(mut self, guard: Guard, mutex: &Mutex, reenters: bool) -> Outcome {
        let call = self.call;
        let (at, until) = self.desk.look(&guard);
        self.desk.note(&Event::Granted { call, at, fence: guard.fence().get(), until });
        self.desk.write(self.name, &guard, call);
        let again = if reenters { self.reenter(&guard, mutex).await } else { None };
        self.body(&guard).await;
        // Some write without a look, as a process does that was stopped after its look: the fence must refuse it.
        if !guard.is_lost() || self.random.bool() {
            self.desk.write(self.name, &guard, call);
        }
        let (at, held) = (self.desk.now(), !guard.is_lost());
        self.desk.note(&Event::Ended { call, at, held, writes: 2 });
        // Of the guards of one owner any may go first.
        let last = match again {
            Some(again) if self.random.bool() => {
                drop(guard);
                again
            }
            Some(_) | None => guard,
        };
        self.give_back(last, held).await
    }

    /// The owner asks again: it gets its own lock at once.
    async fn reenter(&mut self, guard: &Guard, mutex: &Mutex) -> Option<Guard> {
        let again = mutex.try_lock().await.ok().flatten();
        // Only a loss may stand in the way.
        if again.is_some() || !guard.is_lost() {
            let fence = again.as_ref().map_or(0, |again| again.fence().get());
            self.desk.note(&Event::Reentered { call: self.call, at: self.desk.now(), fence });
        }
        again
    }

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

    /// Longer than a third of the ttl, so that it is renewed; sometimes longer than a lease.
    async fn long(&mut self, guard: &Guard) {
        let length = self.ttl.mul_f64(0.3 + 1.5 * self.random.f64());
        let end = time::Instant::now() + length;
        while time::Instant::now() < end && !self.stop.load(Relaxed) {
            tokio::select! { biased;
                () = guard.lost() => return,
                () = time::sleep(LOOK) => {}
            }
            let (at, until) = self.desk.look(guard);
            if until > at {
                self.desk.note(&Event::Held { call: self.call, at, until, writes: 1 });
            }
        }
    }

    /// A slow call in an async function, as real services have.
    fn block(&mut self) {
        let from = self.desk.now();
        std::thread::sleep(self.ttl.mul_f64(self.random.f64() * 1.5));
        self.desk.note(&Event::Blocked { from, to: self.desk.now() });
    }

    async fn give_back(&mut self, guard: Guard, held: bool) -> Outcome {
        let unheld = if held { Outcome::Released } else { Outcome::Lost };
        match self.random.u8(..20) {
            0..9 => drop(guard),
            9 => {
                // Given back even if nobody waits for the answer.
                tokio::select! { biased;
                    _ = guard.release() => {}
                    () = tokio::task::yield_now() => {}
                }
            }
            _ => {
                let outcome = guard.release().await.map_or_else(|error| outcome(&error), |()| Outcome::Released);
                self.desk.note(&Event::Answered { call: self.call, at: self.desk.now(), outcome });
                return outcome;
            }
        }
        unheld
    }
}
