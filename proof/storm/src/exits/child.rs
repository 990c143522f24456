//! One child process, from its start to its exit.

use std::{
    env, fs, io,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    process::{Child as Process, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    param::clock_ticks_per_second,
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::{cell::Cell, play::BUSY, report::Exit};
use crate::settings::name;

/// Timeout for a program to become ready for its exit.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Tolerance beyond the documented bound. The tolerance is long, because a program might get no CPU time for seconds on
/// a loaded machine. A program that hangs is found nevertheless, because it never ends.
const SLACK: Duration = Duration::from_secs(10);
/// Maximum CPU time of a program, from start to exit.
const CPU: Duration = Duration::from_millis(400);
/// Maximum number of characters of a program's output that are shown.
const SHOWN_CHARS: usize = 500;

/// A child process that plays one cell. A cell is one kind of exit: the place of the client's engine (its background
/// task), the runtime, the store, and the way in which the program ends.
pub(crate) struct Child {
    cell: Cell,
    process: Process,
    /// A file that becomes readable when the process has ended.
    ended: OwnedFd,
    /// Time at which the program was ordered to end.
    ordered: Option<Instant>,
}

impl Child {
    /// Starts this program again with the subcommand `exits play`. The new process plays this cell on the store with this
    /// URL. `number` is the number of the exit. The keys of an exit begin with its number, so two exits never use the
    /// same key.
    pub(crate) fn start(cell: Cell, url: &str, number: usize) -> io::Result<Self> {
        let Cell { engine, runtime, store, way } = &cell;
        let process = Command::new(env::current_exe()?)
            .args(["exits", "play", &name(engine), &name(runtime), &name(store), &name(way), "--url", url])
            .args(["--number", &number.to_string(), "--parent", &std::process::id().to_string()])
            // Printing the backtrace of a panic would take longer than the rest of the program.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let ended = pidfd_open(Pid::from_child(&process), PidfdFlags::empty())?;
        Ok(Self { cell, process, ended, ordered: None })
    }

    /// Waits until the program reports that it is ready to end. Returns false if this report does not arrive in time.
    pub(crate) fn is_ready(&mut self) -> bool {
        let Some(stdout) = &mut self.process.stdout else { return false };
        let mut word = [0; 6];
        is_readable(&*stdout, READY_TIMEOUT) && stdout.read_exact(&mut word).is_ok() && word == *b"ready\n"
    }

    /// Orders the program to end.
    pub(crate) fn order(&mut self) {
        self.ordered = Some(Instant::now());
        // If this fails, the program has ended too early. Its exit code will show this.
        let _ = self.process.stdin.as_mut().map(|stdin| stdin.write_all(b"\n"));
    }

    /// A file that becomes readable when the process has ended.
    pub(crate) fn ended(&self) -> PollFd<'_> {
        PollFd::new(&self.ended, PollFlags::IN)
    }

    /// The remaining time until the program must have ended.
    pub(crate) fn left(&self) -> Duration {
        let limit = self.cell.bound() + SLACK;
        limit.saturating_sub(self.ordered.map(|since| since.elapsed()).unwrap_or_default())
    }

    /// The result of this exit. If the program has not ended yet, this function kills the program.
    pub(crate) fn into_exit(mut self) -> Exit {
        let took = self.ordered.map(|since| since.elapsed()).unwrap_or_default();
        let has_ended = is_readable(&self.ended, Duration::ZERO);
        let cpu = cpu_time(self.process.id());
        if !has_ended {
            // An error means that the program has just ended.
            let _ = self.process.kill();
        }
        let code = self.process.wait().ok().and_then(|status| status.code());
        let fault = if self.ordered.is_none() {
            Some("the program did not report in time that it was ready to end".to_owned())
        } else if !has_ended {
            Some(format!("the program did not end within {took:?}"))
        } else if code == Some(BUSY.into()) {
            Some("a thread of the program stays busy".to_owned())
        } else if code != Some(self.cell.code().into()) {
            Some(format!("the exit code is {code:?}, not {}", self.cell.code()))
        } else if cpu > CPU {
            Some(format!("the program took {cpu:?} of CPU time"))
        } else {
            None
        };
        let fault = fault.map(|fault| format!("{fault}{}", self.printed()));
        Exit { cell: self.cell, took, cpu, fault }
    }

    /// The text that the program printed on standard error, as an addition to a sentence. Empty if the program printed
    /// no text.
    fn printed(&mut self) -> String {
        let mut words = String::new();
        if let Some(stderr) = &mut self.process.stderr {
            // Output that is not UTF-8 is ignored.
            let _ = stderr.read_to_string(&mut words);
        }
        let words: String = words.chars().take(SHOWN_CHARS).collect();
        if words.is_empty() { words } else { format!("; it printed: {}", words.trim()) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // An error means that the program has ended and its exit status was read.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// CPU time of a process. After the exit status of a process has been read, its CPU time is no longer available.
fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The fields are separated by spaces. The name of the program can also contain spaces, so only the fields after the
    // name are counted.
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
    // These two fields are the CPU time in user mode and the CPU time in the kernel, in clock ticks.
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / clock_ticks_per_second().max(1))
}

/// Whether the file becomes readable within this time.
fn is_readable(file: &impl AsFd, within: Duration) -> bool {
    wait(&mut [PollFd::new(file, PollFlags::IN)], within) > 0
}

/// Waits until at least one of the files can be read, but at most for the time `within`. Returns the number of files
/// that can be read.
pub(crate) fn wait(files: &mut [PollFd<'_>], within: Duration) -> usize {
    let until = Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match poll(files, Timespec::try_from(left).ok().as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            count => return count.expect("the kernel can poll the files"),
        }
    }
}
