//! A child and all that it starts.

pub(crate) mod heir;
pub(crate) mod tree;

use std::{ffi::OsString, io, os::unix::process::CommandExt, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, wait};
use tokio::time::{Instant, sleep};

use self::{heir::Heir, tree::Process};
use crate::{exec, exit_code::ExitCode, fault::Fault, signals::Caught};

/// How long the killed may take to die. Only what hangs in the kernel, or belongs to another user, takes longer.
pub(crate) const BURIAL: Duration = Duration::from_secs(5);

/// Between two looks at who is left.
const PAUSE: Duration = Duration::from_millis(1);

/// What to start.
pub(crate) struct Child<'a> {
    pub(crate) command: &'a [OsString],
    /// What it finds in its environment besides what bandog itself finds there.
    pub(crate) variables: Vec<(&'static str, String)>,
    pub(crate) stdin: Stdio,
    /// Whether it gets a process group of its own; on a terminal that would put it into the background.
    pub(crate) own_group: bool,
}

/// The child and its descendants, also those that left its process group: whoever loses its parent becomes our child.
#[derive(Debug)]
pub(crate) struct Family {
    child: Pid,
    own_group: bool,
    ended: Option<ExitCode>,
    /// Children that are not the child's: the heir, and those of a shell that became bandog.
    strangers: Vec<Process>,
    heir: Option<Heir>,
}

impl Family {
    /// Starts the child. It dies when the calling thread does, and what it has started then dies by the heir.
    pub(crate) fn start(child: Child<'_>, heir: Option<Heir>) -> Result<Self, Fault> {
        set_child_subreaper(Some(getpid())).map_err(|error| Fault::system("cannot adopt orphans", error))?;
        let strangers = tree::children();
        let mut step = exec::step(child.command);
        step.envs(child.variables).stdin(child.stdin);
        if child.own_group {
            step.process_group(0);
        }
        let started = step.spawn().and_then(|child| i32::try_from(child.id()).map_err(io::Error::other));
        let pid = started.map_err(|error| Fault::system("cannot start the command", error))?;
        let pid = Pid::from_raw(pid).ok_or_else(|| Fault::system("cannot start the command", "it has no number"))?;
        Ok(Self { child: pid, own_group: child.own_group, ended: None, strangers, heir })
    }

    /// Lets go of whoever the child has left behind.
    pub(crate) fn disband(self) {
        if let Some(heir) = self.heir {
            heir.dismiss();
        }
    }

    /// Collects whoever has ended, orphans too. The child's exit code, once it is among them.
    pub(crate) fn reap(&mut self) -> Option<ExitCode> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.child {
                self.ended = exit_code(status);
            }
        }
        self.ended
    }

    /// Hands on a signal that bandog got.
    pub(crate) fn forward(&self, caught: Caught) {
        if self.own_group {
            self.signal_group(caught.signal);
        } else if !caught.from_kernel {
            // What the kernel sends for a key has reached the whole foreground group already.
            self.signal_each(caught.signal, |_| true);
        }
    }

    /// Asks everybody to end; who is stopped must go on to do so.
    pub(crate) fn end(&self) {
        for signal in [Signal::TERM, Signal::CONT] {
            self.signal_group(signal);
            self.signal_each(signal, |process| !self.got_it_as_group(process));
        }
    }

    /// Whether nobody is left.
    pub(crate) fn is_gone(&self) -> bool {
        tree::descendants(&self.strangers).is_empty()
    }

    /// Kills everybody, and returns when all are dead; or whoever would not die.
    pub(crate) async fn kill(&mut self) -> Vec<Process> {
        let until = Instant::now() + BURIAL;
        let mut pause = PAUSE;
        let mut before = Vec::new();
        loop {
            self.signal_group(Signal::KILL);
            let alive = tree::descendants(&self.strangers);
            for process in &alive {
                // Who may not be killed is named at the end.
                let _ = process.signal(Signal::KILL);
            }
            if alive.is_empty() || Instant::now() >= until {
                return alive;
            }
            // Whoever still starts others must be overtaken; whoever dies slowly may be left to it.
            pause = if alive == before { pause * 2 } else { PAUSE };
            before = alive;
            sleep(pause).await;
            self.reap();
        }
    }

    /// As long as the child has not been collected, its number cannot be another group's.
    fn signal_group(&self, signal: Signal) {
        if self.own_group && self.ended.is_none() {
            // A group that has ended already needs no signal.
            let _ = kill_process_group(self.child, signal);
        }
    }

    fn signal_each(&self, signal: Signal, wanted: impl Fn(&Process) -> bool) {
        for process in tree::descendants(&self.strangers).iter().filter(|process| wanted(process)) {
            // One that belongs to another user cannot be told; KILL tells of it.
            let _ = process.signal(signal);
        }
    }

    fn got_it_as_group(&self, process: &Process) -> bool {
        self.own_group && self.ended.is_none() && process.group == self.child.as_raw_nonzero().get()
    }
}

fn exit_code(status: WaitStatus) -> Option<ExitCode> {
    if let Some(code) = status.exit_status() {
        return Some(ExitCode::Child(code.to_le_bytes()[0]));
    }
    // Real-time signals have numbers only.
    status.terminating_signal().map(ExitCode::Signal)
}
