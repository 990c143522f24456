//! Plays every way in which a program that uses bandog can end, with real processes: `cargo xtask exits --help`.
//!
//! A `cell` is one kind of exit, `play` is the program that ends, `batch` starts several programs and measures how they
//! end, `run` goes through all cells, and `report` prints the result.

mod args;
mod batch;
mod cell;
mod child;
mod play;
mod report;
mod run;

use std::process::ExitCode;

use clap::Parser;

use self::args::{Args, Role};

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Role::Play(play)) = &args.role {
        return play::run(play);
    }
    let report = run::run(&args);
    print!("{report}");
    if report.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
