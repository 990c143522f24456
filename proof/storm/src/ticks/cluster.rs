//! Runs nodes as processes over a real store, and injects their faults.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use bandog::{
    ConnectOptions, Key,
    backend::{Record, Records},
};
use bandog_testkit::{Process, RedisServer, Wire};

use super::{
    args::{StoreKind, TicksArgs},
    history::{End, Harm, HarmKind, History, Life, Ms, Nanos, SECOND, Start, Tally, Terms},
    jobs,
    schedule::Jobs,
};
use crate::{
    history::now,
    sqlite_files::{self, has_write_lock, stop_while_writing},
};

/// The lease of a node. It is short, so that many leases are lost.
const LEASE: Duration = Duration::from_secs(2);
/// Tolerance for delays on a machine with fewer cores than nodes.
const SLACK: Duration = Duration::from_secs(1);
/// Interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(10);
/// Timeout for the start and for the stop of a node.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the nodes, and returns the history.
///
/// # Errors
/// If the history cannot be written or read, or the store cannot be read at the end.
pub(crate) fn run(args: &TicksArgs, dir: &Path) -> io::Result<History> {
    fastrand::seed(args.seed());
    let mut cluster = Cluster::new(args, dir)?;
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut reported = Instant::now();
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(fastrand::u64(200..1500)));
        cluster.harm();
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            let left = end.saturating_duration_since(reported).as_secs();
            eprintln!("remaining time: {left} s, started runs: {}, faults: {}", cluster.began(), cluster.harms.len());
        }
    }
    // The time at which the faults had ended.
    let over = now();
    // In this time, the nodes take over the remaining runs of dead nodes.
    thread::sleep(LEASE + SLACK * 3);
    cluster.end();
    let (tallies, left) = cluster.tallies()?;
    let mut harms = std::mem::take(&mut cluster.harms);
    let starts = read(dir, cluster.next, &mut harms)?;
    let terms = Terms { lease: nanos(LEASE), check_interval: SECOND, slack: nanos(SLACK), over };
    let jobs = (0..cluster.jobs).map(jobs::declared).collect();
    Ok(History {
        jobs,
        tallies,
        starts,
        lives: std::mem::take(&mut cluster.lives),
        harms,
        orphans: Vec::new(),
        left,
        terms,
    })
}

enum NodeStore {
    Redis(Box<RedisServer>),
    Sqlite(PathBuf),
}

struct Node {
    number: u32,
    process: Process,
    /// The proxy between the node and the server. `None` for SQLite.
    wire: Option<Wire>,
}

struct Cluster {
    store: NodeStore,
    dir: PathBuf,
    jobs: usize,
    nodes: Vec<Node>,
    /// The number of the next node.
    next: u32,
    /// The times at which nodes were killed or asked to stop, by the number of the node.
    lives: BTreeMap<u32, Life>,
    /// The faults so far.
    harms: Vec<Harm>,
    /// Whether the store is emptied.
    empties: bool,
}

impl Cluster {
    fn new(args: &TicksArgs, dir: &Path) -> io::Result<Self> {
        let store = match args.store {
            StoreKind::Redis => {
                let home = dir.join("redis");
                std::fs::create_dir_all(&home)?;
                let home = home.display().to_string();
                // If the server has confirmed a claim, the claim must survive a kill of the server.
                let lasting = ["--dir", &home, "--appendonly", "yes", "--appendfsync", "always"];
                NodeStore::Redis(Box::new(RedisServer::start_with(&lasting)))
            }
            StoreKind::Sqlite | StoreKind::Virtual | StoreKind::Lock => NodeStore::Sqlite(dir.join("ticks.db")),
        };
        let (nodes, lives, harms) = (Vec::new(), BTreeMap::new(), Vec::new());
        let empties = args.empty;
        let mut cluster = Self { store, dir: dir.into(), jobs: args.jobs(), nodes, next: 0, lives, harms, empties };
        for _ in 0..args.nodes {
            let node = cluster.start();
            cluster.nodes.push(node);
        }
        cluster.nodes.iter().for_each(|node| drop(node.process.stdout_line("ready", PATIENCE)));
        Ok(cluster)
    }

