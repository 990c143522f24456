//! Watches the child and the lock, and terminates the child when the lock is in danger.

use std::{pin::pin, time::Duration};

use bandog::{
    AllGuard, SharedHold,
    backend::{Clock, Moment},
};
use rustix::process::Signal;
use tokio::time::{interval, sleep};

use super::grace::Grace;
use crate::{
    exit_code::ExitCode,
    process_tree::{ProcessTree, heir, process::Process},
    signals::{Caught, Signals},
};

/// A hold that the child must not outlive.
pub(crate) trait Hold: Sync {
    /// Time until the hold is lost if no further renewal succeeds.
    fn remaining(&self) -> Duration;

    fn is_lost(&self) -> bool;

    /// Resolves when only `grace` is left before the hold is lost.
    fn expiring(&self, grace: Duration) -> impl Future<Output = ()> + Send;
}

impl Hold for AllGuard<SharedHold> {
    fn remaining(&self) -> Duration {
        self.remaining()
    }

    fn is_lost(&self) -> bool {
        self.is_lost()
    }

    fn expiring(&self, grace: Duration) -> impl Future<Output = ()> + Send {
        self.expiring(grace)
    }
}

/// How the child ended: by itself, or because bandog terminated it.
pub(crate) enum ChildEnd<S> {
    ByItself(ExitCode),
    /// Bandog terminated the child, because a signal asked for it.
    Stopped {
        by: S,
        survivors: Vec<Process>,
    },
    /// Bandog terminated the child, because the lock was in danger. All processes of the child are dead, except the
    /// survivors: these cannot be killed.
    ForTheLock {
        danger: LockDanger,
        survivors: Vec<Process>,
    },
}

/// The reason why the lock is in danger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockDanger {
    /// The deadline of the lock is near. After the deadline, another client might hold the lock.
    Expiring,
    /// The deadline of the lock has passed while bandog or the whole machine was stopped.
    Expired,
    /// The lock was lost before its deadline: an operator took the lock away by force, or the store has lost its data.
    Gone,
}

/// Watches until the child has ended, the lock is in danger, or a signal comes for which `stops` returns a value. In the
/// second case, this function terminates the child, because the child must not outlive the lock; in the third case, too.
/// Other signals are forwarded.
pub(crate) async fn watch<S: Send>(
    hold: &impl Hold,
    processes: &mut ProcessTree,
    signals: &mut Signals,
    grace: Grace,
    stops: impl Fn(Caught) -> Option<S> + Send,
) -> ChildEnd<S> {
    let mut deadline = Deadline::of(hold);
    processes.keep_until(deadline.latest - grace.head_start);
    // At the deadline, the heir kills the child, too, and can be the first.
    let is_near = || hold.remaining() <= grace.warning() + heir::CHANGE;
    let is_by_itself = |code| !(code == ExitCode::Signal(Signal::KILL.as_raw()) && is_near());
    let mut check = interval(grace.check_interval);
    let mut expiring = pin!(hold.expiring(grace.warning()));
    let stopped = loop {
        tokio::select! { biased;
            () = &mut expiring => break None,
            caught = signals.next() => match caught.is_child().then(|| processes.reap()) {
                Some(Some(code)) if is_by_itself(code) => return ChildEnd::ByItself(code),
                Some(Some(_)) => break None,
                Some(None) => {}
                None => match stops(caught) {
                    Some(by) => break Some(by),
                    None => processes.forward(caught),
                },
            },
            _ = check.tick() => {
                deadline.observe(hold);
                processes.keep_until(deadline.latest - grace.head_start);
                // The child is also polled, because the parent of bandog might have blocked SIGCHLD.
                match processes.reap() {
                    Some(code) if is_by_itself(code) => return ChildEnd::ByItself(code),
                    Some(_) => break None,
                    None => {}
                }
            }
        }
    };
    if let Some(code) = processes.reap().filter(|code| is_by_itself(*code)) {
        return ChildEnd::ByItself(code); // The child has ended, although SIGCHLD might still be pending.
    }
    match stopped {
        Some(by) => {
            let survivors = end(hold, processes, signals, grace, LockDanger::Expiring).await;
            ChildEnd::Stopped { by, survivors }
        }
        None => {
            let danger = deadline.danger(hold);
            let survivors = end(hold, processes, signals, grace, danger).await;
            ChildEnd::ForTheLock { danger, survivors }
        }
    }
}

/// Sends TERM to all processes, and later KILL to the processes that still run. Returns the processes that cannot be
/// killed.
async fn end(
    hold: &impl Hold,
    processes: &mut ProcessTree,
    signals: &mut Signals,
    grace: Grace,
    danger: LockDanger,
) -> Vec<Process> {
    let kill_time = async {
        match danger {
            LockDanger::Expiring => tokio::select! {
                // If a renewal succeeds now, the deadline moves. But the child has got TERM already, so the child also
                // gets KILL, at the latest after `kill_after`.
                () = sleep(grace.kill_after) => {}
                () = hold.expiring(grace.head_start) => {}
            },
            LockDanger::Expired => {}
            LockDanger::Gone => sleep(grace.kill_after).await,
        }
    };
    tokio::pin!(kill_time);
    processes.end();
    loop {
        tokio::select! { biased;
            () = &mut kill_time => return processes.kill().await,
            caught = signals.next() => if caught.is_child() {
                processes.reap();
                if processes.is_gone() {
                    return Vec::new();
                }
            } else {
                processes.forward(caught);
            },
        }
    }
}

/// The latest deadline of the lock that bandog has seen.
struct Deadline {
    clock: Clock,
    /// The latest of all observed deadlines.
    latest: Moment,
}

impl Deadline {
    fn of(hold: &impl Hold) -> Self {
        let clock = Clock::system();
        Self { clock, latest: clock.now() + hold.remaining() }
    }

    /// Reads the present deadline of the lock. Each renewal moves the deadline.
    fn observe(&mut self, hold: &impl Hold) {
        self.latest = self.latest.max(self.clock.now() + hold.remaining());
    }

    /// The reason why the lock is in danger. Call this when the lock is lost or about to expire.
    fn danger(&self, hold: &impl Hold) -> LockDanger {
        if !hold.is_lost() {
            return LockDanger::Expiring;
        }
        if self.clock.now() >= self.latest { LockDanger::Expired } else { LockDanger::Gone }
    }
}
