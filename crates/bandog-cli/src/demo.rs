//! `bandog demo`: an order service whose replicas return stock twice, and the same service with a scheduler.
#![expect(clippy::future_not_send, reason = "the demo and its replicas have one thread each")]

mod books;
mod fault;
mod paint;
mod phase;
mod plan;
mod replica;
mod replica_processes;
mod report;
mod shop;
mod store;
mod sweep;
mod view;

use std::{
    io::{IsTerminal, stdin},
    net::SocketAddr,
    path::Path,
    time::Instant,
};

use tokio::runtime::Builder;

use self::{fault::DemoFault, phase::Phase, plan::Plan, report::Report, store::DemoStore, view::View};
use crate::{
    console::report,
    exit_code::ExitCode,
    fault::Fault,
    http::{self, Language, Listening, Options, Serving},
    signals::Signals,
};

pub(crate) use self::{replica::run as run_replica, replica_processes::SUBCOMMAND as REPLICA};

/// Demonstrates what fails without a lock, and how bandog prevents it
///
/// Starts replicas of an order service, each in its own process. Twice a second each of them searches for orders that
/// were not paid in time, closes them and returns their stock. With their own timers and without a lock, several
/// replicas find the same orders, return stock more than once and notify customers more than once. If the search is a job
/// of bandog's scheduler, each tick runs on one replica, and stock is returned once; the workers of a queue notify the
/// customers.
///
/// The result is counted from the shop's database, which is deleted at the end. The exit code is 0 only if the result
/// is the expected one. To make the demo harder, kill or stop replicas while it runs:
/// `pkill -9 -of 'bandog __replica'`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json, one object for each phase: lock, replicas, orders, closed, restored, restored_more_than_once, \
phantom_units, ticks, sweeps, swept_by, taken_over, notified, notified_more_than_once, seconds. With --url, names in the store begin with `bandog-demo:`.")]
pub(crate) struct Args {
    /// Number of replicas of the service (2 to 64)
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=64))]
    replicas: u16,
    /// Number of unpaid orders at the start of each phase (1 to 2000)
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2000))]
    orders: u32,
    /// Maximum duration of the whole demo, in seconds (3 to 600)
    ///
    /// The orders of a phase become overdue one after another during a fifth of this time. A phase ends when all of
    /// them are closed, so the demo usually takes half of this time.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..=600))]
    seconds: u16,
    /// Run one phase only
    #[arg(long, value_name = "PHASE")]
    only: Option<Only>,
    /// Store of the scheduler's records, such as redis://localhost [default: a SQLite file that is deleted at the end]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Serve the page of the demo's store while the demo runs, and keep it until Ctrl-C [default address: 127.0.0.1:8080]
    ///
    /// The address is printed on standard error. The page is read-only. With more --seconds, the replicas run longer.
    #[arg(long, value_name = "ADDRESS", value_parser = http::address, num_args = 0..=1,
          default_missing_value = "127.0.0.1:8080")]
    page: Option<SocketAddr>,
    /// The language of the page: en or zh [default: that of the browser]
    #[arg(long, value_name = "LANG", requires = "page")]
    lang: Option<Language>,
    /// Print one JSON object per phase, one per line
    #[arg(long)]
    json: bool,
}

/// The phase to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    WithLock,
    WithoutLock,
}

/// Runs the demo.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    // `Listening::open` also installs the recorder of the metrics, so it comes before the creation of the first client.
    let page = args.page.map(|address| Listening::open(address, &Options::of_demo(args.lang))).transpose()?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| DemoFault::System("cannot start a runtime", error))?;
    runtime.block_on(play_unless_interrupted(args, page))
}

/// What the demo closes at its end.
#[derive(Default)]
struct Opened {
    /// The scheduler's store, if a phase or the page needs it.
    store: Option<DemoStore>,
    /// The page of this store.
    page: Option<Serving>,
}

/// Runs the demo until its end, or until a signal asks it to exit.
async fn play_unless_interrupted(args: &Args, page: Option<Listening>) -> Result<ExitCode, Fault> {
    let plan = Plan::new(args.replicas, args.orders, args.seconds)?;
    let url = args.url.as_deref().map(store::checked).transpose()?;
    let signals = Signals::catch(stdin().is_terminal());
    let mut signals = signals.map_err(|error| DemoFault::System("cannot receive signals", error))?;
    // The directory is removed at the end of this function, when all replicas and clients have ended.
    let place = tempfile::Builder::new().prefix(store::DIRECTORY_PREFIX).tempdir();
    let place = place.map_err(|error| DemoFault::System("cannot make a directory for the shop", error))?;
    let mut opened = Opened::default();
    let ended = tokio::select! { biased;
        signal = signals.ending() => Ok(ExitCode::Signal(signal.as_raw())),
        played = play(args, &plan, url, page, &mut opened, place.path()) => played.map(|()| ExitCode::Done),
    };
    let Opened { store, page } = opened;
    if let Some(page) = page {
        if matches!(ended, Ok(ExitCode::Done)) {
            report(&format!("the demo has ended; the page stays at http://{}/ until Ctrl-C", page.address()));
            signals.ending().await;
        }
        page.stop().await;
    }
    // All replicas have ended, so the store can be closed.
    if let Some(store) = store {
        store.close().await;
    }
    ended
}

/// Runs the phases. If a phase or the page needs the scheduler's store, this function opens the store. The caller closes
/// `opened`. `place` is the demo's directory.
async fn play(
    args: &Args,
    plan: &Plan,
    url: Option<String>,
    page: Option<Listening>,
    opened: &mut Opened,
    place: &Path,
) -> Result<(), Fault> {
    let mut view = View::on_stderr();
    let mut report = Report::new(plan, args.json);
    if args.only != Some(Only::WithoutLock) || page.is_some() {
        let store = opened.store.insert(DemoStore::open(url, place).await?);
        opened.page = page.map(|page| store.serve(page)).transpose()?;
    }
    let started = Instant::now();
    view.open(plan);
    if args.only != Some(Only::WithLock) {
        // If there are two phases, each gets half of the demo's time.
        let share = if args.only.is_some() { plan.seconds() } else { plan.seconds() / 2 };
        report.add(Phase::without_lock(plan, place, started + share).play(&mut view).await?);
    }
    if let Some(store) = opened.store.as_ref().filter(|_| args.only != Some(Only::WithoutLock)) {
        report.add(Phase::with_lock(plan, place, started + plan.seconds(), store).play(&mut view).await?);
    }
    Ok(report.finish()?)
}
