//! Signals that end a process. The test starts a real process and sends real signals to it.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use bandog_schedule::{Job, Run, Scheduler};
use rustix::process::{Pid, Signal, kill_process};

/// Environment variable that marks the process that gets the signals.
const MARK: &str = "BANDOG_TEST_UNTIL_SIGNAL";

struct SignalledProcess {
    process: Child,
    says: BufReader<std::process::ChildStdout>,
}

impl SignalledProcess {
    fn start() -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "signals::the_process_that_gets_signals", "--nocapture", "--test-threads=1"]);
        let mut process = command.env(MARK, "yes").stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        Self { process, says }
    }

    /// Reads the output until this word, and returns all of it.
    fn says(&mut self, word: &str) -> String {
        let mut said = String::new();
        while !said.lines().any(|line| line == word) {
            assert!(self.says.read_line(&mut said).unwrap() > 0, "it ended without {word:?}: {said}");
        }
        said
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for SignalledProcess {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_signal_stops_the_scheduler_in_order_and_a_second_one_ends_the_drain() {
    for (first, second) in [(Signal::TERM, Signal::TERM), (Signal::INT, Signal::TERM)] {
        let mut child = SignalledProcess::start();
        child.says("begun");
        child.signal(first);
        let said = child.says("another tick");
        assert!(!said.contains("cancelled"), "the run continues during the drain: {said}");
        child.signal(second);
        child.says("cancelled");
        child.says("stopped");
        assert!(child.process.wait().unwrap().success());
    }
}

/// A run that continues until it is cancelled, and a drain that is longer than the test.
#[test]
fn the_process_that_gets_signals() {
    if env::var_os(MARK).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let long = Job::once("long").run(async |run: Run| {
            println!("\nbegun");
            while tokio::time::timeout(Duration::from_millis(100), run.cancelled()).await.is_err() {
                println!("another tick");
            }
            println!("cancelled");
        });
        let running = Scheduler::new().drain(Duration::from_secs(3600)).job(long).start().await.unwrap();
        running.until_signal().await.unwrap();
        println!("stopped");
    });
}
