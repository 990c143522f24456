//! The parts that the tasks for latches, barriers and elections share.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog::{Error, ErrorKind, Result};
use tokio::time;

use super::client_context::ClientContext;
use crate::{
    history::{Event, Nanos, nanos},
    settings::WorkerArgs,
    step::{Reply, Step},
};

/// Interval at which a call without a limit checks whether all tasks must end.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

/// One task.
pub(super) struct Task {
    pub(super) context: Arc<ClientContext>,
    pub(super) number: u32,
    pub(super) random: fastrand::Rng,
    /// Set to true when all tasks must end.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) ttl: Duration,
    /// The request timeout.
    pub(super) timeout: Duration,
    /// Number of ended calls of this process.
    ops: Arc<AtomicU64>,
}

impl Task {
    pub(super) fn new(
        context: Arc<ClientContext>,
        number: u32,
        args: &WorkerArgs,
        ops: Arc<AtomicU64>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let random = fastrand::Rng::with_seed(args.seed ^ (u64::from(number) << 32));
        Self { context, number, random, stop, ttl: args.ttl(), timeout: args.timeout(), ops }
    }

    pub(super) fn must_end(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Counts a call, and pauses for some milliseconds or not at all, so that the tasks with locks make most calls.
    pub(super) async fn rest(&mut self) {
        self.ops.fetch_add(1, Relaxed);
        match self.random.u8(..10) {
            0..6 => time::sleep(Duration::from_millis(self.random.u64(..8))).await,
            _ => tokio::task::yield_now().await,
        }
    }

    /// Makes a call for a latch or a barrier, and records it. The future of the call is dropped after `patience`, or
    /// when all tasks must end if there is no `patience`. `limit` is the time in which the call must end.
    pub(super) async fn call<T>(
        &self,
        (name, step): (usize, Step),
        (limit, patience): (Option<Duration>, Option<Duration>),
        call: impl Future<Output = Result<T>>,
        reply: impl FnOnce(T) -> Reply,
    ) -> Reply {
        let id = self.context.next_call();
        let limit = limit.map_or(Nanos::MAX, nanos);
        let (at, task) = (self.context.now(), self.number);
        self.context.note(&Event::Began { call: id, at, task, name, step, limit });
        let reply = tokio::select! { biased;
            answer = call => answer.map_or_else(|error| of_error(&error), reply),
            () = self.give_up(patience) => Reply::Cancelled,
        };
        self.context.note(&Event::Returned { call: id, at: self.context.now(), reply });
        if reply == Reply::Unavailable {
            time::sleep(Duration::from_millis(5)).await;
        }
        reply
    }

    /// Waits for this time, or until all tasks must end.
    pub(super) async fn give_up(&self, patience: Option<Duration>) {
        let mut end = pin!(time::sleep(patience.unwrap_or(Duration::MAX)));
        while !(self.must_end() && patience.is_none()) {
            tokio::select! {
                () = &mut end => return,
                () = time::sleep(STOP_INTERVAL) => {}
            }
        }
    }
}

fn of_error(error: &Error) -> Reply {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::NotReplicated => Reply::Unavailable,
        ErrorKind::Lost => Reply::Lost,
        _ => {
            eprintln!("storm: {error}");
            Reply::Refused
        }
    }
}
