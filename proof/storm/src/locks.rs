//! Plays locks with random calls under faults, and checks the history: `storm` without a command.
//!
//! `worker` makes the calls. At the end `sweep` takes each lock once. `check` checks the history, and imports none of the
//! modules that produce it.

mod args;
mod check;
mod history;
mod share;
mod sweep;
mod worker;

use std::{io, process::ExitCode, time::Duration};

use bandog::Result;

pub(crate) use self::args::LocksArgs;
use self::{
    check::check,
    history::{History, Terms},
    sweep::sweep,
    worker::Calls,
};
use crate::{
    calls::{self, Figures, Played, Plays, Report, Until},
    fault::FaultKind,
    history::{nanos, now},
    plan::Kind,
    settings::{StoreKind, TrafficKind, WorkerArgs, name},
    test_store::{Purpose, TestStore},
    topology,
};

/// After the faults are removed, all tasks must end within this time. A task might have to wait for several long
/// critical sections, one after the other.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Makes one run for each store, and prints the reports.
pub(crate) fn run(args: &LocksArgs) -> ExitCode {
    calls::run_each(args.stores(), &args.plays, |store, seed| run_on(store, seed, args))
}

/// Runs a worker process.
pub(crate) fn work(args: &WorkerArgs) -> Result<()> {
    calls::run::<Calls>(args)
}

fn run_on(store: StoreKind, seed: u64, args: &LocksArgs) -> io::Result<Report> {
    let kinds = traffic_kinds(store, &args.kinds)?;
    let words: Vec<_> = kinds.iter().map(name).collect();
    let mut of_workers = vec!["--kinds".to_owned(), words.join(",")];
    of_workers.extend(args.evicts().then(|| "--evicts".to_owned()));
    let faults = FaultKind::of(store, args.plays.profile);
    let plays = Plays {
        purpose: Purpose { keeps: false, movable: topology::cluster::locks },
        args: of_workers,
        ends_within: ENDS_WITHIN,
        ..Plays::of(TrafficKind::Locks, store, faults, Until::Calls(args.ops), args.plays.profile)
    };
    let mut played = Played::play(plays, store, seed, &args.plays)?;
    played.drain(async |client, _| sweep(client, &kinds).await);
    played.wrong.extend(left(&played.pool.store));
    let terms = Terms { ttl: nanos(played.pool.size.ttl), place: nanos(played.pool.size.place), end: now() };
    let recorded = played.read()?;
    let history = History::of(recorded, History::resources(&played.files)?, terms);
    let findings = check(&history);
    let figures = Figures::of(&history.recorded, findings);
    played.report(figures)
}

/// The kinds of traffic that the store has. Prints the others.
fn traffic_kinds(store: StoreKind, kinds: &[Kind]) -> io::Result<Vec<Kind>> {
    let (kinds, others): (Vec<_>, Vec<_>) = kinds.iter().copied().partition(|kind| store.has(*kind));
    if !others.is_empty() {
        let others: Vec<_> = others.iter().map(name).collect();
        eprintln!(
            "these kinds of calls are left out, because the store {store} does not have them: {}",
            others.join(", ")
        );
    }
    if kinds.is_empty() { Err(io::Error::other("no kind of calls is left")) } else { Ok(kinds) }
}

/// The data that are left in the store, and should not be.
fn left(store: &TestStore) -> impl Iterator<Item = String> {
    store.left().into_iter().map(|left| format!("data left in the store: {left}"))
}
