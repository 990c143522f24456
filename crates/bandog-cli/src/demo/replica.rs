//! One replica of the order service: a process that exits when the demo exits.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use bandog::{
    Client, Error, ErrorKind,
    schedule::{Job, OnCrash, Overlap, Run, Running, Scheduler},
    work::{ClientWork, Delivery, WorkQueue},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines, Stdin},
    runtime::Builder,
    sync::watch,
    time::sleep,
};

use super::{
    fault::DemoFault,
    plan::TICK,
    shop::{Shop, now_ms},
    store,
    sweep::Sweeper,
};
use crate::exit_code::ExitCode;

/// When the demo ends, the scheduler of a replica waits at most this long for the end of the present sweep. The demo
/// itself waits longer for the replica.
const DRAIN: Duration = Duration::from_secs(2);

/// The number of mails that a replica sends at the same time.
const MAILS: u32 = 4;

/// The configuration of a replica. The replica reads the configuration as one line of JSON from its standard input. The
/// configuration is not passed in arguments: it can contain a password, and other users can see the arguments of a
/// process.
///
/// A second line of the input asks the replica to exit after the present sweep. If the input closes, the demo has died.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Brief {
    /// The number of the replica. The first replica is 1.
    pub(super) number: u16,
    /// The demo's directory.
    pub(super) place: PathBuf,
    /// The file of the shop's database.
    pub(super) shop: PathBuf,
    /// None for the phase without a scheduler.
    pub(super) schedule: Option<Schedule>,
    /// Time that the payment provider needs to answer for one order.
    pub(super) payment: Duration,
}

/// The scheduler's store and job. They are the same for all replicas.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Schedule {
    /// The URL of the store.
    pub(super) url: String,
    /// The name of the job, and of the queue.
    pub(super) job: String,
}

/// Runs a replica. The replica records its work in the shop's database.
pub(crate) fn run() -> Result<ExitCode, crate::fault::Fault> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| DemoFault::System("cannot start a runtime", error))?;
    let result = runtime.block_on(serve_until_stopped());
    runtime.shutdown_background(); // This does not wait for the read of standard input, which might never return.
    if let Ok(Ended::Orphaned(place)) = &result {
        // The scheduler ended together with the runtime. If it still ran, it would create the store's file again.
        remove_directory(place);
    }
    Ok(result.map(|_| ExitCode::Done)?)
}

/// How a replica ended without an error.
enum Ended {
    /// The demo has asked the replica to exit.
    Dismissed,
    /// The demo has died, so it could not remove its directory. The value is the directory's path.
    Orphaned(PathBuf),
}

/// Reads the configuration. Then sweeps until the demo asks the replica to exit, or until the demo has died.
async fn serve_until_stopped() -> Result<Ended, DemoFault> {
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let line = input.next_line().await.map_err(|error| DemoFault::System("cannot read the configuration", error))?;
    let brief = line.and_then(|line| serde_json::from_str(&line).ok());
    let brief: Brief = brief.ok_or_else(|| DemoFault::Usage("this command is only for `bandog demo`".into()))?;
    let (stop, stopped) = watch::channel(false);
    tokio::select! { biased;
        () = orphaned(input, stop) => Ok(Ended::Orphaned(brief.place)),
        done = serve(&brief, stopped) => done.map(|()| Ended::Dismissed),
    }
}

/// Resolves when the input closes, because the demo has died. Until then, each line of the input sets `stop` to true.
async fn orphaned(mut input: Lines<BufReader<Stdin>>, stop: watch::Sender<bool>) {
    while let Ok(Some(_)) = input.next_line().await {
        stop.send_replace(true);
    }
}

/// Sweeps until `stopped` is true.
async fn serve(brief: &Brief, stopped: watch::Receiver<bool>) -> Result<(), DemoFault> {
    let shop = Shop::open(&brief.shop)?;
    match &brief.schedule {
        None => {
            let sweeper = Sweeper::new(brief.number, shop, brief.payment, None);
            on_a_timer(brief, stopped, &sweeper).await.inspect_err(|fault| sweeper.note(fault))
        }
        Some(schedule) => {
            let client = store::connect(&schedule.url).await;
            let client = client.inspect_err(|fault| drop(shop.note_trouble(brief.number, &fault.to_string())))?;
            let mails = mails(&client, schedule)?;
            let sweeper = Arc::new(Sweeper::new(brief.number, shop, brief.payment, mails.clone()));
            let served = on_schedule(brief, schedule, stopped, &sweeper, &client, mails).await;
            // An error is ignored, because this client holds no lock any more.
            let _ = client.close().await;
            served.inspect_err(|fault| sweeper.note(fault))
        }
    }
}

