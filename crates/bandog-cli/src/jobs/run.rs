//! `bandog jobs run`: a job now, beside its ticks.

use std::{
    io::{self, Write},
    time::Duration,
};

use bandog::schedule::{RunRow, State};
use tokio::time::{Instant, sleep};

use super::{Common, Desk, nodes::Nodes, words};
use crate::{
    args,
    exit_code::ExitCode,
    fault::Fault,
    print,
    voice::{Line, say, shown},
};

/// Between two looks at the run.
const PAUSE: Duration = Duration::from_millis(250);
/// Between two looks at who runs jobs, which on a server with many keys is not cheap.
const NODES: Duration = Duration::from_secs(2);
/// So long nobody may be there who could run it, or no answer come from the store.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a job now, beside its ticks.
///
/// It runs after what runs or waits already, on a node that has the job; also while the job is paused or disabled. On
/// standard output stands the run's number, by which `bandog jobs history` tells of it and `bandog jobs cancel` ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of a run in `bandog jobs history --json`; with --wait as it was when it had ended.

Exit codes: 0 it was asked for, or with --wait: it ended well; 1 it did not end well; 64 no such job, wrong URL; 69 the \
store does not answer or is not there, or with --wait: no scheduler has been running for 10 s; 75 the --timeout is over; \
77 the store refuses. The run goes on, or waits on, after 69 and 75 and when this command is ended.

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
    /// How long to wait for it. Without it: as long as it takes.
    #[arg(long, value_name = "DUR", value_parser = args::wait, allow_hyphen_values = true, requires = "wait")]
    timeout: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    Desk::ask(&args.common, &args.name, async |desk| {
        let id = desk.jobs.run(&args.name).await.map_err(|error| desk.unsaid_of(&error, &args.name))?;
        if !args.common.json {
            print::done(writeln!(io::stdout(), "{id}"))?;
        }
        Nodes::of(desk).await.warn(&format!("run {id} of {:?} waits until one starts that has this job", args.name));
        if !args.wait {
            return asked(args, desk, id).await;
        }
        let run = Follower { desk, name: &args.name, id, timeout: args.timeout }.follow().await?;
        ended(args, &run)
    })
}

async fn asked(args: &Args, desk: &Desk<'_>, id: u64) -> Result<ExitCode, Fault> {
    if !args.common.json {
        return Ok(ExitCode::Done);
    }
    let run = desk.history(&args.name).await?.into_iter().find(|run| run.id == id);
    print::done(print::json(&run.ok_or_else(|| vanished(&args.name, id))?))
}

fn ended(args: &Args, run: &RunRow) -> Result<ExitCode, Fault> {
    if args.common.json {
        print::done(print::json(run))?;
    } else {
        let took = words::took(run).map(|took| format!(" after {took}")).unwrap_or_default();
        let error = run.error.as_deref().map(|error| format!(": {}", shown(error))).unwrap_or_default();
        say(&format!("run {} of {:?} ended {}{took}{error}", run.id, args.name, run.state.as_str()));
    }
    Ok(if run.state == State::Ok { ExitCode::Done } else { ExitCode::Failed })
}

/// Looks at a run until it has ended.
struct Follower<'a> {
    desk: &'a Desk<'a>,
    name: &'a str,
    id: u64,
    timeout: Option<Duration>,
}

impl Follower<'_> {
    async fn follow(&self) -> Result<RunRow, Fault> {
        let began = Instant::now();
        let line = Line::on_terminal();
        let (mut answered, mut seen, mut looked) = (began, began, None::<Instant>);
        let mut idle = Idle::default();
        loop {
            let state = match self.desk.jobs.history(self.name).await {
                Ok(runs) => {
                    answered = Instant::now();
                    idle.look(self, &runs);
                    let run = runs.into_iter().find(|run| run.id == self.id);
                    let run = run.ok_or_else(|| vanished(self.name, self.id))?;
                    if !matches!(run.state, State::Queued | State::Running) {
                        return Ok(run);
                    }
                    Some(run)
                }
                Err(error) if error.is_retryable() && answered.elapsed() < PATIENCE => None,
                Err(error) => return Err(self.desk.fault(&error)),
            };
            if looked.is_none_or(|looked| looked.elapsed() >= NODES) {
                looked = Some(Instant::now());
                if !Nodes::of(self.desk).await.is_nobody() {
                    seen = Instant::now();
                }
            }
            let waited = began.elapsed();
            if let Some(line) = &line {
                line.draw(&self.progress(state.as_ref(), waited));
            }
            self.check(state.as_ref(), waited, seen)?;
            let rest = self.timeout.map_or(PAUSE, |timeout| timeout.saturating_sub(waited).min(PAUSE));
            sleep(rest).await;
        }
    }

    /// Whether to go on.
    fn check(&self, run: Option<&RunRow>, waited: Duration, seen: Instant) -> Result<(), Fault> {
        let Self { name, id, .. } = self;
        match self.timeout {
            Some(timeout) if waited >= timeout => {
                let timeout = humantime::format_duration(timeout);
                let message = format!("run {id} of {name:?} has not ended within {timeout}: it {}", doing(run));
                Err(Fault::new(ExitCode::Busy, message))
            }
            // Whoever gives a time may be about to start a scheduler.
            None if seen.elapsed() >= PATIENCE => Err(Fault::new(
                ExitCode::Unavailable,
                format!(
                    "nobody runs jobs in {}: run {id} of {name:?} waits until a scheduler starts\n  start one, or take it \
                     back with `bandog jobs cancel {name} {id}`",
                    self.desk.store.shown()
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn progress(&self, run: Option<&RunRow>, waited: Duration) -> String {
        let waited = words::span(waited.as_secs().saturating_mul(1000));
        format!("run {} of {:?}, {waited}: it {}", self.id, self.name, doing(run))
    }
}

/// What a run does that has not ended.
fn doing(run: Option<&RunRow>) -> String {
    let node = |run: &RunRow| shown(run.node.as_deref().unwrap_or("a node"));
    match run {
        None => "cannot be seen, because the store does not answer".into(),
        Some(run) if run.state == State::Queued => "waits for a node with this job and a place for it".into(),
        Some(run) if run.orphaned => format!("was left behind by {}, which is gone", node(run)),
        Some(run) => format!("runs on {}", node(run)),
    }
}

/// Since when a run waits although nothing runs before it.
#[derive(Default)]
struct Idle {
    since: Option<Instant>,
    is_told: bool,
}

impl Idle {
    /// Tells once that there may be nobody who has this job, though schedulers run.
    fn look(&mut self, follower: &Follower<'_>, runs: &[RunRow]) {
        let waits = runs.iter().any(|run| run.id == follower.id && run.state == State::Queued);
        if !waits || runs.iter().any(|run| run.state == State::Running && !run.orphaned) {
            self.since = None;
            return;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= PATIENCE && !self.is_told {
            self.is_told = true;
            let Follower { name, id, .. } = follower;
            say(&format!(
                "run {id} of {name:?} waits though nothing of this job runs: does a scheduler that runs have it, and a \
                 place in its pool?"
            ));
        }
    }
}

fn vanished(name: &str, id: u64) -> Fault {
    Fault::new(
        ExitCode::Unavailable,
        format!("the history of {name:?} does not tell of run {id} any more; it keeps 50 of a kind"),
    )
}
