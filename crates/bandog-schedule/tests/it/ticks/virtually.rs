//! Runs replicas on a virtual clock. The replicas are nodes in one process. A day of virtual time takes about a minute
//! of real time. The seed determines the whole run.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    history::{End, Harm, HarmKind, History, Life, Ms, Nanos, Orphan, SECOND, Start, Tally, Terms},
    jobs::{self, Witness},
    schedule::{Run, TestScheduler},
};

/// The start of the virtual clock.
const BEGIN: &str = "2026-11-20T07:30:00Z";
/// The start of the virtual clock in milliseconds since 1970.
const BEGIN_MS: Ms = 1_795_159_800_000;
/// The lease of a replica.
const LEASE: Duration = Duration::from_secs(10);
/// Interval at which replicas check each other, in virtual time.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum number of replicas that are down at a time.
const DOWN: usize = 3;

/// The parameters of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) jobs: usize,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
}

/// Runs the replicas on a runtime with a paused clock.
///
/// # Panics
/// If a replica cannot start or stop.
pub(crate) fn run(size: Size) -> History {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    fastrand::seed(size.seed);
    runtime.expect("a runtime").block_on(storm(size))
}

async fn storm(size: Size) -> History {
    let recorder = Recorder::new();
    let skews = std::iter::repeat_with(|| fastrand::i64(-90..=90)).take(10_000);
    let started = AtomicU32::new(0);
    let declared = |node: u32| (0..size.jobs).map(|job| jobs::job(job, recorder.of(node))).collect::<Vec<_>>();
    let setting = TestScheduler::at(BEGIN).replicas(size.nodes).skew(skews).pool(200).lease(LEASE);
    let test = setting.start(|| declared(started.fetch_add(1, Relaxed))).await.expect("replicas start");
    let mut cluster = Cluster {
        test,
        jobs: size.jobs,
        alive: (0..started.load(Relaxed)).collect(),
        next: started.load(Relaxed),
        lives: BTreeMap::new(),
        harms: vec![],
        orphans: vec![],
    };
    let end = Instant::now() + Duration::from_secs(size.seconds);
    while Instant::now() < end {
        cluster.test.advance(Duration::from_millis(fastrand::u64(500..15_000))).await;
        cluster.harm(size.nodes, &recorder, &declared).await;
    }
    let over = recorder.now();
    cluster.test.advance((LEASE + CHECK_INTERVAL) * 2).await;
    for node in std::mem::take(&mut cluster.alive) {
        cluster.stop(node, &recorder).await;
    }
    let Cluster { test, mut lives, harms, next, orphans, .. } = cluster;
    let left = test.jobs().nodes().await.expect("the store answers").len();
    for node in 0..next {
        lives.entry(node).or_default();
    }
    let mut tallies = Vec::new();
    for job in 0..size.jobs {
        tallies.push(tally(&test, job).await);
    }
    let jobs = (0..size.jobs).map(jobs::declared).collect();
    let terms = Terms { lease: nanos(LEASE), check_interval: nanos(CHECK_INTERVAL), slack: SECOND / 10, over };
    History { jobs, tallies, starts: recorder.take(), lives, harms, orphans, left, terms }
}

/// The final counters of a job.
async fn tally(test: &TestScheduler, job: usize) -> Tally {
    let declared_job = jobs::declared(job);
    let row = test.jobs().show(&declared_job.name).await.expect("the job is known");
    let watermark = millis(&row.watermark);
    let running = row.live.iter().filter(|row| row.started.is_some()).count() as u64;
    let (ok, failed, skipped, missed, lost) = (row.ok, row.failed + row.cancelled, row.skipped, row.missed, row.lost);
    Tally { first: BEGIN_MS, watermark, ok, failed, skipped, missed, lost, running, queued: row.queued }
}

fn millis(time: &str) -> Ms {
    parse_as(Run::tick, time).expect("a row has times").millisecond()
}

/// Parses a text. The type of the result is the return type of the function in the first argument. So this module does
/// not have to import the type of ticks.
fn parse_as<T: std::str::FromStr>(_: fn(&Run) -> T, text: &str) -> Option<T> {
    text.parse().ok()
}

struct Cluster {
    test: TestScheduler,
    jobs: usize,
    /// The numbers of the replicas that are running.
    alive: Vec<u32>,
    /// The number of the next replica.
    next: u32,
    lives: BTreeMap<u32, Life>,
    harms: Vec<Harm>,
    /// Runs that were recorded as running although the session of their node had ended.
    orphans: Vec<Orphan>,
}

