//! Processes, read from `/proc`.

use std::{collections::HashMap, fs, io, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

/// Timeout for killed processes to exit. Only processes that hang in the kernel or belong to another user take longer.
pub(crate) const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A process, identified by its pid and its start time, because the kernel can reuse a pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// Process group id.
    pub(crate) group: i32,
    /// Pid of the parent.
    parent: i32,
    /// Start time, in clock ticks since the boot of the machine.
    started: u64,
    /// Whether the process has ended, but its parent has not reaped it yet.
    dead: bool,
}

impl Process {
    /// Reads a process. None if the process does not exist.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name is in brackets, and can itself contain spaces and brackets. The first field after the name
        // is the state.
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

    /// Sends a signal. If the process has ended already, this is no error.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        let sent = match pidfd_open(self.pid, PidfdFlags::empty()) {
            // The pid might have been reused before this call. An open pidfd always refers to the same process, so the
            // start time is compared after the pidfd is open.
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

    /// Whether the pid still belongs to this process.
    fn is_still_there(self) -> bool {
        Self::read(self.pid.as_raw_nonzero().get()).is_some_and(|now| now.started == self.started)
    }

    /// The pid and the start time, which together are unique.
    pub(crate) fn number(self) -> (i32, u64) {
        (self.pid.as_raw_nonzero().get(), self.started)
    }

    /// Whether both values describe the same process. Only the pid and the start time are compared, because the other
    /// fields can change while the process runs.
    fn is_same_as(self, other: Self) -> bool {
        self.pid == other.pid && self.started == other.started
    }
}

/// This process.
pub(crate) fn ourselves() -> Option<Process> {
    Process::read(us())
}

/// Maximum number of ancestors to read. Without a maximum, the read might never end: if pids are reused meanwhile, the
/// chain of ancestors might contain a loop. No real chain is that long.
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

/// All running descendants of this process, except the processes in `excluded` and their descendants.
///
/// The scan is not atomic: if a process is reaped during the scan, the children of this process might be missing in the
/// result. Our own process reaps no process during the scan. So another descendant has reaped the process, and the
/// result contains that descendant. Therefore, an empty result means that no descendant is running.
pub(crate) fn descendants(excluded: &[Process]) -> Vec<Process> {
    let mut children_of: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all() {
        children_of.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut next = vec![us()];
    while let Some(parent) = next.pop() {
        for child in children_of.remove(&parent).unwrap_or_default() {
            if excluded.iter().any(|process| process.is_same_as(child)) {
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

/// All processes, including those that have ended and are not reaped yet.
fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(Process::read)
}

/// The pid of this process.
fn us() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests;
