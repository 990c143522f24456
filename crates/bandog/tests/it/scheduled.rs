//! The jobs that `#[bandog::scheduled]` makes, and the errors of `start()` for values that are wrong.

use bandog::{
    ErrorKind, Result,
    schedule::{Job, Run, Scheduler, Shared},
    scheduled,
    testing::{TestOutcome, TestScheduler},
};

/// The text of the error with which `start()` refuses these jobs.
async fn start_error(scheduler: Scheduler) -> String {
    let fault = scheduler.start().await.err().unwrap();
    assert_eq!(fault.kind(), ErrorKind::Misused, "{fault}");
    fault.to_string()
}

async fn start_error_of(job: Job) -> String {
    start_error(Scheduler::new().job(job)).await
}

#[tokio::test]
async fn the_start_fails_if_a_variable_of_the_environment_is_missing() {
    #[scheduled(cron = "${bandog.test.not-there}")]
    async fn report() {}
    let fault = start_error_of(report::job()).await;
    let why = "job \"report\": cron contains ${bandog.test.not-there}, but the environment has no variable \
               BANDOG_TEST_NOT_THERE";
    assert!(fault.contains(why), "{fault}");
}

// Promise: A5
#[tokio::test]
async fn the_start_fails_if_a_value_from_the_environment_is_wrong() {
    // Cargo sets these variables for tests, so the test does not change its environment.
    #[scheduled(name = "wrong cron", cron = "${CARGO_PKG_NAME}")]
    fn wrong_cron() {}
    #[scheduled(fixed_rate = "${CARGO_PKG_NAME:5s}")]
    fn wrong_period() {}
    #[scheduled(cron = "@daily", zone = "${cargo.pkg-name}")]
    fn wrong_zone() {}
    #[scheduled(cron = "@daily", overlap = "${CARGO_PKG_NAME:skip}")]
    fn wrong_overlap() {}
    #[scheduled(cron = "@daily", dialect = "${CARGO_PKG_NAME:quartz}")]
    fn wrong_dialect() {}
    #[scheduled(at = "${CARGO_PKG_NAME:-}")]
    fn wrong_time() {}
    #[scheduled(cron = "@daily", day_match = "${CARGO_PKG_NAME:and}")]
    fn wrong_days() {}
    #[scheduled(cron = "@daily", daylight = "${CARGO_PKG_NAME:skip}")]
    fn wrong_daylight() {}
    #[scheduled(cron = "@daily", scope = "${CARGO_PKG_NAME:cluster}")]
    fn wrong_scope() {}
    #[scheduled(cron = "@daily", pause_after = "${CARGO_PKG_VERSION_MAJOR:1}")]
    fn wrong_pause() {}
    #[scheduled(fixed_rate = "1s", lease = "${CARGO_PKG_VERSION_MAJOR}ms")]
    fn wrong_lease() {}
    for (job, words) in [
        (wrong_cron::job(), "job \"wrong cron\": this is no expression of the quartz dialect\nbandog\n      ^ "),
        (
            wrong_period::job(),
            "job \"wrong_period\": fixed_rate = \"bandog\" is not a duration; write 500ms, 10s or 2m",
        ),
        (wrong_zone::job(), "job \"wrong_zone\": "),
        (wrong_overlap::job(), "overlap = \"bandog\" is unknown; write skip, queue"),
        (wrong_dialect::job(), "job \"wrong_dialect\": "),
        (wrong_time::job(), "job \"wrong_time\": at: "),
        (wrong_days::job(), "\"bandog\" is no day match; allowed are and, or"),
        (wrong_daylight::job(), "\"bandog\" is no rule for daylight saving; allowed are pinned, elapsed, skip"),
        (wrong_scope::job(), "scope = \"bandog\" is unknown; write cluster or each_node"),
        (wrong_pause::job(), "pause_after = \"0\"; it must be a number from 1"),
        (wrong_lease::job(), "job \"wrong_lease\": lease"),
    ] {
        let fault = start_error_of(job).await;
        assert!(fault.contains(words), "{words:?} is not in {fault:?}");
    }
}

