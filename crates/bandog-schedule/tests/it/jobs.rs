//! Commands of operators, over the memory store and a clock that starts at a known instant.

mod pauses;
mod queries;
mod unknown;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_core::{Clock, ErrorKind, Key, Memory, Pattern, Records, Swap};
use bandog_cron::Time;
use bandog_schedule::{DayMatch, Daylight, Job, JobRow, Jobs, Kind, Run, RunRow, Running, Scheduler, State};
use bandog_sync::Client;
use bandog_testkit::eventually_async;
use futures_util::future::join_all;
use tokio::{sync::Semaphore, time};

/// The time at which every test starts.
const START: &str = "2026-06-01T00:00:00Z";
/// Timeout of each wait. It passes only if the test fails.
const SOON: Duration = Duration::from_secs(60);
/// A job that does not fire during any test.
const NEVER: &str = "0 0 2 1 1 ?";
const EACH_SECOND: &str = "* * * * * ?";

fn at(text: &str) -> Time {
    text.parse().unwrap()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A store, an operator's client, and a log of what the bodies did.
struct Site {
    clock: Clock,
    store: Memory,
    jobs: Jobs,
    log: Arc<Mutex<Vec<(String, Run)>>>,
    /// Each permit ends one run.
    gate: Arc<Semaphore>,
}

impl Site {
    fn new() -> Self {
        let clock = Clock::tokio().set_to(at(START).into());
        let store = Memory::new(clock);
        let jobs = Jobs::over(&client(clock, &store, None)).by("ann@desk");
        Self { clock, store, jobs, log: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }

    fn client(&self, prefix: Option<&str>) -> Client {
        client(self.clock, &self.store, prefix)
    }

    /// Starts a node with these jobs.
    async fn node(&self, jobs: impl IntoIterator<Item = Job>) -> Running {
        Scheduler::over(&self.client(None)).pool(16).jobs(jobs).start().await.unwrap()
    }

    /// A job whose runs end with a permit of the gate, or when they are cancelled.
    fn held(&self, job: Job) -> Job {
        let (log, gate) = (Arc::clone(&self.log), Arc::clone(&self.gate));
        job.run(move |run: Run| {
            let (log, gate) = (Arc::clone(&log), Arc::clone(&gate));
            async move {
                log.lock().unwrap().push(("begins".into(), run.clone()));
                tokio::select! { biased;
                    () = run.cancelled() => {
                        log.lock().unwrap().push(("is cancelled".into(), run.clone()));
                        Err("it was cancelled")
                    }
                    permit = gate.acquire() => {
                        permit.unwrap().forget();
                        log.lock().unwrap().push(("ends".into(), run.clone()));
                        Ok(())
                    }
                }
            }
        })
    }

    /// A job whose runs end immediately.
    fn quick(&self, job: Job) -> Job {
        let log = Arc::clone(&self.log);
        job.run(move |run: Run| {
            log.lock().unwrap().push(("begins".into(), run));
            async {}
        })
    }

    /// The log, with lines such as `1 begins`.
    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().map(|(what, run)| format!("{} {what}", run.id())).collect()
    }

    /// The ticks of the started runs of this kind.
    fn ticks(&self, kind: Kind) -> Vec<Time> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|(what, run)| what == "begins" && run.kind() == kind).map(|(_, run)| run.tick()).collect()
    }

    async fn show(&self, name: &str) -> JobRow {
        self.jobs.show(name).await.unwrap()
    }

    async fn history(&self, name: &str) -> Vec<(u64, State)> {
        self.jobs.history(name).await.unwrap().iter().map(|run| (run.id, run.state)).collect()
    }

    /// Waits until this number of runs of the job has succeeded.
    async fn ok(&self, name: &str, many: u64) {
        eventually_async(SOON, async || self.show(name).await.ok == many).await;
    }
}

