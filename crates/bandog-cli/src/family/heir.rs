//! The hidden process that outlives a bandog that was killed outright, and ends what its child had started.
//!
//! The child itself dies with bandog, but its descendants get no such signal. The heir's standard input ends when
//! bandog does, however that happens, and it knows the family by the lock in everybody's environment.

use std::{
    env, fs,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, setsid};

use super::{
    BURIAL,
    tree::{self, Process},
};
use crate::{exit_code::ExitCode, fault::Fault};

/// The hidden subcommand's name.
pub(crate) const NAME: &str = "__heir";

const PAUSE: Duration = Duration::from_millis(2);

/// The variables that tell the family.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(last = true, required = true)]
    marks: Vec<String>,
}

/// Bandog's end of the line: if it breaks without a word, the heir takes over.
#[derive(Debug)]
pub(crate) struct Heir {
    line: ChildStdin,
}

impl Heir {
    /// Starts the heir of the family whose members all have these variables.
    pub(crate) fn appoint(marks: &[(&str, String)]) -> Result<Self, Fault> {
        Self::start(marks).map_err(|error| Fault::system("cannot start the heir", error))
    }

    fn start(marks: &[(&str, String)]) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("bandog").args([NAME, "--"]).args(marks.iter().map(|(name, value)| format!("{name}={value}")));
        // It must not be taken for family itself, by the heir of a bandog that this one runs under.
        for (name, _) in marks {
            command.env_remove(name);
        }
        // It must not keep a pipe open that others wait for the end of.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let line = command.spawn()?.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { line })
    }

    /// There is nothing to inherit: what is left of the family may stay.
    pub(crate) fn dismiss(mut self) {
        // One that was killed needs no word.
        let _ = self.line.write_all(b".");
    }
}

/// Waits until bandog has dismissed us or died, and kills the family in the second case.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    // What reaches bandog's group or terminal is not for us, and its directory may be removed.
    setsid().map_err(|error| Fault::system("cannot leave the session", error))?;
    env::set_current_dir("/").map_err(|error| Fault::system("cannot leave the directory", error))?;
    let dismissed = io::stdin().read(&mut [0]).is_ok_and(|read| read > 0);
    if !dismissed {
        kill_marked(&args.marks);
    }
    Ok(ExitCode::Done)
}

/// Kills all that have these variables, each written `NAME=VALUE`, and returns when nobody is left who would die.
pub(crate) fn kill_marked(marks: &[String]) {
    let until = Instant::now() + BURIAL;
    while Instant::now() < until {
        let left: Vec<_> = family(marks).collect();
        if left.is_empty() {
            break;
        }
        for process in left {
            // Nobody is left who could be told of it.
            let _ = process.signal(Signal::KILL);
        }
        thread::sleep(PAUSE);
    }
}

/// The living with all these variables.
fn family(marks: &[String]) -> impl Iterator<Item = Process> {
    tree::living().filter(|process| {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        let has = |mark: &String| environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
        marks.iter().all(has)
    })
}
