//! The project's task runner: `cargo xtask --help`.

mod args;
mod book;
mod cargo_tools;
mod check;
mod deb;
mod exits;
mod fault;
mod first_run;
mod fuzz;
mod installable;
mod interop;
mod laws;
mod measure;
mod older;
mod page;
mod pre_push;
mod promises;
mod record;
mod release;
mod servers;
mod since;
mod step;
mod storm;
mod tally;
mod test;
mod test_programs;
mod tools;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Task};
use fault::Fault;

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fault.report(),
    }
}

fn run(task: Task) -> Result<(), Fault> {
    step::enter_root()?;
    match task {
        Task::Test { embedded: true, .. } => test::embedded(),
        Task::Test { since: Some(revision), java, list, .. } => test::since(revision.as_deref(), java, list),
        Task::Test { java, record, .. } => test::full(java, record),
        Task::Prove { record } => test::prove(record),
        Task::PrePush { install } => pre_push::run(install),
        Task::Check => check::run(),
        Task::Release { dry_run, json, steps } => release::run(dry_run, json, &steps),
        Task::Deb { attempt } => deb::run(attempt),
        Task::Servers { images } => test::servers(&images),
        Task::Bench { args } => measure::bench(&args),
        Task::Peers { args } => measure::peers(&args),
        Task::Compare { old, args } => measure::compare(old.as_deref(), &args),
        Task::Storm { args } => storm::run(&args),
        Task::Fuzz { inputs, seed } => fuzz::run(inputs, seed),
        Task::Exits { args } => exits::run(&args),
        Task::Interop { args } => interop::run(&args),
        Task::Older { args } => older::run(&args),
        Task::Promises { check } => promises::run(check),
        Task::Laws { check } => laws::run(check),
        Task::Book => book::run(),
        Task::Page { pictures, args } => page::run(pictures, &args),
    }
}
