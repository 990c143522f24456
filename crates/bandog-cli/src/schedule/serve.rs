//! Runs the jobs until a signal.

use std::{
    collections::HashMap,
    future::pending,
    path::Path,
    pin::pin,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use bandog::{
    Client, Error,
    schedule::{Jobs, MAX_NOTE, Run, RunRow, Running, Scheduler},
};
use rustix::process::Signal;
use signal_hook::low_level::signal_name;
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};

use super::{
    check,
    child::{CommandSpec, Failure, RunId},
    entry::JobEntry,
    file::JobFile,
};
use crate::{
    console::{escaped, report, report_lines_queued, report_queued},
    exit_code::ExitCode,
    fault::Fault,
    http::{Listening, Serving},
    kept::output::OutputFormat,
    signals::{Request, Signals},
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
    /// Set by the first signal: the runs of earlier versions of the file may continue for the drain only.
    stop: watch::Sender<bool>,
    /// Set when the drain of a stop is over: the commands of failed runs are terminated.
    drained: watch::Sender<bool>,
    /// Set by a second signal: all commands are killed immediately.
    hurry: watch::Sender<bool>,
}

/// Time for which the command of a failed run may take, before it is terminated.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two attempts to start the jobs of a file that was read again.
const RELOAD_RETRY: Duration = Duration::from_secs(1);

/// The values that all versions of the file share.
struct Service<'a> {
    path: &'a Path,
    store: &'a Store,
    client: Client,
    drain: Duration,
    output: OutputFormat,
    commands: Arc<RunningCommands>,
}

/// Runs the jobs of a file over this store until a signal comes.
pub(super) async fn serve(
    mut file: JobFile,
    path: &Path,
    store: &Store,
    drain: Duration,
    output: OutputFormat,
    page: Option<Listening>,
) -> Result<ExitCode, Fault> {
    let mut signals = Signals::catch(true).map_err(|error| Fault::system("cannot catch signals", error))?;
    let options = store.options()?.program(format!("bandog schedule {}", path.display()));
    let client = store.client(options)?;
    let service = Service { path, store, client, drain, output, commands: Arc::default() };
    let Service { client, commands, .. } = &service;
    let start = async {
        client.ready().await?;
        report(&format!("{} over {} ({})", service.counted(&file), store.redacted(), store.origin()));
        let running = service.scheduler(&file).start().await?;
        service.print_jobs(file.jobs.iter()).await;
        Ok(running)
    };
    let (started, mut reloads) = unless_stopped(&mut signals, start).await;
    let mut running = match started {
        Ok(running) => running.map_err(|error| store.fault(&error))?,
        Err(signal) => {
            let _ = timeout(EXIT_TIMEOUT, client.close()).await;
            return Ok(ExitCode::Signal(signal.as_raw()));
        }
    };
    report("started");
    let page = page.map(|page| page.serve(client, store.redacted())).transpose()?;
    commands.begin.send_replace(true);
    // The schedulers of earlier versions of the file. They claim nothing, and their runs go on.
    let mut retired = JoinSet::new();
    let signal = loop {
        let request = if std::mem::take(&mut reloads) { Request::Reload } else { signals.request().await };
        match request {
            Request::End(signal) => break signal,
            Request::Reload => {
                let Some(new) = service.read_again(&file).await else { continue };
                retired.spawn(retire(running, Arc::clone(commands)));
                let (started, has_request) = unless_stopped(&mut signals, service.start_again(&new)).await;
                running = match started {
                    Ok(running) => running,
                    Err(signal) => {
                        report_queued(&commands.stop_message(signal, drain));
                        return service.end(&mut signals, None, retired, page).await;
                    }
                };
                reloads = has_request;
                let [added, changed, _] = new.changes(&file);
                let is_new = |entry: &&JobEntry| added.iter().chain(&changed).any(|name| *name == entry.name);
                service.print_jobs(new.jobs.iter().filter(is_new)).await;
                report_queued(&format!("{} from now on", service.counted(&new)));
                file = new;
            }
        }
        while retired.try_join_next().is_some() {}
    };
    report_queued(&commands.stop_message(signal, drain));
    service.end(&mut signals, Some(running), retired, page).await
}

