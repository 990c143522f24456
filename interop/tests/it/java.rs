//! A JVM with Redisson that executes commands: `Neighbour.java`.

use std::{
    fs,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{Process, RedisServer};

const CLASSES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java/target/classes");
const CLASSPATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java/target/classpath");

/// Timeout that is reached only if the test fails.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) struct Java {
    process: Mutex<CommandStream>,
}

struct CommandStream {
    process: Process,
    commands: u32,
}

impl Java {
    /// Starts a JVM whose Redisson has this `lockWatchdogTimeout`.
    pub(crate) fn start(server: &RedisServer, watchdog: Duration) -> Self {
        let jars = fs::read_to_string(CLASSPATH)
            .unwrap_or_else(|error| panic!("no Java side ({error}); `cargo xtask interop` builds it"));
        let mut java = Command::new("java");
        // These options make the JVM small and its start fast. The tests are too short for its best compiler.
        java.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]);
        java.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", &format!("{CLASSES}:{}", jars.trim())]);
        java.args(["bandog.Neighbour", &server.url(), &watchdog.as_millis().to_string()]);
        let process = Process::spawn(&java);
        process.stdout_line("ready", Duration::from_secs(60));
        Self { process: Mutex::new(CommandStream { process, commands: 0 }) }
    }

    /// Sends a command for one of the JVM's threads, and does not wait for the answer.
    pub(crate) fn send(&self, thread: &str, words: &[&str]) -> PendingAnswer<'_> {
        let mut stream = self.stream();
        stream.commands += 1;
        let command = format!("{}\t{thread}\t{}", stream.commands, words.join("\t"));
        stream.process.write_line(&command);
        PendingAnswer { java: self, number: stream.commands, command }
    }

    /// Sends a command for one of the JVM's threads, and waits for the answer.
    pub(crate) fn ask(&self, thread: &str, words: &[&str]) -> String {
        self.send(thread, words).answer(SOON)
    }

    /// Kills the JVM as a crash would.
    pub(crate) fn kill(&self) {
        self.stream().process.kill();
    }

    fn stream(&self) -> MutexGuard<'_, CommandStream> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that was sent, and whose answer was not read yet.
#[must_use = "the answer can be an error"]
pub(crate) struct PendingAnswer<'a> {
    java: &'a Java,
    number: u32,
    command: String,
}

impl PendingAnswer<'_> {
    /// The answer, if it has arrived.
    pub(crate) fn answered(&self) -> Option<String> {
        let head = format!("{}\t", self.number);
        let lines = self.java.stream().process.stdout();
        lines.iter().rev().find_map(|line| line.strip_prefix(&head)).map(str::to_owned)
    }

    /// Waits for the answer. The polling interval is short, because the tests use this function to measure hand-overs.
    #[track_caller]
    pub(crate) fn answer(self, within: Duration) -> String {
        let until = Instant::now() + within;
        loop {
            if let Some(answer) = self.answered() {
                return answer;
            }
            if Instant::now() >= until {
                let log = self.java.stream().process.stderr().join("\n");
                panic!("no answer within {within:?} to {:?}; Java's log:\n{log}", self.command);
            }
            thread::sleep(Duration::from_micros(200));
        }
    }
}
