//! One run on one store: first traffic with faults, then the end of all clients, then the check of the history.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bandog::ConnectOptions;

use crate::{
    args::Args,
    check::{self, History},
    fault::{Fault, FaultKind},
    history::{Files, Log, nanos, now},
    nemesis::{Nemesis, Target},
    plan::{Kind, RESOURCES, TIMEOUT},
    report::Summary,
    settings::{Profile, StoreKind},
    sweep,
    test_store::{LOCKS, TestStore},
    worker_pool::{Home, Size, WorkerPool, is_possible},
};

/// After the faults are removed, all tasks must end within this time. A task might have to wait for several long
/// critical sections, one after the other.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time without a finished call, also under faults. If no call finishes in this time, the run is stopped.
const STUCK: Duration = Duration::from_secs(30);
/// Number of faults for each kind, on average, after which a kind that never happened is reported.
const OFTEN: usize = 10;
/// Interval of progress checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Makes the traffic, checks the history, and returns the report.
///
/// # Errors
/// If the history cannot be written or read.
pub(crate) fn run(store: StoreKind, seed: u64, args: &Args) -> io::Result<Summary> {
    let start = Instant::now();
    let (dir, keep) = directory(store, args.keep.as_deref())?;
    let files = Files::in_dir(&dir);
    let traffic_kinds = traffic_kinds(store, &args.kinds)?;
    let test_store = TestStore::open(store, &dir, LOCKS);
    let kinds = kinds(store, args.profile, &files);
    let evicts = matches!(args.profile, Profile::Server | Profile::Everything);
    let probes = test_store.probes();
    let mut pool =
        WorkerPool::start(test_store, files.clone(), Size::of(store), seed, "worker", &traffic_kinds, evicts);
    let mut nemesis = Nemesis::new(kinds.clone(), seed, Target::LOCKS, &pool.store);
    let mut wrong = Vec::new();
    let mut faults = storm(&mut pool, &mut nemesis, args.ops, store, &mut wrong);
    let traffic = start.elapsed();
    print_missing(&kinds, &faults);
    let ended_in = end_all(&mut pool, &traffic_kinds, &mut wrong);
    faults.extend(probes.iter().flat_map(|probe| probe.faults(&faults)).collect::<Vec<_>>());
    let log = Log::open(&files.faults())?;
    faults.iter().for_each(|fault| log.write(fault));
    let end = now();
    let times = (nanos(pool.size.ttl), nanos(pool.size.place), end);
    let history = History::read(&files, &pool.lives, RESOURCES, faults, times)?;
    let findings = check::check(&history);
    let mut summary = Summary::new(store, seed, args, &history, findings, wrong);
    (summary.traffic, summary.ended_in) = (traffic, ended_in);
    drop(pool);
    if keep || !summary.is_well() {
        summary.kept = Some(dir);
    } else {
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(summary)
}

/// The kinds of traffic that the store has. Prints the others.
fn traffic_kinds(store: StoreKind, kinds: &[Kind]) -> io::Result<Vec<Kind>> {
    let (kinds, others): (Vec<_>, Vec<_>) = kinds.iter().copied().partition(|kind| store.has(*kind));
    if !others.is_empty() {
        let others: Vec<_> = others.into_iter().map(Kind::word).collect();
        eprintln!(
            "these kinds of calls are left out, because the store {store} does not have them: {}",
            others.join(", ")
        );
    }
    if kinds.is_empty() { Err(io::Error::other("no kind of calls is left")) } else { Ok(kinds) }
}

/// Makes a directory for this run. Returns its path, and whether the directory is kept after the run.
pub(crate) fn directory(store: StoreKind, keep: Option<&Path>) -> io::Result<(PathBuf, bool)> {
    match keep {
        Some(keep) => {
            std::fs::create_dir_all(keep)?;
            let dir = tempfile::Builder::new().prefix(&format!("{store}-")).tempdir_in(keep)?;
            Ok((dir.keep(), true))
        }
        None => {
            let mut dir = tempfile::Builder::new();
            let dir = dir.prefix("bandog-storm-");
            // The directory is in memory if possible, because a busy disk would stop all processes at the same time.
            let dir = dir.tempdir_in("/dev/shm").or_else(|_| dir.tempdir())?;
            Ok((dir.keep(), false))
        }
    }
}

/// The kinds of faults that are possible on this machine. Prints the kinds that are not possible.
fn kinds(store: StoreKind, profile: Profile, files: &Files) -> Vec<FaultKind> {
    let mut kinds = FaultKind::of(store, profile);
    kinds.retain(|kind| {
        let home = match kind {
            FaultKind::TimeNamespace => Home::TimeNamespace(1),
            FaultKind::OtherBoot => Home::OtherBoot,
            _ => return true,
        };
        let possible = is_possible(home, files);
        if !possible {
            eprintln!("the fault {} is left out, because this user has no permission for `unshare`", kind.word());
        }
        possible
    });
    if kinds.is_empty() && profile != Profile::Calm {
        eprintln!("the profile {profile} contains no fault that is possible on the store {store}");
    }
    kinds
}

/// Prints the kinds of faults that never happened, if each of them should have happened several times.
pub(crate) fn print_missing(kinds: &[FaultKind], faults: &[Fault]) {
    if faults.len() < OFTEN * kinds.len() {
        return;
    }
    let missing = kinds.iter().filter(|kind| faults.iter().all(|fault| fault.kind != **kind));
    let missing: Vec<_> = missing.map(|kind| kind.word()).collect();
    if !missing.is_empty() {
        eprintln!("these kinds of faults never happened: {}", missing.join(", "));
    }
}

/// Injects faults until the workers have made `ops` calls. Returns the faults. If there is a problem, adds the problem
/// to `wrong`, and stops.
pub(crate) fn storm(
    pool: &mut WorkerPool,
    nemesis: &mut Nemesis,
    ops: u64,
    store: StoreKind,
    wrong: &mut Vec<String>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut progress = Progress::new(store, ops);
    // The number of ended calls at the last progress, and the time of this progress.
    let (mut last_done, mut last_progress) = (0, Instant::now());
    while pool.done() < ops && wrong.is_empty() {
        let until = Instant::now() + nemesis.pause();
        while Instant::now() < until && pool.done() < ops {
            thread::sleep(CHECK_INTERVAL);
            progress.show(pool.done(), faults.len());
            faults.extend(nemesis.promotion(&pool.store));
        }
        if !nemesis.is_idle() {
            let harms = nemesis.begin(pool);
            faults.extend(harms.iter().map(|harm| nemesis.end(pool, harm)).collect::<Vec<_>>());
            faults.extend(nemesis.promotion(&pool.store));
        }
        wrong.append(&mut nemesis.broken);
        wrong.extend(pool.dead());
        if pool.done() > last_done {
            (last_done, last_progress) = (pool.done(), Instant::now());
        } else if last_progress.elapsed() > STUCK {
            wrong.push(format!("no call has ended for {STUCK:?}"));
        }
    }
    progress.end();
    faults
}

/// Ends all clients, takes each lock once, and checks that no data are left in the store. Adds problems to `wrong`.
/// Returns the time that the clients needed to end.
fn end_all(pool: &mut WorkerPool, kinds: &[Kind], wrong: &mut Vec<String>) -> Duration {
    let took = end_workers(pool, END_TIMEOUT, wrong);
    wrong.extend(sweep_from_here(&pool.store, kinds, pool.size.ttl).unwrap_or_else(|error| vec![error.to_string()]));
    wrong.extend(pool.store.left().into_iter().map(|left| format!("data left in the store: {left}")));
    took
}

/// Ends all clients, within this time. Adds problems to `wrong`. Returns the time that the clients needed to end.
pub(crate) fn end_workers(pool: &mut WorkerPool, within: Duration, wrong: &mut Vec<String>) -> Duration {
    let start = Instant::now();
    for worker in &mut pool.workers {
        worker.process.write_line("stop");
    }
    while !pool.workers.iter().all(super::worker_pool::Worker::has_ended) && start.elapsed() < within {
        thread::sleep(Duration::from_millis(10));
    }
    let took = start.elapsed();
    let late = pool.workers.iter().filter(|worker| !worker.has_ended());
    wrong.extend(late.map(|worker| format!("worker {} did not end within {within:?}", worker.first)));
    wrong.extend(pool.workers.iter().flat_map(super::worker_pool::Worker::left));
    took
}

/// Locks and releases each name from this process. Returns the problems. For a memory store, this function does
/// nothing, because the worker process itself makes this check.
fn sweep_from_here(store: &TestStore, kinds: &[Kind], ttl: Duration) -> bandog::Result<Vec<String>> {
    if matches!(store, TestStore::Memory) {
        return Ok(Vec::new());
    }
    let url = store.url();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // The index of clients in the store lasts as long as the longest ttl of its clients. So this client has the
        // same ttl as the other clients.
        let client = ConnectOptions::parse(url)?.watchdog(ttl).timeout(TIMEOUT).connect().await?;
        Ok(sweep::sweep(&client, kinds).await)
    })
}

