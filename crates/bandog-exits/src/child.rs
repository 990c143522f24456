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

use crate::{
    cell::{Cell, name},
    play::BUSY,
    report::Exit,
};

/// Timeout for a program to prepare its exit.
const SETTING_UP: Duration = Duration::from_secs(20);
/// Tolerance beyond the documented bound. On a loaded machine a program may not run for seconds; a program that hangs
/// never ends.
const SLACK: Duration = Duration::from_secs(10);
/// Maximum CPU time of a program, from start to exit.
const CPU: Duration = Duration::from_millis(400);
/// Maximum number of characters of a program's output that are shown.
const WORDS: usize = 500;

pub(crate) struct Child {
    cell: Cell,
    process: Process,
    ended: OwnedFd,
    ordered: Option<Instant>,
}

impl Child {
    pub(crate) fn start(cell: Cell, url: &str, number: usize) -> io::Result<Self> {
        let Cell { engine, runtime, store, way } = &cell;
        let process = Command::new(env::current_exe()?)
            .args(["play", &name(engine), &name(runtime), &name(store), &name(way), "--url", url])
            .args(["--number", &number.to_string(), "--parent", &std::process::id().to_string()])
            // A backtrace of a panic would take longer than everything else.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let ended = pidfd_open(Pid::from_child(&process), PidfdFlags::empty())?;
        Ok(Self { cell, process, ended, ordered: None })
    }

    /// Waits until the program is ready for the order to end. Returns whether it is.
    pub(crate) fn is_ready(&mut self) -> bool {
        let Some(stdout) = &mut self.process.stdout else { return false };
        let mut word = [0; 6];
        is_readable(&*stdout, SETTING_UP) && stdout.read_exact(&mut word).is_ok() && word == *b"ready\n"
    }

    /// Orders the program to end.
    pub(crate) fn order(&mut self) {
        self.ordered = Some(Instant::now());
        // If this fails, the program has ended too early, which its exit code shows.
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

    /// The result of this exit. If the program has not ended, it is killed.
    pub(crate) fn into_exit(mut self) -> Exit {
        let took = self.ordered.map(|since| since.elapsed()).unwrap_or_default();
        let has_ended = is_readable(&self.ended, Duration::ZERO);
        let cpu = cpu_time(self.process.id());
        if !has_ended {
            // This fails if the program has just ended.
            let _ = self.process.kill();
        }
        let code = self.process.wait().ok().and_then(|status| status.code());
        let fault = if self.ordered.is_none() {
            Some("it was never ready for the order to end".to_owned())
        } else if !has_ended {
            Some(format!("it did not end within {took:?}"))
        } else if code == Some(BUSY.into()) {
            Some("a thread stays busy".to_owned())
        } else if code != Some(self.cell.code().into()) {
            Some(format!("the exit code is {code:?}, not {}", self.cell.code()))
        } else if cpu > CPU {
            Some(format!("it took {cpu:?} of CPU time"))
        } else {
            None
        };
        let fault = fault.map(|fault| format!("{fault}{}", self.last_words()));
        Exit { cell: self.cell, took, cpu, fault }
    }

    fn last_words(&mut self) -> String {
        let mut words = String::new();
        if let Some(stderr) = &mut self.process.stderr {
            // Output that is not UTF-8 is ignored.
            let _ = stderr.read_to_string(&mut words);
        }
        let words: String = words.chars().take(WORDS).collect();
        if words.is_empty() { words } else { format!("; it printed: {}", words.trim()) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // This fails if the program has ended and was reaped.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// CPU time of a process that runs, or that has ended and was not reaped yet.
fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before the fields may contain spaces.
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / clock_ticks_per_second().max(1))
}

fn is_readable(file: &impl AsFd, within: Duration) -> bool {
    wait(&mut [PollFd::new(file, PollFlags::IN)], within) > 0
}

/// Waits until at least one of the files can be read. Returns the number of these files.
pub(crate) fn wait(files: &mut [PollFd<'_>], within: Duration) -> usize {
    let until = Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match poll(files, Timespec::try_from(left).ok().as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            count => return count.expect("poll"),
        }
    }
}