// Promise: A5
#[tokio::test]
async fn the_start_fails_if_a_shared_value_is_missing_or_given_twice() {
    struct Shop;
    #[scheduled(fixed_rate = "1s")]
    async fn sweep(_: Shared<Shop>, _: Run) -> Result<()> {
        Ok(())
    }
    let fault = start_error_of(sweep::job()).await;
    assert!(fault.contains("job \"sweep\": its function takes Shared<") && fault.contains("Shop>"), "{fault}");
    let fault = start_error(Scheduler::new().share(Shop).job(sweep::job()).share(Shop)).await;
    assert!(fault.contains("share() was given two values of") && fault.contains("Shop"), "{fault}");
}

#[tokio::test]
async fn the_start_accepts_every_value_that_the_attribute_accepts() {
    #[scheduled(
        fixed_rate = "1h",
        initial_delay = "1h",
        overlap = "queue",
        catch_up = "skip",
        window = "2h",
        misfire_grace = "5s",
        on_crash = "retry",
        lease = "1m",
        timeout = "1m",
        retry = 3,
        jitter = "1s",
        store_down = "fail_open",
        scope = "each_node",
        revision = 2,
        pause_after = 3,
        grace = "0s",
        enabled = false
    )]
    fn one() {}
    #[scheduled(
        fixed_delay = "1h",
        overlap = "queue(10)",
        scope = "cluster",
        catch_up = "once",
        on_crash = "abandon",
        retry = "3 from 1s"
    )]
    fn two() {}
    #[scheduled(
        cron = "*/5 * * * *",
        dialect = "unix",
        overlap = "allow(3)",
        catch_up = "all(10)",
        retry = "3 from 1s to 1m within 10m until next tick"
    )]
    fn three() {}
    #[scheduled(
        cron = "0 0 0 13 * 7",
        dialect = "spring",
        day_match = "or",
        daylight = "skip",
        overlap = "replace",
        store_down = "fail_closed",
        enabled = true
    )]
    fn four() {}
    #[scheduled(at = "2026-12-31T23:59:00+01:00", overlap = "skip", name = "the last")]
    fn five() {}
    #[scheduled(fixed_delay = "${bandog.test:-}", initial_delay = "5s")]
    fn six() {}
    #[scheduled(cron = "-", zone = "UTC")]
    fn seven() {}
    assert_eq!(five::job().name(), "the last");
    let jobs = [one::job(), two::job(), three::job(), four::job(), five::job(), six::job(), seven::job()];
    let started = Scheduler::new().jobs(jobs).start().await;
    assert!(started.is_ok(), "{started:?}");
}

/// A declared job keeps its trigger and policies with another body, and needs no values of its own body then. The outcome of
/// each attempt is visible.
#[tokio::test(start_paused = true)]
async fn a_declared_job_is_tested_with_another_body() {
    struct Pool;
    #[scheduled(cron = "0 * * * * ?", retry = "1 from 1s", timeout = "10s")]
    async fn pay_out(_pool: Shared<Pool>) {}
    let failing = || pay_out::job().run(async |run: Run| if run.attempt() == 1 { Err("no answer") } else { Ok(()) });
    let test = TestScheduler::at("2026-03-08T06:00:30Z").start(|| vec![failing()]).await.unwrap();
    test.advance_to("2026-03-08T06:01:30Z").await;
    let outcomes: Vec<TestOutcome> = test.runs().into_iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, [TestOutcome::Failed("no answer".into()), TestOutcome::Ok]);

    let panicking = || pay_out::job().run_blocking(|_: Run| -> Result<()> { panic!("as it must") });
    let test = TestScheduler::at("2026-03-08T06:00:30Z").start(|| vec![panicking()]).await.unwrap();
    test.advance_to("2026-03-08T06:01:00Z").await;
    test.run_until_idle().await;
    assert!(matches!(&test.runs()[0].outcome, TestOutcome::Failed(why) if why.contains("panic")), "{:?}", test.runs());

    let endless = || pay_out::job().run(async |_: Run| std::future::pending::<()>().await);
    let test = TestScheduler::at("2026-03-08T06:00:30Z").start(|| vec![endless()]).await.unwrap();
    test.advance_to("2026-03-08T06:01:05Z").await;
    assert_eq!(test.runs()[0].outcome, TestOutcome::Running);
    test.advance_to("2026-03-08T06:01:50Z").await;
    assert_eq!(test.runs()[0].outcome, TestOutcome::Dropped, "its timeout and its grace are over");
}