/// Sweeps on this replica's own timer. The replica does not know what the other replicas do.
async fn on_a_timer(brief: &Brief, mut stopped: watch::Receiver<bool>, sweeper: &Sweeper) -> Result<(), DemoFault> {
    sweeper.shop().join(brief.number)?;
    while !*stopped.borrow() {
        let tick = tokio::select! { biased;
            _ = stopped.changed() => break,
            tick = next_tick() => tick,
        };
        sweeper.sweep(tick).await?;
    }
    Ok(())
}

/// Sweeps with bandog's scheduler: the sweep is a job of all replicas, and each tick runs on one of them.
async fn on_schedule(
    brief: &Brief,
    schedule: &Schedule,
    mut stopped: watch::Receiver<bool>,
    sweeper: &Arc<Sweeper>,
    client: &Client,
    mails: Option<WorkQueue<u32>>,
) -> Result<(), DemoFault> {
    let failed = |error| schedule.fault(error);
    let notifier = sweeper.clone();
    let workers = mails.map(|mails| {
        mails.workers(MAILS).lease(store::WATCHDOG).drain(DRAIN).run(move |order: Delivery<u32>| {
            let notified = notifier.notify(*order);
            async { notified }
        })
    });
    let running: Running = Scheduler::over(client)
        .node(format!("replica {}", brief.number))
        .drain(DRAIN)
        .job(job(&schedule.job, sweeper))
        .start()
        .await
        .map_err(failed)?;
    sweeper.shop().join(brief.number)?;
    // The wait also ends if the sender is dropped.
    let _ = stopped.wait_for(|stopped| *stopped).await;
    running.stop().await.map_err(failed)?;
    match workers {
        Some(workers) => workers.stop().await.map_err(failed),
        None => Ok(()),
    }
}

/// The queue of the orders whose customers must be notified. None if the store has no queues.
fn mails(client: &Client, schedule: &Schedule) -> Result<Option<WorkQueue<u32>>, DemoFault> {
    match client.work_queue(&schedule.job) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        mails => mails.map(Some).map_err(|error| schedule.fault(error)),
    }
}

impl Schedule {
    fn fault(&self, error: Error) -> DemoFault {
        DemoFault::Store(error, bandog::admin::redact(&self.url))
    }
}

/// The job that sweeps. Ticks that come while a sweep runs are skipped. If a replica dies during a sweep, another
/// replica repeats the run. The job does not set a lease. The default is the ttl of the client's watchdog.
fn job(name: &str, sweeper: &Arc<Sweeper>) -> Job {
    let sweeper = Arc::clone(sweeper);
    Job::fixed_rate(name, TICK).overlap(Overlap::Skip).on_crash(OnCrash::Retry).run(move |run: Run| {
        let sweeper = Arc::clone(&sweeper);
        async move { sweeper.run(&run).await }
    })
}

/// Waits until the wall clock reaches the next multiple of [`TICK`], which is half a second. Returns this time, in ms
/// since the Unix epoch. All replicas wait for the same times, so they wake at the same moment.
async fn next_tick() -> i64 {
    let (now, tick) = (now_ms(), i64::try_from(TICK.as_millis()).unwrap_or(i64::MAX));
    let left = tick - now.rem_euclid(tick);
    sleep(Duration::from_millis(left.unsigned_abs())).await;
    now + left
}

/// Removes the demo's directory after the demo has died. All replicas do this at the same time, and some of them might
/// not have closed their files yet. So the removal is retried.
fn remove_directory(place: &Path) {
    // A directory that does not belong to a demo is never removed.
    if !place.file_name().is_some_and(|name| name.to_string_lossy().starts_with(store::DIRECTORY_PREFIX)) {
        return;
    }
    for _ in 0..50 {
        match fs::remove_dir_all(place) {
            Err(_) if place.exists() => thread::sleep(Duration::from_millis(20)),
            Ok(()) | Err(_) => return,
        }
    }
}
