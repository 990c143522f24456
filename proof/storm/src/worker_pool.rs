//! The worker processes.

use std::{path::PathBuf, process::Command, time::Duration};

use bandog_testkit::{Process, Wire, is_alive};

use crate::{
    history::{Files, Nanos, now},
    plan::{Kind, LONG_TTL, NAMES, PLACE, SESSION, TIMEOUT, TTL},
    settings::StoreKind,
    test_store::TestStore,
    worker::{DONE, ENDED},
};

/// Number of workers, clients and tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    processes: u32,
    /// Number of clients in one process.
    clients: u32,
    /// Number of tasks of one client.
    tasks: u32,
    /// The watchdog's ttl.
    pub(crate) ttl: Duration,
    /// Time for which the store keeps the place of a waiting client that sends nothing.
    pub(crate) place: Duration,
}

impl Size {
    pub(crate) fn of(store: StoreKind) -> Self {
        let ttl = match store {
            StoreKind::Sentinel | StoreKind::Cluster | StoreKind::ZookeeperEnsemble => LONG_TTL,
            StoreKind::Zookeeper => SESSION,
            StoreKind::Memory
            | StoreKind::Sqlite
            | StoreKind::Redis
            | StoreKind::Quorum
            | StoreKind::Postgres
            | StoreKind::Mariadb => TTL,
        };
        let place = match store {
            // A place is a node of the session.
            StoreKind::Zookeeper | StoreKind::ZookeeperEnsemble => ttl,
            _ => PLACE,
        };
        match store {
            StoreKind::Memory => Self { processes: 1, clients: 4, tasks: 6, ttl, place },
            StoreKind::Sqlite
            | StoreKind::Redis
            | StoreKind::Sentinel
            | StoreKind::Cluster
            | StoreKind::Quorum
            | StoreKind::Postgres
            | StoreKind::Mariadb
            | StoreKind::Zookeeper
            | StoreKind::ZookeeperEnsemble => Self { processes: 4, clients: 1, tasks: 6, ttl, place },
        }
    }
}

/// The environment of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// The machine itself.
    Machine,
    /// A time namespace whose clocks are ahead of the machine's clocks by this number of seconds.
    TimeNamespace(u64),
    /// An environment with another boot id.
    OtherBoot,
}

/// One worker process.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) process: Process,
    /// The connections to the servers, which faults can disturb. See [`TestStore::connection`].
    pub(crate) wires: Vec<Wire>,
    /// The number of the worker's first client.
    pub(crate) first: u32,
    clients: u32,
}

/// A client, and the time when its process was killed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) client: u32,
    /// The number of the client's process. A process has the number of its first client.
    pub(crate) process: u32,
    pub(crate) killed: Option<Nanos>,
}

/// All workers of a run.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    pub(crate) store: TestStore,
    pub(crate) workers: Vec<Worker>,
    /// All clients of this run, also the killed ones.
    pub(crate) lives: Vec<Life>,
    files: Files,
    pub(crate) size: Size,
    seed: u64,
    /// The hidden command of the worker processes.
    role: &'static str,
    /// The kinds of calls, separated by commas.
    kinds: String,
    /// Whether the workers sometimes take locks by force.
    evicts: bool,
    /// Number of calls that the killed workers had made.
    done: u64,
}

impl WorkerPool {
    /// Starts the processes. Each of them runs this hidden command of the storm.
    pub(crate) fn start(
        store: TestStore,
        files: Files,
        size: Size,
        seed: u64,
        role: &'static str,
        kinds: &[Kind],
        evicts: bool,
    ) -> Self {
        let (workers, lives) = (Vec::new(), Vec::new());
        let kinds = kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(",");
        let mut pool = Self { store, workers, lives, files, size, seed, role, kinds, evicts, done: 0 };
        for _ in 0..size.processes {
            let worker = pool.spawn_worker(Home::Machine);
            pool.workers.push(worker);
        }
        pool
    }

    /// Kills the worker with the index `slot`, and starts a new worker in the environment `home`. Returns the time of
    /// the kill, and the number of the killed worker's first client.
    pub(crate) fn replace(&mut self, slot: usize, home: Home) -> (Nanos, u32) {
        let (at, first) = self.kill(slot);
        self.workers[slot] = self.spawn_worker(home);
        (at, first)
    }

    /// Kills the worker with the index `slot`. Returns the same values as `replace`.
    fn kill(&mut self, slot: usize) -> (Nanos, u32) {
        let at = now();
        let worker = &mut self.workers[slot];
        worker.process.kill();
        worker.process.wait(Duration::from_secs(10));
        let first = worker.first;
        self.done += worker.done();
        for life in self.lives.iter_mut().filter(|life| (first..first + worker.clients).contains(&life.client)) {
            life.killed = Some(at);
        }
        (at, first)
    }

