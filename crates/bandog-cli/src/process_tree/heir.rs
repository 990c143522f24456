//! The heir: a hidden helper process. If bandog is killed, the heir survives and kills the descendants of bandog's
//! child.
//!
//! When bandog dies, the kernel kills the child, but not the child's descendants. The heir's standard input closes when
//! bandog exits, also if bandog was killed. The heir identifies the descendants by their marks: the variables of the
//! lock in their environment.

use std::{
    env, fs,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, setsid};

use super::process::{self, KILL_TIMEOUT, Process};
use crate::{exit_code::ExitCode, fault::Fault};

/// The hidden subcommand's name.
pub(crate) const NAME: &str = "__heir";

/// Interval between two scans for remaining processes.
const PAUSE: Duration = Duration::from_millis(2);

/// The marks of the descendants, each written `NAME=VALUE`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(last = true, required = true)]
    marks: Vec<String>,
}

/// The pipe from bandog to the heir's standard input. If bandog sends a byte, the heir exits. If the pipe closes
/// without a byte, the heir kills the descendants.
#[derive(Debug)]
pub(crate) struct Heir {
    pipe: ChildStdin,
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
        Ok(Self { pipe })
    }

    /// Stops the heir. Remaining descendants continue.
    pub(crate) fn dismiss(mut self) {
        // An error is ignored, because the heir might have been killed.
        let _ = self.pipe.write_all(b".");
    }
}

/// Waits until bandog dismisses the heir or exits. If bandog exits without dismissing the heir, the heir kills the
/// descendants.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    // Signals to bandog's process group, or from its terminal, must not reach the heir. And the heir must not keep
    // bandog's directory in use.
    setsid().map_err(|error| Fault::system("cannot leave the session", error))?;
    env::set_current_dir("/").map_err(|error| Fault::system("cannot leave the directory", error))?;
    let dismissed = io::stdin().read(&mut [0]).is_ok_and(|read| read > 0);
    if !dismissed {
        kill_marked(&args.marks);
    }
    Ok(ExitCode::Done)
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
