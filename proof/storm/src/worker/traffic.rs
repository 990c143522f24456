//! One task, which makes random calls one after the other. After a call that got the lock, the task runs a critical
//! section.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog::Result;
use tokio::time;

use super::{
    client_context::ClientContext,
    handle::{Handle, Held},
    outcome::outcome,
    section::Section,
};
use crate::{
    history::{CallId, Event, Nanos, Outcome, Verb, claim_number, nanos},
    plan::{self, GREATER_LIMIT, HOT, Kind, LIMIT, LONG, LONG_TASKS, RESOURCES},
    settings::WorkerArgs,
    share::Share,
};

/// A task that makes calls.
pub(super) struct Traffic {
    pub(super) context: Arc<ClientContext>,
    task: u32,
    pub(super) random: fastrand::Rng,
    /// Number of ended calls of this process.
    ops: Arc<AtomicU64>,
    /// Set to true when all tasks must end.
    stop: Arc<AtomicBool>,
    /// Number of lock names.
    pub(super) names: usize,
    /// The kinds of calls.
    pub(super) kinds: Vec<Kind>,
    ttl: Duration,
    timeout: Duration,
    /// Whether the task sometimes takes a lock away from its holder by force.
    evicts: bool,
}

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

impl Traffic {
    pub(super) fn new(
        context: Arc<ClientContext>,
        task: u32,
        args: &WorkerArgs,
        ops: Arc<AtomicU64>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let random = fastrand::Rng::with_seed(args.seed ^ (u64::from(task) << 32));
        let (names, kinds, ttl, timeout) = (args.names, args.kinds.clone(), args.ttl(), args.timeout());
        Self { context, task, random, ops, stop, names, kinds, ttl, timeout, evicts: args.evicts }
    }

