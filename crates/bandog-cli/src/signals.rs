//! The signals that the command receives, in order, with their origin.

use std::{
    fs,
    io::{self, IsTerminal},
    thread,
};

use rustix::process::Signal;
use signal_hook::{
    iterator::{SignalsInfo, exfiltrator::WithOrigin},
    low_level::siginfo::Cause,
};
use tokio::sync::mpsc;

/// Signals that ask bandog to exit. While a child runs, `bandog lock` forwards them to the child.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// Further signals that are forwarded to a running child.
const OTHERS: [Signal; 4] = [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT];
/// Signals that stop a process until the process gets CONT. If bandog has a terminal, these signals are not caught. So
/// they stop the whole foreground group of the terminal: bandog and its child.
const STOPPING: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
/// Maximum number of queued signals. While the queue is full, the kernel merges equal signals.
const WAITING: usize = 64;

/// A signal that bandog has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caught {
    pub(crate) signal: Signal,
    /// Whether the kernel sent the signal, for example because the user pressed Ctrl-C on the terminal.
    pub(crate) from_kernel: bool,
}

impl Caught {
    /// Whether the signal reports that a child has changed its state.
    pub(crate) fn is_child(self) -> bool {
        self.signal == Signal::CHILD
    }

    /// The signal, if it asks bandog to exit.
    pub(crate) fn ending(self) -> Option<Signal> {
        ENDING.contains(&self.signal).then_some(self.signal)
    }
}

/// The request of a signal to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// To read its files again.
    Reload,
    /// To exit.
    End(Signal),
}

/// The caught signals.
#[derive(Debug)]
pub(crate) struct Signals {
    inbox: mpsc::Receiver<Caught>,
}

impl Signals {
    /// From now on, catches CHILD and the signals in `ENDING`, `OTHERS` and `STOPPING`. If this process ignored a
    /// signal when it started, as under `nohup`, the signal stays ignored. `on_terminal` is true if the signals of
    /// `STOPPING` must not be caught.
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
            // If the thread has ended, no signal can come.
            None => std::future::pending().await,
        }
    }

    /// The next signal that asks bandog to exit. Other signals are dropped, because no child is running that could get
    /// them.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            if let Some(signal) = self.next().await.ending() {
                return signal;
            }
        }
    }

    /// The next signal that asks a service for something. HUP asks for a reload, except from the kernel and on a terminal:
    /// there it means that the terminal is gone.
    pub(crate) async fn request(&mut self) -> Request {
        let is_on_terminal = || io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
        loop {
            let Caught { signal, from_kernel } = self.next().await;
            if signal == Signal::HUP && !from_kernel && !is_on_terminal() {
                return Request::Reload;
            }
            if ENDING.contains(&signal) {
                return Request::End(signal);
            }
        }
    }

    /// The next request to exit. Requests for a reload are dropped.
    pub(crate) async fn end_request(&mut self) -> Signal {
        loop {
            if let Request::End(signal) = self.request().await {
                return signal;
            }
        }
    }

    /// A signal that asks bandog to exit, if such a signal has already come.
    pub(crate) fn received_ending(&mut self) -> Option<Signal> {
        while let Ok(caught) = self.inbox.try_recv() {
            if ENDING.contains(&caught.signal) {
                return Some(caught.signal);
            }
        }
        None
    }
}

/// The kernel's mask of ignored signals, with bit 0 for signal 1. The result is 0 if the mask cannot be read.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
