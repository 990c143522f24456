//! A child process and all its descendants.

pub(crate) mod heir;
pub(crate) mod input;
pub(crate) mod process;

use std::{ffi::OsString, io, os::unix::process::CommandExt, process::Stdio, time::Duration};

use bandog::backend::Moment;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, wait};
use tokio::time::{Instant, sleep};

use self::{
    heir::Heir,
    process::{KILL_TIMEOUT, Process},
};
use crate::{exec, exit_code::ExitCode, fault::Fault, signals::Caught};

/// Initial interval between two scans for remaining processes.
const PAUSE: Duration = Duration::from_millis(1);

/// The command to start.
pub(crate) struct Child<'a> {
    pub(crate) command: &'a [OsString],
    /// Variables in addition to bandog's own environment.
    pub(crate) variables: Vec<(&'static str, String)>,
    pub(crate) stdin: Stdio,
    pub(crate) stdout: Stdio,
    /// Whether the child gets a process group of its own. On a terminal this must be false, because a new group would
    /// be in the background.
    pub(crate) own_group: bool,
}

/// The child and its descendants. Bandog is their subreaper: if the parent of a descendant exits, the descendant
/// becomes a child of bandog. So bandog also finds descendants that left the child's process group.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    child: Pid,
    /// Whether the child has a process group of its own.
    own_group: bool,
    /// The child's exit code. None until bandog has reaped the child.
    ended: Option<ExitCode>,
    /// Processes that were children of bandog before the child started: the heir and, if a shell started bandog with
    /// `exec`, the children of that shell.
    earlier_children: Vec<Process>,
    /// The process that kills the descendants if bandog is killed.
    heir: Option<Heir>,
}

impl ProcessTree {
    /// Starts the child. The kernel kills the child when the calling thread exits; the heir then kills the descendants.
    pub(crate) fn start(child: Child<'_>, heir: Option<Heir>) -> Result<Self, Fault> {
        set_child_subreaper(Some(getpid())).map_err(|error| Fault::system("cannot adopt orphans", error))?;
        let earlier_children = process::children();
        // A hidden step of bandog starts first, and then becomes the command.
        let mut step = exec::step(child.command);
        step.envs(child.variables).stdin(child.stdin).stdout(child.stdout);
        if child.own_group {
            step.process_group(0);
        }
        let started = step.spawn().and_then(|child| i32::try_from(child.id()).map_err(io::Error::other));
        let pid = started.map_err(|error| Fault::system("cannot start the command", error))?;
        let pid = Pid::from_raw(pid).ok_or_else(|| Fault::system("cannot start the command", "it has no pid"))?;
        Ok(Self { child: pid, own_group: child.own_group, ended: None, earlier_children, heir })
    }

    /// Stops the management of the processes. Processes that still run continue.
    pub(crate) fn release(self) {
        if let Some(heir) = self.heir {
            heir.dismiss();
        }
    }

    /// Sets the time at which the heir kills all processes, unless it gets a later one before: also if bandog is stopped
    /// then.
    pub(crate) fn keep_until(&mut self, deadline: Moment) {
        if let Some(heir) = &mut self.heir {
            heir.keep_until(deadline);
        }
    }

    /// Reaps ended processes, including orphans. Returns the child's exit code once the child has ended.
    pub(crate) fn reap(&mut self) -> Option<ExitCode> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.child {
                self.ended = exit_code(status);
            }
        }
        self.ended
    }

    /// Forwards a signal that bandog received.
    pub(crate) fn forward(&self, caught: Caught) {
        if self.own_group {
            self.signal_group(caught.signal);
        } else if !caught.from_kernel {
            // A signal from the kernel comes from a terminal key and has reached the whole foreground group already.
            self.signal_each(caught.signal, |_| true);
        }
    }

    /// Sends TERM to all processes, and CONT so that stopped processes can exit.
    pub(crate) fn end(&self) {
        for signal in [Signal::TERM, Signal::CONT] {
            self.signal_group(signal);
            self.signal_each(signal, |process| !self.is_in_signalled_group(process));
        }
    }

    /// Whether all processes have ended.
    pub(crate) fn is_gone(&self) -> bool {
        process::descendants(&self.earlier_children).is_empty()
    }

    /// Kills all processes and waits until they are dead. Returns the processes that still run at the timeout.
    pub(crate) async fn kill(&mut self) -> Vec<Process> {
        let until = Instant::now() + KILL_TIMEOUT;
        let mut pause = PAUSE;
        let mut alive_before = Vec::new();
        loop {
            self.signal_group(Signal::KILL);
            let alive = process::descendants(&self.earlier_children);
            for process in &alive {
                // A process that cannot be killed is returned at the end.
                let _ = process.signal(Signal::KILL);
            }
            if alive.is_empty() || Instant::now() >= until {
                return alive;
            }
            // After a change the next scan follows soon. If the same processes remain, the interval doubles.
            pause = if alive == alive_before { pause * 2 } else { PAUSE };
            alive_before = alive;
            sleep(pause).await;
            self.reap();
        }
    }

    /// Signals the child's process group, if the child has a group of its own. After the child is reaped, this method
    /// does nothing, because the kernel can reuse the group's id.
    fn signal_group(&self, signal: Signal) {
        if self.own_group && self.ended.is_none() {
            // An error is ignored, because the group might have ended already.
            let _ = kill_process_group(self.child, signal);
        }
    }

    /// Signals each descendant for which `wanted` returns true.
    fn signal_each(&self, signal: Signal, wanted: impl Fn(&Process) -> bool) {
        for process in process::descendants(&self.earlier_children).iter().filter(|process| wanted(process)) {
            // A process of another user cannot be signalled. If such a process survives, `kill` returns it at the end.
            let _ = process.signal(signal);
        }
    }

    /// Whether [`Self::signal_group`] reaches this process.
    fn is_in_signalled_group(&self, process: &Process) -> bool {
        self.own_group && self.ended.is_none() && process.group == self.child.as_raw_nonzero().get()
    }
}

fn exit_code(status: WaitStatus) -> Option<ExitCode> {
    if let Some(code) = status.exit_status() {
        return Some(ExitCode::Child(code.to_le_bytes()[0]));
    }
    // The signal is a number here, because real-time signals have no names.
    status.terminating_signal().map(ExitCode::Signal)
}
