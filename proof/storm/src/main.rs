//! Makes random calls on locks while faults are injected, records a history, and checks the history. The module `ticks`
//! does the same with scheduled jobs, `grid` with the data grid, and `work` with work queues. `cargo xtask storm --help`,
//! `storm ticks --help`, `storm grid --help` and `storm work --help` print the options. The module `exits` ends programs in
//! every possible way.
//!
//! `worker` makes the calls, in separate processes. `nemesis` injects faults. `check` checks the history, and imports
//! neither `worker` nor `nemesis`. docs/GUARANTEES.md contains the promises, and docs/PROOF.md contains the results.

mod args;
mod calls;
mod check;
mod exits;
mod fault;
mod grid;
mod history;
mod nemesis;
mod plan;
mod probe;
mod report;
mod run;
mod settings;
mod share;
mod sqlite_files;
mod step;
mod sweep;
mod test_store;
mod ticks;
mod topology;
mod work;
mod worker;
mod worker_pool;

use std::process::ExitCode;

use clap::Parser;

use self::{
    args::{Args, Role},
    settings::StoreKind,
};

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.role {
        Some(Role::Worker(worker)) => worker::run(worker),
        Some(Role::TicksNode(node)) => ticks::node(node),
        Some(Role::GridWorker(worker)) => grid::work(worker),
        Some(Role::WorkWorker(worker)) => work::work(worker),
        Some(Role::Exits(args)) => return exits::run(args),
        Some(Role::Grid(args)) => return grid::run(args),
        Some(Role::Work(args)) => return work::run(args),
        Some(Role::Ticks(args)) => return ticks::run(args),
        None => return run_on_stores(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("storm: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes one run of calls on locks for each store, and prints the reports.
fn run_on_stores(args: &Args) -> ExitCode {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let stores = if args.stores.is_empty() { StoreKind::DEFAULT.to_vec() } else { args.stores.clone() };
    // Whether no run has found a problem.
    let mut well = true;
    for store in stores {
        match run::run(store, seed, args) {
            Ok(summary) => {
                well &= summary.is_well();
                if args.json { println!("{}", summary.json()) } else { print!("{summary}") }
            }
            Err(error) => {
                eprintln!("storm: {store}: {error}");
                well = false;
            }
        }
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
