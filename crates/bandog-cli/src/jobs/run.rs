//! `bandog jobs run`: runs a job now, in addition to its ticks.

use std::{
    io::{self, Write},
    time::Duration,
};

use bandog::schedule::{RunRow, State};
use tokio::time::{Instant, sleep};

use super::{
    client::{Common, JobsClient},
    nodes::Nodes,
    words,
};
use crate::{
    console::{StatusLine, escaped, report},
    durations,
    exit_code::ExitCode,
    fault::Fault,
    print,
};

/// Interval between two queries of the run.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Interval between two queries of the schedulers. This query is expensive on a server with many keys.
const NODES_INTERVAL: Duration = Duration::from_secs(2);
/// With `--wait`, the command fails if the store has not answered for this time. Without `--timeout`, it also fails if
/// no scheduler has run for this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a job now, in addition to its ticks.
///
/// The run starts after the present and waiting runs, on a node that has the job, even if the job is paused or
/// disabled. Standard output gets the run's number, for `bandog jobs history` and `bandog jobs cancel`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of a run in `bandog jobs history --json`; with --wait it is printed after the run has ended.

Exit codes: 0 the run is requested, or, with --wait, it ended well; 1 with --wait: the run did not end well; 64 no \
such job, wrong URL; 69 the store does not answer or does not exist, or, with --wait, no scheduler has run for 10 s; \
75 the --timeout is over; 77 the store refuses the request. After 69 and 75, or if this command is interrupted, the \
run continues.

Examples:
  bandog jobs run report
  bandog jobs run report --wait --timeout 5m && mail-it
  bandog jobs cancel report \"$(bandog jobs run report)\"")]
pub(super) struct Args {
    /// The job's name.
    name: String,
    /// Wait until the run has ended.
    #[arg(long)]
    wait: bool,
    /// How long to wait for the end of the run. Without this option there is no limit.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, allow_hyphen_values = true, requires = "wait")]
    timeout: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    JobsClient::with_job(&args.common, &args.name, async |client| {
        let id = client.jobs.run(&args.name).await.map_err(|error| client.request_fault_for(&error, &args.name))?;
        if !args.common.json {
            print::done(writeln!(io::stdout(), "{id}"))?;
        }
        Nodes::of(client)
            .await
            .warn(&format!("run {id} of {:?} waits until a scheduler with this job starts", args.name));
        if !args.wait {
            return requested(args, client, id).await;
        }
        let run = Follower { client, name: &args.name, id, timeout: args.timeout }.follow().await?;
        ended(args, &run)
    })
}

/// Prints the requested run, for a command without --wait.
async fn requested(args: &Args, client: &JobsClient<'_>, id: u64) -> Result<ExitCode, Fault> {
    if !args.common.json {
        return Ok(ExitCode::Done);
    }
    let run = client.history(&args.name).await?.into_iter().find(|run| run.id == id);
    print::done(print::json(&run.ok_or_else(|| vanished(&args.name, id))?))
}

/// Prints the result of a run that has ended, for a command with --wait.
fn ended(args: &Args, run: &RunRow) -> Result<ExitCode, Fault> {
    if args.common.json {
        print::done(print::json(run))?;
    } else {
        let took = words::took(run).map(|took| format!(" after {took}")).unwrap_or_default();
        let error = run.error.as_deref().map(|error| format!(": {}", escaped(error))).unwrap_or_default();
        report(&format!("run {} of {:?} ended {}{took}{error}", run.id, args.name, run.state.as_str()));
    }
    Ok(if run.state == State::Ok { ExitCode::Done } else { ExitCode::Failed })
}

/// Queries the store repeatedly until a run has ended.
struct Follower<'a> {
    client: &'a JobsClient<'a>,
    name: &'a str,
    /// The number of the run.
    id: u64,
    timeout: Option<Duration>,
}

