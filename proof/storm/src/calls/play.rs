//! One run on one store: first traffic with faults, then the end of all clients, then the reading of all objects.

use std::{io, path::PathBuf, process::ExitCode, time::Duration};

use bandog::{Client, ConnectOptions};

use super::{
    args::PlayArgs,
    call::Words,
    recorded::Recorded,
    report::{Figures, Report},
};
use crate::{
    fault::{Fault, FaultKind},
    history::{Files, Log},
    nemesis::{Nemesis, Target},
    plan::TIMEOUT,
    probe::Probe,
    run::{directory, end_workers, print_missing, storm},
    settings::{Profile, StoreKind},
    test_store::{Purpose, TestStore},
    worker_pool::{Size, WorkerPool},
};

/// How one kind of traffic is played.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plays {
    /// The hidden command of the worker processes.
    pub(crate) role: &'static str,
    pub(crate) purpose: Purpose,
    /// The faults of a store in a profile.
    pub(crate) kinds: fn(StoreKind, Profile) -> Vec<FaultKind>,
    pub(crate) target: Target,
    /// Timeout for the end of the workers.
    pub(crate) ends_within: Duration,
}

/// A run whose workers have ended.
pub(crate) struct Played {
    store: StoreKind,
    seed: u64,
    pub(crate) files: Files,
    pub(crate) pool: WorkerPool,
    faults: Vec<Fault>,
    probes: Vec<Probe>,
    /// Problems that the history does not contain, such as a worker that died.
    wrong: Vec<String>,
    dir: PathBuf,
    keep: bool,
}

/// Makes one run for each store, and prints the reports.
pub(crate) fn run_each(
    stores: Vec<StoreKind>,
    args: &PlayArgs,
    run_on: impl Fn(StoreKind, u64) -> io::Result<Report>,
) -> ExitCode {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut is_well = true;
    for store in stores {
        match run_on(store, seed) {
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

impl Played {
    /// Makes calls under faults, and ends the workers.
    pub(crate) fn play(plays: Plays, store: StoreKind, seed: u64, ops: u64, args: &PlayArgs) -> io::Result<Self> {
        let (dir, keep) = directory(store, args.keep.as_deref())?;
        let files = Files::in_dir(&dir);
        let test_store = TestStore::open(store, &dir, plays.purpose);
        let kinds = (plays.kinds)(store, args.profile);
        let probes = test_store.probes();
        let mut pool = WorkerPool::start(test_store, files.clone(), Size::of(store), seed, plays.role, &[], false);
        let mut nemesis = Nemesis::new(kinds.clone(), seed, plays.target, &pool.store);
        let mut wrong = Vec::new();
        let faults = storm(&mut pool, &mut nemesis, ops, store, &mut wrong);
        print_missing(&kinds, &faults);
        end_workers(&mut pool, plays.ends_within, &mut wrong);
        Ok(Self { store, seed, files, pool, faults, probes, wrong, dir, keep })
    }

    fn is_memory(&self) -> bool {
        matches!(self.pool.store, TestStore::Memory)
    }

    /// Reads all objects with a client of this process. The worker of a memory store has done so.
    pub(crate) fn drain(&mut self, drain: impl AsyncFnOnce(&Client, &Self)) {
        if self.is_memory() {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let drained = runtime.block_on(async {
            let client = ConnectOptions::parse(self.pool.store.url())?.timeout(TIMEOUT).connect().await?;
            drain(&client, self).await;
            client.close().await
        });
        self.wrong.extend(drained.err().map(|error: bandog::Error| error.to_string()));
    }

    /// Writes the faults to the history, and reads what the clients have recorded.
    ///
    /// # Errors
    /// If the history cannot be written or read.
    pub(crate) fn read<W: Words>(&mut self) -> io::Result<Recorded<W>> {
        let probed: Vec<_> = self.probes.drain(..).flat_map(|probe| probe.faults(&self.faults)).collect();
        self.faults.extend(probed);
        let log = Log::open(&self.files.faults())?;
        self.faults.iter().for_each(|fault| log.write(fault));
        let mut recorded = Recorded::read(&self.files, &self.pool.lives, &self.faults, self.is_memory())?;
        recorded.disturbances.has_locks =
            matches!(self.store, StoreKind::Sqlite | StoreKind::Postgres | StoreKind::Mariadb);
        Ok(recorded)
    }

    /// Ends the store, and removes the history if nothing is wrong.
    ///
    /// # Errors
    /// If the history cannot be removed.
    pub(crate) fn report(self, figures: Figures) -> io::Result<Report> {
        let Self { store, seed, pool, wrong, dir, keep, .. } = self;
        let mut report = Report { store, seed, figures, wrong, kept: None };
        drop(pool);
        if keep || !report.is_well() {
            report.kept = Some(dir);
        } else {
            std::fs::remove_dir_all(&dir)?;
        }
        Ok(report)
    }
}
