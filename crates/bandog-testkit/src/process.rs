//! Child processes that a test can watch and signal.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{eventually, keeper};

/// A child process with piped input and output. The child is killed when this value is dropped or when the test process
/// dies.
///
/// Processes that the child itself starts are not killed. So if the child is a script, the script should start its last
/// program with `exec`.
///
/// If a method fails, it panics with a message that contains the child's output.
///
/// ```
/// use std::process::Command;
/// use std::time::Duration;
/// use bandog_testkit::Process;
/// let mut command = Command::new("sh");
/// command.args(["-c", "echo ready; read word; echo got $word >&2"]);
/// let mut process = Process::spawn(&command);
/// process.stdout_line("ready", Duration::from_secs(5));
/// process.write_line("bone");
/// assert_eq!(process.stderr_line("got", Duration::from_secs(5)), "got bone");
/// assert!(process.wait(Duration::from_secs(5)).success());
/// ```
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
}

impl Process {
    /// Starts the command with its arguments, environment variables and directory. The three standard streams of the
    /// child become pipes.
    ///
    /// If `env_remove` was called on the command, the child does not get this variable. A call of `env_clear` has no
    /// effect, because a [`Command`] does not show whether `env_clear` was called.
    #[must_use]
    #[track_caller]
    pub fn spawn(command: &Command) -> Self {
        let name = format!("{command:?}");
        let mut child =
            keeper::spawn(dying_with_us(command)).unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let stdout = Lines::collect(child.stdout.take().expect("stdout is piped"));
        let stderr = Lines::collect(child.stderr.take().expect("stderr is piped"));
        Self { name, child, stdout, stderr }
    }

    /// The child's pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line on stdout that contains `needle`, and returns it.
    ///
    /// Each call begins its search after the line that the previous call returned.
    #[track_caller]
    pub fn stdout_line(&self, needle: &str, within: Duration) -> String {
        self.line(&self.stdout, needle, within)
    }

    /// Like [`stdout_line`](Self::stdout_line), for stderr.
    #[track_caller]
    pub fn stderr_line(&self, needle: &str, within: Duration) -> String {
        self.line(&self.stderr, needle, within)
    }

