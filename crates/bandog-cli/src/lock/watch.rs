//! The child at work, and its end when the lock is in danger.

use bandog::{Clock, Guard, backend::Moment};
use tokio::time::{interval, sleep};

use super::grace::Grace;
use crate::{
    exit_code::ExitCode,
    family::{Family, tree::Process},
    signals::Signals,
};

/// How the child ended.
pub(super) enum Ended {
    ByItself(ExitCode),
    /// Bandog ended it, and everybody is dead but for the survivors, who cannot be killed.
    ForTheLock {
        danger: Danger,
        survivors: Vec<Process>,
    },
}

/// What the lock was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Danger {
    /// Its deadline is near: whoever is alive when it comes may not be alone.
    Expiring,
    /// Its deadline has passed unseen: bandog or the whole machine stood still.
    Expired,
    /// It was taken away before its time: forced, or forgotten by the store.
    Gone,
}

/// Watches the child and the lock until one of them ends, and sees to it that the child does not outlive the lock.
pub(super) async fn watch(guard: &Guard, family: &mut Family, signals: &mut Signals, grace: Grace) -> Ended {
    let mut deadline = Deadline::of(guard);
    let mut look = interval(grace.look);
    let mut expiring = guard.expiring(grace.warning());
    loop {
        tokio::select! { biased;
            () = &mut expiring => break,
            caught = signals.next() => match caught.is_child().then(|| family.reap()) {
                Some(Some(code)) => return Ended::ByItself(code),
                Some(None) => {}
                None => family.forward(caught),
            },
            _ = look.tick() => {
                deadline.look(guard);
                // Whoever started us may have blocked the signal that tells of a child.
                if let Some(code) = family.reap() {
                    return Ended::ByItself(code);
                }
            }
        }
    }
    if let Some(code) = family.reap() {
        return Ended::ByItself(code); // It was first; the signal that tells of it may still be on its way.
    }
    let danger = deadline.danger(guard);
    let survivors = end(guard, family, signals, grace, danger).await;
    Ended::ForTheLock { danger, survivors }
}

/// TERM, then KILL for whoever is left.
async fn end(guard: &Guard, family: &mut Family, signals: &mut Signals, grace: Grace, danger: Danger) -> Vec<Process> {
    let patience = async {
        match danger {
            Danger::Expiring => tokio::select! {
                // A renewal may succeed late and move the deadline, but what has been begun is ended.
                () = sleep(grace.kill_after) => {}
                () = guard.expiring(grace.head_start) => {}
            },
            Danger::Expired => {}
            Danger::Gone => sleep(grace.kill_after).await,
        }
    };
    tokio::pin!(patience);
    family.end();
    loop {
        tokio::select! { biased;
            () = &mut patience => return family.kill().await,
            caught = signals.next() => if caught.is_child() {
                family.reap();
                if family.is_gone() {
                    return Vec::new();
                }
            } else {
                family.forward(caught);
            },
        }
    }
}

/// The latest deadline that was seen.
struct Deadline {
    clock: Clock,
    latest: Moment,
}

impl Deadline {
    fn of(guard: &Guard) -> Self {
        let clock = Clock::system();
        Self { clock, latest: clock.now() + guard.remaining() }
    }

    fn look(&mut self, guard: &Guard) {
        self.latest = self.latest.max(self.clock.now() + guard.remaining());
    }

    /// What the lock is in, now that it is ending.
    fn danger(&self, guard: &Guard) -> Danger {
        if !guard.is_lost() {
            return Danger::Expiring;
        }
        if self.clock.now() >= self.latest { Danger::Expired } else { Danger::Gone }
    }
}