    fn url(&self) -> String {
        match &self.store {
            NodeStore::Redis(server) => server.url(),
            NodeStore::Sqlite(path) => format!("sqlite:{}", path.display()),
        }
    }

    /// Starts the next node.
    fn start(&mut self) -> Node {
        let (url, wire) = match &self.store {
            NodeStore::Redis(server) => {
                let wire = server.wire();
                (wire.url(), Some(wire))
            }
            NodeStore::Sqlite(_) => (self.url(), None),
        };
        let number = self.next;
        self.next += 1;
        self.lives.insert(number, Life::default());
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.arg("ticks-node").args(["--url", &url]).arg("--log").arg(log(&self.dir, number));
        let skew = fastrand::i64(-90_000..=90_000);
        command.args(["--jobs", &self.jobs.to_string(), "--skew", &skew.to_string()]);
        command.args(["--lease", &LEASE.as_millis().to_string(), "--seed", &fastrand::u64(..).to_string()]);
        Node { number, process: Process::spawn(&command), wire }
    }

    /// Injects a random fault, and waits until the fault has ended.
    fn harm(&mut self) {
        let at = fastrand::usize(..self.nodes.len());
        let stall = Duration::from_millis(fastrand::u64(100..4500));
        let is_redis = matches!(self.store, NodeStore::Redis(_));
        if self.empties && is_redis && fastrand::u8(..4) == 0 {
            return self.empty_store(at, stall);
        }
        match fastrand::u8(..11) {
            0..3 => self.kill(at),
            3..5 => self.stop(at),
            5 if is_redis => self.kill_store(),
            5 => self.lock_store(stall),
            6..8 if is_redis => self.cut(at, stall),
            6 => self.in_write(at, |cluster| cluster.kill(at)),
            7 => self.in_write(at, |cluster| cluster.stall(at, stall)),
            10 if !is_redis => self.delete_log(),
            _ => self.stall(at, stall),
        }
    }

    /// Kills a node, and starts a new node in its place.
    fn kill(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let number = node.number;
        let from = now();
        node.process.kill();
        node.process.wait(PATIENCE);
        self.lives.insert(number, Life { killed: Some(from), asked: None });
        self.record_harm(HarmKind::Kill, Some(number), from);
        // A new node also takes over the runs of dead nodes. If a new node always started early, the test would not
        // notice that the other nodes take over no runs. So the delay is sometimes longer than a takeover.
        self.replace(at, 8000);
    }

    /// Asks a node to stop, and starts a new node in its place.
    fn stop(&mut self, at: usize) {
        let from = now();
        let number = self.nodes[at].number;
        self.lives.insert(number, Life { killed: None, asked: Some(from) });
        self.nodes[at].process.term();
        self.nodes[at].process.wait(PATIENCE);
        self.record_harm(HarmKind::Stop, Some(number), from);
        self.replace(at, 3500);
    }

    /// Waits for a random delay of up to `within_ms` milliseconds, and replaces an ended node by a new node.
    fn replace(&mut self, at: usize, within_ms: u64) {
        thread::sleep(Duration::from_millis(fastrand::u64(..within_ms)));
        let node = self.start();
        node.process.stdout_line("ready", PATIENCE);
        self.nodes[at] = node;
    }

    /// Pauses a node for this time.
    fn stall(&mut self, at: usize, time: Duration) {
        let from = now();
        self.nodes[at].process.stop();
        // A stopped node that has SQLite's write lock blocks all nodes.
        let blocks_all = self.shared_memory().is_some_and(|file| has_write_lock(self.nodes[at].process.pid(), &file));
        thread::sleep(time);
        self.nodes[at].process.cont();
        self.record_harm(HarmKind::Stall, Some(self.nodes[at].number), from);
        if blocks_all {
            self.record_harm(HarmKind::Locked, None, from);
        }
    }

    /// Stops a node in the middle of a write, and runs `harm`. If the node makes no write before the timeout, `harm`
    /// does not run.
    fn in_write(&mut self, at: usize, harm: impl FnOnce(&mut Self)) {
        let writes = self.shared_memory().is_some_and(|file| stop_while_writing(&self.nodes[at].process, &file));
        if writes {
            harm(self);
        }
    }

