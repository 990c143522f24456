//! The log: jobs that wait for a slot, wrong clocks, outages, missed ticks, and a span for each run.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{Clock, Key, Memory, Records, Swap};
use bandog_cron::Time;
use bandog_schedule::{CatchUp, Job, OnCrash, Retry, Run, Scheduler, State, TestScheduler};
use bandog_sync::Client;
use bandog_testkit::{LogCapture, eventually_async};
use tokio::time;

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_for_a_slot_is_logged_with_the_jobs_that_run() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let long = || Job::cron("long", "0 0 * * * ?").run(async |_: Run| time::sleep(Duration::from_secs(600)).await);
    let short = || Job::cron("short", "0 * * * * ?").run(async |_: Run| ());
    let test = TestScheduler::at("2026-01-01T00:59:30Z").start(|| vec![long(), short()]).await.unwrap();
    test.advance_to("2026-01-01T01:09:00Z").await;
    let lines = log.lines_with("waits for a slot");
    assert_eq!(lines.len(), 1, "once: {lines:?}");
    let of = |name: &str| lines[0].contains(&format!("job={name}"));
    assert!(lines[0].starts_with("WARN") && (of("short") && lines[0].contains("the pool of 1 runs long")), "{lines:?}");
    let spans = log.lines_with("bandog.run");
    assert!(spans[0].contains("tick=2026-01-01T01:00:00Z attempt=1 fence="), "{spans:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_and_an_outage_are_logged_once() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = || Job::cron("job", "0/10 * * * * ?").run(async |_: Run| ());
    let test = TestScheduler::at("2026-01-01T00:00:05Z").replicas(2).skew([90]).start(|| vec![job()]).await.unwrap();
    test.advance(Duration::from_secs(300)).await;
    let lines = log.lines_with("clock");
    assert!(lines.len() == 1 && lines[0].starts_with("WARN") && lines[0].contains("90"), "{lines:?}");
    test.cut(0);
    test.advance(Duration::from_secs(300)).await;
    test.mend(0);
    test.advance(Duration::from_secs(60)).await;
    assert_eq!(log.lines_with("does not answer: no shared job").len(), 1);
    assert_eq!(log.lines_with("the store answers again").len(), 1);
    // The engine of the locks, which renews the node's session, does not log the outage again.
    assert_eq!((log.lines_with("does not answer").len(), log.lines_with("answers again").len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_is_logged_once() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = || Job::cron("job", "0/10 * * * * ?").run(async |_: Run| ());
    let test = TestScheduler::at("2026-01-01T00:00:05Z").start(|| vec![job()]).await.unwrap();
    test.advance(Duration::from_secs(60)).await;
    test.cut(0);
    test.advance(Duration::from_secs(400)).await;
    test.mend(0);
    test.advance(Duration::from_secs(60)).await;
    let lines: Vec<String> = log.lines_with("lost").into_iter().filter(|line| !line.starts_with("DEBUG")).collect();
    assert!(lines.len() == 1 && lines[0].contains("this node lost its session: it had no run"), "{lines:?}");
    assert!(lines[0].starts_with("WARN"), "{lines:?}");
    assert_eq!((log.lines_with("does not answer").len(), log.lines_with("answers again").len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_with_runs_is_logged_as_an_error() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = || Job::cron("job", "0 0 0 * * ?").run(async |_: Run| time::sleep(Duration::from_secs(900)).await);
    let test = TestScheduler::at("2026-01-01T23:59:50Z").start(|| vec![job()]).await.unwrap();
    test.advance(Duration::from_secs(60)).await;
    assert!(test.evict_session(1).await.unwrap());
    test.advance(Duration::from_secs(60)).await;
    let lines = log.lines_with("this node lost its session");
    assert!(lines.len() == 1 && lines[0].starts_with("ERROR") && lines[0].contains("are dropped"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_runs_is_not_logged_as_finished() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let second = Duration::from_secs(1);
    let job = |name| Job::fixed_delay(name, second).run(async |_: Run| time::sleep(Duration::from_secs(3)).await);
    let past = || Job::at("past", Time::from_millisecond(0)).run(async |_: Run| ());
    let mut test = TestScheduler::at("2026-01-01T00:00:00Z").start(|| vec![job("delay")]).await.unwrap();
    test.advance(second).await;
    assert_eq!(
        (test.runs().len(), test.jobs().show("delay").await.unwrap().next),
        (1, None),
        "the job runs, so it has no next tick"
    );
    test.join(vec![job("delay"), past()]).await.unwrap();
    let lines = log.lines_with("will not fire any more");
    assert!(lines.len() == 1 && lines[0].contains("job=past"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn each_failed_attempt_is_one_log_line() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = || Job::cron("job", "0 * * * * ?").retry(Retry::times(2)).run(async |_: Run| Err::<(), _>("no paper"));
    let test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T00:01:30Z").await;
    let lines = log.lines_with("no paper");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines[..2].iter().all(|line| line.starts_with("WARN") && line.contains("the retry starts in")),
        "{lines:?}"
    );
    assert!(lines[2].starts_with("WARN") && lines[2].contains("the run ended: failed"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_with_other_time_zones_is_logged() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let clock = Clock::tokio();
    let client = Client::options().clock(clock).on_current_runtime().over(Memory::new(clock)).unwrap();
    let session = client.mutex("schedule/node/1").lock().await.unwrap();
    let id = session.holding().id;
    let lines = format!(r#"{{"{id}":{{"session":"schedule/node/1","node":"old:1","zones":"2001a"}}}}"#);
    client.records().swap(&[Swap::new(Key::new("schedule/nodes").unwrap(), None, lines)]).await.unwrap();
    let start = || Scheduler::over(&client).job(Job::cron("x", "@yearly").run(async |_: Run| ())).start();
    let node = start().await.unwrap();
    let warnings = eventually_async(Duration::from_secs(10), async || {
        Some(log.lines_with("of the time-zone table")).filter(|warnings| !warnings.is_empty())
    });
    let warnings = warnings.await;
    assert!(warnings[0].starts_with("WARN") && warnings[0].contains("node old:1 has version 2001a"), "{warnings:?}");
    node.stop().await.unwrap();
    session.release().await.unwrap();
    let node = start().await.unwrap();
    time::sleep(Duration::from_secs(5)).await;
    assert_eq!(log.lines_with("of the time-zone table").len(), 1, "nodes that have ended are ignored");
    node.stop().await.unwrap();
}

/// The number of a field.
fn number(line: &str, field: &str) -> u64 {
    let (_, rest) = line.split_once(&format!(" {field}=")).unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_logged_once_as_a_range() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = || Job::cron("job", "0 * * * * ?").catch_up(CatchUp::Skip).run(async |_: Run| ());
    let well = || Job::cron("well", "0 0 * * * ?").run(async |_: Run| ());
    let mut test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![job(), well()]).await.unwrap();
    test.advance_to("2026-01-01T00:02:30Z").await;
    test.stop_one(0, Duration::ZERO).await.unwrap();
    test.advance_to("2026-01-01T00:12:30Z").await;
    assert_eq!(log.lines_with("ticks"), [""; 0]);
    test.join(vec![job(), well()]).await.unwrap();
    test.advance_to("2026-01-01T00:20:30Z").await;
    let history = test.jobs().history("job").await.unwrap();
    let missed: Vec<_> = history.iter().filter(|run| run.state == State::Missed).collect();
    assert_eq!((missed.len(), missed[0].ticks), (1, 9), "the tick of 00:12 is still in time");
    let lines = "WARN message=ticks were missed: no node ran them in time job=job ticks=9 \
                first=2026-01-01T00:03:00Z last=2026-01-01T00:11:00Z";
    assert_eq!(log.lines_with("ticks"), [lines]);
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_was_lost_with_its_node_is_logged() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = || Job::cron("job", "0 0 * * * ?").run(async |_: Run| time::sleep(Duration::from_secs(600)).await);
    let test = TestScheduler::at("2026-01-01T00:59:30Z").replicas(2).start(|| vec![job()]);
    let mut test = test.await.unwrap();
    test.advance_to("2026-01-01T01:01:00Z").await;
    let replica = test.runs()[0].replica;
    test.crash(replica);
    test.advance_to("2026-01-01T01:10:00Z").await;
    let lines = "WARN message=ticks were lost: the node that ran them died or lost its session job=job ticks=1 \
                first=2026-01-01T01:00:00Z last=2026-01-01T01:00:00Z";
    assert_eq!(log.lines_with("ticks"), [lines]);
}

#[tokio::test(start_paused = true)]
async fn ticks_that_are_missed_all_the_time_do_not_flood_the_log() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let second = Duration::from_secs(1);
    let short = || Job::cron("short", "0/1 * * * * ?").catch_up(CatchUp::Skip).misfire_grace(Duration::ZERO);
    let short = || short().run(async |_: Run| ());
    let test = TestScheduler::at("2026-01-01T00:00:00Z").start(|| vec![short()]).await.unwrap();
    for _ in 0..25 {
        test.cut(0);
        test.advance(3 * second).await;
        test.mend(0);
        test.advance(second).await;
    }
    test.jobs().pause_all("the end").await.unwrap();
    test.advance(20 * second).await;
    let lines = log.lines_with("ticks were missed");
    assert!((5..=12).contains(&lines.len()), "{lines:?}");
    let missed = test.jobs().show("short").await.unwrap().missed;
    assert!(missed > 40, "{missed}");
    assert_eq!(
        lines.iter().map(|line| number(line, "ticks")).sum::<u64>(),
        missed,
        "the lines together contain each missed tick"
    );
}

#[tokio::test(start_paused = true)]
async fn of_very_many_jobs_with_missed_ticks_some_are_logged_one_by_one() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = |nth| Job::cron(format!("job-{nth}"), "0 * * * * ?").catch_up(CatchUp::Skip).run(async |_: Run| ());
    let jobs = || (0..300).map(job).collect();
    let mut test = TestScheduler::at("2026-01-01T00:00:30Z").pool(300).start(jobs).await.unwrap();
    test.stop_one(0, Duration::ZERO).await.unwrap();
    test.advance_to("2026-01-01T00:12:30Z").await;
    test.join(jobs()).await.unwrap();
    test.advance_to("2026-01-01T00:12:50Z").await;
    assert_eq!(log.lines_with("ticks were missed").len(), 100);
    let rest = log.lines_with("ticks of further jobs were missed");
    assert!(rest.len() == 1 && number(&rest[0], "ticks") == 200 * 11, "{rest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_often_down_is_logged_once_in_ten_seconds() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = || Job::fixed_rate("job", Duration::from_millis(100)).run(async |_: Run| ());
    let test = TestScheduler::at("2026-01-01T00:00:05Z").start(|| vec![job()]).await.unwrap();
    test.advance(Duration::from_secs(5)).await;
    for _ in 0..50 {
        test.cut(0);
        time::sleep(Duration::from_millis(400)).await;
        test.mend(0);
        time::sleep(Duration::from_millis(1600)).await;
    }
    let (began, ended) =
        (log.lines_with("the store does not answer").len(), log.lines_with("the store answers again").len());
    assert!((8..=11).contains(&began), "100 s: {began}");
    assert_eq!(began, ended, "each outage that was logged has an end");
    // An outage that begins soon after a logged outage is not logged at first. If it continues, it is logged later.
    test.cut(0);
    time::sleep(Duration::from_secs(15)).await;
    assert_eq!(log.lines_with("the store does not answer").len(), began + 1);
}

#[tokio::test(start_paused = true)]
async fn a_backlog_that_grows_is_a_warning_each_minute() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = |name, takes| {
        let job = Job::fixed_rate(name, Duration::from_secs(1));
        job.run(move |_: Run| time::sleep(Duration::from_millis(takes)))
    };
    let jobs = || vec![job("slow", 1500), job("fast", 900)];
    let test = TestScheduler::at("2026-01-01T00:00:05Z").replicas(2).pool(4).start(jobs).await.unwrap();
    test.advance(Duration::from_secs(200)).await;
    let lines = log.lines_with("the job's runs take longer than its period of 1s");
    assert!((2..=4).contains(&lines.len()) && lines.iter().all(|line| line.contains("job=slow")), "{lines:?}");
    let backlog: Vec<_> = lines.iter().map(|line| (number(line, "before"), number(line, "waiting"))).collect();
    assert!(backlog.iter().all(|(before, waiting)| (15..=25).contains(&(waiting - before))), "{backlog:?}");
    assert!(
        lines[0].contains("ticks wait, ") && lines[0].contains("when 1000 wait, further ticks are skipped"),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_retried_after_a_death_is_a_warning() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = || {
        let job = Job::cron("job", "0 0 * * * ?").on_crash(OnCrash::RetryUpTo(2.try_into().unwrap()));
        job.run(async |_: Run| time::sleep(Duration::from_secs(6000)).await)
    };
    let test = TestScheduler::at("2026-01-01T00:59:30Z").replicas(3).start(|| vec![job()]);
    let mut test = test.await.unwrap();
    test.advance_to("2026-01-01T01:01:00Z").await;
    for _ in 0..2 {
        let replica = test.runs().last().unwrap().replica;
        test.crash(replica);
        test.advance(Duration::from_secs(600)).await;
    }
    let lines = log.lines_with("ticks=1");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("died or lost its session: the run is tried again job=job ticks=1"), "{lines:?}");
    assert!(lines[1].contains("ticks were lost"), "{lines:?}");
}

/// The log of a node while the clock is set back by an hour twice, and after a restart of the node. `over`: whether the
/// node has a store, whose clock is set.
async fn errors_while_the_clock_goes_back(over: bool) -> Vec<String> {
    let jumps: &'static AtomicI64 = Box::leak(Box::default());
    let wall = "2026-01-01T12:00:30Z".parse::<Time>().unwrap().into();
    let clock = Clock::tokio().set_to(wall).jumping_by(jumps);
    let store = Memory::new(clock);
    let node = async || {
        let jobs = [("often", "0 * * * * ?"), ("daily", "0 0 2 * * ?")];
        let jobs = jobs.map(|(name, cron)| Job::cron(name, cron).run(async |_: Run| ()));
        let client = Client::options().clock(clock).on_current_runtime().over(store.clone()).unwrap();
        let scheduler = if over { Scheduler::over(&client) } else { Scheduler::new() };
        scheduler.clock(clock).jobs(jobs).start().await.unwrap()
    };
    let (log, _guard) = LogCapture::of_thread("bandog");
    let running = node().await;
    for back in [1, 2] {
        time::sleep(Duration::from_secs(120)).await;
        jumps.store(-back * 3_600_000_000_000, Relaxed);
    }
    time::sleep(Duration::from_secs(600)).await;
    let often =
        || log.lines_with("does not fire until").into_iter().filter(|line| line.contains("job=often")).collect();
    let lines: Vec<String> = often();
    assert_eq!(lines.len(), 1, "one incident: {lines:?}");
    running.stop().await.unwrap();
    let running = node().await;
    time::sleep(Duration::from_secs(60)).await;
    running.stop().await.unwrap();
    often()
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_behind_a_watermark_is_logged_with_the_cure() {
    let lines = errors_while_the_clock_goes_back(true).await;
    assert_eq!(lines.len(), 2, "once in a steady process, and once at the start: {lines:?}");
    for line in lines {
        assert!(line.starts_with("ERROR") && line.contains("`bandog jobs reset`"), "{line}");
    }
    let lines = errors_while_the_clock_goes_back(false).await;
    assert!(lines.len() == 1 && lines[0].contains("restart"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn the_span_of_each_attempt_has_its_number() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = || {
        let job = Job::once("job").retry(Retry::times(2));
        job.run(async |_: Run| Err::<(), _>("no"))
    };
    let test = TestScheduler::at("2026-01-01T00:00:00Z").start(|| vec![job()]).await.unwrap();
    test.advance(Duration::from_secs(60)).await;
    let spans = log.lines_with("bandog.run");
    let attempts: Vec<bool> =
        (1..=3).map(|nth| spans.iter().any(|span| span.contains(&format!(" attempt={nth} ")))).collect();
    assert_eq!(attempts, [true; 3], "{spans:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_completion_names_the_job_and_no_key_of_a_mark() {
    let said: Arc<Mutex<String>> = Arc::default();
    let written = Arc::clone(&said);
    let job = move || {
        let said = Arc::clone(&written);
        Job::once("report").run(move |run: Run| {
            let said = Arc::clone(&said);
            async move { *said.lock().unwrap() = run.completion_sql().await.unwrap_err().to_string() }
        })
    };
    let test = TestScheduler::at("2026-01-01T00:00:00Z").start(|| vec![job()]).await.unwrap();
    test.advance(Duration::from_secs(1)).await;
    let said = said.lock().unwrap().clone();
    assert!(said.starts_with("complete a run of the job \"report\": "), "{said}");
}
