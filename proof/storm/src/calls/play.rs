//! One run on one store: first traffic with faults, then the end of all clients, then the reading of all objects.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bandog::{Client, ConnectOptions};
use bandog_testkit::ServerClock;

use super::{
    args::PlayArgs,
    call::Words,
    progress::Progress,
    recorded::Recorded,
    report::{Figures, Report},
    stranger::Stranger,
};
use crate::{
    fault::{Fault, FaultKind},
    history::{Files, Log, Nanos, now},
    nemesis::{Nemesis, Target},
    plan::TIMEOUT,
    probe::Probe,
    settings::{Profile, StoreKind, TrafficKind, name},
    test_store::{Purpose, TestStore},
    worker_pool::{Home, Size, Worker, WorkerPool, is_possible},
};

/// Maximum time without a finished call, also under faults. If no call finishes in this time, the run is stopped.
const STUCK: Duration = Duration::from_secs(30);
/// Number of faults for each kind, on average, after which a kind that never happened is reported.
const OFTEN: usize = 10;
/// Interval of progress checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How one kind of traffic is played on a store.
#[derive(Debug, Clone)]
pub(crate) struct Plays {
    pub(crate) traffic: TrafficKind,
    pub(crate) purpose: Purpose,
    pub(crate) size: Size,
    /// The faults.
    pub(crate) kinds: Vec<FaultKind>,
    pub(crate) target: Target,
    /// Further arguments of the worker processes.
    pub(crate) args: Vec<String>,
    pub(crate) until: Until,
    /// Time between the last fault and the end of the workers.
    pub(crate) rests: Duration,
    /// Timeout for the end of the workers.
    pub(crate) ends_within: Duration,
}

impl Plays {
    /// Plays on a store that keeps its data, with as many workers as the storm on locks has. At the end, the worker of a
    /// memory store also reads all objects, and waits for the leases of clients whose runtime has ended.
    pub(crate) fn of(
        traffic: TrafficKind,
        store: StoreKind,
        kinds: Vec<FaultKind>,
        until: Until,
        profile: Profile,
    ) -> Self {
        Self {
            traffic,
            purpose: Purpose { keeps: true, movable: |_| Vec::new() },
            size: Size::of(store),
            kinds,
            target: Target::LOCKS,
            args: vec!["--profile".to_owned(), name(&profile)],
            until,
            rests: Duration::ZERO,
            ends_within: Duration::from_secs(120),
        }
    }
}

/// When the faults end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// After this number of calls.
    Calls(u64),
    /// After this time.
    Elapsed(Duration),
}

/// A run whose workers have ended.
pub(crate) struct Played {
    traffic: TrafficKind,
    pub(crate) store: StoreKind,
    seed: u64,
    profile: Profile,
    has_long_outages: bool,
    until: Until,
    pub(crate) files: Files,
    pub(crate) pool: WorkerPool,
    pub(crate) faults: Vec<Fault>,
    probes: Vec<Probe>,
    /// Whether the runtimes of clients were ended, and the clients replaced by others with other numbers.
    replaces_clients: bool,
    /// The time at which the faults had ended.
    pub(crate) over: Nanos,
    /// The time at which the workers were ordered to stop.
    pub(crate) stopped: Nanos,
    /// Duration of the traffic, and of the end of the workers.
    took: (Duration, Duration),
    /// Problems that the history does not contain, such as a worker that died.
    pub(crate) wrong: Vec<String>,
    dir: PathBuf,
    keep: bool,
}

