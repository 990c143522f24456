//! A process that executes commands, and its answers: a JVM with Redisson, Curator or ShedLock (`Neighbour.java`), a program with
//! bandog (`bandog-interop`), or one with another library. All of them understand the same commands.

use std::{
    fs,
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{Process, eventually};

use crate::redsync;

/// The folder with one folder for each version of a library of Java.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java/target");

/// Timeout that is reached only if the test fails.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// The program of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Redisson 4.7.0, with all kinds.
    Redisson4,
    /// Redisson 4.7.0, with the objects of its data grid.
    RedissonGrid,
    /// A service with Spring Boot 3.5.7 and the cache manager of Redisson 3.52.0.
    Spring,
    /// Redisson 3.10.6, with plain, fair and read-write locks.
    Redisson3,
    /// bandog with the default formats, so without plain semaphores.
    Bandog,
    /// bandog with `?semaphores=plain`, so without semaphores with leases.
    BandogPlain,
    /// bandog with `?layout=setnx`, so with plain locks only.
    BandogSetnx,
    /// rslock 0.10.0, with plain locks only.
    Rslock,
    /// redsync for Go, with plain locks only.
    Redsync,
    /// Curator 5.9.0, on ZooKeeper.
    Curator,
    /// bandog on ZooKeeper.
    BandogZooKeeper,
    /// ShedLock 6.10.0, on PostgreSQL or MariaDB, in a JVM in Shanghai. The watchdog's duration is lockAtMostFor.
    ShedLock,
    /// bandog with `?layout=shedlock` and the zone of that JVM, with plain locks only.
    BandogShedLock,
}

impl Program {
    /// Whether this is a JVM.
    pub(crate) fn is_java(self) -> bool {
        matches!(
            self,
            Self::Redisson4 | Self::RedissonGrid | Self::Spring | Self::Redisson3 | Self::Curator | Self::ShedLock
        )
    }

    /// The program with its arguments.
    fn command(self, url: &str, watchdog: Duration) -> Command {
        let bandog = || Command::new(env!("CARGO_BIN_EXE_bandog-interop"));
        let nothing = String::new;
        let (mut command, query) = match self {
            Self::Redisson4 => (java("redisson-4.7.0", "bandog.redisson4.Main"), nothing()),
            Self::RedissonGrid => (java("codecs-4.7.0", "bandog.grid.Main"), nothing()),
            Self::Spring => (java("spring-boot-3.5.7", "bandog.spring.Main"), nothing()),
            Self::Redisson3 => (java("redisson-3.10.6", "bandog.redisson3.Main"), nothing()),
            Self::Bandog => (bandog(), nothing()),
            Self::BandogPlain => (bandog(), "?semaphores=plain".to_owned()),
            Self::BandogSetnx => (bandog(), "?layout=setnx".to_owned()),
            Self::Rslock => (Command::new(env!("CARGO_BIN_EXE_bandog-interop-rslock")), nothing()),
            Self::Redsync => (Command::new(redsync::program().expect("redsync was built")), nothing()),
            Self::Curator => (java("curator-5.9.0", "bandog.curator.Main"), nothing()),
            Self::BandogZooKeeper => (bandog(), format!("?session={}ms", watchdog.as_millis())),
            Self::ShedLock => (java("shedlock-6.10.0", "bandog.shedlock.Main"), nothing()),
            Self::BandogShedLock => (bandog(), "?layout=shedlock&session_zone=%2B08:00".to_owned()),
        };
        command.args([&format!("{url}{query}"), &watchdog.as_millis().to_string()]);
        command
    }
}

/// A JVM with the classes in this folder of [`BUILT`], and with the libraries of that folder.
pub(crate) fn java(folder: &str, class: &str) -> Command {
    let jars = fs::read_to_string(format!("{BUILT}/{folder}/classpath"))
        .unwrap_or_else(|error| panic!("no Java side ({error}); `cargo xtask interop` builds it"));
    java_with(jars.trim(), folder, class)
}

