//! Jobs that no node has any more.

use bandog_schedule::{OnCrash, Presence, TestScheduler};

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn names(rows: &[JobRow]) -> Vec<&str> {
    rows.iter().map(|row| row.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_is_unknown_after_two_days_without_a_node_and_is_removed_by_a_command_only() {
    let job = |name: &str| Job::cron(name, NEVER).run(async |_: Run| ());
    let four = || ["idle", "paused", "asked", "stays"].into_iter().map(job).collect::<Vec<Job>>();
    let mut test = TestScheduler::at("2026-06-01T00:00:00Z").start(four).await.unwrap();
    let jobs = test.jobs();
    test.advance(10 * DAY).await;
    for row in jobs.list(&Pattern::all()).await.unwrap() {
        assert_eq!(row.unknown_since, None, "a live node has the job, although it never fires");
    }
    refused(jobs.unknown(DAY).await, "after 2 days at the earliest");
    jobs.pause("paused", "until autumn").await.unwrap();
    test.stop_one(0, Duration::ZERO).await.unwrap();
    jobs.run("asked").await.unwrap();
    test.advance(DAY).await;
    assert_eq!(jobs.unknown(2 * DAY).await.unwrap(), []);
    test.join(vec![job("stays")]).await.unwrap();
    test.advance(2 * DAY).await;
    let idle = jobs.show("idle").await.unwrap();
    let since = at(&idle.unknown_since.unwrap());
    assert!(since > at("2026-06-09T12:00:00Z") && since <= at("2026-06-11T00:00:00Z"), "{since}");
    assert_eq!(names(&jobs.unknown(2 * DAY).await.unwrap()), ["idle"]);
    assert_eq!(names(&jobs.unknown(14 * DAY).await.unwrap()), [""; 0]);
    test.advance(30 * DAY).await;
    let all = jobs.list(&Pattern::all()).await.unwrap();
    assert_eq!(names(&all), ["asked", "idle", "paused", "stays"], "no job is removed because of its age alone");
    assert!(all.iter().all(|row| row.unknown_since.is_none() == (row.name == "stays")));
    refused(jobs.forget_unknown("idle", DAY).await, "after 2 days at the earliest");
    for name in ["stays", "paused", "asked", "never was"] {
        assert!(!jobs.forget_unknown(name, 14 * DAY).await.unwrap(), "{name}");
    }
    assert!(jobs.forget_unknown("idle", 14 * DAY).await.unwrap());
    assert_eq!(names(&jobs.list(&Pattern::all()).await.unwrap()), ["asked", "paused", "stays"]);
    // When a node that has the job starts again, the job is no longer unknown.
    test.join(four()).await.unwrap();
    assert_eq!(jobs.show("paused").await.unwrap().unknown_since, None);
    assert!(!jobs.forget_unknown("idle", 2 * DAY).await.unwrap());
    test.stop().await.unwrap();
}

/// A job that was removed from the program is marked as soon as the last node that has it is gone, and has no next fire.
// Promise: J23
#[tokio::test(start_paused = true)]
async fn a_job_that_no_live_node_has_is_marked_at_once() {
    let job = |name: &str| Job::cron(name, "0 0 * * * ?").run(async |_: Run| ());
    let both = || vec![job("stays"), job("goes")];
    let mut test = TestScheduler::at("2026-06-01T00:00:30Z").replicas(2).start(both).await.unwrap();
    let jobs = test.jobs();
    let presences = async || {
        let rows = jobs.list(&Pattern::all()).await.unwrap();
        rows.iter().map(|row| (row.name.clone(), row.presence, row.next.is_some())).collect::<Vec<_>>()
    };
    let rows = |goes, goes_on, stays, stays_on| vec![("goes".into(), goes, goes_on), ("stays".into(), stays, stays_on)];
    test.advance(Duration::from_secs(1)).await;
    assert_eq!(presences().await, rows(Presence::Present, true, Presence::Present, true));

    // A rolling deploy: the last old node still has the job.
    test.join(vec![job("stays")]).await.unwrap();
    test.stop_one(0, Duration::ZERO).await.unwrap();
    test.advance(Duration::from_secs(1)).await;
    assert_eq!(presences().await, rows(Presence::Present, true, Presence::Present, true));
    test.stop_one(1, Duration::ZERO).await.unwrap();
    test.advance(Duration::from_secs(1)).await;
    assert_eq!(presences().await, rows(Presence::Absent, false, Presence::Present, true));
    assert_eq!(jobs.show("goes").await.unwrap().presence, Presence::Absent);
    let fires = jobs.next(&Pattern::all(), 2).await.unwrap();
    assert!(fires.iter().all(|fire| fire.job == "stays"), "{fires:?}");

    // All nodes are down: that says nothing about the jobs.
    test.stop_one(2, Duration::ZERO).await.unwrap();
    assert_eq!(presences().await, rows(Presence::NoNode, true, Presence::NoNode, true));
    test.join(both()).await.unwrap();
    test.advance(Duration::from_secs(1)).await;
    assert_eq!(presences().await, rows(Presence::Present, true, Presence::Present, true));
    test.stop().await.unwrap();
}

/// A node dies in the first attempt, and another node completes the run: one run, which is ok. The history has both attempts.
// Promise: J24
#[tokio::test(start_paused = true)]
async fn a_run_that_another_node_repeats_counts_once() {
    let job = || {
        let long = async |run: Run| time::sleep(Duration::from_secs(if run.attempt() == 1 { 3_600 } else { 1 })).await;
        Job::cron("job", "0 0 1 * * ?").on_crash(OnCrash::Retry).run(long)
    };
    let mut test = TestScheduler::at("2026-06-01T00:59:30Z").replicas(2).start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-06-01T01:00:10Z").await;
    let replica = test.runs()[0].replica;
    test.crash(replica);
    test.advance_to("2026-06-01T02:00:00Z").await;
    let row = test.jobs().show("job").await.unwrap();
    assert_eq!((row.ok, row.failed, row.lost, row.cancelled), (1, 0, 0, 0));
    let history = test.jobs().history("job").await.unwrap();
    let attempts: Vec<_> = history.iter().map(|run| (run.attempt, run.state, run.retried)).collect();
    assert_eq!(attempts, [(2, State::Ok, false), (1, State::Lost, true)]);
    let failures = history.iter().filter(|run| run.state == State::Lost && !run.retried).count();
    assert_eq!(failures, 0, "the page counts no failure either");
}

#[tokio::test(start_paused = true)]
async fn a_job_with_an_unreadable_record_is_not_unknown() {
    let site = Site::new();
    let swap = Swap::new(Key::new("job/x").unwrap(), None, "of a newer version");
    site.client(None).records().swap(&[swap]).await.unwrap();
    assert_eq!(site.jobs.unknown(14 * DAY).await.unwrap(), []);
    assert!(!site.jobs.forget_unknown("x", 14 * DAY).await.unwrap());
    site.jobs.forget("x").await.unwrap();
}
