//! A single run: attempts, timeouts, cancellation, panics, notes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{Clock, Error, ErrorKind, Memory};
use bandog_schedule::{
    Job, Jobs, OnCrash, Overlap, Retry, Run, RunRow, Running, Scheduler, Scope, State, TestScheduler,
};
use bandog_sync::Client;
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The history of a job that fired once a minute for two minutes.
async fn history(job: impl Fn() -> Job + Sync) -> Vec<RunRow> {
    let test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T00:01:50Z").await;
    test.run_until_idle().await;
    let name = job().name().to_owned();
    test.jobs().history(&name).await.unwrap()
}

fn minutely() -> Job {
    Job::cron("job", "0 * * * * ?")
}

// Promise: J10
#[tokio::test(start_paused = true)]
async fn an_error_and_a_panic_are_failures_with_their_texts() {
    let failed = history(|| minutely().run(async |_: Run| Err::<(), _>(std::io::Error::other("no disk")))).await;
    assert_eq!((failed[0].state, failed[0].error.as_deref()), (State::Failed, Some("no disk")));
    let panicked = history(|| {
        minutely().run(async |_: Run| {
            if true {
                panic!("as it must");
            }
        })
    });
    let panicked = panicked.await;
    assert_eq!((panicked[0].state, panicked[0].error.as_deref()), (State::Failed, Some("it panicked: as it must")));
    let at_once = history(|| {
        minutely().run(|run: Run| {
            assert_eq!(run.id(), 0, "this panics before the first await");
            async {}
        })
    });
    assert_eq!(at_once.await[0].state, State::Failed);
    let blocking =
        history(|| minutely().run_blocking(|_: Run| -> Result<(), String> { panic!("in its thread") })).await;
    assert_eq!(blocking[0].state, State::Failed, "{blocking:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_retried_under_the_same_fence() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let job = || {
        let seen = Arc::clone(&seen);
        minutely().retry(Retry::times(3).from(secs(1)).to(secs(2))).run(move |run: Run| {
            seen.lock().unwrap().push((run.attempt(), run.fence(), time::Instant::now()));
            async move { if run.attempt() < 3 { Err("not yet") } else { Ok(()) } }
        })
    };
    let history = history(job).await;
    assert_eq!((history.len(), history[0].state, history[0].attempt), (1, State::Ok, 3));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().map(|(attempt, ..)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(seen.iter().all(|(_, fence, _)| *fence == seen[0].1));
    let pauses: Vec<u128> = seen.windows(2).map(|two| (two[1].2 - two[0].2).as_millis()).collect();
    assert!((1000..=1101).contains(&pauses[0]) && (2000..=2201).contains(&pauses[1]), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn retries_end_at_their_deadline() {
    let often = Retry::times(100).from(secs(10)).to(secs(10));
    let fails = |retry: Retry| move || minutely().retry(retry).run(async |_: Run| Err::<(), _>("not yet"));
    // A backoff takes 10 to 11 s. The first run starts at 0:01:00.
    for (retry, tries) in [(often.within(secs(25)), 3), (often.within(Duration::ZERO), 1), (often.until_next_tick(), 6)]
    {
        let test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![fails(retry)()]).await.unwrap();
        test.advance_to("2026-01-01T00:01:59Z").await;
        let history = test.jobs().history("job").await.unwrap();
        assert_eq!((history.len(), history[0].state, history[0].attempt), (1, State::Failed, tries), "{retry}");
        test.advance_to("2026-01-01T00:02:01Z").await;
        assert_eq!(test.ticks("job").last().unwrap(), "2026-01-01T00:02:00Z", "{retry}: the next tick runs");
    }
    let test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![fails(often)()]).await.unwrap();
    test.advance_to("2026-01-01T00:05:01Z").await;
    assert_eq!(test.jobs().history("job").await.unwrap().iter().filter(|row| row.state == State::Failed).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_over_its_timeout_is_cancelled_and_dropped_after_its_grace() {
    let lines = Arc::new(AtomicU32::new(0));
    let job = || {
        let lines = Arc::clone(&lines);
        minutely().timeout(secs(10)).grace(secs(3)).run(move |run: Run| {
            let lines = Arc::clone(&lines);
            async move {
                run.cancelled().await;
                lines.fetch_add(1, Relaxed);
                time::sleep(secs(1000)).await;
            }
        })
    };
    let late = history(job).await;
    assert_eq!((late[0].state, lines.load(Relaxed)), (State::TimedOut, 1));
    let took = |row: &RunRow| {
        let [from, to] =
            [&row.started, &row.ended].map(|time| time.as_ref().unwrap().parse::<bandog_cron::Time>().unwrap());
        to.millisecond() - from.millisecond()
    };
    assert!((13_000..13_100).contains(&took(&late[0])), "{late:?}");
    // A run that succeeds within its grace, and does not know of its timeout, is successful.
    let finishes = || minutely().timeout(secs(10)).run(async |_: Run| time::sleep(secs(12)).await);
    assert_eq!(history(finishes).await[0].state, State::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_a_failure_that_is_retried() {
    let job = || {
        minutely().timeout(secs(5)).grace(Duration::ZERO).retry(Retry::times(1)).run(async |run: Run| {
            if run.attempt() == 1 {
                time::sleep(secs(1000)).await;
            }
        })
    };
    let history = history(job).await;
    assert_eq!((history[0].state, history[0].attempt), (State::Ok, 2));
}

#[tokio::test(start_paused = true)]
async fn a_note_stays_with_its_run_and_only_its_end_is_kept() {
    let long = format!("{}ü end", "x".repeat(bandog_schedule::MAX_NOTE));
    let text = long.clone();
    let job = move || {
        let text = text.clone();
        minutely().run(move |run: Run| {
            run.note("first");
            run.note(text.clone());
            async {}
        })
    };
    let note = history(job).await[0].note.clone().unwrap();
    assert!(note.len() <= bandog_schedule::MAX_NOTE && long.ends_with(&note) && note.ends_with("ü end"));
}

#[tokio::test(start_paused = true)]
async fn only_the_beginning_of_an_errors_text_is_kept() {
    let long = format!("no {}", "ü".repeat(bandog_schedule::MAX_ERROR));
    let text = long.clone();
    let job = move || {
        let text = text.clone();
        minutely().run(move |_: Run| std::future::ready(Err::<(), _>(text.clone())))
    };
    let error = history(job).await[0].error.clone().unwrap();
    assert!(
        long.starts_with(&error)
            && (bandog_schedule::MAX_ERROR - 1..=bandog_schedule::MAX_ERROR).contains(&error.len())
    );
}

#[tokio::test(start_paused = true)]
async fn a_note_after_the_end_of_a_run_is_not_kept() {
    let job = || {
        minutely().run(async |run: Run| {
            let later = run.clone();
            tokio::spawn(async move { later.note("99 %") });
            run.note("done");
        })
    };
    assert_eq!(history(job).await[0].note.as_deref(), Some("done"));
}

#[test]
fn a_run_is_unwind_safe() {
    fn may_panic<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe + Send + Sync>() {}
    may_panic::<Run>();
}

#[tokio::test(start_paused = true)]
async fn a_run_knows_the_last_success() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let ran = Arc::clone(&seen);
    let job = move || {
        let ran = Arc::clone(&ran);
        minutely().run(move |run: Run| {
            ran.lock().unwrap().push(run.last_success().map(|time| time.to_string()));
            let id = run.id();
            async move { if id == 2 { Err("once") } else { Ok(()) } }
        })
    };
    let test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T00:04:10Z").await;
    let seen = seen.lock().unwrap().clone();
    let first = Some("2026-01-01T00:01:00Z".to_owned());
    assert_eq!(seen, [None, first.clone(), first, Some("2026-01-01T00:03:00Z".to_owned())]);
}

// Promise: J4
#[tokio::test(start_paused = true)]
async fn replace_lets_the_old_run_stop_before_the_new_one_begins() {
    let alive = Arc::new(AtomicU32::new(0));
    let job = || {
        let alive = Arc::clone(&alive);
        minutely().overlap(Overlap::Replace).run(move |run: Run| {
            let alive = Arc::clone(&alive);
            async move {
                assert_eq!(alive.fetch_add(1, Relaxed), 0, "only one run at a time is alive");
                run.cancelled().await;
                time::sleep(secs(2)).await;
                alive.fetch_sub(1, Relaxed);
                Err::<(), _>("replaced")
            }
        })
    };
    let test = TestScheduler::at("2026-01-01T00:00:30Z").replicas(2).start(|| vec![job()]).await.unwrap();
    // The cancelled run may be on the other replica, which notices the cancellation at its next poll: each 30 s here.
    test.advance_to("2026-01-01T00:05:50Z").await;
    let row = test.jobs().show("job").await.unwrap();
    assert!(row.cancelled >= 4 && row.failed == 0 && row.live.len() == 1, "{row:?}");
    let history = test.jobs().history("job").await.unwrap();
    assert!(history.iter().skip(1).all(|run| run.state == State::Cancelled), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_with_the_scope_each_node_runs_its_ticks_on_each_node() {
    let job = || minutely().scope(Scope::EachNode).run(async |_: Run| ());
    let test = TestScheduler::at("2026-01-01T00:00:30Z").replicas(3).start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T00:02:30Z").await;
    assert_eq!(test.runs().len(), 6);
    assert!(test.jobs().show("job").await.is_err(), "the store has no record of such a job");
}

/// A scheduler without a store and with a drain of an hour.
async fn with_a_long_drain(job: Job) -> Running {
    Scheduler::new().clock(Clock::tokio()).drain(secs(3600)).job(job).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_when_the_node_begins_to_stop_does_not_delay_the_stop() {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let running = with_a_long_drain(Job::once("endless").run(move |run: Run| {
        let ended = ended.clone();
        async move {
            assert!(!run.is_stopping());
            run.stopping().await;
            assert!(run.is_stopping() && !run.is_cancelled(), "the run may continue for the drain");
            ended.send(()).unwrap();
        }
    }))
    .await;
    time::sleep(secs(10)).await;
    assert!(ends.try_recv().is_err());
    let began = Instant::now();
    running.stop().await.unwrap();
    assert!(began.elapsed() < secs(1), "{:?}", began.elapsed());
    ends.try_recv().unwrap();
}

#[tokio::test]
async fn a_blocking_run_sees_that_the_node_begins_to_stop() {
    let (began, mut begins) = mpsc::unbounded_channel();
    let running = with_a_long_drain(Job::once("endless").run_blocking(move |run: Run| {
        began.send(()).unwrap();
        while !run.is_stopping() {
            std::thread::yield_now();
        }
        assert!(!run.is_cancelled());
        began.send(()).unwrap();
    }))
    .await;
    begins.recv().await.unwrap();
    let stopped = Instant::now();
    running.stop().await.unwrap();
    assert!(stopped.elapsed() < secs(30), "{:?}", stopped.elapsed());
    begins.recv().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_begins_while_the_node_stops_or_is_cancelled_is_stopping_too() {
    let (seen, mut sees) = mpsc::unbounded_channel();
    let job = Job::fixed_rate("often", secs(1)).timeout(secs(5)).run(move |run: Run| {
        let seen = seen.clone();
        async move {
            run.stopping().await;
            seen.send(run.is_cancelled()).unwrap();
        }
    });
    let running = with_a_long_drain(job).await;
    assert!(sees.recv().await.unwrap(), "the run was cancelled by its timeout");
    time::sleep(secs(2)).await;
    running.stop().await.unwrap();
    assert!(!sees.recv().await.unwrap(), "the node stops, and the run is not cancelled");
}

/// An error that can never succeed is not retried, and logged once as an error.
// Promise: J22
#[tokio::test(start_paused = true)]
async fn an_error_that_can_never_succeed_is_not_retried() {
    let (log, _guard) = bandog_testkit::LogCapture::of_thread("bandog");
    let failing = |kind| {
        minutely().retry(Retry::times(3)).run(move |_: Run| async move { Err::<(), _>(Error::new(kind, "as it must")) })
    };
    for (kind, attempts) in [(ErrorKind::Unsupported, 1), (ErrorKind::Misused, 1), (ErrorKind::Denied, 1)] {
        let runs = history(|| failing(kind)).await;
        assert_eq!((runs[0].state, runs[0].attempt), (State::Failed, attempts), "{kind:?}: {runs:?}");
    }
    let lines = log.lines_with("is not retried");
    assert!(!lines.is_empty() && lines.iter().all(|line| line.starts_with("ERROR")), "{lines:?}");
    for kind in [ErrorKind::Unavailable, ErrorKind::Lost] {
        assert_eq!(history(|| failing(kind)).await[0].attempt, 4, "{kind:?}");
    }
}

/// A job whose attempts are cancelled after five seconds and retried twice.
fn short() -> Job {
    minutely().timeout(secs(5)).retry(Retry::times(2))
}

// Promise: S9
#[tokio::test(start_paused = true)]
async fn an_attempt_that_returns_at_its_timeout_has_timed_out_and_is_retried() {
    let waits = || {
        short().run(async |run: Run| {
            tokio::select! {
                () = run.cancelled() => {}
                () = time::sleep(secs(1000)) => {}
            }
        })
    };
    let polls = || {
        short().run(async |run: Run| {
            while !run.is_cancelled() {
                time::sleep(secs(1)).await;
            }
        })
    };
    let loops = || short().run(async |run: Run| run.stopping().await);
    for history in [history(waits).await, history(polls).await, history(loops).await] {
        let row = &history[0];
        assert_eq!(
            (row.state, row.attempt, row.error.as_deref()),
            (State::TimedOut, 3, Some("it took longer than 5s"))
        );
    }
    // Only the attempt that observed its timeout has timed out.
    let second = || {
        short().run(async |run: Run| {
            if run.attempt() == 1 {
                run.cancelled().await;
            }
        })
    };
    let history = history(second).await;
    assert_eq!((history[0].state, history[0].attempt), (State::Ok, 2));
}

fn memory_client() -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(Memory::new(Clock::tokio())).unwrap()
}

/// The history of the job `long`, after its last attempt has ended.
async fn ended_history(jobs: &Jobs) -> Vec<RunRow> {
    loop {
        let history = jobs.history("long").await.unwrap();
        if history.iter().all(|row| !matches!(row.state, State::Running | State::Queued)) && !history[0].retried {
            return history;
        }
        time::sleep(secs(1)).await;
    }
}

// Promise: S9
#[tokio::test(start_paused = true)]
async fn a_run_that_returns_when_it_is_cancelled_was_cancelled() {
    let (began, mut begins) = mpsc::unbounded_channel();
    let job = Job::once("long").run(move |run: Run| {
        began.send(()).unwrap();
        async move { run.cancelled().await }
    });
    let client = memory_client();
    let running = Scheduler::over(&client).job(job).start().await.unwrap();
    begins.recv().await.unwrap();
    let jobs = Jobs::over(&client);
    assert_eq!(jobs.cancel("long", None).await.unwrap().len(), 1);
    let history = ended_history(&jobs).await;
    assert_eq!(history[0].state, State::Cancelled, "{history:?}");
    running.stop().await.unwrap();
}

// Promise: S9
#[tokio::test(start_paused = true)]
async fn a_run_that_returns_when_its_node_has_stopped_is_handed_over() {
    let client = memory_client();
    let node = async || {
        let (began, begins) = mpsc::unbounded_channel();
        let job = Job::once("long").on_crash(OnCrash::Retry).run(move |run: Run| {
            began.send(run.attempt()).unwrap();
            async move {
                if run.attempt() == 1 {
                    run.cancelled().await;
                }
            }
        });
        (Scheduler::over(&client).drain(Duration::ZERO).job(job).start().await.unwrap(), begins)
    };
    let (first, mut begins) = node().await;
    assert_eq!(begins.recv().await.unwrap(), 1);
    first.stop().await.unwrap();
    let jobs = Jobs::over(&client);
    assert_eq!(jobs.show("long").await.unwrap().queued, 1);
    let (second, mut begins) = node().await;
    assert_eq!(begins.recv().await.unwrap(), 2);
    let history = ended_history(&jobs).await;
    let states: Vec<_> = history.iter().map(|row| (row.state, row.attempt)).collect();
    assert_eq!(states, [(State::Ok, 2), (State::Interrupted, 1)], "{history:?}");
    second.stop().await.unwrap();
}