    pub(super) async fn run(mut self) {
        while !self.stop.load(Relaxed) {
            let outcome = if self.takes_several() { self.call_for_several().await } else { self.call().await };
            self.ops.fetch_add(1, Relaxed);
            match outcome {
                // Real clients do not retry in a tight loop if the lock is busy or the store does not answer.
                Outcome::Busy => time::sleep(Duration::from_millis(self.random.u64(0..3))).await,
                Outcome::Unavailable | Outcome::NotReplicated | Outcome::Closed => {
                    time::sleep(Duration::from_millis(5)).await
                }
                Outcome::Cancelled | Outcome::Lost | Outcome::Released | Outcome::Refused => {
                    tokio::task::yield_now().await;
                }
                Outcome::OtherLimit => self.set_limit(None).await,
            }
            if self.evicts && self.random.u32(..4_000) == 0 {
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
        self.task >= LONG_TASKS && self.kinds.contains(&Kind::All) && self.random.u8(..12) == 0
    }

    /// Makes one random call, and runs the critical section if the call gets the lock.
    async fn call(&mut self) -> Outcome {
        let params = self.params();
        match self.random.u8(..100) {
            0..40 => {
                let call = self.record_begin(&params, Verb::Lock, Duration::MAX);
                let guard = params.handle.lock().await.map(Some);
                self.handle_answer(call, &params, guard).await
            }
            40..62 => {
                let call = self.record_begin(&params, Verb::TryLock, self.timeout);
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
                self.context.answered(call, Outcome::Cancelled);
                return Outcome::Cancelled;
            }
        };
        self.handle_answer(call, params, guard).await
    }

    /// Handles the answer of a call: runs the critical section, or records the result.
    async fn handle_answer(&mut self, call: CallId, params: &CallParams, answer: Result<Option<Held>>) -> Outcome {
        match answer {
            Ok(Some(held)) => {
                let CallParams { name, share, ttl, watched, .. } = *params;
                let long = name >= self.names - LONG;
                let (context, random, task, stop) = (&self.context, &mut self.random, self.task, &self.stop);
                let section = Section { context, random, call, task, name, share, ttl, watched, long, stop };
                section.run(held, &params.handle, params.is_owned).await
            }
            Ok(None) => {
                self.context.answered(call, Outcome::Busy);
                Outcome::Busy
            }
            Err(error) => {
                let outcome = outcome(&error, params.share);
                self.context.answered(call, outcome);
                outcome
            }
        }
    }

    /// Random parameters for the next call.
    fn params(&mut self) -> CallParams {
        // From this number on, names belong to locks that are held for a long time.
        let first_long = self.names - LONG;
        let name = match self.random.u8(..200) {
            // Each task sometimes uses one of the names that are held for a long time.
            0 => first_long + self.random.usize(..LONG),
            // The first tasks of each client use only these names.
            _ if self.task < LONG_TASKS => first_long + self.random.usize(..LONG),
            // About half of the calls use the hot names.
            1..100 => self.random.usize(..HOT),
            _ => self.random.usize(..first_long),
        };
        // Half of the long sections have a fixed lease, which they can exceed.
        let watched = self.random.u8(..10) < if name < first_long { 8 } else { 5 };
        self.params_of(name, Kind::of_name(name, &self.kinds), watched)
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
        let ttl = if watched { self.ttl } else { lease };
        let is_owned = share.permits() == 0 && self.random.u8(..20) == 0;
        let handle = if is_owned { handle.by(&self.context.client.owner()) } else { handle };
        CallParams { name, share, handle, is_owned, ttl, watched }
    }

    /// Records the beginning of a call, and returns the call's number.
    pub(super) fn record_begin(&self, params: &CallParams, verb: Verb, limit: Duration) -> CallId {
        let call = self.context.next_call();
        let (at, task, limit) =
            (self.context.now(), self.task, if limit == Duration::MAX { Nanos::MAX } else { nanos(limit) });
        let CallParams { name, share, ttl, watched, .. } = *params;
        self.context.note(&Event::Asked { call, at, task, name, share, verb, limit, ttl: nanos(ttl), watched });
        call
    }

    /// Takes a lock away from its holder by force. The eviction is recorded twice: before the call with an estimated
    /// end, and after a successful call with the real end. The first record is necessary because the process might be
    /// killed before it can write the second record.
    async fn evict(&mut self) {
        let name = self.random.usize(..RESOURCES);
        let from = self.context.now();
        self.context.note(&Event::Evicted { from, to: from + nanos(self.timeout * 3), name });
        if self.context.client.evict(plan::mutex(name)).await.is_ok() {
            self.context.note(&Event::Evicted { from, to: self.context.now(), name });
        }
    }

    /// Changes the limit of a semaphore. `None`: sets the limit that the calls name, for each semaphore. The change is
    /// recorded twice, as an eviction is.
    async fn set_limit(&mut self, limit: Option<u32>) {
        let names: Vec<_> = self.names_of(Kind::Semaphore);
        let Some(one) = self.random.choice(&names).copied() else { return };
        for name in if limit.is_some() { vec![one] } else { names } {
            let (from, limit) = (self.context.now(), limit.unwrap_or(LIMIT));
            let change = |to, sure| Event::Limited { from, to, name, limit, sure };
            self.context.note(&change(from + nanos(self.timeout * 8), false));
            if self.context.client.semaphore(plan::name(name), LIMIT).set_limit(limit).await.is_ok() {
                self.context.note(&change(self.context.now(), true));
            }
        }
    }

    /// Records the queue of a fair mutex.
    async fn inspect_a_queue(&mut self) {
        let names = self.names_of(Kind::Fair);
        let Some(name) = self.random.choice(&names).copied() else { return };
        let (task, from) = (self.task, self.context.now());
        let Ok(row) = self.context.client.show(plan::name(name)).await else { return };
        let at = self.context.now();
        for (position, id) in (0..).zip(&row.queue) {
            self.context.note(&Event::Queued { task, from, at, name, position, claim: claim_number(id) });
        }
    }

    /// The names of this kind.
    fn names_of(&self, kind: Kind) -> Vec<usize> {
        (0..self.names).filter(|name| Kind::of_name(*name, &self.kinds) == kind).collect()
    }
}