impl Cluster {
    /// Injects a random fault or no fault. Afterwards starts new replicas in the place of ended replicas: always if too
    /// many replicas are down, otherwise by chance.
    async fn harm(
        &mut self,
        nodes: usize,
        recorder: &Recorder,
        declared: &(impl Fn(u32) -> Vec<super::schedule::Job> + Sync),
    ) {
        let can_lose_one = self.alive.len() + DOWN > nodes;
        let at = fastrand::usize(..self.alive.len());
        match fastrand::u8(..12) {
            0..2 if can_lose_one => {
                let node = self.alive.swap_remove(at);
                let now = recorder.now();
                self.lives.insert(node, Life { killed: Some(now), asked: None });
                self.harms.push(Harm { kind: HarmKind::Kill, node: Some(node), from: now, to: now });
                recorder.close(node);
                self.test.crash(node as usize);
            }
            2..4 if can_lose_one => {
                let node = self.alive.swap_remove(at);
                self.stop(node, recorder).await;
            }
            4..6 => {
                let node = self.alive[at];
                self.cut(HarmKind::Cut, &[node], recorder).await;
            }
            6 => self.cut(HarmKind::Store, &self.alive.clone(), recorder).await,
            7 => self.evict(fastrand::u32(1..=5), recorder).await,
            _ => {}
        }
        while self.alive.len() < nodes && (self.alive.len() + DOWN <= nodes || fastrand::bool()) {
            self.test.join(declared(self.next)).await.expect("a replica joins");
            self.alive.push(self.next);
            self.next += 1;
        }
    }

    /// Disconnects these replicas from the store for a random time.
    async fn cut(&mut self, kind: HarmKind, nodes: &[u32], recorder: &Recorder) {
        let from = recorder.now();
        nodes.iter().for_each(|node| self.test.cut(*node as usize));
        self.test.advance(Duration::from_millis(fastrand::u64(100..40_000))).await;
        nodes.iter().for_each(|node| self.test.mend(*node as usize));
        let node = nodes.first().copied().filter(|_| kind == HarmKind::Cut);
        self.harms.push(Harm { kind, node, from, to: recorder.now() });
    }

    /// Removes the session with this number from the store. A short time later, records the runs of the session's node
    /// that the store still has as running.
    async fn evict(&mut self, session: u32, recorder: &Recorder) {
        let from = recorder.now();
        if !self.test.evict_session(session).await.expect("the store answers") {
            return;
        }
        self.harms.push(Harm { kind: HarmKind::Evicted, node: None, from, to: from + nanos(LEASE) / 3 });
        let ended = store_time(from);
        self.test.advance(LEASE / 20).await;
        for job in 0..self.jobs {
            let row = self.test.jobs().show(&jobs::declared(job).name).await.expect("the job is known");
            for run in row.live.iter().filter(|run| run.orphaned) {
                let claimed = run.started.as_deref().map_or(ended, millis);
                self.orphans.push(Orphan { job, id: run.id, claimed, ended });
            }
        }
    }

    /// Asks a replica to stop, and waits for its end.
    async fn stop(&mut self, node: u32, recorder: &Recorder) {
        let from = recorder.now();
        self.lives.insert(node, Life { killed: None, asked: Some(from) });
        self.test.stop_one(node as usize, Duration::from_millis(100)).await.expect("a replica stops");
        self.harms.push(Harm { kind: HarmKind::Stop, node: Some(node), from, to: recorder.now() });
    }
}

/// The records of all replicas.
#[derive(Clone)]
struct Recorder {
    began: Instant,
    starts: Arc<Mutex<Vec<Start>>>,
    /// The runs that have not ended.
    open: Arc<Mutex<Open>>,
}

/// The indexes in `starts` of the runs that have not ended, by job, fence and node.
type Open = HashMap<(usize, u64, u32), usize>;

impl Recorder {
    fn new() -> Self {
        Self { began: Instant::now(), starts: Arc::default(), open: Arc::default() }
    }

    /// The recorder for this replica.
    fn of(&self, node: u32) -> NodeRecorder {
        NodeRecorder { recorder: self.clone(), node }
    }

    fn now(&self) -> Nanos {
        nanos(self.began.elapsed())
    }

    /// Forgets the open runs of a killed node, so that the ends of these runs are not recorded.
    fn close(&self, node: u32) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(.., of), _| *of != node);
    }

    /// Takes all recorded runs out of the recorder.
    fn take(&self) -> Vec<Start> {
        std::mem::take(&mut *self.starts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Clone)]
struct NodeRecorder {
    recorder: Recorder,
    node: u32,
}

impl Witness for NodeRecorder {
    fn begins(&self, job: usize, run: &Run) {
        let mut starts = self.recorder.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, node, fence) = (self.recorder.now(), self.node, run.fence().get());
        self.recorder.open.lock().unwrap_or_else(PoisonError::into_inner).insert((job, fence, node), starts.len());
        let store = store_time(at);
        let (tick, attempt, id) = (run.tick().millisecond(), run.attempt(), run.id());
        starts.push(Start { job, tick, attempt, id, fence, node, at, store, end: None });
    }

    fn ends(&self, job: usize, run: &Run, end: End) {
        let at = self.recorder.now();
        let mut open = self.recorder.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = open.remove(&(job, run.fence().get(), self.node)) {
            self.recorder.starts.lock().unwrap_or_else(PoisonError::into_inner)[index].end = Some((at, end));
        }
    }
}

/// The time of the store's clock when the time `at` has passed since the start of the test.
fn store_time(at: Nanos) -> Ms {
    BEGIN_MS + Ms::try_from(at / 1_000_000).expect("some years at most")
}

/// A duration in nanoseconds.
fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).expect("some centuries at most")
}