/// Makes one run for each store, and prints the reports.
pub(crate) fn run_each(
    stores: Vec<StoreKind>,
    args: &PlayArgs,
    run_on: impl Fn(StoreKind, u64) -> io::Result<Report>,
) -> ExitCode {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut is_well = true;
    for store in stores {
        match run_on(store, seed) {
            Ok(report) => {
                report.print(args.json);
                is_well &= report.is_well();
            }
            Err(error) => {
                eprintln!("storm: {store}: {error}");
                is_well = false;
            }
        }
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Played {
    /// Makes calls under faults, and ends the workers.
    ///
    /// # Errors
    /// If the directory of the history cannot be made.
    pub(crate) fn play(plays: Plays, store: StoreKind, seed: u64, args: &PlayArgs) -> io::Result<Self> {
        let Plays { traffic, purpose, size, mut kinds, mut target, until, rests, ends_within, .. } = plays;
        target.has_long_outages = args.long_outages;
        let start = Instant::now();
        let (dir, keep) = directory(store, args.keep.as_deref())?;
        let files = Files::in_dir(&dir);
        kinds.retain(|kind| is_possible_here(*kind, &files));
        // The servers start with it.
        let clock = server_clock(&mut kinds);
        if kinds.is_empty() && !args.profile.is_calm() {
            let profile = name(&args.profile);
            eprintln!("the profile {profile} contains no fault that is possible on the store {store}");
        }
        let test_store = TestStore::open(store, &dir, purpose);
        let probes = test_store.probes();
        let has_stranger = traffic == TrafficKind::Grid && args.profile.has(Profile::Strangers);
        let strangers: Vec<_> = test_store.servers().iter().map(|server| server.addr().into()).collect();
        let stranger = (has_stranger && !strangers.is_empty()).then(|| Stranger::start(strangers, seed));
        let mut pool = WorkerPool::start(test_store, files.clone(), size, seed, traffic, plays.args);
        let mut nemesis = Nemesis::new(kinds.clone(), seed, target, &pool.store, clock);
        let mut wrong = Vec::new();
        let what = format!("{} on {store}, until {until}", name(&traffic));
        let faults = storm(&mut pool, &mut nemesis, until, Progress::new(what), &mut wrong);
        print_missing(&kinds, &faults);
        let (over, traffic_took) = (now(), start.elapsed());
        thread::sleep(rests);
        let stopped = now();
        let ended_in = end_workers(&mut pool, ends_within, &mut wrong);
        drop(stranger);
        let (replaces_clients, took) = (kinds.contains(&FaultKind::RuntimeEnded), (traffic_took, ended_in));
        let profile = args.profile;
        Ok(Self {
            traffic,
            store,
            seed,
            profile,
            has_long_outages: args.long_outages,
            until,
            files,
            pool,
            faults,
            probes,
            replaces_clients,
            over,
            stopped,
            took,
            wrong,
            dir,
            keep,
        })
    }

    fn is_memory(&self) -> bool {
        matches!(self.pool.store, TestStore::Memory)
    }

    /// Reads all objects with a client of this process. The worker of a memory store has done so.
    pub(crate) fn drain(&mut self, drain: impl AsyncFnOnce(&Client, &Self) -> Vec<String>) {
        if self.is_memory() {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let drained = runtime.block_on(async {
            // The index of clients in the store lasts as long as the longest ttl of its clients. So this client has the
            // same ttl as the other clients.
            let options = ConnectOptions::parse(self.pool.store.url())?.watchdog(self.pool.size.ttl);
            let client = options.timeout(TIMEOUT).connect().await?;
            let wrong = drain(&client, self).await;
            client.idle().await;
            client.close().await?;
            bandog::Result::Ok(wrong)
        });
        self.wrong.extend(drained.unwrap_or_else(|error: bandog::Error| vec![error.to_string()]));
    }

    /// Writes the faults to the history, and reads what the clients have recorded.
    ///
    /// # Errors
    /// If the history cannot be written or read.
    pub(crate) fn read<W: Words>(&mut self) -> io::Result<Recorded<W>> {
        let probed: Vec<_> = self.probes.drain(..).flat_map(|probe| probe.faults(&self.faults)).collect();
        self.faults.extend(probed);
        let log = Log::open(&self.files.faults());
        self.faults.iter().for_each(|fault| log.write(fault));
        let mut recorded = Recorded::read(&self.files, &self.pool.lives, &self.faults)?;
        let disturbances = &mut recorded.disturbances;
        disturbances.has_locks = self.store.has_locks();
        // The calls of a memory store have no timeout while they are held. Calls for locks end nevertheless.
        disturbances.holds_calls = self.is_memory() && self.traffic != TrafficKind::Locks;
        if self.is_memory() {
            disturbances.concern_all();
        }
        if self.replaces_clients {
            disturbances.faults.iter_mut().for_each(|fault| fault.client = None);
        }
        Ok(recorded)
    }

    /// Ends the store, and removes the history if nothing is wrong.
    ///
    /// # Errors
    /// If the history cannot be removed.
    pub(crate) fn report(self, figures: Figures) -> io::Result<Report> {
        let Self { traffic, store, seed, profile, has_long_outages, until, pool, took, wrong, dir, keep, .. } = self;
        let command = match traffic {
            TrafficKind::Locks => format!("storm {store}"),
            TrafficKind::Ticks => format!("storm ticks --store {store}"),
            TrafficKind::Grid | TrafficKind::Work => format!("storm {} {store}", name(&traffic)),
        };
        let limit = match until {
            Until::Calls(calls) => format!("--ops {calls}"),
            Until::Elapsed(time) => format!("--seconds {}", time.as_secs()),
        };
        let long = if has_long_outages { " --long-outages" } else { "" };
        let repeat = format!("cargo xtask {command} {limit} --profile {} --seed {seed}{long}", name(&profile));
        let (mode, store) = (name(&traffic), store.to_string());
        let mut report = Report { mode, store, seed, figures, took, wrong, repeat, kept: None };
        drop(pool);
        if keep || !report.is_well() {
            report.kept = Some(dir);
        } else {
            std::fs::remove_dir_all(&dir)?;
        }
        Ok(report)
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(calls) => write!(f, "{calls} calls"),
            Self::Elapsed(time) => write!(f, "{time:?}"),
        }
    }
}

/// Makes a directory for this run. Returns its path, and whether the directory is kept after the run.
fn directory(store: StoreKind, keep: Option<&Path>) -> io::Result<(PathBuf, bool)> {
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

/// Whether this fault is possible on this machine. Prints it if not.
fn is_possible_here(kind: FaultKind, files: &Files) -> bool {
    let home = match kind {
        FaultKind::TimeNamespace => Home::TimeNamespace(1),
        FaultKind::OtherBoot => Home::OtherBoot,
        _ => return true,
    };
    let is_possible = is_possible(home, files);
    if !is_possible {
        eprintln!("the fault {} is left out, because this user has no permission for `unshare`", kind.word());
    }
    is_possible
}

/// The clock of the servers, if it is set by one of the faults. If that is not possible, the fault is left out.
fn server_clock(kinds: &mut Vec<FaultKind>) -> Option<Arc<ServerClock>> {
    if !kinds.contains(&FaultKind::ClockSetBack) {
        return None;
    }
    let clock = ServerClock::of_new_servers();
    if let Err(error) = &clock {
        eprintln!("the fault {} is left out: {error}", FaultKind::ClockSetBack.word());
        kinds.retain(|kind| *kind != FaultKind::ClockSetBack);
    }
    clock.ok()
}

/// Prints the kinds of faults that never happened, if each of them should have happened several times.
fn print_missing(kinds: &[FaultKind], faults: &[Fault]) {
    if faults.len() < OFTEN * kinds.len() {
        return;
    }
    let missing = kinds.iter().filter(|kind| faults.iter().all(|fault| fault.kind != **kind));
    let missing: Vec<_> = missing.map(|kind| kind.word()).collect();
    if !missing.is_empty() {
        eprintln!("these kinds of faults never happened: {}", missing.join(", "));
    }
}

/// Injects faults until the traffic ends. Returns the faults. If there is a problem, adds the problem to `wrong`, and stops.
fn storm(
    pool: &mut WorkerPool,
    nemesis: &mut Nemesis,
    until: Until,
    mut progress: Progress,
    wrong: &mut Vec<String>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let start = Instant::now();
    let is_over = |pool: &WorkerPool| match until {
        Until::Calls(calls) => pool.done() >= calls,
        Until::Elapsed(time) => start.elapsed() >= time,
    };
    // The number of ended calls at the last progress, and the time of this progress.
    let (mut last_done, mut last_progress) = (0, Instant::now());
    while !is_over(pool) && wrong.is_empty() {
        let until = Instant::now() + nemesis.pause();
        while Instant::now() < until && !is_over(pool) {
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
        } else if last_progress.elapsed() > STUCK + nemesis.longest_outage() {
            wrong.push(format!("no call has ended for {STUCK:?}"));
        }
    }
    progress.end();
    faults
}

/// Ends all clients, within this time. Adds problems to `wrong`. Returns the time that the clients needed to end.
fn end_workers(pool: &mut WorkerPool, within: Duration, wrong: &mut Vec<String>) -> Duration {
    let start = Instant::now();
    for worker in &mut pool.workers {
        worker.process.write_line("stop");
    }
    while !pool.workers.iter().all(Worker::has_ended) && start.elapsed() < within {
        thread::sleep(Duration::from_millis(10));
    }
    let took = start.elapsed();
    let late = pool.workers.iter().filter(|worker| !worker.has_ended());
    wrong.extend(late.map(|worker| format!("worker {} did not end within {within:?}", worker.first)));
    wrong.extend(pool.workers.iter().flat_map(Worker::left));
    took
}
