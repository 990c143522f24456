//! Runs the jobs until a signal.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use bandog::{
    Client, Error,
    schedule::{Job, Jobs, MAX_NOTE, Run, Scheduler},
};
use rustix::process::Signal;
use signal_hook::low_level::signal_name;
use tokio::{sync::watch, time::timeout};

use super::{
    check,
    child::{CommandSpec, Failure, RunId},
    entry::JobEntry,
    file::JobFile,
    output::OutputFormat,
};
use crate::{
    console::{report, report_queued},
    exit_code::ExitCode,
    fault::Fault,
    http::Listening,
    signals::Signals,
    store::Store,
};

/// Time between TERM and KILL. It is shorter than the grace period that the scheduler gives to a run. So the end of the
/// command is still recorded.
const GRACE: Duration = Duration::from_secs(4);
/// Timeout of the last requests before the exit. If the store does not answer these requests, other nodes wait until
/// the leases have expired.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of jobs that are printed at the start.
const PRINTED: usize = 100;
/// Timeout for killed commands to exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(6);

/// The number of running commands, and the flags that start and kill commands.
#[derive(Debug, Default)]
struct RunningCommands {
    /// Number of running commands.
    running: watch::Sender<usize>,
    /// Set when the jobs have been printed. A command that is due earlier waits for this flag.
    begin: watch::Sender<bool>,
    /// Set by a second signal: all commands are killed immediately.
    hurry: watch::Sender<bool>,
}

/// Runs the jobs of a file over this store until a signal comes. `called` is the file's name in messages.
pub(super) async fn serve(
    file: &JobFile,
    called: &str,
    store: &Store,
    drain: Duration,
    output: OutputFormat,
    page: Option<Listening>,
) -> Result<ExitCode, Fault> {
    let mut signals = Signals::catch(true).map_err(|error| Fault::system("cannot catch signals", error))?;
    let options = store.options()?.program(format!("bandog schedule {called}"));
    let client = store.client(options)?;
    let commands = Arc::<RunningCommands>::default();
    let mut scheduler = Scheduler::over(&client).pool(file.pool().get()).drain(drain);
    for entry in &file.jobs {
        scheduler = scheduler.job(job(entry, store, output, &commands));
    }
    let start = async {
        client.ready().await?;
        report(&format!("{} over {} ({})", counted(file, called), store.redacted(), store.origin()));
        let running = scheduler.start().await?;
        print_jobs(file, &Jobs::over(&client)).await;
        Ok(running)
    };
    let running = tokio::select! { biased;
        signal = signals.ending() => {
            let _ = timeout(EXIT_TIMEOUT, client.close()).await;
            return Ok(ExitCode::Signal(signal.as_raw()));
        }
        running = start => running.map_err(|error| store.fault(&error))?,
    };
    report("started");
    let page = page.map(|page| page.serve(&client, store)).transpose()?;
    commands.begin.send_replace(true);
    let signal = signals.ending().await;
    report_queued(&commands.stop_message(signal, drain));
    tokio::select! { biased;
        stopped = running.stop() => {
            // The page is stopped last, so that it shows the end of the last runs.
            if let Some(page) = page {
                page.stop().await;
            }
            leave(&client, stopped).await
        }
        signal = signals.ending() => Ok(commands.kill_all(&client, signal).await),
    }
}

/// Creates the job for the scheduler. Each run of the job runs the command of the entry.
fn job(entry: &JobEntry, store: &Store, output: OutputFormat, commands: &Arc<RunningCommands>) -> Job {
    let work = Arc::new(work(entry, store, output));
    let commands = Arc::clone(commands);
    entry.job().run(move |run| {
        let (work, commands) = (Arc::clone(&work), Arc::clone(&commands));
        async move { commands.run(&work, run).await }
    })
}

/// The command of a job, with its environment and its grace period.
fn work(entry: &JobEntry, store: &Store, output: OutputFormat) -> CommandSpec {
    CommandSpec {
        job: entry.name.clone(),
        command: entry.command.clone(),
        directory: entry.directory.clone(),
        env: entry.env.clone(),
        url: store.for_child(),
        grace: entry.rare.grace.unwrap_or(GRACE),
        zone: entry.trigger.zone(),
        output,
    }
}