impl Follower<'_> {
    /// Waits until the run has ended, and returns the run.
    async fn follow(&self) -> Result<RunRow, Fault> {
        let began = Instant::now();
        let line = StatusLine::on_terminal();
        // The times of three events: the last answer of the store, the last query that found a scheduler, and the last
        // query of the schedulers.
        let (mut answered, mut scheduler_seen, mut nodes_polled) = (began, began, None::<Instant>);
        let mut idle = Idle::default();
        loop {
            let state = match self.client.jobs.history(self.name).await {
                Ok(runs) => {
                    answered = Instant::now();
                    idle.check(self, &runs);
                    let run = runs.into_iter().find(|run| run.id == self.id);
                    let run = run.ok_or_else(|| vanished(self.name, self.id))?;
                    if !matches!(run.state, State::Queued | State::Running) {
                        return Ok(run);
                    }
                    Some(run)
                }
                Err(error) if error.is_retryable() && answered.elapsed() < PATIENCE => None,
                Err(error) => return Err(self.client.fault(&error)),
            };
            if nodes_polled.is_none_or(|polled| polled.elapsed() >= NODES_INTERVAL) {
                nodes_polled = Some(Instant::now());
                if !Nodes::of(self.client).await.is_none() {
                    scheduler_seen = Instant::now();
                }
            }
            let waited = began.elapsed();
            if let Some(line) = &line {
                line.draw(&self.progress(state.as_ref(), waited));
            }
            self.check(state.as_ref(), waited, scheduler_seen)?;
            let interval = POLL_INTERVAL;
            sleep(self.timeout.map_or(interval, |timeout| timeout.saturating_sub(waited).min(interval))).await;
        }
    }

    /// Returns an error if the timeout is over, or if no scheduler runs.
    fn check(&self, run: Option<&RunRow>, waited: Duration, scheduler_seen: Instant) -> Result<(), Fault> {
        let Self { name, id, .. } = self;
        match self.timeout {
            Some(timeout) if waited >= timeout => {
                let timeout = humantime::format_duration(timeout);
                let message = format!("run {id} of {name:?} has not ended within {timeout}: it {}", doing(run));
                Err(Fault::new(ExitCode::Busy, message))
            }
            // With --timeout the wait continues, because the operator might be about to start a scheduler.
            None if scheduler_seen.elapsed() >= PATIENCE => Err(Fault::new(
                ExitCode::Unavailable,
                format!(
                    "no scheduler runs over {}: run {id} of {name:?} waits until a scheduler starts\n  \
                     start a scheduler, or cancel the run with `bandog jobs cancel {name} {id}`",
                    self.client.store.redacted()
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The text of the status line.
    fn progress(&self, run: Option<&RunRow>, waited: Duration) -> String {
        let waited = words::span(waited.as_secs().saturating_mul(1000));
        format!("run {} of {:?}, {waited}: it {}", self.id, self.name, doing(run))
    }
}

/// The state of a run that has not ended, for a message. `run` is none if the store does not answer.
fn doing(run: Option<&RunRow>) -> String {
    let node = |run: &RunRow| escaped(run.node.as_deref().unwrap_or("a node"));
    match run {
        None => "cannot be read, because the store does not answer".into(),
        Some(run) if run.state == State::Queued => {
            "waits for a node that has this job and a free slot in its pool".into()
        }
        Some(run) if run.orphaned => format!("was left behind by {}, which is dead", node(run)),
        Some(run) => format!("runs on {}", node(run)),
    }
}

/// Detects a special state: the run waits although no other run of the job is running.
#[derive(Default)]
struct Idle {
    /// The time at which this state began. None if the run is not in this state.
    since: Option<Instant>,
    /// Whether this state was reported already.
    is_reported: bool,
}

impl Idle {
    /// Reports once, after [`PATIENCE`], that possibly no running scheduler has this job.
    fn check(&mut self, follower: &Follower<'_>, runs: &[RunRow]) {
        let waits = runs.iter().any(|run| run.id == follower.id && run.state == State::Queued);
        if !waits || runs.iter().any(|run| run.state == State::Running && !run.orphaned) {
            self.since = None;
            return;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= PATIENCE && !self.is_reported {
            self.is_reported = true;
            let Follower { name, id, .. } = follower;
            report(&format!(
                "run {id} of {name:?} waits although no other run of this job is running: check that a running \
                 scheduler has the job and a free slot in its pool"
            ));
        }
    }
}

/// The error if the history does not contain the run any more.
fn vanished(name: &str, id: u64) -> Fault {
    Fault::new(
        ExitCode::Unavailable,
        format!("the history of {name:?} has no run {id} any more, because it keeps only 50 runs of each kind"),
    )
}
