//! A JVM with another library of locks (`proof/interop/java/src/main/java/bandog/Measurements.java`), or with Quartz
//! (`proof/interop/java/src/main/java/bandog/quartz/Bench.java`).

use std::{fs, path::Path, process::Command, time::Duration};

use bandog_testkit::Process;
use serde_json::Value;

use crate::{cycles::Load, kinds::Kind, measure, report::times};

/// Timeout for an answer. It is reached only if the library hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A library of Java, and the class that measures it.
pub(crate) type Library = (&'static str, &'static str);

pub(crate) const REDISSON: Library = ("Redisson 4.7.0", "bandog.redisson4.Bench");
pub(crate) const CURATOR: Library = ("Curator 5.9.0", "bandog.curator.Bench");
pub(crate) const SHEDLOCK: Library = ("ShedLock 6.10.0", "bandog.shedlock.Bench");
/// It creates its tables.
pub(crate) const QUARTZ: Library = ("Quartz 2.5.2", "bandog.quartz.Bench");

/// A JVM that is measured. It ends when this value is dropped.
pub(crate) struct Java {
    name: &'static str,
    process: Process,
}

impl Java {
    /// Starts a JVM with its default options, and the library from this folder, which `cargo xtask compare` builds.
    pub(crate) fn start((name, class): Library, folder: Option<&Path>, url: &str) -> Option<Self> {
        let folder = folder?;
        let jars = fs::read_to_string(folder.join("classpath"))
            .unwrap_or_else(|error| panic!("no Java side ({error}); `cargo xtask compare` builds it"));
        let mut java = Command::new("java");
        java.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn").arg("-cp");
        java.arg(format!("{}:{}", folder.join("classes").display(), jars.trim()));
        java.args([class, url]);
        let process = Process::spawn(&java);
        process.stdout_line("ready", TIMEOUT);
        Some(Self { name, process })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Locks and releases with this number of threads, or makes calls of another object (`map-put`, `map-get`).
    pub(crate) fn cycles(&mut self, kind: &str, load: Load, span: Duration) -> Value {
        let answer = self.ask(&format!("cycles {kind} {} {} {}", load.tasks, load.names, span.as_millis()));
        let mut words = answer.split(' ').map(|word| word.parse::<f64>().expect("a number"));
        let per_second = words.next().expect("a rate");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of cycles")]
        let mut next = || words.next().expect("a number of cycles") as u64;
        let (all, least, most) = (next(), next(), next());
        measure::cycles(per_second, all, least, most)
    }

    /// The durations of hand-offs between two clients. The lock is released when the waiter has waited for `pause`.
    pub(crate) fn hand_offs(&mut self, kind: Kind, turns: usize, pause: Duration) -> Value {
        let answer = self.ask(&format!("hand-off {} {turns} {}", kind.name(), pause.as_millis()));
        let nanoseconds = answer.split(' ').map(|word| word.parse::<f64>().expect("a number"));
        times(nanoseconds.map(|nanoseconds| nanoseconds / 1e9).collect())
    }

    /// The firings per second of one scheduler of Quartz, with triggers that are always due.
    pub(crate) fn firings(&mut self, triggers: usize, threads: usize, batch: usize, span: Duration) -> f64 {
        let answer = self.ask(&format!("firings {triggers} {threads} {batch} {}", span.as_millis()));
        answer.parse().expect("a number")
    }

    fn ask(&mut self, command: &str) -> String {
        self.process.write_line(command);
        self.process.stdout_line("", TIMEOUT)
    }
}
