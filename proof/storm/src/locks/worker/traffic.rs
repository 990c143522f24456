//! One task, which makes random calls one after the other. After a call that got the lock, the task runs a critical
//! section.

use std::time::Duration;

use bandog::Result;
use tokio::time;

use super::{
    handle::{Handle, Held},
    section::Section,
    task::{Task, is_unavailable},
};
use crate::{
    calls::Outcome,
    history::{CallId, now},
    locks::{
        history::{Name, Note, Op, Verb, claim_number},
        share::Share,
    },
    plan::{self, GREATER_LIMIT, HOT, Kind, LIMIT, LONG, LONG_TASKS, NAMES, RESOURCES, TIMEOUT},
};

/// The parameters of a call.
pub(super) struct CallParams {
    pub(super) name: usize,
    pub(super) share: Share,
    pub(super) handle: Handle,
    /// Whether the call has an owner.
    is_owned: bool,
    ttl: Duration,
    /// Whether a watchdog renews the lock. If not, the lock has a fixed lease.
    watched: bool,
}

impl Task {
    pub(super) async fn run(mut self) {
        while !self.must_stop() {
            let outcome = if self.takes_several() { self.call_for_several().await } else { self.call_for_one().await };
            self.count(1);
            match outcome {
                // Real clients do not retry in a tight loop if the lock is busy or the store does not answer.
                Outcome::No => time::sleep(Duration::from_millis(self.random.u64(0..3))).await,
                Outcome::OtherLimit => self.set_limit(None).await,
                outcome if is_unavailable(outcome) => time::sleep(Duration::from_millis(5)).await,
                _ => tokio::task::yield_now().await,
            }
            if self.context.args.evicts && self.random.u32(..4_000) == 0 {
                self.evict().await;
            }
            match self.random.u32(..600) {
                0..2 => self.set_limit(Some(GREATER_LIMIT)).await,
                2..4 => self.set_limit(Some(LIMIT)).await,
                4..20 => self.inspect_a_queue().await,
                _ => {}
            }
        }
    }

    /// Whether the next call takes several locks at once.
    fn takes_several(&mut self) -> bool {
        self.number >= LONG_TASKS && self.context.args.kinds.contains(&Kind::All) && self.random.u8(..12) == 0
    }

    /// Makes one random call, and runs the critical section if the call gets the lock.
    async fn call_for_one(&mut self) -> Outcome {
        let params = self.params();
        match self.random.u8(..100) {
            0..40 => {
                let call = self.record_begin(&params, Verb::Lock, Duration::MAX);
                let guard = params.handle.lock().await.map(Some);
                self.handle_answer(call, &params, guard).await
            }
            40..62 => {
                let call = self.record_begin(&params, Verb::TryLock, TIMEOUT);
                let guard = params.handle.try_lock().await;
                self.handle_answer(call, &params, guard).await
            }
            62..88 => {
                let wait = Duration::from_millis(self.random.u64(1..250));
                let call = self.record_begin(&params, Verb::TryLockFor, wait);
                let guard = params.handle.try_lock_for(wait).await;
                self.handle_answer(call, &params, guard).await
            }
            _ => self.cancel(&params).await,
        }
    }

    /// Makes a call, and drops its future if there is no answer after some polls of the future. In half of the cases,
    /// the task also waits for some time before it drops the future.
    async fn cancel(&mut self, params: &CallParams) -> Outcome {
        let call = self.record_begin(params, Verb::Dropped, Duration::MAX);
        let (polls, pause) = (self.random.u32(..8), Duration::from_millis(self.random.u64(..4)));
        // When this future ends, the task drops the future of the call.
        let wait_before_drop = async {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
            if polls.is_multiple_of(2) {
                time::sleep(pause).await;
            }
        };
        let guard = tokio::select! { biased;
            guard = params.handle.lock() => guard.map(Some),
            () = wait_before_drop => {
                self.context.recorder.end(call, Outcome::Cancelled);
                return Outcome::Cancelled;
            }
        };
        self.handle_answer(call, params, guard).await
    }

    /// Handles the answer of a call: runs the critical section, or records the result.
    async fn handle_answer(&mut self, call: CallId, params: &CallParams, answer: Result<Option<Held>>) -> Outcome {
        let CallParams { name, ttl, watched, .. } = *params;
        match answer {
            Ok(Some(held)) => {
                let section = Section { task: self, call, name, ttl, watched, long: name >= NAMES - LONG };
                section.run(held, &params.handle, params.is_owned).await
            }
            Ok(None) => {
                self.context.recorder.end(call, Outcome::No);
                Outcome::No
            }
            Err(error) => self.failed(name, call, &error),
        }
    }

