//! Every way in which a program that uses bandog can end, played by real processes: `cargo xtask exits --help`.
//!
//! `cell` names what differs between two programs, `play` is such a program, `batch` starts several of them and measures
//! how they end, `run` goes through all cells, `report` prints the result.

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
