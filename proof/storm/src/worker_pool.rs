//! The worker processes.

use std::{path::PathBuf, process::Command, time::Duration};

use bandog_testkit::{Process, Wire, is_alive};

use crate::{
    calls::{DONE, ENDED},
    history::{Files, Nanos, now},
    plan::{LONG_TTL, PLACE, SESSION, TTL},
    settings::{StoreKind, TrafficKind, name},
    sqlite_files::has_write_lock,
    test_store::TestStore,
};

/// Timeout for the end of a worker that was killed or ordered to end.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Number of workers, clients and tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) processes: u32,
    /// Number of clients in one process.
    pub(crate) clients: u32,
    /// Number of tasks of one client.
    pub(crate) tasks: u32,
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
    traffic: TrafficKind,
    /// Further arguments of the worker processes.
    args: Vec<String>,
    /// Number of calls that the killed workers had made.
    done: u64,
}

impl WorkerPool {
    /// Starts the processes.
    pub(crate) fn start(
        store: TestStore,
        files: Files,
        size: Size,
        seed: u64,
        traffic: TrafficKind,
        args: Vec<String>,
    ) -> Self {
        let (workers, lives) = (Vec::new(), Vec::new());
        let mut pool = Self { store, workers, lives, files, size, seed, traffic, args, done: 0 };
        for _ in 0..size.processes {
            let worker = pool.spawn_worker(Home::Machine);
            pool.workers.push(worker);
        }
        pool
    }

    /// Kills the worker with the index `slot`.
    pub(crate) fn kill(&mut self, slot: usize) {
        let at = now();
        let worker = &mut self.workers[slot];
        worker.process.kill();
        worker.process.wait(ENDS_WITHIN);
        let clients = worker.first..worker.first + worker.clients;
        self.done += worker.done();
        for life in self.lives.iter_mut().filter(|life| clients.contains(&life.client)) {
            life.killed = Some(at);
        }
    }

    /// Orders the worker with the index `slot` to end, and waits until it has ended.
    pub(crate) fn dismiss(&mut self, slot: usize) {
        let worker = &mut self.workers[slot];
        worker.process.write_line("stop");
        worker.process.wait(ENDS_WITHIN);
        self.done += worker.done();
    }

    /// Starts a new worker in this environment, in the place of the ended one with the index `slot`.
    pub(crate) fn replace(&mut self, slot: usize, home: Home) {
        self.workers[slot] = self.spawn_worker(home);
    }

    /// Starts a worker process, and adds its clients to `lives`.
    fn spawn_worker(&mut self, home: Home) -> Worker {
        let (url, wires) = self.store.connection();
        let first = u32::try_from(self.lives.len()).expect("few clients");
        self.lives.extend((first..first + self.size.clients).map(|client| Life { client, killed: None }));
        let mut command = at_home(home, &self.files);
        let ahead = if let Home::TimeNamespace(ahead) = home { ahead } else { 0 };
        command.args(["worker", "--traffic", &name(&self.traffic), "--url", &url]).arg("--dir").arg(self.files.dir());
        let numbers = [
            ("--first", u64::from(first)),
            ("--clients", self.size.clients.into()),
            ("--tasks", self.size.tasks.into()),
            ("--seed", self.seed.wrapping_add(u64::from(first) << 40)),
            ("--ttl", millis(self.size.ttl)),
            ("--ahead", ahead),
        ];
        for (name, value) in numbers {
            command.arg(name).arg(value.to_string());
        }
        command.args(&self.args);
        Worker { process: Process::spawn(&command), wires, first, clients: self.size.clients }
    }

    /// Whether the worker with the index `slot` has SQLite's write lock, so that it blocks all others while it is stopped.
    pub(crate) fn has_write_lock(&self, slot: usize) -> bool {
        let process = &self.workers[slot].process;
        matches!(self.store, TestStore::Sqlite(_)) && has_write_lock(process.pid(), &self.store.shared_memory())
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
