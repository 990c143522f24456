//! `bandog torture`: traffic on locks of its own, while the user makes their store fail. Counts what was lost.

mod args;
mod cleaning;
mod family;
mod kills;
mod plan;
mod report;
mod tally;
mod worker;

use std::{
    io::{IsTerminal, stdin},
    sync::Arc,
    time::{Duration, Instant},
};

use bandog::{Client, ConnectOptions, ErrorKind, admin::Row};
use futures_util::future::join_all;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{self, MissedTickBehavior, timeout},
};

pub(crate) use self::args::Args;
use self::{
    cleaning::{Cleaning, TOGETHER, close},
    kills::Kills,
    plan::Plan,
    report::{Outcome, progress, removed_later},
    tally::Tally,
    worker::Worker,
};
use crate::{console, exit_code::ExitCode, fault::Fault, lock::Handle, runtime, signals::Signals, store::Store};

/// Interval between two lines about the progress.
const PROGRESS: Duration = Duration::from_secs(5);
/// Time limit of the first claim of each kind. No other client uses the names.
const PATIENCE: Duration = Duration::from_secs(5);
/// A worker hangs if it has not ended this time after the end of the traffic.
const HANGS: Duration = Duration::from_secs(60);

/// Makes the traffic, and prints the report.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    let options = store.options_in_process()?.program("bandog torture");
    let kills = Kills::of(&args.kill, args.duration)?;
    runtime::block_on_with_io(async {
        let signals = Signals::catch(stdin().is_terminal());
        let mut signals = signals.map_err(|error| Fault::system("cannot receive signals", error))?;
        let (first, mut plan) = (store.client(options.clone())?, Plan::of(args)?);
        let mut claimed = Vec::new();
        let ended = tokio::select! { biased;
            signal = signals.ending() => Some(Ok(ExitCode::Signal(signal.as_raw()))),
            kinds = kinds(&store, &first, &mut plan, args.kinds.is_empty(), &mut claimed) => kinds.err().map(Err),
        };
        if let Some(ended) = ended {
            // The locks of this command are released then, if the store answers. So after a signal, the command does not wait
            // for a name that is still held: another program holds it.
            let patience = if ended.is_ok() { Duration::ZERO } else { cleaning::patience(&options, plan.lease) };
            let cleaning = async {
                close(&first).await; // Returns when the locks are released.
                Cleaning::of_names(&store, options, patience, claimed).await
            };
            tokio::select! { biased;
                _ = signals.ending() => report_left_behind(&plan),
                cleaning = cleaning => {
                    let names = cleaning.left_behind();
                    if !names.is_empty() {
                        console::report(&format!("these names stay in the store: {}", names.join(" ")));
                    }
                }
            }
            return ended;
        }
        close(&first).await;
        let traffic = Traffic { args, store: &store, options, plan: Arc::new(plan), kills };
        traffic.run(&mut signals).await
    })
}

/// Takes one lock of each kind. Removes the kinds that the store does not have, if the user has not named them. Adds the
/// names that may be in the store now to `claimed`.
async fn kinds(
    store: &Store,
    client: &Client,
    plan: &mut Plan,
    by_default: bool,
    claimed: &mut Vec<String>,
) -> Result<(), Fault> {
    client.ready().await.map_err(|error| store.fault(&error))?;
    for (family, name) in plan.first_names() {
        let handle = Handle::new(client, &name, family.exclusive_kind(), plan.lease, &client.owner());
        claimed.push(name.clone());
        let error = match handle.try_lock_for(PATIENCE).await {
            Ok(Some(_)) => continue,
            Ok(None) => {
                claimed.pop(); // The name is not ours.
                return Err(in_use(store, &name));
            }
            Err(error) => error,
        };
        let is_missing = matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Misused);
        if !(is_missing && by_default) || plan.families.len() == 1 {
            return Err(store.fault(&error));
        }
        console::report(&format!("{} locks are left out: {error}", family.word()));
        plan.leave_out(family);
    }
    held(client, plan).await.map_or(Ok(()), |name| Err(in_use(store, &name)))
}

