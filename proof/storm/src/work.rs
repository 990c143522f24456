//! Plays work queues with random calls and handlers under faults, and checks the history: `storm work`.
//!
//! `worker` pushes, operates and works on the queues. At the end, `drain` works on all elements that are left. `check`
//! checks the history, and imports none of the modules that produce it.

mod args;
mod check;
mod context;
mod drain;
mod history;
#[cfg(test)]
mod tests;
mod worker;

use std::{io, process::ExitCode, time::Duration};

use bandog::Result;

pub(crate) use self::args::WorkArgs;
use self::{
    check::check,
    history::{History, Queue},
    worker::Calls,
};
use crate::{
    calls::{self, Figures, Played, Plays, Report, Until},
    fault::FaultKind,
    nemesis::Target,
    settings::{StoreKind, TrafficKind, WorkerArgs},
    test_store::{Purpose, TestStore},
};

/// Processes are stopped for longer than most leases.
const TARGET: Target = Target { ttl: Duration::from_millis(1_500), table: "bandog_work", ..Target::LOCKS };
/// SQL queries for what the queues should not have any more.
const LEFT: [&str; 2] = [include_str!("sql/left_work.sql"), include_str!("sql/left_work_rows.sql")];

/// Makes one run for each store, and prints the reports.
pub(crate) fn run(args: &WorkArgs) -> ExitCode {
    calls::run_each(args.stores(), &args.plays, |store, seed| run_on(store, seed, args))
}

/// Runs a worker process.
pub(crate) fn work(args: &WorkerArgs) -> Result<()> {
    calls::run::<Calls>(args)
}

fn run_on(store: StoreKind, seed: u64, args: &WorkArgs) -> io::Result<Report> {
    let faults = FaultKind::of_queues(store, args.plays.profile);
    let plays = Plays {
        purpose: Purpose { keeps: true, movable },
        target: TARGET,
        ..Plays::of(TrafficKind::Work, store, faults, Until::Calls(args.ops), args.plays.profile)
    };
    let mut played = Played::play(plays, store, seed, &args.plays)?;
    played.drain(async |client, played| {
        drain::drain(client, &played.files).await;
        Vec::new()
    });
    let mut history = History::of(played.read()?);
    history.left = left(&played.pool.store);
    played.report(Figures::of(&history.recorded, check(&history)).with("handlings", history.handlings.len()))
}

/// The keys and rows that are left, and should not be.
fn left(store: &TestStore) -> Vec<String> {
    let mut left = store.select(LEFT[0], LEFT[1]);
    let masters = store.masters();
    let is_master = |port: u16| masters.as_ref().is_none_or(|masters| masters.contains(&port));
    for server in store.servers().into_iter().filter(|server| is_master(server.port())) {
        let keys = server.keys().into_iter().filter(|key| key.starts_with("bandog:work:"));
        // What is kept for a time has a ttl.
        left.extend(keys.filter(|key| server.pttl(key) == -1).map(|key| format!("{key}, which never expires")));
    }
    left
}

/// Names of queues whose slots move to another node.
fn movable(random: &mut fastrand::Rng) -> Vec<String> {
    let number = random.usize(1..=Queue::ALL.len());
    random.choose_multiple(Queue::ALL, number).into_iter().map(Queue::name).collect()
}
