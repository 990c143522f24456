//! Makes random calls on locks while faults are injected, records a history, and checks the history. The module `ticks`
//! does the same with scheduled jobs, `grid` with the data grid, and `work` with work queues. `cargo xtask storm --help`,
//! `storm ticks --help`, `storm grid --help` and `storm work --help` print the options. The module `exits` ends programs in
//! every possible way.
//!
//! `calls` has what all of them share, and says how a call, a fault and a law are added. `nemesis` injects the faults. Of
//! each kind of traffic, `worker` makes the calls in separate processes, and `check` checks the history; it imports neither
//! `worker` nor `nemesis`. docs/GUARANTEES.md contains the promises, and docs/PROOF.md contains the results.

mod args;
mod calls;
mod exits;
mod fault;
mod grid;
mod history;
mod locks;
mod nemesis;
mod plan;
mod probe;
mod settings;
mod sqlite_files;
mod test_store;
mod ticks;
mod topology;
mod work;
mod worker_pool;

use std::process::ExitCode;

use clap::Parser;

use self::{
    args::{Args, Role},
    settings::{TrafficKind, WorkerArgs},
};

fn main() -> ExitCode {
    let args = Args::parse();
    match &args.role {
        Some(Role::Worker(worker)) => work_on(worker),
        Some(Role::Exits(args)) => exits::run(args),
        Some(Role::Grid(args)) => grid::run(args),
        Some(Role::Work(args)) => work::run(args),
        Some(Role::Ticks(args)) => ticks::run(args),
        None => locks::run(&args.locks),
    }
}

/// Runs a worker process.
fn work_on(args: &WorkerArgs) -> ExitCode {
    let result = match args.traffic {
        TrafficKind::Locks => locks::work(args),
        TrafficKind::Ticks => ticks::work(args),
        TrafficKind::Grid => grid::work(args),
        TrafficKind::Work => work::work(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("storm: {error}");
            ExitCode::FAILURE
        }
    }
}