/// A name of the plan that another program holds. The first names are not read, because this command has claimed them. A
/// user who may not read locks gets no answer here.
async fn held(client: &Client, plan: &Plan) -> Option<String> {
    let first: Vec<_> = plan.first_names().into_iter().map(|(_, name)| name).collect();
    let names: Vec<_> = plan.names.iter().map(|name| &name.text).filter(|name| !first.contains(name)).collect();
    for part in names.chunks(TOGETHER) {
        let rows = join_all(part.iter().map(|name| client.show(name))).await;
        let is_held = |row: &bandog::Result<Row>| row.as_ref().is_ok_and(Row::is_held);
        if let Some((name, _)) = part.iter().zip(rows).find(|(_, row)| is_held(row)) {
            return Some((*name).clone());
        }
    }
    None
}

fn in_use(store: &Store, name: &str) -> Fault {
    let message = format!("another program holds {name:?} in {}: use another --prefix", store.redacted());
    Fault::new(ExitCode::Busy, message)
}

/// Reports that a second signal has ended the command before it has removed its names.
fn report_left_behind(plan: &Plan) {
    let hint = removed_later(&plan.prefix);
    console::report(&format!("ended by a second signal: names that begin with {:?} stay behind; {hint}", plan.prefix));
}

/// The traffic of one run.
struct Traffic<'a> {
    args: &'a Args,
    store: &'a Store,
    options: ConnectOptions,
    plan: Arc<Plan>,
    kills: Kills,
}

impl Traffic<'_> {
    /// Makes the traffic, removes what it has left in the store, and prints the report.
    async fn run(mut self, signals: &mut Signals) -> Result<ExitCode, Fault> {
        let Self { args, store, plan, .. } = &self;
        console::report(&format!(
            "{} workers take {} locks in {} for {:?}; their names begin with {:?}",
            args.workers,
            plan.kinds().join(", "),
            store.redacted(),
            args.duration,
            plan.prefix
        ));
        let clients = (0..args.workers).map(|_| store.client(self.options.clone())).collect::<Result<Vec<_>, _>>()?;
        let tally = Arc::new(Tally::new(Arc::clone(plan)));
        let (stop, stopped) = watch::channel(false);
        let mut workers = JoinSet::new();
        for (number, client) in clients.into_iter().enumerate() {
            workers.spawn(Worker::new(number, client, &tally, plan, stopped.clone()).run());
        }
        self.wait(&tally, signals).await;
        tally.end();
        console::report("the traffic has ended; the workers release their locks, and the names are removed");
        // An error means that all workers have ended.
        let _ = stop.send(true);
        let (args, store) = (self.args, self.store);
        let ending = async {
            let hung = self.hung(&mut workers).await;
            let cleaning = Cleaning::of(self.store, self.options.clone(), &self.plan).await;
            (hung, cleaning)
        };
        let (hung, cleaning) = tokio::select! { biased;
            signal = signals.ending() => {
                report_left_behind(&self.plan);
                return Ok(ExitCode::Signal(signal.as_raw()));
            }
            ended = ending => ended,
        };
        let outcome = Outcome { args, plan: &self.plan, store, figures: tally.figures(), hung, cleaning };
        outcome.print()
    }

    /// Waits for the end of the traffic, or for a signal. Sends the signals of --kill, and reports the progress.
    async fn wait(&mut self, tally: &Tally, signals: &mut Signals) {
        let began = Instant::now();
        let mut end = std::pin::pin!(time::sleep(self.args.duration));
        let mut ticks = time::interval_at(time::Instant::now() + PROGRESS, PROGRESS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut before = tally.figures();
        loop {
            tokio::select! { biased;
                _ = signals.ending() => {
                    console::report("the traffic ends early; a second signal ends the command at once");
                    return;
                }
                () = &mut end => return,
                () = self.kills.next(began) => {}
                _ = ticks.tick() => {
                    let now = tally.figures();
                    console::report_queued(&progress(began.elapsed(), &before, &now, PROGRESS));
                    before = now;
                }
            }
        }
    }

    /// Waits until all workers have ended. Returns the number of workers that hang.
    async fn hung(&self, workers: &mut JoinSet<()>) -> usize {
        let all = async { while workers.join_next().await.is_some() {} };
        // A worker that hangs stays in the set.
        let _ = timeout(HANGS, all).await;
        workers.len()
    }
}
