//! The start of a scheduler reports wrong values before any job runs.

use std::time::Duration;

use bandog_core::{Clock, ErrorKind, Memory};
use bandog_schedule::{CatchUp, DayMatch, Daylight, Job, OnCrash, Overlap, Retry, Run, Scheduler};
use bandog_sync::Client;

/// The error of `start()` with these jobs.
async fn start_error(jobs: impl IntoIterator<Item = Job>) -> String {
    let client =
        Client::options().clock(Clock::tokio()).on_current_runtime().over(Memory::new(Clock::tokio())).unwrap();
    let error = Scheduler::over(&client).jobs(jobs).start().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    error.to_string()
}

fn with_body(job: Job) -> Job {
    job.run(async |_: Run| ())
}

// Promise: J18
#[tokio::test(start_paused = true)]
async fn each_wrong_value_is_an_error_with_the_jobs_name() {
    let second = Duration::from_secs(1);
    let zero = Duration::ZERO;
    let wrong = [
        (Job::cron("a", "0 0 25 * * ?"), "^^ hours: 25 is too large"),
        (Job::cron("a", "0 0 0 31 6 ?"), "never fires"),
        (Job::cron("a", "0 0 0 * * ?").zone("Mars/Olympus"), "Mars/Olympus"),
        (Job::fixed_rate("a", zero), "fixed_rate is 0ns; it must be between 1ms and 365 days"),
        (Job::fixed_delay("a", zero), "fixed_delay"),
        (Job::fixed_rate("a", second).zone("UTC"), "zone belongs to cron"),
        (Job::fixed_rate("a", second).daylight(Daylight::Skip), "daylight belongs to cron"),
        (Job::cron("a", "0 0 0 13 * FRI"), "both day fields are restricted"),
        (Job::cron("a", "0 0 0 31 6 FRI").day_match(DayMatch::And), "never fires"),
        (Job::cron("a", "* * * * * ?").initial_delay(second), "initial_delay belongs to"),
        (Job::fixed_rate("a", second).lease(zero), "lease"),
        (Job::fixed_rate("a", second).timeout(zero), "timeout"),
        (Job::fixed_rate("a", second).jitter(Duration::MAX), "jitter"),
    ];
    for (job, why) in wrong {
        let said = start_error([with_body(job)]).await;
        assert!(said.contains("job \"a\": ") && said.contains(why), "{said}");
    }
    for name in ["", "a\nb", &"x".repeat(201)] {
        assert!(start_error([with_body(Job::once(name))]).await.contains("1 to 200 bytes"));
    }
    assert!(start_error([Job::once("a")]).await.contains("it has no body"));
}

#[tokio::test(start_paused = true)]
async fn duplicate_names_and_all_errors_are_reported_together() {
    let twice = start_error([with_body(Job::once("a")), with_body(Job::once("b")), with_body(Job::once("a"))]).await;
    assert!(twice.contains("\"a\"") && !twice.contains("\"b\""), "{twice}");
    let three =
        start_error([with_body(Job::once("a")), with_body(Job::once("a")), with_body(Job::cron("a", "@daily"))]).await;
    let place = |column| format!("{}:{}:{column}", file!(), line!() - 1);
    let (first, second, third) = (place(32), place(59), place(86));
    let expected = format!("job \"a\": 3 jobs have this name; they were made at {first} and {second} and {third}");
    assert!(three.contains(&expected), "{three}");
    let again = |_| with_body(Job::once("a"));
    let again = start_error((0..9).map(again)).await;
    let expected = format!("9 jobs have this name; they were made at {}:{}:31", file!(), line!() - 2);
    assert!(again.ends_with(&expected), "one location, named once: {again}");
    let many = start_error([with_body(Job::cron("a", "x")), with_body(Job::fixed_rate("b", Duration::ZERO))]).await;
    assert!(many.contains("2 jobs") && many.contains("\"a\"") && many.contains("\"b\""), "{many}");
}

#[tokio::test]
async fn a_pool_of_zero_is_refused() {
    let error = Scheduler::new().pool(0).job(with_body(Job::once("a"))).start().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("a pool of 0"), "{error}");
}

#[test]
fn a_scheduler_does_not_start_outside_a_runtime() {
    let starting = Scheduler::new().job(with_body(Job::once("a"))).start();
    let error = futures_util::FutureExt::now_or_never(starting).unwrap().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
}

#[test]
fn the_text_of_a_policy_is_read_as_the_same_policy() {
    for text in ["skip", "queue(1)", "queue(10)", "allow(3)", "replace"] {
        assert_eq!(text.parse::<Overlap>().unwrap().to_string(), text);
    }
    for text in ["skip", "once", "all(10)"] {
        assert_eq!(text.parse::<CatchUp>().unwrap().to_string(), text);
    }
    for text in ["retry", "retry(3)", "abandon"] {
        assert_eq!(text.parse::<OnCrash>().unwrap().to_string(), text);
    }
    let all = "3 from 2s to 1m within 10m until next tick";
    for text in ["3 from 2s to 1m", "3 from 2s to 1m within 10m", "3 from 2s to 1m until next tick", all] {
        assert_eq!(text.parse::<Retry>().unwrap().to_string(), text);
    }
    assert_eq!("3 within 10m".parse::<Retry>().unwrap(), Retry::times(3).within(Duration::from_secs(600)));
    for text in ["", "3 from", "3 to 1m from 1s", "3 within soon", "3 until", "3 until next tick now"] {
        assert!(text.parse::<Retry>().is_err(), "{text:?}");
    }
    for text in ["queue(0)", "allow(100000000000)"] {
        let lines = text.parse::<Overlap>().unwrap_err().to_string();
        assert!(lines.contains("the number must be between 1 and 4294967295"), "{lines}");
    }
    for text in ["", "queue(-1)", "allow", "never", "queue(1", "queue (a)"] {
        assert!(text.parse::<Overlap>().unwrap_err().to_string().contains("write skip, queue"), "{text:?}");
    }
    assert!("often".parse::<Retry>().is_err() && "all(0)".parse::<CatchUp>().is_err());
}