    /// Locks the database file for this time, as another program could do.
    fn lock_store(&mut self, time: Duration) {
        let NodeStore::Sqlite(path) = &self.store else { return };
        let hold_lock = || -> rusqlite::Result<Nanos> {
            let mut other = rusqlite::Connection::open(path)?;
            other.busy_timeout(PATIENCE)?;
            let transaction = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let from = now();
            thread::sleep(time);
            transaction.rollback()?;
            Ok(from)
        };
        let from = hold_lock().expect("the file can be locked");
        self.record_harm(HarmKind::Locked, None, from);
    }

    /// Deletes the log of the database, the index of the log, or both, while the nodes have these files open.
    fn delete_log(&mut self) {
        let NodeStore::Sqlite(path) = &self.store else { return };
        let from = now();
        sqlite_files::delete_log(path, &mut fastrand::Rng::new());
        sqlite_files::await_log(path);
        self.record_harm(HarmKind::LogDeleted, None, from);
    }

    /// The file that contains SQLite's own locks. `None` for Redis.
    fn shared_memory(&self) -> Option<PathBuf> {
        let NodeStore::Sqlite(path) = &self.store else { return None };
        Some(sqlite_files::beside(path, "-shm"))
    }

    /// Number of runs that have started so far.
    fn began(&self) -> usize {
        let texts = (0..self.next).filter_map(|node| std::fs::read_to_string(log(&self.dir, node)).ok());
        texts.map(|text| text.lines().filter(|line| line.starts_with("began")).count()).sum()
    }

    /// Disconnects a node from the store for this time.
    fn cut(&mut self, at: usize, time: Duration) {
        let from = now();
        let Some(wire) = &self.nodes[at].wire else { return };
        wire.refuse(true);
        wire.cut();
        thread::sleep(time);
        wire.refuse(false);
        self.record_harm(HarmKind::Cut, Some(self.nodes[at].number), from);
    }

    /// Kills the Redis server, and starts the server again.
    fn kill_store(&mut self) {
        let from = now();
        let NodeStore::Redis(server) = &self.store else { return };
        server.kill();
        thread::sleep(Duration::from_millis(fastrand::u64(..800)));
        server.restart();
        self.record_harm(HarmKind::Store, None, from);
    }

    /// Deletes all data of the store, while a node is paused, and another one may be killed.
    fn empty_store(&mut self, at: usize, pause: Duration) {
        let paused_from = now();
        self.nodes[at].process.stop();
        thread::sleep(pause / 2);
        let other = (at + 1) % self.nodes.len();
        let killed = fastrand::bool().then(|| {
            let from = now();
            self.nodes[other].process.kill();
            self.nodes[other].process.wait(PATIENCE);
            self.lives.insert(self.nodes[other].number, Life { killed: Some(from), asked: None });
            from
        });
        let from = now();
        let NodeStore::Redis(server) = &self.store else { return };
        server.cmd(&["FLUSHALL"]);
        self.record_harm(HarmKind::Emptied, None, from);
        thread::sleep(pause / 2);
        self.nodes[at].process.cont();
        self.record_harm(HarmKind::Stall, Some(self.nodes[at].number), paused_from);
        if let Some(from) = killed {
            self.record_harm(HarmKind::Kill, Some(self.nodes[other].number), from);
            self.replace(other, 8000);
        }
    }

    /// Records a fault that began at `from` and has ended now.
    fn record_harm(&mut self, kind: HarmKind, node: Option<u32>, from: Nanos) {
        self.harms.push(Harm { kind, node, from, to: now() });
    }

    /// Stops all nodes.
    fn end(&mut self) {
        for node in &mut self.nodes {
            self.lives.insert(node.number, Life { killed: None, asked: Some(now()) });
            node.process.term();
            node.process.wait(PATIENCE);
        }
    }

