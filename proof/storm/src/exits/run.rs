//! Plays all cells. The arguments of the program say how often each cell is played.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use bandog_testkit::RedisServer;
use clap::ValueEnum;

use super::{
    args::ExitsArgs,
    batch::Batch,
    cell::{Cell, Store},
    report::Report,
};

/// Number of batches that run at the same time.
const BATCHES_AT_ONCE: usize = 3;

/// Plays the cells that were requested, and returns the results.
pub(crate) fn run(args: &ExitsArgs) -> Report {
    let mut report = Report::new(Instant::now());
    let wanted: Vec<Cell> = Cell::all().filter(|cell| cell.to_string().contains(&args.only)).collect();
    let (left_out, cells): (Vec<Cell>, Vec<Cell>) =
        wanted.into_iter().partition(|cell| cell.makes_no_sense().is_some());
    report.leave_out(&left_out);
    if args.list {
        report.list(&cells);
        return report;
    }
    let batches = Mutex::new(batches(&cells, args));
    let (report, shared_server) = (Mutex::new(report), RedisServer::start());
    let play_batches = || {
        // Each thread has its own Redis server, which the thread can kill or stop. Each thread also has its own SQLite
        // file, because many programs on one file would wait for each other's commits.
        let (own_server, dir) = (RedisServer::start(), tempfile::tempdir().expect("a directory can be created"));
        loop {
            let next = batches.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(batch) = next else { return };
            let url = match batch.store {
                Store::Memory => "memory:exits".to_owned(),
                Store::Sqlite => format!("sqlite:{}", dir.path().join("exits.db").display()),
                Store::Redis => shared_server.url(),
                Store::RedisKilled | Store::RedisStopped => own_server.url(),
            };
            let exits = batch.play(&url, &own_server);
            report.lock().unwrap_or_else(PoisonError::into_inner).add(exits);
        }
    };
    // When a thread ends, the operating system kills the children that this thread started. So each thread lives until
    // its children have ended.
    thread::scope(|scope| {
        for _ in 0..BATCHES_AT_ONCE {
            scope.spawn(play_batches);
        }
    });
    report.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Distributes the exits over batches. All cells of a batch have the same store. Usually a batch contains different
/// cells.
fn batches(cells: &[Cell], args: &ExitsArgs) -> VecDeque<Batch> {
    let mut first = 0;
    let mut all = VecDeque::new();
    for &store in Store::value_variants() {
        let cells_of_store: Vec<Cell> = cells.iter().copied().filter(|cell| cell.store == store).collect();
        // The suspect cell is also one of the other cells, so this is the number of its additional plays.
        let extra = args.suspect.saturating_sub(args.each);
        let suspects = cells_of_store.iter().filter(|cell| **cell == Cell::SUSPECT).flat_map(|cell| vec![*cell; extra]);
        let exits: Vec<Cell> = (0..args.each).flat_map(|_| cells_of_store.iter().copied()).chain(suspects).collect();
        for cells in exits.chunks(Batch::size(store)) {
            all.push_back(Batch { store, cells: cells.to_vec(), first });
            first += cells.len();
        }
    }
    all
}