    /// Random parameters for the next call.
    fn params(&mut self) -> CallParams {
        // From this number on, names belong to locks that are held for a long time.
        let first_long = NAMES - LONG;
        let name = match self.random.u8(..200) {
            // Each task sometimes uses one of the names that are held for a long time.
            0 => first_long + self.random.usize(..LONG),
            // The first tasks of each client use only these names.
            _ if self.number < LONG_TASKS => first_long + self.random.usize(..LONG),
            // About half of the calls use the hot names.
            1..100 => self.random.usize(..HOT),
            _ => self.random.usize(..first_long),
        };
        // Half of the long sections have a fixed lease, which they can exceed.
        let watched = self.random.u8(..10) < if name < first_long { 8 } else { 5 };
        self.params_of(name, Kind::of_name(name, &self.context.args.kinds), watched)
    }

    /// Random parameters of a call for the lock with this name, which has this kind.
    pub(super) fn params_of(&mut self, name: usize, kind: Kind, watched: bool) -> CallParams {
        let share = match (kind, self.random.u8(..8)) {
            (Kind::Fair, _) => Share::Fair,
            (Kind::ReadWrite, 0..6) => Share::Read,
            (Kind::ReadWrite, _) => Share::Write,
            (Kind::Semaphore, 0..5) => Share::Permits(1),
            (Kind::Semaphore, 5..7) => Share::Permits(2),
            (Kind::Semaphore, _) => Share::Permits(LIMIT),
            (Kind::Mutex | Kind::All | Kind::Latch | Kind::Barrier | Kind::Election, _) => Share::Mutex,
        };
        let lease = Duration::from_millis(self.random.u64(100..600));
        let handle = Handle::new(&self.context.client, name, share, (!watched).then_some(lease));
        let ttl = if watched { self.context.args.ttl() } else { lease };
        let is_owned = share.permits() == 0 && self.random.u8(..20) == 0;
        let handle = if is_owned { handle.by(&self.context.client.owner()) } else { handle };
        CallParams { name, share, handle, is_owned, ttl, watched }
    }

    /// Records the beginning of a call, and returns the call's number.
    pub(super) fn record_begin(&self, params: &CallParams, verb: Verb, limit: Duration) -> CallId {
        let CallParams { name, share, ttl, watched, .. } = *params;
        self.begin(name, Op::lock(share, verb, ttl, watched), limit)
    }

    /// Takes a lock away from its holder by force.
    async fn evict(&mut self) {
        let name = self.random.usize(..RESOURCES);
        let call = self.begin(name, Op::Evict, Duration::MAX);
        let is_evicted = self.context.client.evict(plan::mutex(name)).await.is_ok();
        self.context.recorder.end(call, if is_evicted { Outcome::Ok } else { Outcome::Unclear });
    }

    /// Changes the limit of a semaphore. `None`: sets the limit that the calls name, for each semaphore.
    async fn set_limit(&mut self, limit: Option<u32>) {
        let names: Vec<_> = self.names_of(Kind::Semaphore);
        let Some(one) = self.random.choice(&names).copied() else { return };
        for name in if limit.is_some() { vec![one] } else { names } {
            let limit = limit.unwrap_or(LIMIT);
            let call = self.begin(name, Op::Limit(limit), Duration::MAX);
            let is_set = self.context.client.semaphore(plan::name(name), LIMIT).set_limit(limit).await.is_ok();
            self.context.recorder.end(call, if is_set { Outcome::Ok } else { Outcome::Unclear });
        }
    }

    /// Records the queue of a fair mutex.
    async fn inspect_a_queue(&mut self) {
        let names = self.names_of(Kind::Fair);
        let Some(name) = self.random.choice(&names).copied() else { return };
        let (task, from) = (self.number, now());
        let Ok(row) = self.context.client.show(plan::name(name)).await else { return };
        let (at, name) = (now(), Name(name));
        for (position, id) in (0..).zip(&row.queue) {
            self.context.recorder.note(Note::Queued { task, from, at, name, position, claim: claim_number(id) });
        }
    }

    /// The names of this kind.
    fn names_of(&self, kind: Kind) -> Vec<usize> {
        (0..NAMES).filter(|name| Kind::of_name(*name, &self.context.args.kinds) == kind).collect()
    }
}
