//! The signals that the command receives, one after the other, and who sent them.

use std::{fs, io, thread};

use rustix::process::Signal;
use signal_hook::{
    iterator::{SignalsInfo, exfiltrator::WithOrigin},
    low_level::siginfo::Cause,
};
use tokio::sync::mpsc;

/// Those that end `bandog lock` while it waits.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// Those that a running child gets besides.
const OTHERS: [Signal; 4] = [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT];
/// On a terminal their default is right: bandog stops with the whole foreground group, and so does its child.
const STOPPING: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
/// Signals that wait to be looked at; the kernel merges what comes faster.
const WAITING: usize = 64;

/// A signal and whether the kernel itself sent it, as it does for a key on the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caught {
    pub(crate) signal: Signal,
    pub(crate) from_kernel: bool,
}

impl Caught {
    /// Whether a child has changed its state.
    pub(crate) fn is_child(self) -> bool {
        self.signal == Signal::CHILD
    }
}

/// Signals that are no longer deadly, but messages.
#[derive(Debug)]
pub(crate) struct Signals {
    inbox: mpsc::Receiver<Caught>,
}

impl Signals {
    /// Catches every signal that matters from now on; what was ignored when the command started, as `nohup` does,
    /// stays so.
    pub(crate) fn catch(on_terminal: bool) -> io::Result<Self> {
        let ignored = ignored();
        let stopping: &[Signal] = if on_terminal { &[] } else { &STOPPING };
        let wanted = ENDING.iter().chain(&OTHERS).chain(stopping).map(|signal| signal.as_raw());
        let wanted = wanted.filter(|number| ignored & (1 << (number - 1)) == 0);
        let mut caught = SignalsInfo::<WithOrigin>::new(wanted.chain([Signal::CHILD.as_raw()]))?;
        let (outbox, inbox) = mpsc::channel(WAITING);
        thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in caught.forever() {
                let Some(signal) = Signal::from_named_raw(origin.signal) else { continue };
                let caught = Caught { signal, from_kernel: matches!(origin.cause, Cause::Kernel) };
                if outbox.blocking_send(caught).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { inbox })
    }

    /// The next signal.
    ///
    /// # Cancel safety
    /// No signal is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Caught {
        match self.inbox.recv().await {
            Some(caught) => caught,
            // The thread has ended, which it does not; there is nothing left to hear.
            None => std::future::pending().await,
        }
    }

    /// The next signal that asks bandog to end; others mean nothing as long as there is no child.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            let caught = self.next().await;
            if ENDING.contains(&caught.signal) {
                return caught.signal;
            }
        }
    }

    /// A signal to end that has come already.
    pub(crate) fn has_ended(&mut self) -> Option<Signal> {
        while let Ok(caught) = self.inbox.try_recv() {
            if ENDING.contains(&caught.signal) {
                return Some(caught.signal);
            }
        }
        None
    }
}

/// The kernel's mask of ignored signals, bit 0 for signal 1; none if it cannot be read.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