/// A JVM with the classes in this folder of [`BUILT`], and with these jars.
pub(crate) fn java_with(jars: &str, folder: &str, class: &str) -> Command {
    let mut java = Command::new("java");
    // These options make the JVM small and its start fast. The tests are too short for its best compiler.
    java.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]);
    // The servers are in the zone of the machine. Of the libraries, only ShedLock depends on zones.
    java.args(["-Duser.timezone=Asia/Shanghai", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"]);
    java.args([&format!("{BUILT}/{folder}/classes:{jars}"), class]);
    java
}

/// The process is killed when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Neighbour {
    pub(crate) program: Program,
    process: Arc<Mutex<CommandStream>>,
}

struct CommandStream {
    process: Process,
    commands: u32,
}

impl Neighbour {
    /// Starts a process whose locks have this ttl. On ZooKeeper, it is also the duration of the session.
    pub(crate) fn start(program: Program, url: &str, watchdog: Duration) -> Self {
        let process = Process::spawn(&program.command(url, watchdog));
        process.stdout_line("ready", Duration::from_secs(60));
        Self { program, process: Arc::new(Mutex::new(CommandStream { process, commands: 0 })) }
    }

    /// Sends a command for one of the threads, and does not wait for the answer. The words are the kind, the verb, the
    /// name, and the arguments of the verb. `objects` has typed functions for all of them.
    pub(crate) fn command(&self, thread: &str, words: &[&str]) -> PendingAnswer {
        let mut stream = self.stream();
        stream.commands += 1;
        let command = format!("{}\t{thread}\t{}", stream.commands, words.join("\t"));
        stream.process.write_line(&command);
        PendingAnswer { neighbour: self.clone(), number: stream.commands, command, thread: thread.to_owned() }
    }

    /// Sends a command for a plain lock: the verb, the name, and the arguments of the verb.
    pub(crate) fn send(&self, thread: &str, words: &[&str]) -> PendingAnswer {
        self.command(thread, &[&["lock"], words].concat())
    }

    /// Sends a command for a plain lock, and waits for the answer.
    pub(crate) fn ask(&self, thread: &str, words: &[&str]) -> String {
        self.send(thread, words).answer(SOON)
    }

    /// Whether the process runs and has answered all commands.
    pub(crate) fn is_idle(&self) -> bool {
        let mut stream = self.stream();
        let answers = stream.process.stdout().iter().filter(|line| line.contains('\t')).count();
        stream.process.try_wait().is_none() && usize::try_from(stream.commands) == Ok(answers)
    }

    /// Kills the process as a crash would.
    pub(crate) fn kill(&self) {
        self.stream().process.kill();
    }

    /// Stops the process with SIGSTOP.
    pub(crate) fn pause(&self) {
        self.stream().process.stop();
    }

    /// Continues the process after [`pause`](Self::pause).
    pub(crate) fn resume(&self) {
        self.stream().process.cont();
    }

    fn stream(&self) -> MutexGuard<'_, CommandStream> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that was sent, and whose answer was not read yet.
#[must_use = "the answer can be an error"]
#[derive(Clone)]
pub(crate) struct PendingAnswer {
    neighbour: Neighbour,
    number: u32,
    command: String,
    thread: String,
}

impl PendingAnswer {
    /// Whether the thread of Java that waits for a lock or a latch sleeps until a message wakes it. A message that comes between
    /// the thread's last attempt and its sleep can be lost: the message of a writer's release wakes only the threads
    /// that sleep already.
    fn is_asleep(&self) -> bool {
        self.neighbour.command(&self.thread, &["thread"]).answer(SOON) == "asleep"
    }

    /// Waits until the thread that waits for a lock or a latch sleeps, if it is a thread of Java.
    #[track_caller]
    pub(crate) fn wait_for_sleep(&self) {
        if self.neighbour.program.is_java() {
            eventually(SOON, || self.is_asleep());
        }
    }

    /// The answer, if it has arrived.
    pub(crate) fn answered(&self) -> Option<String> {
        let head = format!("{}\t", self.number);
        let lines = self.neighbour.stream().process.stdout();
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
                let log = self.neighbour.stream().process.stderr().join("\n");
                panic!("no answer within {within:?} to {:?}; the log:\n{log}", self.command);
            }
            thread::sleep(Duration::from_micros(200));
        }
    }
}
