//! A JVM with another library of locks (`proof/interop/java/src/main/java/bandog/Measurements.java`), or with Quartz
//! (`proof/interop/java/src/main/java/bandog/quartz/Bench.java`).

use std::{fs, path::Path, process::Command, time::Duration};

use bandog_testkit::Process;

use crate::kinds::Kind;

/// Timeout for an answer. It is reached only if the library hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A JVM that is measured. It ends when this value is dropped.
pub(crate) struct Java(Process);

/// The cycles of the threads of a JVM.
pub(crate) struct Cycles {
    pub(crate) per_second: f64,
    pub(crate) all: f64,
    /// Number of cycles of the thread that was served least.
    pub(crate) least: u64,
    /// Number of cycles of the thread that was served most.
    pub(crate) most: u64,
}

impl Java {
    /// Starts a JVM with Redisson from this folder, which `cargo xtask compare` builds.
    pub(crate) fn redisson(folder: &Path, url: &str) -> Self {
        Self::start(folder, "bandog.redisson4.Bench", url)
    }

    /// Starts a JVM with Curator from this folder, which `cargo xtask compare` builds.
    pub(crate) fn curator(folder: &Path, url: &str) -> Self {
        Self::start(folder, "bandog.curator.Bench", url)
    }

    /// Starts a JVM with ShedLock from this folder, which `cargo xtask compare` builds.
    pub(crate) fn shedlock(folder: &Path, url: &str) -> Self {
        Self::start(folder, "bandog.shedlock.Bench", url)
    }

    /// Starts a JVM with Quartz from this folder, which `cargo xtask compare` builds. It creates the tables of Quartz.
    pub(crate) fn quartz(folder: &Path, url: &str) -> Self {
        Self::start(folder, "bandog.quartz.Bench", url)
    }

    /// Starts a JVM with its default options.
    fn start(folder: &Path, class: &str, url: &str) -> Self {
        let jars = fs::read_to_string(folder.join("classpath"))
            .unwrap_or_else(|error| panic!("no Java side ({error}); `cargo xtask compare` builds it"));
        let mut java = Command::new("java");
        java.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn").arg("-cp");
        java.arg(format!("{}:{}", folder.join("classes").display(), jars.trim()));
        java.args([class, url]);
        let process = Process::spawn(&java);
        process.stdout_line("ready", TIMEOUT);
        Self(process)
    }

    /// Locks and releases with this number of threads, or makes calls of another object (`map-put`, `map-get`). Their names
    /// are `names` different ones.
    pub(crate) fn cycles(&mut self, kind: &str, workers: usize, names: usize, span: Duration) -> Cycles {
        let answer = self.ask(&format!("cycles {kind} {workers} {names} {}", span.as_millis()));
        let mut words = answer.split(' ');
        let mut next = || words.next().and_then(|word| word.parse::<f64>().ok()).expect("four numbers");
        let (per_second, all) = (next(), next());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of cycles")]
        let (least, most) = (next() as u64, next() as u64);
        Cycles { per_second, all, least, most }
    }

    /// The durations of hand-offs between two clients, in seconds. The lock is released when the waiter has waited for
    /// `pause`.
    pub(crate) fn hand_offs(&mut self, kind: Kind, turns: usize, pause: Duration) -> Vec<f64> {
        let answer = self.ask(&format!("hand-off {} {turns} {}", kind.name(), pause.as_millis()));
        let nanoseconds = answer.split(' ').map(|word| word.parse::<f64>().expect("a number"));
        nanoseconds.map(|nanoseconds| nanoseconds / 1e9).collect()
    }

    /// The firings per second of one scheduler of Quartz, with triggers that are always due.
    pub(crate) fn firings(&mut self, triggers: usize, threads: usize, batch: usize, span: Duration) -> f64 {
        let answer = self.ask(&format!("firings {triggers} {threads} {batch} {}", span.as_millis()));
        answer.parse().expect("a number")
    }

    fn ask(&mut self, command: &str) -> String {
        self.0.write_line(command);
        self.0.stdout_line("", TIMEOUT)
    }
}
