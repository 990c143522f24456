//! Runs the real binary in a directory that only one test uses.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{Process, Signal, eventually, is_alive};
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

/// Timeout that only a failure reaches.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A directory for one test, with the default store and the files of scripts.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("bandog-cli-").tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `bandog` with these arguments, without a terminal and without the settings of the tester.
    pub(crate) fn bandog(&self, args: &[&str]) -> Command {
        self.command(&[&["setsid", env!("CARGO_BIN_EXE_bandog")], args].concat())
    }

    /// A command in this directory, with default signal handling. It dies with the test process.
    pub(crate) fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "env", "--default-signal"]).args(line);
        command.env_remove("BANDOG_URL").env("XDG_STATE_HOME", self.path("state")).current_dir(self.dir.path());
        command
    }

    /// A running `bandog`.
    pub(crate) fn start(&self, args: &[&str]) -> Process {
        Process::spawn(&self.bandog(args))
    }

    /// Runs `bandog` to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.bandog(args).into()
    }

    /// `bandog lock NAME OPTIONS -- sh -c SCRIPT`, as arguments.
    pub(crate) fn lock<'a>(name: &'a str, options: &[&'a str], script: &'a str) -> Vec<&'a str> {
        [&["lock", name], options, &["--", "sh", "-c", script]].concat()
    }

    /// The output of `bandog show NAME --json`, with more options.
    pub(crate) fn show(&self, name: &str, options: &[&str]) -> serde_json::Value {
        let ran = self.run(&[&["show", name, "--json"], options].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// Waits until a script has written this file, and returns its text.
    #[track_caller]
    pub(crate) fn written(&self, name: &str) -> String {
        let path = self.path(name);
        eventually(SOON, || fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))).trim().to_owned()
    }

    /// A pid that a script has written.
    #[track_caller]
    pub(crate) fn pid(&self, name: &str) -> u32 {
        self.written(name).parse().unwrap()
    }

    /// The present lines of a file.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The processes whose working directory is this directory: those that the test started, and their descendants.
    fn workers(&self) -> Vec<Pid> {
        let is_here = |pid: &Pid| {
            let cwd = fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero()));
            cwd.is_ok_and(|cwd| cwd.starts_with(self.dir.path()))
        };
        let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        names.filter_map(Pid::from_raw).filter(is_here).collect()
    }
}

/// Kills the remaining processes, also if the test has failed.
impl Drop for Place {
    fn drop(&mut self) {
        let until = Instant::now() + SOON;
        // A process that starts others while it is killed needs another round.
        loop {
            let left = self.workers();
            if left.is_empty() || Instant::now() > until {
                return;
            }
            for pid in left {
                // An error means that the process is dead already.
                let _ = kill_process(pid, Signal::KILL);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Command> for Ran {
    fn from(mut command: Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        Self { code: status.code().unwrap(), stdout, stderr }
    }
}

impl Ran {
    /// Asserts the exit code, and that standard error contains these texts.
    #[track_caller]
    pub(crate) fn assert_ended(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {}", self.stderr);
        }
    }
}

/// Asserts that the process ends in time, with this code.
#[track_caller]
pub(crate) fn ends(process: &mut Process, code: i32) {
    let status = process.wait(SOON);
    assert_eq!(status.code(), Some(code), "{:?}", process.stderr());
}

/// Asserts that these processes are dead.
#[track_caller]
pub(crate) fn dead(pids: &[u32]) {
    let alive: Vec<_> = pids.iter().filter(|pid| is_alive(**pid)).collect();
    assert!(alive.is_empty(), "{alive:?} of {pids:?} are alive");
}