    /// All lines on stdout so far.
    #[must_use]
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.locked().all.clone()
    }

    /// All lines on stderr so far.
    #[must_use]
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.locked().all.clone()
    }

    /// Writes a line to the child's stdin.
    #[track_caller]
    pub fn write_line(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("the child's stdin was closed");
        writeln!(stdin, "{line}").expect("cannot write to the child's stdin");
    }

    /// Closes the child's stdin.
    pub fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// Sends a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Kills the child. Does not wait until the child has ended.
    #[track_caller]
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Stops the child with a signal, and waits until the child is stopped.
    #[track_caller]
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        eventually(Duration::from_secs(5), || state(self.pid()) == Some('T'));
    }

    /// Continues the stopped child.
    #[track_caller]
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends SIGTERM to the child.
    #[track_caller]
    pub fn term(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGINT to the child, as Ctrl-C does.
    #[track_caller]
    pub fn int(&self) {
        self.signal(Signal::INT);
    }

    /// The exit status, if the child has ended.
    #[track_caller]
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("cannot get the exit status")
    }

    /// Waits until the child has ended and all its output has been read.
    #[track_caller]
    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        let until = Instant::now() + within;
        let status = loop {
            match self.try_wait() {
                Some(status) => break status,
                None if Instant::now() >= until => self.fail("did not end", within),
                None => thread::sleep(Duration::from_millis(2)),
            }
        };
        // A process that the child has started can keep the pipes open after the child has ended. So the waits for the
        // pipes also end at the timeout.
        self.stdout.until_closed(until);
        self.stderr.until_closed(until);
        status
    }

    #[track_caller]
    fn line(&self, lines: &Lines, needle: &str, within: Duration) -> String {
        match lines.next(needle, Instant::now() + within) {
            Some(line) => line,
            None => self.fail(&format!("did not print {needle:?}"), within),
        }
    }

    /// Panics with a message that contains the child's output.
    #[track_caller]
    fn fail(&self, what: &str, within: Duration) -> ! {
        panic!(
            "{} (pid {}) {what} within {within:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.name,
            self.pid(),
            self.stdout().join("\n"),
            self.stderr().join("\n"),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that the child has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to any process.
///
/// # Panics
/// If there is no such process.
#[track_caller]
pub fn send(pid: u32, signal: Signal) {
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let target = target.unwrap_or_else(|| panic!("{pid} is not a pid"));
    kill_process(target, signal).unwrap_or_else(|error| panic!("cannot send {signal:?} to the process {pid}: {error}"));
}

/// The kernel's letter for the state of a process. Examples are `S` (asleep), `T` (stopped) and `Z`. `Z` means that the
/// process has ended, but its parent has not read the exit status yet. The result is `None` if there is no such
/// process.
#[must_use]
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // In this file, the program's name is in brackets, and the name can contain spaces and brackets. The state follows
    // the last bracket.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns true if a process is alive. A process that has ended is not alive, even if its parent has not read the exit
/// status yet.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Stops a process, so that it starts no further processes, and returns the pids of its children.
///
/// # Panics
/// If there is no such process.
#[track_caller]
pub(crate) fn stop_with_children(pid: u32) -> Vec<u32> {
    send(pid, Signal::STOP);
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("cannot list child processes");
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Kills a process that may have ended already.
pub(crate) fn kill_if_alive(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Returns a command that starts the same program with pipes for its streams. The kernel kills the program when this
/// process dies.
fn dying_with_us(command: &Command) -> Command {
    let mut wrapped = keeper::command(command.get_program());
    wrapped.args(command.get_args()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(key, value),
            None => wrapped.env_remove(key),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        wrapped.current_dir(dir);
    }
    wrapped
}

/// The lines that the child has written to one pipe. A thread reads the pipe all the time, so that the child never
/// blocks on a full pipe.
#[derive(Debug, Default)]
struct Lines {
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Seen {
    all: Vec<String>,
    /// The index of the line at which the next search begins.
    next: usize,
    /// True if the pipe is closed. Then no further lines come.
    closed: bool,
}

impl Lines {
    /// Starts the thread that reads this pipe.
    fn collect(pipe: impl Read + Send + 'static) -> Arc<Self> {
        let lines = Arc::new(Self::default());
        let writer = Arc::clone(&lines);
        thread::spawn(move || writer.fill(pipe));
        lines
    }

    /// Reads the lines until the pipe is closed.
    fn fill(&self, pipe: impl Read) {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            self.locked().all.push(line);
            self.changed.notify_all();
        }
        self.locked().closed = true;
        self.changed.notify_all();
    }

    /// Waits for the next line that contains `needle`. Returns `None` if no such line comes before `until` or before
    /// the pipe is closed.
    fn next(&self, needle: &str, until: Instant) -> Option<String> {
        let mut seen = self.locked();
        loop {
            let unread = seen.next..seen.all.len();
            if let Some(at) = unread.into_iter().find(|&at| seen.all[at].contains(needle)) {
                seen.next = at + 1;
                return Some(seen.all[at].clone());
            }
            if seen.closed || Instant::now() >= until {
                return None;
            }
            seen = self.sleep(seen, until);
        }
    }

    /// Waits until the pipe is closed, but at most until the time `until`.
    fn until_closed(&self, until: Instant) {
        let mut seen = self.locked();
        while !seen.closed && Instant::now() < until {
            seen = self.sleep(seen, until);
        }
    }

    /// Waits for a new line or for the end of the pipe, but at most until the time `until`.
    fn sleep<'a>(&self, seen: MutexGuard<'a, Seen>, until: Instant) -> MutexGuard<'a, Seen> {
        let left = until.saturating_duration_since(Instant::now());
        let woken = self.changed.wait_timeout(seen, left);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    fn locked(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
