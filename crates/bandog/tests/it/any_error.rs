//! Bodies that return the error type of another library, here `anyhow::Error`, which is not a `std::error::Error`.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use anyhow::Context as _;
use bandog::{
    Client, Error, ErrorKind, Guard,
    schedule::{Job, Outcome, Run},
    testing::{Store, TestScheduler},
};

static RUNS: AtomicU32 = AtomicU32::new(0);

/// A task that waits for nothing, and succeeds in its third run.
async fn relay(guard: &Guard) -> anyhow::Result<()> {
    anyhow::ensure!(RUNS.fetch_add(1, Relaxed) >= 2, "not yet, under fence {}", guard.fence());
    Ok(())
}

#[bandog::scheduled(cron = "0 * * * * ?")]
async fn declared_with_anyhow(_run: Run) -> anyhow::Result<()> {
    anyhow::bail!("as it must")
}

#[bandog::locked(name = "orders")]
async fn sweep(client: &Client) -> anyhow::Result<u64> {
    anyhow::bail!("no orders in {}", client.store())
}

#[bandog::locked(name = "orders", wait = "0s")]
fn sweep_blocking(client: &bandog::blocking::Client) -> anyhow::Result<Option<u64>> {
    let found: u64 = "7".parse().with_context(|| client.store().to_owned())?;
    Ok(Some(found))
}

#[tokio::test(start_paused = true)]
async fn a_singleton_task_returns_any_error_type() {
    let client = Store::new().client();
    client.singleton("relay", relay).await.unwrap();
    assert_eq!(RUNS.load(Relaxed), 3);
    let closure = async |guard: &Guard| -> anyhow::Result<()> {
        anyhow::ensure!(!guard.is_lost(), "lost");
        Ok(())
    };
    client.singleton("relay", closure).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_and_a_locked_function_return_any_error_type() {
    let jobs = || {
        let closure = Job::cron("closure", "0 * * * * ?").run(async |_: Run| anyhow::Ok(()));
        let blocking = Job::cron("blocking", "0 * * * * ?").run_blocking(|_: Run| -> anyhow::Result<()> { Ok(()) });
        vec![closure, blocking, declared_with_anyhow::job()]
    };
    let test = TestScheduler::at("2026-03-08T06:00:30Z").start(jobs).await.unwrap();
    test.advance(Duration::from_secs(60)).await;
    for name in ["closure", "declared_with_anyhow"] {
        assert_eq!(test.ticks(name).len(), 1, "{name}");
    }
    let client = Store::new().client();
    assert!(sweep(&client).await.unwrap_err().to_string().starts_with("no orders"));
}

#[test]
fn a_blocking_locked_function_returns_any_error_type() {
    let client = bandog::blocking::connect("memory:").unwrap();
    assert_eq!(sweep_blocking(&client).unwrap(), Some(7));
}

/// The bandog error is found in a report, with and without further context, and is that of the caller.
// Promise: J22
#[test]
fn an_error_that_can_never_succeed_is_found_in_a_report() {
    let unsupported = || Error::new(ErrorKind::Unsupported, "no transactions here");
    for (report, permanent) in [
        (anyhow::Error::new(unsupported()), Some("no transactions here (Unsupported)")),
        (
            anyhow::Error::new(unsupported()).context("the order was not paid"),
            Some("no transactions here (Unsupported)"),
        ),
        (anyhow::Error::new(Error::misused("the ttl is 0s")), Some("the ttl is 0s")),
        (anyhow::Error::new(Error::unavailable("no answer")), None),
        (anyhow::Error::new(Error::new(ErrorKind::Denied, "a constraint").about_data()), None),
        (anyhow::anyhow!("an error of a program (Unsupported)"), None),
    ] {
        let text = format!("{report:#}");
        let failure = Err::<(), _>(report).failure().unwrap();
        assert_eq!(failure.permanent().map(ToString::to_string).as_deref(), permanent, "{text}");
    }
}

/// The result of each kind of body that never ends is accepted, too.
#[tokio::test(start_paused = true)]
async fn a_task_that_never_ends_needs_no_type() {
    let client = Store::new().client();
    let endless = client.singleton("endless", async |_| {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert!(tokio::time::timeout(Duration::from_secs(60), endless).await.is_err());
}