fn client(clock: Clock, store: &Memory, prefix: Option<&str>) -> Client {
    let options = Client::options().clock(clock).on_current_runtime();
    let options = if let Some(prefix) = prefix { options.prefix(prefix) } else { options };
    options.over(store.clone()).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: bandog_core::Result<T>, text: &str) {
    let error = result.unwrap_err();
    assert!(error.kind() == ErrorKind::Misused && error.to_string().contains(text), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_run_by_hand_waits_for_the_one_that_runs() {
    let site = Site::new();
    let _node = site.node([site.held(Job::cron("x", NEVER))]).await;
    assert_eq!(site.jobs.run("x").await.unwrap(), 1);
    eventually_async(SOON, async || site.log() == ["1 begins"]).await;
    assert_eq!(site.jobs.run("x").await.unwrap(), 2);
    time::sleep(secs(5)).await;
    let row = site.show("x").await;
    assert_eq!((row.queued, row.live.len(), row.live[0].id), (1, 1, 1));
    assert_eq!(site.history("x").await, [(2, State::Queued), (1, State::Running)]);
    site.gate.add_permits(2);
    site.ok("x", 2).await;
    assert_eq!(site.log(), ["1 begins", "1 ends", "2 begins", "2 ends"]);
    assert_eq!(site.history("x").await, [(2, State::Ok), (1, State::Ok)]);
}

#[tokio::test(start_paused = true)]
async fn a_node_notices_a_command_within_about_a_second() {
    let site = Site::new();
    let _node = site.node([site.quick(Job::cron("x", NEVER))]).await;
    time::sleep(secs(10)).await;
    for nth in 1..=5 {
        let asked = time::Instant::now();
        site.jobs.run("x").await.unwrap();
        site.ok("x", nth).await;
        assert!(asked.elapsed() < Duration::from_millis(1200), "{:?}", asked.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_paused_or_disabled_runs_by_hand() {
    let site = Site::new();
    let jobs = [Job::cron("paused", EACH_SECOND), Job::cron("off", EACH_SECOND).disabled()];
    let other = site.node(jobs.map(|job| site.quick(job))).await;
    site.jobs.pause("paused", "the moon").await.unwrap();
    other.stop().await.unwrap();
    let before = site.show("paused").await.ok;
    site.log.lock().unwrap().clear();
    // The pause also applies to nodes that start later.
    let jobs = [Job::cron("paused", EACH_SECOND), Job::cron("off", EACH_SECOND).disabled()];
    let _node = site.node(jobs.map(|job| site.quick(job))).await;
    time::sleep(secs(10)).await;
    assert_eq!(site.log(), [""; 0]);
    for name in ["paused", "off"] {
        site.jobs.run(name).await.unwrap();
    }
    site.ok("paused", before + 1).await;
    site.ok("off", 1).await;
    time::sleep(secs(10)).await;
    assert_eq!((site.log().len(), site.ticks(Kind::Manual).len()), (2, 2));
    assert_eq!((site.show("paused").await.next, site.show("off").await.next), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_pause_skips_ticks_and_adds_a_history_line_at_its_first_tick_and_at_its_end() {
    let site = Site::new();
    let _node = site.node([site.quick(Job::cron("x", EACH_SECOND))]).await;
    time::sleep(Duration::from_millis(5500)).await;
    site.jobs.pause("x", "first").await.unwrap();
    site.jobs.pause("x", "the moon").await.unwrap();
    let paused = site.show("x").await.paused.unwrap();
    assert_eq!((paused.by.as_str(), paused.reason.as_str()), ("ann@desk", "the moon"));
    assert!(paused.at.starts_with("2026-06-01T00:00:05."), "{paused:?}");
    time::sleep(secs(20)).await;
    assert!(site.jobs.resume("x").await.unwrap());
    assert!(!site.jobs.resume("x").await.unwrap(), "the job is no longer paused");
    time::sleep(secs(5)).await;
    let skipped: Vec<RunRow> =
        site.jobs.history("x").await.unwrap().into_iter().filter(|run| run.state == State::Skipped).collect();
    let [rest, start] = &skipped[..] else { panic!("two lines: {skipped:?}") };
    assert!(start.ticks == 1 && start.note.as_ref().unwrap().starts_with("paused by ann@desk: the moon"), "{start:?}");
    let skipped = RunRow { from: start.from.clone(), ticks: rest.ticks + 1, ..rest.clone() };
    assert_eq!(site.show("x").await.skipped, skipped.ticks);
    // The tick of each second either ran or was skipped, and no tick did both.
    let (first, last) = (at(skipped.from.as_ref().unwrap()).second(), at(&skipped.tick).second());
    assert_eq!(last - first + 1, i64::try_from(skipped.ticks).unwrap());
    let ran = site.ticks(Kind::Scheduled).into_iter().map(Time::second);
    let mut all: Vec<i64> = ran.chain(first..=last).collect();
    all.sort_unstable();
    assert!(all.windows(2).all(|two| two[1] == two[0] + 1), "{all:?}");
    assert!(all.len() >= 29 && skipped.ticks >= 19, "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_is_notified_and_a_queued_one_never_starts() {
    let site = Site::new();
    let _node = site.node([site.held(Job::cron("x", NEVER))]).await;
    for id in 1..=3 {
        assert_eq!(site.jobs.run("x").await.unwrap(), id);
    }
    eventually_async(SOON, async || site.log() == ["1 begins"]).await;
    assert_eq!(site.jobs.cancel("x", Some(2)).await.unwrap(), [2]);
    assert_eq!(site.jobs.cancel("x", Some(2)).await.unwrap(), [0; 0]);
    assert_eq!(site.history("x").await, [(3, State::Queued), (1, State::Running), (2, State::Cancelled)]);
    let asked = time::Instant::now();
    assert_eq!(site.jobs.cancel("x", None).await.unwrap(), [1, 3]);
    eventually_async(SOON, async || site.show("x").await.live.is_empty()).await;
    assert!(asked.elapsed() < Duration::from_millis(1200), "its node noticed it after {:?}", asked.elapsed());
    assert_eq!(site.log(), ["1 begins", "1 is cancelled"]);
    assert_eq!(site.history("x").await, [(1, State::Cancelled), (3, State::Cancelled), (2, State::Cancelled)]);
    assert_eq!(site.jobs.cancel("x", None).await.unwrap(), [0; 0]);
    assert_eq!((site.show("x").await.cancelled, site.show("x").await.failed), (3, 0));
    // The job continues.
    site.gate.add_permits(1);
    assert_eq!(site.jobs.run("x").await.unwrap(), 4);
    site.ok("x", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ignores_its_cancellation_is_dropped_after_its_grace() {
    let site = Site::new();
    let deaf = Job::cron("deaf", NEVER).grace(secs(3)).run(async |_: Run| std::future::pending::<()>().await);
    let _node = site.node([deaf]).await;
    site.jobs.run("deaf").await.unwrap();
    eventually_async(SOON, async || site.show("deaf").await.live.len() == 1).await;
    let asked = time::Instant::now();
    site.jobs.cancel("deaf", Some(1)).await.unwrap();
    eventually_async(SOON, async || site.history("deaf").await == [(1, State::Cancelled)]).await;
    assert!(asked.elapsed() >= secs(3) && asked.elapsed() < secs(5), "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_backfill_runs_the_ticks_of_a_range_in_order() {
    let site = Site::new();
    let _node = site.node([site.quick(Job::cron("x", "0 0 3 * * ?").zone("Europe/Berlin"))]).await;
    let before = site.show("x").await.watermark;
    let (from, to) = (at("2026-03-28T02:00:00Z"), at("2026-03-31T01:00:00Z"));
    // The clocks are set forward on the 29th.
    let ticks =
        ["2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z", "2026-03-31T01:00:00Z"].map(at);
    assert_eq!(site.jobs.ticks("x", from, to).await.unwrap(), ticks);
    assert_eq!(site.jobs.backfill("x", from, to).await.unwrap(), 4);
    site.ok("x", 4).await;
    assert_eq!(site.ticks(Kind::Backfill), ticks);
    assert_eq!(site.jobs.backfill("x", to, to).await.unwrap(), 1, "a tick that ran before runs again");
    site.ok("x", 5).await;
    assert_eq!(site.show("x").await.watermark, before, "a backfill does not change the watermark");
}

#[tokio::test(start_paused = true)]
async fn a_backfill_with_a_wrong_range_is_refused() {
    let site = Site::new();
    let jobs = [
        Job::cron("x", EACH_SECOND),
        Job::fixed_rate("rate", secs(60)),
        Job::fixed_delay("delay", secs(60)),
        Job::at("then", at("2026-05-01T00:00:00Z")),
    ];
    let node = site.node(jobs.map(|job| site.quick(job))).await;
    node.stop().await.unwrap();
    let (day, start) = (at("2026-05-30T00:00:00Z"), at(START));
    refused(site.jobs.backfill("x", day, start).await, "more than 10000 ticks");
    refused(site.jobs.backfill("x", start, at("2027-01-01T00:00:00Z")).await, "is in the future");
    refused(site.jobs.backfill("x", start, day).await, "begins at 2026-06-01T00:00:00Z, after its end at 2026-05-30");
    refused(site.jobs.backfill("delay", day, start).await, "fixed delay");
    refused(site.jobs.backfill("rate", day, at("2026-05-31T00:00:00Z")).await, "has no tick from");
    refused(site.jobs.backfill("nobody", day, start).await, "knows no job");
    assert_eq!(site.jobs.backfill("then", at("2026-04-01T00:00:00Z"), start).await.unwrap(), 1);
    // No node runs these jobs, so the runs are queued, up to the maximum.
    let hours = |hours: i64| Time::from_second(day.second() + hours * 3600);
    assert_eq!(site.jobs.backfill("x", day, hours(2)).await.unwrap(), 7201);
    refused(
        site.jobs.backfill("x", day, hours(1)).await,
        "7201 runs of job \"x\" are queued already; the maximum is 10000",
    );
    assert_eq!(site.show("x").await.queued, 7201);
    assert_eq!(site.jobs.cancel("x", None).await.unwrap().len(), 7201);
    assert_eq!((site.show("x").await.queued, site.show("x").await.cancelled), (0, 7201));
    let lines = site.history("x").await;
    assert_eq!(lines.len(), 50);
    assert_eq!((lines[0].0, lines[49].0), (7201, 7152), "the history contains the last 50 runs");
}

#[tokio::test(start_paused = true)]
async fn a_job_is_forgotten_unless_it_runs_and_a_node_that_has_it_registers_it_again() {
    let site = Site::new();
    let node = site.node([site.held(Job::cron("x", NEVER))]).await;
    site.jobs.run("x").await.unwrap();
    eventually_async(SOON, async || site.log() == ["1 begins"]).await;
    refused(site.jobs.forget("x").await, "runs now; cancel it first");
    site.gate.add_permits(1);
    site.ok("x", 1).await;
    site.jobs.forget("x").await.unwrap();
    refused(site.jobs.show("x").await, "it knows none");
    refused(site.jobs.forget("x").await, "knows no job");
    time::sleep(secs(60)).await;
    refused(site.jobs.show("x").await, "it knows none");
    node.stop().await.unwrap();
    let node = site.node([site.held(Job::cron("x", NEVER))]).await;
    let row = site.show("x").await;
    assert_eq!((row.ok, row.last, site.history("x").await.len()), (0, None, 0), "the job is new");
    site.gate.add_permits(1);
    assert_eq!(site.jobs.run("x").await.unwrap(), 1);
    site.ok("x", 1).await;
    node.stop().await.unwrap();
    // The queued runs of a job are removed with the job.
    site.jobs.run("x").await.unwrap();
    site.jobs.forget("x").await.unwrap();
    let _node = site.node([site.held(Job::cron("x", NEVER))]).await;
    time::sleep(secs(5)).await;
    assert_eq!(site.show("x").await.queued, 0);
    assert_eq!(site.log(), ["1 begins", "1 ends", "1 begins", "1 ends"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_a_forgotten_job_again_at_its_next_tick() {
    let site = Site::new();
    let _node = site.node([site.quick(Job::cron("x", "0 * * * * ?"))]).await;
    time::sleep(secs(150)).await;
    assert_eq!(site.ticks(Kind::Scheduled).len(), 3, "{:?}", site.ticks(Kind::Scheduled));
    site.jobs.forget("x").await.unwrap();
    time::sleep(secs(20)).await;
    refused(site.jobs.show("x").await, "it knows none");
    time::sleep(secs(40)).await;
    assert_eq!(site.show("x").await.ok, 1, "the job is new");
    let mut ticks = site.ticks(Kind::Scheduled);
    assert_eq!(ticks.len(), 4);
    ticks.dedup();
    assert_eq!(ticks.len(), 4, "no tick ran twice: {ticks:?}");
}

#[tokio::test(start_paused = true)]
async fn many_concurrent_commands_and_ticks_lose_nothing() {
    const COMMANDS: u64 = 60;
    let site = Site::new();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(site.node([site.quick(Job::cron("x", EACH_SECOND)), site.quick(Job::cron("y", EACH_SECOND))]).await);
    }
    let operators: Vec<Jobs> = (0..4).map(|_| Jobs::over(&site.client(None))).collect();
    let commands = (0..COMMANDS).map(|nth| {
        let jobs = &operators[usize::try_from(nth % 4).unwrap()];
        async move {
            time::sleep(Duration::from_millis(nth / 20 * 700)).await;
            jobs.run("x").await.unwrap()
        }
    });
    let pauses = async {
        for _ in 0..10 {
            operators[0].pause("y", "race").await.unwrap();
            time::sleep(Duration::from_millis(370)).await;
            assert!(operators[1].resume("y").await.unwrap());
        }
    };
    let (mut ids, ()) = futures_util::join!(join_all(commands), pauses);
    eventually_async(SOON, async || site.ticks(Kind::Manual).len() == usize::try_from(COMMANDS).unwrap()).await;
    for node in nodes {
        node.stop().await.unwrap();
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), usize::try_from(COMMANDS).unwrap(), "each command creates one run");
    let mut begun: Vec<u64> = {
        let log = site.log.lock().unwrap();
        log.iter().filter(|(_, run)| run.kind() == Kind::Manual).map(|(_, run)| run.id()).collect()
    };
    begun.sort_unstable();
    assert_eq!(begun, ids, "each run started once");
    for name in ["x", "y"] {
        let mut ran: Vec<Time> = {
            let log = site.log.lock().unwrap();
            log.iter()
                .filter(|(_, run)| run.name() == name && run.kind() == Kind::Scheduled)
                .map(|(_, run)| run.tick())
                .collect()
        };
        ran.sort_unstable();
        assert!(ran.windows(2).all(|two| two[0] < two[1]), "no tick of {name} twice: {ran:?}");
        let row = site.show(name).await;
        let ticks = u64::try_from(at(&row.watermark).second() - at(START).second() + 1).unwrap();
        let ran = u64::try_from(ran.len()).unwrap();
        assert_eq!(ran + row.skipped + row.missed, ticks, "every tick of {name} is counted: {row:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_skipped_ticks_of_a_year_are_counted_immediately() {
    let site = Site::new();
    let node = site.node([site.quick(Job::fixed_rate("x", Duration::from_millis(1)))]).await;
    site.jobs.pause("x", "a year off").await.unwrap();
    node.stop().await.unwrap();
    let before = site.show("x").await;
    time::advance(secs(365 * 86_400)).await;
    assert!(site.jobs.resume("x").await.unwrap());
    let row = site.show("x").await;
    let passed = at(&row.watermark).millisecond() - at(&before.watermark).millisecond();
    assert_eq!(row.skipped - before.skipped, passed.unsigned_abs());
    assert!(passed >= 365 * 86_400_000, "{passed}");
}

/// Changes the record as if the store's clock had been ahead by a year at the last claim.
async fn claimed_by_a_clock_that_was_ahead(site: &Site, name: &str) {
    let (client, key) = (site.client(None), Key::new(format!("job/{name}")).unwrap());
    let record =
        client.records().read(std::slice::from_ref(&key), &[]).await.unwrap().records.remove(0).unwrap().unwrap();
    let mut state: serde_json::Value = serde_json::from_str(&record.value).unwrap();
    let later = |time: &serde_json::Value| time.as_i64().map(|ms| ms + 365 * 86_400_000);
    for field in ["/watermark", "/next_due", "/busy/1"] {
        if let Some(time) = state.pointer_mut(field) {
            *time = later(time).into();
        }
    }
    let swap = Swap::new(key, Some(record.version), state.to_string());
    assert!(matches!(client.records().swap(&[swap]).await.unwrap().each[..], [Ok(bandog_core::Swapped::Done(_))]));
}

// Promise: J9
#[tokio::test(start_paused = true)]
async fn a_future_watermark_is_set_back_and_the_history_records_it() {
    let site = Site::new();
    let jobs = || {
        let (cron, rate) = (Job::cron("cron", EACH_SECOND), Job::fixed_rate("rate", secs(2)));
        let only = [Job::once("once"), Job::at("at", at("2026-06-01T00:00:02Z"))];
        let delay = Job::fixed_delay("delay", secs(3));
        [cron, rate, delay].into_iter().chain(only).map(|job| site.quick(job)).collect::<Vec<_>>()
    };
    let node = site.node(jobs()).await;
    time::sleep(secs(5)).await;
    refused(site.jobs.reset("cron", "x").await, "does not lie after the store's time");
    node.stop().await.unwrap();
    for name in ["cron", "rate", "delay", "once", "at"] {
        claimed_by_a_clock_that_was_ahead(&site, name).await;
    }
    let node = site.node(jobs()).await;
    time::sleep(secs(10)).await;
    for name in ["cron", "rate", "delay"] {
        let before = site.show(name).await;
        let fence = before.last.as_ref().unwrap().fence;
        let until = before.rests_until.expect("the watermark is in the future");
        assert!(until.starts_with("2027-06-01T00:00:0"), "{until}");
        site.jobs.reset(name, "the clock of the store").await.unwrap();
        site.ok(name, before.ok + 3).await;
        let after = site.show(name).await;
        assert!(after.last.unwrap().fence > fence && after.rests_until.is_none(), "{name}");
        refused(site.jobs.reset(name, "again").await, "nothing to set back");
        let history = site.jobs.history(name).await.unwrap();
        let line = history.iter().find(|line| line.state == State::Reset).unwrap();
        let note = line.note.clone().unwrap();
        assert!(note.starts_with("ann@desk set it back from 2027-06-01") && note.ends_with(": the clock of the store"));
        assert_eq!((line.id, &line.tick), (0, &until));
        assert!(line.from.as_ref().unwrap().starts_with("2026-06-01"), "{line:?}");
    }
    for name in ["once", "at"] {
        refused(site.jobs.reset(name, "x").await, "was claimed already, and would run again");
    }
    node.stop().await.unwrap();
}
