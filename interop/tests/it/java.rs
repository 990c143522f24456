//! A JVM with Redisson that does as it is told.

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

/// Longer than any command takes that nothing holds up.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) struct Java {
    process: Mutex<Told>,
}

struct Told {
    process: Process,
    commands: u32,
}

impl Java {
    /// Starts a JVM whose Redisson has this `lockWatchdogTimeout`.
    pub(crate) fn start(server: &RedisServer, watchdog: Duration) -> Self {
        let jars = fs::read_to_string(CLASSPATH)
            .unwrap_or_else(|error| panic!("no Java side ({error}); `cargo xtask interop` builds it"));
        let mut java = Command::new("java");
        // A small JVM that starts fast; these runs are too short for its best compiler.
        java.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]);
        java.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", &format!("{CLASSES}:{}", jars.trim())]);
        java.args(["bandog.Neighbour", &server.url(), &watchdog.as_millis().to_string()]);
        let process = Process::spawn(&java);
        process.stdout_line("ready", Duration::from_secs(60));
        Self { process: Mutex::new(Told { process, commands: 0 }) }
    }

    /// Tells one of its threads to do something and does not wait for it.
    pub(crate) fn tell(&self, thread: &str, words: &[&str]) -> Asked<'_> {
        let mut told = self.told();
        told.commands += 1;
        let command = format!("{}\t{thread}\t{}", told.commands, words.join("\t"));
        told.process.write_line(&command);
        Asked { java: self, number: told.commands, command }
    }

    /// Tells one of its threads to do something and waits for the answer.
    pub(crate) fn ask(&self, thread: &str, words: &[&str]) -> String {
        self.tell(thread, words).answer(SOON)
    }

    /// Kills the JVM as a crash would.
    pub(crate) fn kill(&self) {
        self.told().process.kill();
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that was given.
#[must_use = "an answer that nobody reads may be an error"]
pub(crate) struct Asked<'a> {
    java: &'a Java,
    number: u32,
    command: String,
}

impl Asked<'_> {
    /// What Java answered, if it has.
    pub(crate) fn answered(&self) -> Option<String> {
        let head = format!("{}\t", self.number);
        let lines = self.java.told().process.stdout();
        lines.iter().rev().find_map(|line| line.strip_prefix(&head)).map(str::to_owned)
    }

    /// Waits for the answer. The pause is short, since hand-overs are timed with it.
    #[track_caller]
    pub(crate) fn answer(self, within: Duration) -> String {
        let until = Instant::now() + within;
        loop {
            if let Some(answer) = self.answered() {
                return answer;
            }
            if Instant::now() >= until {
                let log = self.java.told().process.stderr().join("\n");
                panic!("no answer within {within:?} to {:?}; Java's log:\n{log}", self.command);
            }
            thread::sleep(Duration::from_micros(200));
        }
    }
}
