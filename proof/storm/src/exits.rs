//! Starts real programs that use bandog, ends them in every possible way, and checks their exits. The command
//! `cargo xtask exits --help` prints the options.
//!
//! A `cell` is one kind of exit, and `play` is the program that ends in this way. `child` starts and measures one
//! program, `batch` starts several programs, `run` goes through all cells, and `report` prints the results.

mod args;
mod batch;
mod cell;
mod child;
mod play;
mod report;
mod run;

use std::process::ExitCode;

pub(crate) use self::args::ExitsArgs;
use self::args::Role;

/// Plays one cell in this process, or all cells in child processes.
pub(crate) fn run(args: &ExitsArgs) -> ExitCode {
    if let Some(Role::Play(play)) = &args.role {
        return play::run(play);
    }
    let report = run::run(args);
    print!("{report}");
    if report.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
