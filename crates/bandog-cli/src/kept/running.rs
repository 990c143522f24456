//! A running keeper: the orders to it, and its report.

use std::{pin::Pin, time::Duration};

use bandog::backend::Moment;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    process::{Child, ChildStderr, ChildStdout},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::keep::{self, KeeperReport};
use crate::process_tree::heir;

/// Time that a keeper gets after the order to kill the command. After this timeout, bandog kills the keeper itself.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks of a lease that does not exist.
const NO_LEASE: Duration = Duration::from_secs(3600);

/// A lease that the command must not outlive. The keeper knows its deadline, so the command also ends in time if bandog is
/// stopped meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Lease<'a> {
    /// The time at which all processes of the command are killed, unless the lease is extended. They get TERM before: at
    /// the beginning of the grace period that ends then.
    pub(crate) deadline: &'a (dyn Fn() -> Moment + Send + Sync),
    /// Interval between two checks whether the lease was extended.
    pub(crate) check_interval: Duration,
}

/// The requests that end a run early.
pub(super) struct StopRequests<'a, C, H> {
    /// Resolves when the command must be terminated.
    pub(super) cancelled: Pin<&'a mut C>,
    /// Resolves when the command must be killed immediately.
    pub(super) hurried: Pin<&'a mut H>,
    /// Time between TERM and KILL.
    pub(super) grace: Duration,
}

impl<C: Future<Output = ()>, H: Future<Output = ()>> StopRequests<'_, C, H> {
    /// Resolves at the first request. If that request is `hurried`, the grace period becomes zero.
    async fn any(&mut self) {
        tokio::select! {
            () = &mut self.cancelled => {}
            () = &mut self.hurried => self.grace = Duration::ZERO,
        }
    }

    /// Resolves at the time at which all processes of the command must be dead: at the request `hurried`, or this time
    /// after the end of the grace period. Call this after [`Self::any`] has resolved.
    async fn kill(&mut self, late: Duration) {
        if !self.grace.is_zero() {
            tokio::select! {
                () = &mut self.hurried => {}
                () = sleep(self.grace + late) => {}
            }
        }
    }
}

/// The end of a keeper and its command.
pub(super) struct KeptEnd {
    /// The report of the keeper. None if the keeper was killed.
    pub(super) report: Option<KeeperReport>,
    /// Whether bandog ordered the end.
    pub(super) is_ordered: bool,
}

/// A running keeper. Dropping this value closes the socket, and then the keeper kills the command.
pub(super) struct RunningKeeper<'a> {
    keeper: Child,
    socket: UnixStream,
    /// The variables that identify the command and its descendants, each written `NAME=VALUE`.
    marks: Vec<String>,
    /// The bytes that are not sent yet: the input of the command, and orders.
    outbox: Vec<u8>,
    /// The lease, and its deadline that the keeper knows.
    lease: Option<(Lease<'a>, Moment)>,
}

impl<'a> RunningKeeper<'a> {
    pub(super) fn new(
        keeper: Child,
        socket: UnixStream,
        marks: Vec<String>,
        outbox: Vec<u8>,
        lease: Option<(Lease<'a>, Moment)>,
    ) -> Self {
        Self { keeper, socket, marks, outbox, lease }
    }

    /// The outputs of the command. None after the first call.
    pub(super) fn outputs(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.keeper.stdout.take().zip(self.keeper.stderr.take())
    }

    /// Waits until all processes are dead. `late`: the time after the grace period at which a keeper hangs.
    pub(super) async fn ended<C, H>(&mut self, mut stop_requests: StopRequests<'_, C, H>, late: Duration) -> KeptEnd
    where
        C: Future<Output = ()>,
        H: Future<Output = ()>,
    {
        let mut text = Vec::new();
        let is_ordered = !self.read_until(&mut text, stop_requests.any()).await;
        let ended = !is_ordered || {
            self.outbox.push(keep::END);
            // The keeper measures the grace period itself; this timeout is for a keeper that hangs.
            self.read_until(&mut text, stop_requests.kill(late)).await
        };
        if !ended {
            self.outbox.push(keep::KILL);
            self.read_until(&mut text, sleep(KEEPER_TIMEOUT)).await;
        }
        let report = serde_json::from_slice(&text).ok();
        if report.is_none() {
            self.kill().await;
        }
        // The keeper has reported or was killed, so it exits soon.
        let _ = timeout(KEEPER_TIMEOUT, self.keeper.wait()).await;
        KeptEnd { report, is_ordered }
    }

    /// Reads from the socket into `text`, until the socket closes or `until` resolves. Returns whether the socket has
    /// closed. Meanwhile, sends what is in the outbox, and each later deadline of the lease.
    async fn read_until(&mut self, text: &mut Vec<u8>, until: impl Future<Output = ()>) -> bool {
        tokio::pin!(until);
        let (mut reader, mut writer) = self.socket.split();
        let mut check = interval(self.lease.map_or(NO_LEASE, |(lease, _)| lease.check_interval));
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! { biased;
                read = reader.read_buf(text) => if matches!(read, Ok(0) | Err(_)) {
                    return true;
                },
                written = writer.write(&self.outbox), if !self.outbox.is_empty() => match written {
                    Ok(written) => drop(self.outbox.drain(..written)),
                    // The keeper might just have exited.
                    Err(_) => self.outbox.clear(),
                },
                () = &mut until => return false,
                _ = check.tick() => if let Some((lease, known)) = &mut self.lease {
                    let deadline = (lease.deadline)();
                    if deadline > *known {
                        *known = deadline;
                        self.outbox.push(keep::UNTIL);
                        self.outbox.extend(deadline.as_nanos().to_le_bytes());
                    }
                },
            }
        }
    }

    /// Kills the keeper and the run's other processes. When the keeper dies, the kernel kills the command.
    async fn kill(&mut self) {
        // An error is ignored, because the keeper might be dead already.
        let _ = self.keeper.start_kill();
        let marks = self.marks.clone();
        // `kill_marked` has its own timeout.
        let _ = spawn_blocking(move || heir::kill_marked(&marks)).await;
    }
}
