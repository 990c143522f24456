//! Plays the data grid with random calls under faults, and checks the history: `storm grid`.
//!
//! The stores, the worker processes and the nemesis are those of the storm on locks. `worker` makes the calls. At the end
//! `drain` reads all objects. `check` checks the history, and imports none of the modules that produce it.

mod args;
mod check;
mod context;
mod drain;
mod history;
mod report;
#[cfg(test)]
mod tests;
mod worker;

use std::{io, process::ExitCode, time::Duration};

use bandog::ConnectOptions;

pub(crate) use self::{args::GridArgs, worker::run as work};
use self::{
    history::{History, Kind, OBJECTS, Object},
    report::Report,
};
use crate::{
    fault::FaultKind,
    history::{Files, Log},
    nemesis::Nemesis,
    plan::TIMEOUT,
    run::{directory, end_workers, print_missing, storm},
    settings::StoreKind,
    test_store::{Purpose, TestStore},
    worker_pool::{Size, WorkerPool},
};

/// Timeout for the end of the workers. On a memory store, the worker also reads all objects, and waits for the leases of
/// clients whose runtime has ended.
const END_TIMEOUT: Duration = Duration::from_secs(120);

/// Traffic on objects.
const PURPOSE: Purpose = Purpose { keeps: true, movable };

/// Makes one run for each store, and prints the reports.
pub(crate) fn run(args: &GridArgs) -> ExitCode {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut is_well = true;
    for store in args.stores() {
        match run_on(store, seed, args) {
            Ok(report) => {
                report.print(args.json);
                is_well &= report.is_well();
            }
            Err(error) => {
                eprintln!("storm: {store}: {error}");
                is_well = false;
            }
        }
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_on(store: StoreKind, seed: u64, args: &GridArgs) -> io::Result<Report> {
    let (dir, keep) = directory(store, args.keep.as_deref())?;
    let files = Files::in_dir(&dir);
    let test_store = TestStore::open(store, &dir, PURPOSE);
    let kinds = FaultKind::of_objects(store, args.profile);
    let probes = test_store.probes();
    let mut pool = WorkerPool::start(test_store, files.clone(), Size::of(store), seed, "grid-worker", &[], false);
    let mut nemesis = Nemesis::new(kinds.clone(), seed, &pool.store);
    let mut wrong = Vec::new();
    let mut faults = storm(&mut pool, &mut nemesis, args.ops, store, &mut wrong);
    print_missing(&kinds, &faults);
    end_workers(&mut pool, END_TIMEOUT, &mut wrong);
    let is_memory = matches!(pool.store, TestStore::Memory);
    if !is_memory {
        let before = History::read(&files, &pool.lives, &[], false)?;
        drain_from_here(&pool.store, &files, &before).unwrap_or_else(|error| wrong.push(error.to_string()));
    }
    faults.extend(probes.iter().flat_map(|probe| probe.faults(&faults)).collect::<Vec<_>>());
    let log = Log::open(&files.faults())?;
    faults.iter().for_each(|fault| log.write(fault));
    let mut history = History::read(&files, &pool.lives, &faults, is_memory)?;
    history.left = left(&pool.store);
    history.relays = store == StoreKind::Cluster;
    let mut report = Report::new(store, seed, &history, wrong);
    drop(pool);
    if keep || !report.is_well() {
        report.kept = Some(dir);
    } else {
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(report)
}

/// Reads all objects from this process.
fn drain_from_here(store: &TestStore, files: &Files, before: &History) -> bandog::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = ConnectOptions::parse(store.url())?.timeout(TIMEOUT).connect().await?;
        drain::drain(&client, files, before, || has_taken(store)).await;
        client.close().await
    })
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
