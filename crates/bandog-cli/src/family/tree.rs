//! Processes as `/proc` shows them.

use std::{collections::HashMap, fs, io};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

/// A process. Its number alone may be another one's by the time it is used; its start tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) group: i32,
    parent: i32,
    started: u64,
    /// It has ended, and its parent has not asked for its status yet.
    dead: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name before the state may itself have spaces and brackets.
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

    /// Sends it a signal. One that has ended in the meantime got what it needs.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        let sent = match pidfd_open(self.pid, PidfdFlags::empty()) {
            // The handle is of whoever has the number now, and stays so; thus the look comes after it.
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

    /// Its number, and when it started: no other process has both.
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

/// So many generations are looked at: a chain is never so long, unless numbers change hands while it is read.
const GENERATIONS: usize = 1024;

/// This process, its parent, and so on, as far as may be seen.
pub(crate) fn ancestors() -> Vec<Process> {
    std::iter::successors(ourselves(), |process| Process::read(process.parent)).take(GENERATIONS).collect()
}

/// The children that this process has now.
pub(crate) fn children() -> Vec<Process> {
    let us = us();
    all().filter(|process| process.parent == us).collect()
}

/// All living descendants of this process, but for the strangers and what is theirs.
///
/// A process whose parent has died during the look may be missing. Then the one that the parent leaves it to is among
/// those found, or is this process, which collects no dead meanwhile: so if none is found, there is none.
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

/// Every process that has not ended.
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
