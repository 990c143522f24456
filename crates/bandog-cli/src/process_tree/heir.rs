//! The heir: a hidden helper process. If bandog is killed, the heir survives and kills the descendants of bandog's
//! child.
//!
//! When bandog dies, the kernel kills the child, but not the child's descendants. The heir's standard input closes when
//! bandog exits, also if bandog was killed. The heir identifies the descendants by their marks: the variables of the
//! lock in their environment.
//!
//! The heir also knows the deadline of the lock. If bandog itself is stopped at that time, the heir kills the child and its
//! descendants.

use std::{
    env, fs,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{ChildStdin, Command, Stdio},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use bandog::backend::{Clock, Moment};
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    process::{Signal, setsid},
};

use super::process::{self, KILL_TIMEOUT, Process};
use crate::{exit_code::ExitCode, fault::Fault};

/// The hidden subcommand's name.
pub(crate) const NAME: &str = "__heir";

/// Interval between two scans for remaining processes.
const PAUSE: Duration = Duration::from_millis(2);
/// Maximum interval between two checks of the deadline: a timer does not count the time for which the machine is suspended.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval between two checks if there is no deadline.
const NO_DEADLINE: Duration = Duration::from_secs(3600);
/// A deadline that is later than the known one by less than this is not sent.
pub(crate) const CHANGE: Duration = Duration::from_millis(10);

/// Order to the heir: exit.
const DISMISS: u8 = b'.';
/// Order to the heir: the lock has this deadline now. 8 bytes follow: the nanoseconds of [`Moment`], the lowest byte first.
const UNTIL: u8 = b'u';

/// The marks of the descendants, each written `NAME=VALUE`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(last = true, required = true)]
    marks: Vec<String>,
}

/// The pipe from bandog to the heir's standard input. If the pipe closes without an order to exit, the heir kills the
/// descendants.
#[derive(Debug)]
pub(crate) struct Heir {
    pipe: ChildStdin,
    /// The deadline that the heir knows.
    known: Option<Moment>,
}

impl Heir {
    /// Starts the heir. If bandog dies, the heir kills the processes that have all these variables in their
    /// environment.
    pub(crate) fn appoint(marks: &[(&str, String)]) -> Result<Self, Fault> {
        Self::start(marks).map_err(|error| Fault::system("cannot start the heir", error))
    }

    fn start(marks: &[(&str, String)]) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("bandog").args([NAME, "--"]).args(marks.iter().map(|(name, value)| format!("{name}={value}")));
        // If this bandog runs in the command of an outer bandog, it has inherited the marks of that command. The new
        // heir must not have these variables: otherwise, the heir of the outer bandog would kill the new heir.
        for (name, _) in marks {
            command.env_remove(name);
        }
        // The heir must not keep bandog's pipes open.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let pipe = command.spawn()?.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // A heir that hangs must not block bandog.
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self { pipe, known: None })
    }

    /// Sets the time at which the heir kills all processes of the lock, unless it gets a later one before.
    pub(super) fn keep_until(&mut self, deadline: Moment) {
        if self.known.is_some_and(|known| deadline < known + CHANGE) {
            return;
        }
        let [a, b, c, d, e, f, g, h] = deadline.as_nanos().to_le_bytes();
        // The pipe takes such a short order as a whole or not at all. The heir might have been killed.
        if self.pipe.write_all(&[UNTIL, a, b, c, d, e, f, g, h]).is_ok() {
            self.known = Some(deadline);
        }
    }

    /// Stops the heir. Remaining descendants continue.
    pub(crate) fn dismiss(mut self) {
        // An error is ignored, because the heir might have been killed.
        let _ = self.pipe.write_all(&[DISMISS]);
    }
}

/// Waits until bandog dismisses the heir or exits. If bandog exits without dismissing the heir, the heir kills the
/// descendants. It also kills them, and the child, at the deadline.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    // Signals to bandog's process group, or from its terminal, must not reach the heir. And the heir must not keep
    // bandog's directory in use.
    setsid().map_err(|error| Fault::system("cannot leave the session", error))?;
    env::set_current_dir("/").map_err(|error| Fault::system("cannot leave the directory", error))?;
    let (outbox, orders) = channel();
    let reading = thread::Builder::new().name("orders".into()).spawn(move || read(&mut io::stdin(), &outbox));
    reading.map_err(|error| Fault::system("cannot start a thread", error))?;
    let (clock, mut deadline) = (Clock::system(), None::<Moment>);
    loop {
        let left = deadline.map(|deadline| deadline.since(clock.now()));
        if left == Some(Duration::ZERO) {
            kill_marked(&args.marks);
            deadline = None;
            continue;
        }
        // A heir without a deadline has nothing to check.
        match orders.recv_timeout(left.map_or(NO_DEADLINE, |left| left.min(CHECK_INTERVAL))) {
            Ok(Order::Until(until)) => deadline = Some(until),
            Ok(Order::Dismiss) => return Ok(ExitCode::Done),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    kill_marked(&args.marks);
    Ok(ExitCode::Done)
}

/// An order to the heir.
enum Order {
    Dismiss,
    Until(Moment),
}

/// Reads orders until the pipe closes.
fn read(from: &mut impl Read, outbox: &Sender<Order>) {
    let (mut kind, mut nanos) = ([0], [0; 8]);
    while from.read_exact(&mut kind).is_ok() {
        let order = match kind {
            [UNTIL] if from.read_exact(&mut nanos).is_ok() => {
                Order::Until(Moment::from_nanos(u64::from_le_bytes(nanos)))
            }
            [UNTIL] => return,
            _ => Order::Dismiss,
        };
        if outbox.send(order).is_err() {
            return;
        }
    }
}

/// Kills all processes that have all these variables in their environment. Each variable is written `NAME=VALUE`.
/// Returns when all are dead, or after [`KILL_TIMEOUT`].
pub(crate) fn kill_marked(marks: &[String]) {
    let until = Instant::now() + KILL_TIMEOUT;
    while Instant::now() < until {
        let left: Vec<_> = marked(marks).collect();
        if left.is_empty() {
            break;
        }
        for process in left {
            // If this fails, the next round of the loop retries.
            let _ = process.signal(Signal::KILL);
        }
        thread::sleep(PAUSE);
    }
}

/// The running processes that have all these variables in their environment.
fn marked(marks: &[String]) -> impl Iterator<Item = Process> {
    process::living().filter(|process| {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        let has = |mark: &String| environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
        marks.iter().all(has)
    })
}
