//! A JVM with Redisson that executes commands: `Neighbour.java`.

use std::{
    fs,
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{Process, RedisServer};

/// The folder with one folder for each version of Redisson.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java/target");

/// Timeout that is reached only if the test fails.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A version of Redisson.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Version {
    /// 4.7.0, with all kinds.
    Current,
    /// 3.10.6, with plain, fair and read-write locks.
    Old,
}

impl Version {
    /// The folder in [`BUILT`], and the main class.
    fn program(self) -> (&'static str, &'static str) {
        match self {
            Self::Current => ("redisson-4.7.0", "bandog.redisson4.Main"),
            Self::Old => ("redisson-3.10.6", "bandog.redisson3.Main"),
        }
    }
}

/// The JVM is killed when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Java {
    process: Arc<Mutex<CommandStream>>,
}

struct CommandStream {
    process: Process,
    commands: u32,
}

impl Java {
    /// Starts a JVM whose Redisson has this `lockWatchdogTimeout`.
    pub(crate) fn start(server: &RedisServer, watchdog: Duration) -> Self {
        Self::start_version(Version::Current, server, watchdog)
    }

    /// Like [`start`](Self::start), with this version of Redisson.
    pub(crate) fn start_version(version: Version, server: &RedisServer, watchdog: Duration) -> Self {
        let (folder, class) = version.program();
        let folder = format!("{BUILT}/{folder}");
        let jars = fs::read_to_string(format!("{folder}/classpath"))
            .unwrap_or_else(|error| panic!("no Java side ({error}); `cargo xtask interop` builds it"));
        let mut java = Command::new("java");
        // These options make the JVM small and its start fast. The tests are too short for its best compiler.
        java.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]);
        java.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"]);
        java.args([&format!("{folder}/classes:{}", jars.trim()), class]);
        java.args([&server.url(), &watchdog.as_millis().to_string()]);
        let process = Process::spawn(&java);
        process.stdout_line("ready", Duration::from_secs(60));
        Self { process: Arc::new(Mutex::new(CommandStream { process, commands: 0 })) }
    }

    /// Sends a command for one of the JVM's threads, and does not wait for the answer. The words are the kind, the verb,
    /// the name, and the arguments of the verb. `theirs` has typed functions for all of them.
    pub(crate) fn command(&self, thread: &str, words: &[&str]) -> PendingAnswer {
        let mut stream = self.stream();
        stream.commands += 1;
        let command = format!("{}\t{thread}\t{}", stream.commands, words.join("\t"));
        stream.process.write_line(&command);
        PendingAnswer { java: self.clone(), number: stream.commands, command }
    }

    /// Sends a command for a plain lock: the verb, the name, and the arguments of the verb.
    pub(crate) fn send(&self, thread: &str, words: &[&str]) -> PendingAnswer {
        self.command(thread, &[&["lock"], words].concat())
    }

    /// Sends a command for a plain lock, and waits for the answer.
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
#[derive(Clone)]
pub(crate) struct PendingAnswer {
    java: Java,
    number: u32,
    command: String,
}

impl PendingAnswer {
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
