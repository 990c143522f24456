//! `bandog demo`: its interface for scripts, and its clean-up.
#![expect(clippy::unwrap_used, reason = "tests")]

mod ends;
mod page;
mod results;
mod trouble;

use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use bandog_testkit::{Process, eventually, is_alive};
use serde_json::Value;
use tempfile::TempDir;

/// Timeout that only a failure reaches: longer than any demo here.
const LONG: Duration = Duration::from_secs(30);

/// A demo with its own directory for its files.
struct Demo {
    process: Process,
    temp: TempDir,
    started: Instant,
}

/// The result of a demo.
struct Ended {
    code: Option<i32>,
    lines: Vec<Value>,
    stdout: String,
    stderr: String,
    took: Duration,
}

impl Demo {
    fn start(args: &[&str]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        // The tests can run under a program that ignores a signal, such as `nohup`. Children inherit this.
        let mut command = Command::new("env");
        command
            .args(["--default-signal", env!("CARGO_BIN_EXE_bandog"), "demo"])
            .args(args)
            .env("TMPDIR", temp.path())
            .env_remove("BANDOG_URL");
        Self { process: Process::spawn(&command), temp, started: Instant::now() }
    }

    fn end(mut self) -> Ended {
        let code = self.process.wait(LONG).code();
        let (stdout, stderr) = (self.process.stdout(), self.process.stderr());
        let lines = stdout.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        self.assert_clean();
        let took = self.started.elapsed();
        Ended { code, lines, stdout: stdout.join("\n"), stderr: stderr.join("\n"), took }
    }

    /// The pids of the replicas, in the order of their numbers, after all of them have started.
    fn replicas(&self, count: usize) -> Vec<u32> {
        eventually(LONG, || {
            let demo = self.process.pid();
            let mut children = children(demo);
            // Pids start again from 2 after the largest one.
            children.sort_unstable_by_key(|pid| (*pid < demo, *pid));
            (children.len() == count).then_some(children)
        })
    }

    /// The shop's database in the file `phase`, after the stock of an order was returned.
    fn shop(&self, phase: &str) -> rusqlite::Connection {
        let path = eventually(LONG, || self.place().map(|place| place.join(phase)).filter(|path| path.exists()));
        let shop = rusqlite::Connection::open(path).unwrap();
        eventually(LONG, || shop.query_row("select 1 from restoration limit 1", [], |_| Ok(())));
        shop
    }

    /// The demo's directory, if it exists.
    fn place(&self) -> Option<PathBuf> {
        fs::read_dir(self.temp.path()).unwrap().next().map(|entry| entry.unwrap().path())
    }

    fn assert_clean(&self) {
        eventually(LONG, || self.place().map_or(Ok(()), Err));
    }
}

impl Ended {
    fn phase(&self, lock: bool) -> &Value {
        let phase = self.lines.iter().find(|line| line["lock"] == lock);
        phase.unwrap_or_else(|| panic!("no phase with lock {lock}:\n{}\n{}", self.stdout, self.stderr))
    }

    fn assert_code(&self, code: i32) {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
    }
}

fn children(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn assert_ended(pids: &[u32]) {
    eventually(LONG, || {
        let alive: HashSet<_> = pids.iter().filter(|pid| is_alive(**pid)).collect();
        if alive.is_empty() { Ok(()) } else { Err(alive) }
    });
}