    /// Reads the records of the jobs, and the number of sessions.
    fn tallies(&self) -> io::Result<(Vec<Tally>, usize)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let keys: Vec<Key> = (0..self.jobs)
            .map(|job| Key::new(format!("job/{}", jobs::declared(job).name)).map_err(io::Error::other))
            .collect::<io::Result<_>>()?;
        let read: bandog::Result<(Vec<bandog::Result<Option<Record>>>, usize)> = runtime.block_on(async {
            let client = ConnectOptions::parse(self.url())?.connect().await?;
            let mut records = Vec::new();
            for chunk in keys.chunks(16) {
                records.extend(client.records().read(chunk, &[]).await?.records);
            }
            Ok((records, Jobs::over(&client).nodes().await?.len()))
        });
        let (records, left) = read.map_err(io::Error::other)?;
        let to_tally = |(record, job): (bandog::Result<Option<Record>>, usize)| {
            let record = record.map_err(io::Error::other)?.ok_or_else(|| io::Error::other("a job has no record"))?;
            let json: serde_json::Value = serde_json::from_str(&record.value)?;
            Ok(tally(&json, jobs::declared(job).period))
        };
        Ok((records.into_iter().zip(0..).map(to_tally).collect::<io::Result<_>>()?, left))
    }
}

/// The counters in the record of a job.
fn tally(record: &serde_json::Value, period: Ms) -> Tally {
    let ms = |key: &str| record[key].as_i64().unwrap_or_default();
    let count = |key: &str| record["counts"][key].as_u64().unwrap_or_default();
    let len = |key: &str| record[key].as_array().map_or(0, |all| all.len() as u64);
    // The anchor is a time in the record of the job. The first tick of a job with a fixed rate is at the anchor. The
    // first tick of a job with a cron expression is at the next whole second.
    let first = if period == 1000 { (ms("anchor") + 999) / 1000 * 1000 } else { ms("anchor") };
    Tally {
        first,
        watermark: ms("watermark"),
        ok: count("ok"),
        failed: count("failed") + count("cancelled"),
        skipped: count("skipped"),
        missed: count("missed"),
        lost: count("lost"),
        running: len("running"),
        queued: len("queue"),
    }
}

/// The file for the records of this node.
fn log(dir: &Path, node: u32) -> PathBuf {
    dir.join(format!("node-{node}"))
}

/// Reads the records of all nodes. Returns the started runs, and adds the recorded faults to `harms`.
fn read(dir: &Path, nodes: u32, harms: &mut Vec<Harm>) -> io::Result<Vec<Start>> {
    let mut starts: Vec<Start> = Vec::new();
    for node in 0..nodes {
        let path = log(dir, node);
        let text = if path.exists() { std::fs::read_to_string(path)? } else { String::new() };
        let mut open = HashMap::new();
        for line in text.lines() {
            let bad = || io::Error::other(format!("node {node} wrote {line:?}"));
            read_line(node, line, &mut starts, &mut open, harms).ok_or_else(bad)?;
        }
    }
    starts.sort_by_key(|start| start.at);
    Ok(starts)
}

/// Reads one line of a node's records. `open` contains the runs that have not ended yet: the key is the job and the
/// fence, and the value is the index of the run in `starts`.
fn read_line(
    node: u32,
    line: &str,
    starts: &mut Vec<Start>,
    open: &mut HashMap<(usize, u64), usize>,
    harms: &mut Vec<Harm>,
) -> Option<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["began", job, tick, attempt, id, fence, at, store] => {
            let (job, fence) = (job.parse().ok()?, fence.parse().ok()?);
            let (tick, attempt, id) = (tick.parse().ok()?, attempt.parse().ok()?, id.parse().ok()?);
            let (at, store) = (at.parse().ok()?, store.parse().ok()?);
            open.insert((job, fence), starts.len());
            starts.push(Start { job, tick, attempt, id, fence, node, at, store, end: None });
        }
        ["ended", job, fence, at, end] => {
            let end = match end {
                "Ok" => End::Ok,
                "Failed" => End::Failed,
                "Cancelled" => End::Cancelled,
                "Dropped" => End::Dropped,
                _ => return None,
            };
            let index = open.remove(&(job.parse().ok()?, fence.parse().ok()?))?;
            starts[index].end = Some((at.parse().ok()?, end));
        }
        ["starved", from, to] => {
            let (from, to) = (from.parse().ok()?, to.parse().ok()?);
            harms.push(Harm { kind: HarmKind::Starved, node: Some(node), from, to });
        }
        _ => return None,
    }
    Some(())
}

fn nanos(duration: Duration) -> Nanos {
    crate::history::nanos(duration)
}