    /// Starts a worker process, and adds its clients to `lives`.
    fn spawn_worker(&mut self, home: Home) -> Worker {
        let (url, wires) = self.store.connection();
        let first = u32::try_from(self.lives.len()).expect("few clients");
        self.lives.extend((first..first + self.size.clients).map(|client| Life {
            client,
            process: first,
            killed: None,
        }));
        let mut command = at_home(home, &self.files);
        let ahead = if let Home::TimeNamespace(ahead) = home { ahead } else { 0 };
        command.arg(self.role).args(["--url", &url]).arg("--dir").arg(self.files.dir());
        let add_number = |command: &mut Command, name: &str, value: u64| {
            command.arg(name).arg(value.to_string());
        };
        add_number(&mut command, "--first", first.into());
        add_number(&mut command, "--clients", self.size.clients.into());
        add_number(&mut command, "--tasks", self.size.tasks.into());
        add_number(&mut command, "--names", NAMES as u64);
        add_number(&mut command, "--seed", self.seed.wrapping_add(u64::from(first) << 40));
        add_number(&mut command, "--ttl", millis(self.size.ttl));
        add_number(&mut command, "--timeout", millis(TIMEOUT));
        add_number(&mut command, "--ahead", ahead);
        if !self.kinds.is_empty() {
            command.args(["--kinds", &self.kinds]);
        }
        if self.evicts {
            command.arg("--evicts");
        }
        Worker { process: Process::spawn(&command), wires, first, clients: self.size.clients }
    }

    /// Approximate number of calls of all workers so far, including the killed workers.
    pub(crate) fn done(&self) -> u64 {
        self.done + self.workers.iter().map(Worker::done).sum::<u64>()
    }

    /// A message for each worker that ended unexpectedly. The message contains the worker's standard error.
    pub(crate) fn dead(&self) -> Vec<String> {
        let dead = self.workers.iter().filter(|worker| !is_alive(worker.process.pid()));
        dead.map(|worker| format!("worker {} died: {}", worker.first, worker.process.stderr().join(" | "))).collect()
    }
}

impl Worker {
    pub(crate) fn has_ended(&self) -> bool {
        self.process.stdout().iter().any(|line| line.starts_with(ENDED))
    }

    /// The data that the worker found in its own memory store at the end, as text. No data should be left.
    pub(crate) fn left(&self) -> Vec<String> {
        self.process.stdout().iter().filter_map(|line| line.strip_prefix("left ")).map(str::to_owned).collect()
    }

    /// Number of calls that the worker last reported.
    fn done(&self) -> u64 {
        let count = |line: &String| line.strip_prefix(DONE).or_else(|| line.strip_prefix(ENDED))?.trim().parse().ok();
        self.process.stdout().iter().rev().find_map(count).unwrap_or(0)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A command that runs this program in this environment.
fn at_home(home: Home, files: &Files) -> Command {
    let program = std::env::current_exe().expect("this program has a path");
    match home {
        Home::Machine => Command::new(program),
        Home::TimeNamespace(ahead) => {
            let mut command = Command::new("unshare");
            let ahead = ahead.to_string();
            command.args(["--time", "--boottime", &ahead, "--monotonic", &ahead, "--"]).arg(program);
            command
        }
        Home::OtherBoot => {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", OTHER_BOOT]).arg(other_boot(files)).arg(program);
            command
        }
    }
}

/// A shell script that runs a program with another boot id. `$0` is a file that contains the other boot id. The script
/// mounts this file in the place of the kernel's file.
const OTHER_BOOT: &str = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;

/// Writes a file that contains another boot id, and returns its path.
fn other_boot(files: &Files) -> PathBuf {
    let path = files.dir().join("other-boot-id");
    std::fs::write(&path, "b0070ther-0000-4000-8000-000000000000\n").expect("the directory can be written to");
    path
}

/// Whether a worker can run in this environment on this machine.
pub(crate) fn is_possible(home: Home, files: &Files) -> bool {
    let mut command = match home {
        Home::Machine => return true,
        Home::TimeNamespace(_) => {
            let mut command = Command::new("unshare");
            command.args(["--time", "--boottime", "1", "--monotonic", "1", "--", "true"]);
            command
        }
        Home::OtherBoot => {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", OTHER_BOOT]).arg(other_boot(files)).arg("true");
            command
        }
    };
    command.output().is_ok_and(|output| output.status.success())
}
