//! The signals of --kill.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time;

use crate::{console, durations, fault::Fault, process_tree::process::Process};

/// The signals that have a name here.
const NAMES: [(&str, Signal); 10] = [
    ("KILL", Signal::KILL),
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("STOP", Signal::STOP),
    ("CONT", Signal::CONT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

/// One signal, as the user has written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kill {
    pid: i32,
    signal: Signal,
    /// The time after the start.
    at: Duration,
}

/// Parses `PID[:SIGNAL]@TIME`.
pub(super) fn parse(text: &str) -> Result<Kill, String> {
    const FORM: &str = "write it like 4711@20s or 4711:STOP@20s";
    let (target, at) = text.split_once('@').ok_or(FORM)?;
    let (pid, name) = target.split_once(':').unwrap_or((target, "KILL"));
    let pid = pid.parse().ok().filter(|pid| *pid > 1).ok_or_else(|| format!("{pid:?} is no process id; {FORM}"))?;
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = NAMES.iter().find(|(name, _)| *name == short).map(|(_, signal)| *signal);
    let signal = known.ok_or_else(|| {
        let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("{name:?} is none of the signals {}", names.join(", "))
    })?;
    Ok(Kill { pid, signal, at: durations::wait(at)? })
}

/// The signals that are not sent yet.
#[derive(Debug)]
pub(super) struct Kills(Vec<(Kill, Process)>);

impl Kills {
    /// Finds the processes. A signal is sent to the process that has the pid now, and not to a later one that has the
    /// same pid.
    pub(super) fn of(kills: &[Kill], duration: Duration) -> Result<Self, Fault> {
        let mut found = Vec::new();
        for kill in kills {
            let Kill { pid, at, .. } = *kill;
            if at >= duration {
                return Err(Fault::usage(format!("--kill of process {pid}: {at:?} is not before the end of --for")));
            }
            let process = Process::read(pid).ok_or_else(|| Fault::usage(format!("process {pid} does not exist")))?;
            found.push((*kill, process));
        }
        found.sort_by_key(|(kill, _)| kill.at);
        found.reverse();
        Ok(Self(found))
    }

    /// Sends the next signal when it is due. Never returns if there is none.
    ///
    /// # Cancel safety
    /// If the future is dropped, the signal is not sent.
    pub(super) async fn next(&mut self, began: Instant) {
        let Some((kill, process)) = self.0.last().copied() else { return std::future::pending().await };
        time::sleep_until((began + kill.at).into()).await;
        self.0.pop();
        let name = NAMES.iter().find(|(_, signal)| *signal == kill.signal).map_or("", |(name, _)| name);
        console::report_queued(&match process.signal(kill.signal) {
            Ok(()) => format!("{:?}: sent {name} to process {}", kill.at, kill.pid),
            Err(error) => format!("{:?}: cannot send {name} to process {}: {error}", kill.at, kill.pid),
        });
    }
}

#[cfg(test)]
mod tests;