/// The number of jobs and the size of the pool, as the beginning of a message.
fn counted(file: &JobFile, called: &str) -> String {
    let jobs = if file.jobs.len() == 1 { "1 job".to_owned() } else { format!("{} jobs", file.jobs.len()) };
    format!("{jobs} of {called}, {} at a time,", file.pool())
}

/// Prints each job's next fires and policies, and warns about commands that cannot run.
async fn print_jobs(file: &JobFile, jobs: &Jobs) {
    for entry in file.jobs.iter().take(PRINTED) {
        // An error is ignored, because the scheduler itself reports a store that does not answer.
        let row = jobs.show(&entry.name).await.ok();
        report(&check::lines(entry, row.as_ref()).join("\n"));
    }
    if file.jobs.len() > PRINTED {
        report(&format!("and {} more jobs: --check prints all", file.jobs.len() - PRINTED));
    }
    file.jobs.iter().for_each(check::warn);
}

/// Closes the client after the scheduler has stopped. `stopped` is the result of the stop.
async fn leave(client: &Client, stopped: Result<(), Error>) -> Result<ExitCode, Fault> {
    if let Err(error) = stopped {
        report_queued(&format!("{error}; other nodes take over when the leases have expired"));
    }
    // If the store does not answer, the rows of this node stay in the store until their ttl is over.
    let _ = timeout(EXIT_TIMEOUT, client.close()).await;
    report_queued("stopped");
    Ok(ExitCode::Done)
}

impl RunningCommands {
    /// Runs the command `work` for one attempt of a run.
    async fn run(&self, work: &CommandSpec, run: Run) -> Result<(), Failure> {
        raised(&self.begin).await;
        let running = RunningGuard::of(&self.running);
        let run_id = RunId { tick: run.tick(), fence: run.fence().get(), attempt: run.attempt() };
        report_queued(&format!(
            "{}: runs for {} (attempt {}, fence {})",
            work.job, run_id.tick, run_id.attempt, run_id.fence
        ));
        let begun = Instant::now();
        let done = work.run(&run_id, run.cancelled(), raised(&self.hurry)).await;
        let tail = done.tail.text(MAX_NOTE);
        if !tail.is_empty() {
            run.note(tail);
        }
        let took = format!("{:.1?}", begun.elapsed());
        match &done.result {
            Ok(()) => report_queued(&format!("{}: done in {took}", work.job)),
            // This is not logged as a warning. The scheduler logs the warning, because only the scheduler knows whether
            // the run is retried.
            Err(failure) => tracing::info!("{}: {failure}, after {took}", work.job),
        }
        drop(running);
        if *self.hurry.borrow() {
            // Bandog itself killed the command, so the run must not be recorded as failed. Therefore, this future never
            // resolves. It is dropped when bandog exits.
            pending::<()>().await;
        }
        done.result
    }

    /// The message after the first stop signal.
    fn stop_message(&self, signal: Signal, drain: Duration) -> String {
        let name = signal_name(signal.as_raw()).unwrap_or("a signal");
        match *self.running.borrow() {
            0 => format!("{name}: stopping"),
            runs => format!(
                "{name}: stopping; the running commands ({runs}) may continue for {}, another signal kills them",
                humantime::format_duration(drain)
            ),
        }
    }

    /// Kills all commands, and closes the client so that other nodes take over.
    async fn kill_all(&self, client: &Client, signal: Signal) -> ExitCode {
        self.hurry.send_replace(true);
        // Processes that still run after the timeout are left to their keepers.
        let _ = timeout(KILL_TIMEOUT, self.running.subscribe().wait_for(|runs| *runs == 0)).await;
        let _ = timeout(EXIT_TIMEOUT, client.close()).await;
        report_queued("stopped immediately");
        ExitCode::Signal(signal.as_raw())
    }
}

/// Resolves when the flag is set.
async fn raised(flag: &watch::Sender<bool>) {
    // The wait fails only if the sender is dropped. The sender is borrowed here, so it cannot be dropped.
    let _ = flag.subscribe().wait_for(|flag| *flag).await;
}

/// Counts a command as running, until this value is dropped.
struct RunningGuard<'a>(&'a watch::Sender<usize>);

impl<'a> RunningGuard<'a> {
    fn of(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
