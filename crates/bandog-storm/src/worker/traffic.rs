//! One task, which makes random calls one after the other. After a call that got the lock, the task runs a critical
//! section.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog::{Error, ErrorKind, Guard, Mutex, Owner, Result};
use tokio::time;

use super::{client_context::ClientContext, section::Section};
use crate::{
    args::WorkerArgs,
    history::{CallId, Event, Nanos, Outcome, Verb, nanos},
    plan::{self, HOT, LONG},
};

/// A task that makes calls.
pub(super) struct Traffic {
    context: Arc<ClientContext>,
    task: u32,
    random: fastrand::Rng,
    /// Number of ended calls of this process.
    ops: Arc<AtomicU64>,
    /// Set to true when all tasks must end.
    stop: Arc<AtomicBool>,
    /// Number of lock names.
    names: usize,
    ttl: Duration,
    timeout: Duration,
    /// Whether the task sometimes takes a lock away from its holder by force.
    evicts: bool,
}

/// The parameters of a call.
struct CallParams {
    name: usize,
    mutex: Mutex,
    owner: Option<Owner>,
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
        let (names, ttl, timeout, evicts) = (args.names, args.ttl(), args.timeout(), args.evicts);
        Self { context, task, random, ops, stop, names, ttl, timeout, evicts }
    }

    pub(super) async fn run(mut self) {
        while !self.stop.load(Relaxed) {
            let outcome = self.call().await;
            self.ops.fetch_add(1, Relaxed);
            match outcome {
                // Real clients do not retry in a tight loop if the lock is busy or the store does not answer.
                Outcome::Busy => time::sleep(Duration::from_millis(self.random.u64(0..3))).await,
                Outcome::Unavailable | Outcome::Closed => time::sleep(Duration::from_millis(5)).await,
                Outcome::Cancelled | Outcome::Lost | Outcome::Released | Outcome::Refused => {
                    tokio::task::yield_now().await;
                }
            }
            if self.evicts && self.random.u32(..4_000) == 0 {
                self.evict().await;
            }
        }
    }

    /// Makes one random call, and runs the critical section if the call gets the lock.
    async fn call(&mut self) -> Outcome {
        let params = self.params();
        match self.random.u8(..100) {
            0..40 => {
                let call = self.record_begin(&params, Verb::Lock, Duration::MAX);
                let guard = params.mutex.lock().await.map(Some);
                self.handle_answer(call, &params, guard).await
            }
            40..62 => {
                let call = self.record_begin(&params, Verb::TryLock, self.timeout);
                let guard = params.mutex.try_lock().await;
                self.handle_answer(call, &params, guard).await
            }
            62..88 => {
                let wait = Duration::from_millis(self.random.u64(1..250));
                let call = self.record_begin(&params, Verb::TryLockFor, wait);
                let guard = params.mutex.try_lock_for(wait).await;
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
            guard = params.mutex.lock() => guard.map(Some),
            () = wait_before_drop => {
                self.note_answer(call, Outcome::Cancelled);
                return Outcome::Cancelled;
            }
        };
        self.handle_answer(call, params, guard).await
    }

    /// Handles the answer of a call: runs the critical section, or records the result.
    async fn handle_answer(&mut self, call: CallId, params: &CallParams, answer: Result<Option<Guard>>) -> Outcome {
        match answer {
            Ok(Some(guard)) => {
                let (name, ttl, long) = (params.name, params.ttl, params.name >= self.names - LONG);
                let (context, random, stop) = (&self.context, &mut self.random, &self.stop);
                let section = Section { context, random, call, name, ttl, long, stop };
                section.run(guard, &params.mutex, params.owner.is_some()).await
            }
            Ok(None) => {
                self.note_answer(call, Outcome::Busy);
                Outcome::Busy
            }
            Err(error) => {
                let outcome = outcome(&error);
                self.note_answer(call, outcome);
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
            // The first task of each client uses only these names.
            _ if self.task == 0 => first_long + self.random.usize(..LONG),
            // About half of the calls use the hot names.
            1..100 => self.random.usize(..HOT),
            _ => self.random.usize(..first_long),
        };
        let mutex = self.context.client.mutex(plan::name(name));
        // Half of the long sections have a fixed lease, which they can exceed.
        let watched = self.random.u8(..10) < if name < first_long { 8 } else { 5 };
        let lease = Duration::from_millis(self.random.u64(100..600));
        let (mutex, ttl) = if watched { (mutex, self.ttl) } else { (mutex.lease(lease), lease) };
        let owner = (self.random.u8(..20) == 0).then(|| self.context.client.owner());
        let mutex = if let Some(owner) = &owner { mutex.by(owner) } else { mutex };
        CallParams { name, mutex, owner, ttl, watched }
    }

    /// Records the beginning of a call, and returns the call's number.
    fn record_begin(&self, params: &CallParams, verb: Verb, limit: Duration) -> CallId {
        let call = self.context.next_call();
        let (at, task, limit) =
            (self.context.now(), self.task, if limit == Duration::MAX { Nanos::MAX } else { nanos(limit) });
        let CallParams { name, ttl, watched, .. } = *params;
        self.context.note(&Event::Asked { call, at, task, name, verb, limit, ttl: nanos(ttl), watched });
        call
    }

    /// Records the end of a call.
    fn note_answer(&self, call: CallId, outcome: Outcome) {
        self.context.note(&Event::Answered { call, at: self.context.now(), outcome });
    }

    /// Takes a lock away from its holder by force. The eviction is recorded twice: before the call with an estimated
    /// end, and after a successful call with the real end. The first record is necessary because the process might be
    /// killed before it can write the second record.
    async fn evict(&mut self) {
        let name = self.random.usize(..self.names);
        let from = self.context.now();
        self.context.note(&Event::Evicted { from, to: from + nanos(self.timeout * 3), name });
        if self.context.client.evict(plan::name(name)).await.is_ok() {
            self.context.note(&Event::Evicted { from, to: self.context.now(), name });
        }
    }
}

/// The outcome that the history records for this error.
pub(super) fn outcome(error: &Error) -> Outcome {
    match error.kind() {
        ErrorKind::Unavailable => Outcome::Unavailable,
        ErrorKind::Lost => Outcome::Lost,
        ErrorKind::Closed => Outcome::Closed,
        _ => {
            eprintln!("storm: {error}");
            Outcome::Refused
        }
    }
}
