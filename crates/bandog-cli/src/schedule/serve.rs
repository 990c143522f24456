//! The jobs at work, until a signal ends that.

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
    child::{Failure, Ticket, Work},
    entry::Entry,
    file::JobFile,
};
use crate::{
    exit_code::ExitCode,
    fault::Fault,
    http::Listening,
    signals::Signals,
    store::Store,
    voice::{post, say},
};

/// Between TERM and KILL: so much less than a job's own grace that the command's end is still recorded.
const GRACE: Duration = Duration::from_secs(4);
/// How long the store may take to let go at the end; later the leases do it.
const FAREWELL: Duration = Duration::from_secs(2);
/// Of so many jobs the start is told one by one.
const TOLD: usize = 100;
/// How long commands that were killed may take to die.
const BURIAL: Duration = Duration::from_secs(6);

/// The commands at work, and how they are all ended at once.
#[derive(Debug, Default)]
struct Crew {
    at_work: watch::Sender<usize>,
    /// The start has been told; a command that is due already waits for that.
    begin: watch::Sender<bool>,
    hurry: watch::Sender<bool>,
}

/// Runs the jobs of a file over this store until a signal comes.
pub(super) async fn serve(
    file: &JobFile,
    called: &str,
    store: &Store,
    drain: Duration,
    page: Option<Listening>,
) -> Result<ExitCode, Fault> {
    let mut signals = Signals::catch(true).map_err(|error| Fault::system("cannot catch signals", error))?;
    let options = store.options()?.program(format!("bandog schedule {called}"));
    let lease = options.ttl();
    let client = store.client(options)?;
    let crew = Arc::<Crew>::default();
    let mut scheduler = Scheduler::over(&client).pool(file.pool.get()).drain(drain);
    for entry in &file.jobs {
        scheduler = scheduler.job(job(entry, store, &crew));
    }
    let start = async {
        client.ready().await?;
        say(&format!("{} over {} ({})", counted(file, called), store.shown(), store.origin()));
        let running = scheduler.start().await?;
        tell(file, lease, &Jobs::over(&client)).await;
        Ok(running)
    };
    let running = tokio::select! { biased;
        signal = signals.ending() => {
            let _ = timeout(FAREWELL, client.close()).await;
            return Ok(ExitCode::Signal(signal.as_raw()));
        }
        running = start => running.map_err(|error| store.fault(&error))?,
    };
    say("started");
    let page = page.map(|page| page.serve(&client, store)).transpose()?;
    crew.begin.send_replace(true);
    let signal = signals.ending().await;
    post(&crew.farewell(signal, drain));
    tokio::select! { biased;
        stopped = running.stop() => {
            // Only now, so that it shows how the last runs end.
            if let Some(page) = page {
                page.stop().await;
            }
            leave(&client, stopped).await
        }
        signal = signals.ending() => Ok(crew.end_at_once(&client, signal).await),
    }
}

fn job(entry: &Entry, store: &Store, crew: &Arc<Crew>) -> Job {
    let work = Arc::new(work(entry, store));
    let crew = Arc::clone(crew);
    entry.job().run(move |run| {
        let (work, crew) = (Arc::clone(&work), Arc::clone(&crew));
        async move { crew.run(&work, run).await }
    })
}

fn work(entry: &Entry, store: &Store) -> Work {
    Work {
        job: entry.name.clone(),
        command: entry.command.clone(),
        env: entry.env.clone(),
        url: store.for_child(),
        grace: GRACE,
    }
}

fn counted(file: &JobFile, called: &str) -> String {
    let jobs = if file.jobs.len() == 1 { "1 job".to_owned() } else { format!("{} jobs", file.jobs.len()) };
    format!("{jobs} of {called}, {} at a time,", file.pool)
}

/// Each job's next fires and policies, and what will not run.
async fn tell(file: &JobFile, lease: Duration, jobs: &Jobs) {
    for entry in file.jobs.iter().take(TOLD) {
        // A store that does not tell just now is told of by the scheduler.
        let row = jobs.show(&entry.name).await.ok();
        say(&check::lines(entry, Some(lease), row.as_ref()).join("\n"));
    }
    if file.jobs.len() > TOLD {
        say(&format!("and {} more jobs: --check tells of all", file.jobs.len() - TOLD));
    }
    file.jobs.iter().for_each(check::warn);
}

async fn leave(client: &Client, stopped: Result<(), Error>) -> Result<ExitCode, Fault> {
    if let Err(error) = stopped {
        post(&format!("{error}; other nodes go on when the leases have ended"));
    }
    // A store that gives no answer keeps what is ours until its ttl.
    let _ = timeout(FAREWELL, client.close()).await;
    post("stopped");
    Ok(ExitCode::Done)
}

impl Crew {
    /// One try of a run.
    async fn run(&self, work: &Work, run: Run) -> Result<(), Failure> {
        raised(&self.begin).await;
        let at_work = AtWork::of(&self.at_work);
        let tick = run.tick().to_string();
        let ticket = Ticket { tick, fence: run.fence().get(), attempt: run.attempt() };
        post(&format!("{}: runs for {} (attempt {}, fence {})", work.job, ticket.tick, ticket.attempt, ticket.fence));
        let begun = Instant::now();
        let done = work.run(&ticket, run.cancelled(), raised(&self.hurry)).await;
        let tail = done.tail.text(MAX_NOTE);
        if !tail.is_empty() {
            run.note(tail);
        }
        let took = format!("{:.1?}", begun.elapsed());
        match &done.result {
            Ok(()) => post(&format!("{}: done in {took}", work.job)),
            // The scheduler warns of it, and knows what becomes of the run.
            Err(failure) => tracing::info!("{}: {failure}, after {took}", work.job),
        }
        drop(at_work);
        if *self.hurry.borrow() {
            // It was not the command's fault, so it is no failure: the run ends with this node.
            pending::<()>().await;
        }
        done.result
    }

    /// What is going to happen, now that the first signal has come.
    fn farewell(&self, signal: Signal, drain: Duration) -> String {
        let name = signal_name(signal.as_raw()).unwrap_or("a signal");
        match *self.at_work.borrow() {
            0 => format!("{name}: stopping"),
            runs => format!(
                "{name}: stopping; {runs} of its commands may go on for {}, another signal kills them",
                humantime::format_duration(drain)
            ),
        }
    }

    /// Kills all commands, and lets go of the store so that others take over.
    async fn end_at_once(&self, client: &Client, signal: Signal) -> ExitCode {
        self.hurry.send_replace(true);
        // Who cannot be killed in that time is left to its keeper.
        let _ = timeout(BURIAL, self.at_work.subscribe().wait_for(|runs| *runs == 0)).await;
        let _ = timeout(FAREWELL, client.close()).await;
        post("stopped at once");
        ExitCode::Signal(signal.as_raw())
    }
}

async fn raised(flag: &watch::Sender<bool>) {
    // The sender lives as long as this.
    let _ = flag.subscribe().wait_for(|flag| *flag).await;
}

/// A command at work, until this is dropped.
struct AtWork<'a>(&'a watch::Sender<usize>);

impl<'a> AtWork<'a> {
    fn of(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