/// Awaits a start, and returns its result, or the signal that asks to exit before. Also returns whether a reload was
/// requested meanwhile.
async fn unless_stopped<T>(signals: &mut Signals, start: impl Future<Output = T>) -> (Result<T, Signal>, bool) {
    let (mut start, mut reloads) = (pin!(start), false);
    loop {
        tokio::select! { biased;
            request = signals.request() => match request {
                Request::End(signal) => return (Err(signal), reloads),
                Request::Reload => reloads = true,
            },
            started = &mut start => return (Ok(started), reloads),
        }
    }
}

/// Lets the present runs of a scheduler end by themselves, until bandog stops.
async fn retire(running: Running, commands: Arc<RunningCommands>) -> Result<(), Error> {
    tokio::select! { biased;
        retired = running.retire() => return retired,
        () = raised(&commands.stop) => {}
    }
    running.stop().await
}

impl Service<'_> {
    /// The scheduler of the jobs of a file.
    fn scheduler(&self, file: &JobFile) -> Scheduler {
        let mut scheduler = Scheduler::over(&self.client).pool(file.pool().get()).drain(self.drain);
        let mut after_failures = HashMap::new();
        for entry in &file.jobs {
            let work = Arc::new(self.work(entry));
            if let Some(command) = &entry.on_failure {
                after_failures.insert(entry.name.clone(), (Arc::clone(&work), command.clone()));
            }
            let commands = Arc::clone(&self.commands);
            scheduler = scheduler.job(entry.job().run(move |run| {
                let (work, commands) = (Arc::clone(&work), Arc::clone(&commands));
                async move { commands.run(&work, run).await }
            }));
        }
        let commands = Arc::clone(&self.commands);
        scheduler.on_failure(move |failed| {
            let work = after_failures.get(&failed.job).map(|(work, command)| work.after(command, &failed));
            // It is counted from now on, so that a stop waits for it.
            let running = work.is_some().then(|| RunningGuard::of(&commands));
            let commands = Arc::clone(&commands);
            async move {
                if let Some(work) = work {
                    commands.run_after(&work, &failed).await;
                }
                drop(running);
            }
        })
    }

    /// The command of a job, with its environment and its grace period.
    fn work(&self, entry: &JobEntry) -> CommandSpec {
        CommandSpec {
            job: entry.name.clone(),
            command: entry.command.clone(),
            directory: entry.directory.clone(),
            env: entry.env.clone(),
            url: self.store.for_child(),
            grace: entry.rare.grace.unwrap_or(GRACE),
            zone: entry.trigger.zone(),
            output: self.output,
        }
    }

    /// Reads the file again. None if it has mistakes, or nothing has changed.
    async fn read_again(&self, before: &JobFile) -> Option<JobFile> {
        let path = self.path.to_owned();
        let file = match spawn_blocking(move || JobFile::read(&path)).await {
            Ok(Ok(file)) => file,
            Ok(Err(fault)) => {
                report_lines_queued(&format!("HUP: the jobs stay as they are: {fault}"));
                return None;
            }
            Err(error) => {
                report_queued(&format!("HUP: the jobs stay as they are: {error}"));
                return None;
            }
        };
        let changes = file.changes(before);
        if changes.iter().all(Vec::is_empty) && file.pool() == before.pool() {
            report_queued("HUP: no job has changed");
            return None;
        }
        let named = |(names, what): (&Vec<&str>, &str)| match &names[..] {
            [] => None,
            [name] => Some(format!("{what} {}", escaped(name))),
            names => Some(format!("{what} {}", names.len())),
        };
        let words: Vec<_> = changes.iter().zip(["added:", "changed:", "removed:"]).filter_map(named).collect();
        report_queued(&format!("HUP: {}", if words.is_empty() { "another pool".to_owned() } else { words.join(", ") }));
        Some(file)
    }

    /// Starts the jobs of a file that was read again. If the store does not answer, tries again.
    async fn start_again(&self, file: &JobFile) -> Running {
        loop {
            match self.scheduler(file).start().await {
                Ok(running) => return running,
                Err(error) => {
                    report_queued(&format!("the changed jobs cannot start, next attempt in 1s: {error}"));
                    sleep(RELOAD_RETRY).await;
                }
            }
        }
    }

    /// Stops all schedulers, and the page. A further signal kills all commands.
    async fn end(
        &self,
        signals: &mut Signals,
        running: Option<Running>,
        mut retired: JoinSet<Result<(), Error>>,
        page: Option<Serving>,
    ) -> Result<ExitCode, Fault> {
        self.commands.stop.send_replace(true);
        let stop = async {
            let stopped = match running {
                Some(running) => running.stop().await,
                None => Ok(()),
            };
            while retired.join_next().await.is_some() {}
            // The commands of failed runs. The wait is limited by the drain, by their grace and by their keepers.
            self.commands.ended().await;
            stopped
        };
        let drain = async {
            sleep(self.drain).await;
            self.commands.drained.send_replace(true);
            pending().await
        };
        let stop = async {
            tokio::select! { stopped = stop => stopped, stopped = drain => stopped }
        };
        tokio::select! { biased;
            stopped = stop => {
                // The page is stopped last, so that it shows the end of the last runs.
                if let Some(page) = page {
                    page.stop().await;
                }
                leave(&self.client, stopped).await
            }
            signal = signals.end_request() => Ok(self.commands.kill_all(&self.client, signal).await),
        }
    }

    /// The number of jobs and the size of the pool, as the beginning of a message.
    fn counted(&self, file: &JobFile) -> String {
        let jobs = if file.jobs.len() == 1 { "1 job".to_owned() } else { format!("{} jobs", file.jobs.len()) };
        format!("{jobs} of {}, {} at a time,", self.path.display(), file.pool())
    }

    /// Prints each job's next fires and policies, and warns about commands that cannot run.
    async fn print_jobs(&self, entries: impl Iterator<Item = &JobEntry> + Clone) {
        let jobs = Jobs::over(&self.client);
        for entry in entries.clone().take(PRINTED) {
            // An error is ignored, because the scheduler itself reports a store that does not answer.
            let row = jobs.show(&entry.name).await.ok();
            report(&check::lines(entry, row.as_ref()).join("\n"));
        }
        let count = entries.clone().count();
        if count > PRINTED {
            report(&format!("and {} more jobs: --check prints all", count - PRINTED));
        }
        entries.for_each(check::warn);
    }
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
        let running = RunningGuard::of(self);
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

    /// Runs the command for a run that has failed for good.
    async fn run_after(&self, work: &CommandSpec, failed: &RunRow) {
        let Ok(tick) = failed.tick.parse() else { return };
        let run_id = RunId { tick, fence: failed.fence.unwrap_or_default(), attempt: failed.attempt };
        report_queued(&format!("{}: {}, runs its on_failure", work.job, failed.state.as_str()));
        let cut_off = OnceLock::new();
        let cancelled = async {
            let why = tokio::select! { biased;
                () = raised(&self.drained) => "the drain is over".to_owned(),
                () = sleep(FAILURE_TIMEOUT) => {
                    format!("it took longer than {}", humantime::format_duration(FAILURE_TIMEOUT))
                }
            };
            let _ = cut_off.set(why);
        };
        let done = work.run(&run_id, cancelled, raised(&self.hurry)).await;
        if let Err(failure) = done.result {
            let end = match cut_off.get() {
                Some(why) => format!("was cut off, because {why}"),
                None => "failed".to_owned(),
            };
            report_queued(&format!("{}: its on_failure {end}: {failure}", work.job));
        }
    }

    /// Waits until no command runs.
    async fn ended(&self) {
        // The wait fails only if the sender is dropped. The sender is borrowed here, so it cannot be dropped.
        let _ = self.running.subscribe().wait_for(|runs| *runs == 0).await;
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
        let _ = timeout(KILL_TIMEOUT, self.ended()).await;
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
struct RunningGuard(watch::Sender<usize>);

impl RunningGuard {
    fn of(commands: &RunningCommands) -> Self {
        commands.running.send_modify(|count| *count += 1);
        Self(commands.running.clone())
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
