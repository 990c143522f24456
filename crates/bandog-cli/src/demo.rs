//! `bandog demo`: an order service whose replicas give stock back twice, and what a scheduler does about it.
#![expect(
    clippy::future_not_send,
    reason = "the demo and its replicas have one thread each, and so have their connections"
)]

mod books;
mod fault;
mod half;
mod paint;
mod plan;
mod replica;
mod report;
mod shop;
mod staff;
mod store;
mod sweep;
mod view;

use std::{
    io::{IsTerminal, stdin},
    path::Path,
    time::Instant,
};

use tokio::runtime::Builder;

use self::{fault::Fault, half::Half, plan::Plan, report::Report, store::Store, view::View};
use crate::{exit_code::ExitCode, signals::Signals};

pub(crate) use self::{replica::run as run_replica, staff::SUBCOMMAND as REPLICA};

/// See what goes wrong without a lock, and that it does not with bandog
///
/// Starts replicas of an order service, each a process of its own. Twice a second each of them looks for orders that
/// were not paid in time, closes them and gives their stock back. On timers of their own, without a lock, several replicas
/// find the same orders, and stock is given back more than once. As a job of bandog's scheduler each tick runs on one
/// replica, and it never is.
///
/// The result is counted from the shop's database, which is deleted at the end. The exit code is 0 only when the
/// story came out as told. To make it harder, kill or stop replicas while it runs: `pkill -9 -of 'bandog __replica'`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many replicas run the service (2 to 64)
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=64))]
    replicas: u16,
    /// How many unpaid orders each half begins with (1 to 2000)
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2000))]
    orders: u32,
    /// The most that the whole demo may take, in seconds (3 to 600)
    ///
    /// The orders of a half fall overdue one after another during a fifth of it, and a half ends as soon as all of them
    /// are closed, so it usually takes half as long.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..=600))]
    seconds: u16,
    /// Play one half only
    #[arg(long, value_name = "HALF")]
    only: Option<Only>,
    /// Where the scheduler keeps its records, such as redis://localhost [default: a SQLite file that is deleted at the end]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print one JSON object per half, one per line
    #[arg(long)]
    json: bool,
}

/// The half to play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    WithLock,
    WithoutLock,
}

/// Plays the demo.
pub(crate) fn run(args: &Args) -> Result<ExitCode, crate::fault::Fault> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::System("cannot start a runtime", error))?;
    Ok(runtime.block_on(play_unless_interrupted(args))?)
}

async fn play_unless_interrupted(args: &Args) -> Result<ExitCode, Fault> {
    let plan = Plan::new(args.replicas, args.orders, args.seconds)?;
    let url = args.url.as_deref().map(store::checked).transpose()?;
    let signals = Signals::catch(stdin().is_terminal());
    let mut signals = signals.map_err(|error| Fault::System("cannot listen for signals", error))?;
    // It outlives the play, so that replicas and clients have ended when it is removed.
    let place = tempfile::Builder::new().prefix(store::PLACE).tempdir();
    let place = place.map_err(|error| Fault::System("cannot make a directory for the shop", error))?;
    let mut store = None;
    let ended = tokio::select! { biased;
        signal = signals.ending() => Ok(ExitCode::Signal(signal.as_raw())),
        played = play(args, &plan, url, &mut store, place.path()) => played.map(|()| ExitCode::Done),
    };
    // No replica runs any more.
    if let Some(store) = store {
        store.close().await;
    }
    ended
}

/// Opens the store; whoever calls this closes it.
async fn play(
    args: &Args,
    plan: &Plan,
    url: Option<String>,
    store: &mut Option<Store>,
    place: &Path,
) -> Result<(), Fault> {
    let started = Instant::now();
    let mut view = View::on_stderr();
    let mut report = Report::new(plan, args.json);
    if args.only != Some(Only::WithoutLock) {
        *store = Some(Store::open(url, place).await?);
    }
    view.open(plan);
    if args.only != Some(Only::WithLock) {
        let share = if args.only.is_some() { plan.seconds() } else { plan.seconds() / 2 };
        report.add(Half::without_lock(plan, place, started + share).play(&mut view).await?);
    }
    if let Some(store) = store {
        report.add(Half::with_lock(plan, place, started + plan.seconds(), store).play(&mut view).await?);
    }
    report.finish()
}
