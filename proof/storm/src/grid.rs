//! Plays the data grid with random calls under faults, and checks the history: `storm grid`.
//!
//! The stores, the worker processes and the nemesis are those of the storm on locks. `worker` makes the calls. At the end
//! `drain` reads all objects. `check` checks the history, and imports none of the modules that produce it.

mod args;
mod check;
mod context;
mod drain;
mod history;
#[cfg(test)]
mod tests;
mod worker;

use std::{io, process::ExitCode};

use bandog::Result;

pub(crate) use self::args::GridArgs;
use self::{
    check::check,
    history::{History, Kind, OBJECTS, Object, Objects},
    worker::{Calls, LARGEST},
};
use crate::{
    calls::{self, Figures, Played, Plays, Recorded, Report, Until, word},
    fault::FaultKind,
    settings::{Profile, StoreKind, TrafficKind, WorkerArgs},
    test_store::{Purpose, TestStore},
};

/// The end of the key of what a map with ttls keeps for its programs. It is no entry, and has no ttl.
const SETTINGS: &str = ":redisson_options";

/// Makes one run for each store, and prints the reports.
pub(crate) fn run(args: &GridArgs) -> ExitCode {
    calls::run_each(args.stores(), &args.plays, |store, seed| run_on(store, seed, args))
}

/// Runs a worker process.
pub(crate) fn work(args: &WorkerArgs) -> Result<()> {
    calls::run::<Calls>(args)
}

fn run_on(store: StoreKind, seed: u64, args: &GridArgs) -> io::Result<Report> {
    let faults = FaultKind::of_objects(store, args.plays.profile);
    let plays = Plays {
        purpose: Purpose { keeps: true, movable },
        ..Plays::of(TrafficKind::Grid, store, faults, Until::Calls(args.ops), args.plays.profile)
    };
    let mut played = Played::play(plays, store, seed, &args.plays)?;
    played.drain(async |client, played| {
        let before = Recorded::<Objects>::read(&played.files, &[], &[]).expect("the history can be read");
        drain::drain(
            client,
            &played.files,
            &before.calls,
            || has_taken(&played.pool.store),
            || with_ttls(&played.pool.store).iter().any(|key| !key.contains(SETTINGS)),
        )
        .await;
        Vec::new()
    });
    let mut history = History::of(played.read()?);
    history.left = left(&played.pool.store);
    // A script that lacks a right ends in its middle: a lease without an element is removed by the next take of the object.
    if played.faults.iter().any(|fault| fault.kind == FaultKind::RightMissing) {
        history.left.retain(|key| !key.starts_with("bandog:leases:"));
    }
    history.left.extend(with_ttls(&played.pool.store));
    history.largest = if args.plays.profile.has(Profile::Sizes) { LARGEST } else { 0 };
    history.relays = store == StoreKind::Cluster;
    let messages: usize = history.subscriptions.values().map(|subscription| subscription.events.len()).sum();
    played.report(Figures::of(&history.recorded, check(&history)).with("messages", messages))
}

/// Whether an element is taken at a server.
fn has_taken(store: &TestStore) -> bool {
    helper_keys(store).iter().any(|(key, _)| key.starts_with("bandog:taken:") || key.starts_with("bandog:again:"))
}

/// The keys that are left besides the objects, and should not be.
fn left(store: &TestStore) -> Vec<String> {
    let mut left = helper_keys(store);
    left.retain(|(key, ttl)| {
        let may_stay = key.starts_with("bandog:fence:") || key.starts_with("bandog:ops:");
        !may_stay || *ttl < 0
    });
    left.into_iter().map(|(key, ttl)| format!("{key}, ttl {ttl} ms")).collect()
}

/// The keys of objects that have a ttl, except those that the store itself removes later.
fn with_ttls(store: &TestStore) -> Vec<String> {
    let masters = store.masters();
    let is_master = |port: u16| masters.as_ref().is_none_or(|masters| masters.contains(&port));
    let names: Vec<String> =
        Kind::all().filter(|kind| kind.has_ttl()).map(|kind| format!("storm:{}.", word(&kind))).collect();
    let mut left = Vec::new();
    for server in store.servers().into_iter().filter(|server| is_master(server.port())) {
        let keys = server.keys().into_iter().filter(|key| names.iter().any(|name| key.contains(name)));
        let remembered = |key: &String| {
            let is_helper = key.starts_with("bandog:fence:") || key.starts_with("bandog:ops:");
            is_helper && server.pttl(key) != -1 || server.pttl(key) == -2
        };
        left.extend(keys.filter(|key| !remembered(key)).map(|key| format!("{key}, ttl {} ms", server.pttl(&key))));
    }
    left
}

/// The keys of bandog's own for objects, with their ttls.
fn helper_keys(store: &TestStore) -> Vec<(String, i64)> {
    let masters = store.masters();
    let is_master = |port: u16| masters.as_ref().is_none_or(|masters| masters.contains(&port));
    let servers = store.servers().into_iter().filter(|server| is_master(server.port()));
    let keys = servers.flat_map(|server| server.keys().into_iter().map(|key| (server.pttl(&key), key)));
    keys.filter(|(_, key)| {
        let key = key.strip_prefix("bandog:");
        key.is_some_and(|key| {
            ["taken:", "leases:", "again:", "fence:", "ops:"].iter().any(|part| key.starts_with(part))
        })
    })
    // A key that has expired meanwhile has the ttl -2.
    .filter(|(ttl, _)| *ttl != -2)
    .map(|(ttl, key)| (key, ttl))
    .collect()
}

/// Names of objects whose slots move to another node.
fn movable(random: &mut fastrand::Rng) -> Vec<String> {
    let objects: Vec<_> = Kind::all().flat_map(|kind| (0..OBJECTS).map(move |number| Object(kind, number))).collect();
    let number = random.usize(1..6);
    random.choose_multiple(objects, number).into_iter().map(Object::name).collect()
}