/// The progress line. On a terminal, the line is rewritten. Elsewhere, a new line is printed at an interval.
struct Progress {
    store: StoreKind,
    ops: u64,
    start: Instant,
    /// The time at which the line was last printed.
    shown: Instant,
    /// The interval at which the line is printed.
    every: Duration,
    terminal: bool,
}

impl Progress {
    fn new(store: StoreKind, ops: u64) -> Self {
        let terminal = io::stderr().is_terminal();
        let every = Duration::from_secs(if terminal { 1 } else { 30 });
        let start = Instant::now();
        Self { store, ops, start, shown: start, every, terminal }
    }

    /// Prints the line if the interval has passed. `done` is the number of ended calls.
    fn show(&mut self, done: u64, faults: usize) {
        if self.shown.elapsed() < self.every {
            return;
        }
        self.shown = Instant::now();
        let (begin, end) = if self.terminal { ("\r", "\x1b[K") } else { ("", "\n") };
        let seconds = self.start.elapsed().as_secs();
        let Self { store, ops, .. } = self;
        let mut stderr = io::stderr().lock();
        // An error is ignored, because the line is for information only.
        let _ = write!(stderr, "{begin}{store}: {done} of {ops} calls, {faults} faults, {seconds} s{end}");
        let _ = stderr.flush();
    }

    /// Removes the line from the terminal.
    fn end(&self) {
        if self.terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
