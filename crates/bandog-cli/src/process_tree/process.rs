//! Processes, read from `/proc`.

use std::{collections::HashMap, fs, io};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

/// A process. Its pid may be reused, so its start time is compared too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) group: i32,
    parent: i32,
    started: u64,
    /// Whether the process has ended and was not reaped by its parent yet.
    dead: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name before the state may contain spaces and brackets.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let [state, parent, group] = *fields.first_chunk()?;
        Some(Self {
            pid: Pid::from_raw(pid)?,
            group: group.parse().ok()?,
            parent: parent.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            dead: matches!(state, "Z" | "X"),
        })
    }

    /// Sends a signal. It is no error if the process has ended.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        let sent = match pidfd_open(self.pid, PidfdFlags::empty()) {
            // The pidfd refers to the present process with this pid, so its start time is compared after opening.
            Ok(handle) if self.is_still_there() => pidfd_send_signal(handle, signal),
            Ok(_) => Ok(()),
            Err(Errno::NOSYS | Errno::PERM) => kill_process(self.pid, signal),
            Err(error) => Err(error),
        };
        match sent {
            Err(Errno::SRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    fn is_still_there(self) -> bool {
        Self::read(self.pid.as_raw_nonzero().get()).is_some_and(|now| now.started == self.started)
    }

    /// The pid and the start time, which together are unique.
    pub(crate) fn number(self) -> (i32, u64) {
        (self.pid.as_raw_nonzero().get(), self.started)
    }

    fn is(self, other: Self) -> bool {
        self.pid == other.pid && self.started == other.started
    }
}

/// This process.
pub(crate) fn ourselves() -> Option<Process> {
    Process::read(us())
}

/// Maximum number of ancestors. Real chains are shorter; the limit is for pids that are reused while the chain is read.
const GENERATIONS: usize = 1024;

/// This process, its parent, and so on, as far as `/proc` shows them.
pub(crate) fn ancestors() -> Vec<Process> {
    std::iter::successors(ourselves(), |process| Process::read(process.parent)).take(GENERATIONS).collect()
}

/// The present children of this process.
pub(crate) fn children() -> Vec<Process> {
    let us = us();
    all().filter(|process| process.parent == us).collect()
}

/// All running descendants of this process, except the strangers and their descendants.
///
/// A process may be missing if its parent was reaped during the scan. Another descendant must have reaped that parent,
/// because this process reaps nothing meanwhile, and that descendant is in the result. So an empty result means that
/// there are none.
pub(crate) fn descendants(strangers: &[Process]) -> Vec<Process> {
    let mut families: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all() {
        families.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut next = vec![us()];
    while let Some(parent) = next.pop() {
        for child in families.remove(&parent).unwrap_or_default() {
            if strangers.iter().any(|stranger| stranger.is(child)) {
                continue;
            }
            next.push(child.pid.as_raw_nonzero().get());
            found.extend((!child.dead).then_some(child));
        }
    }
    found
}

/// All processes that have not ended.
pub(crate) fn living() -> impl Iterator<Item = Process> {
    all().filter(|process| !process.dead)
}

fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(Process::read)
}

fn us() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests;
