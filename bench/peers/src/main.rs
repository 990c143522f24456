//! What a user would pick instead of bandog, measured beside it: tasks that lock and release one name, with nothing in
//! between. Who is told of a release and who polls, and who waits for ever, decides it.

mod figures;
#[path = "../../src/floor.rs"]
mod floor;
mod peer;
mod trial;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use bandog_testkit::RedisServer;
use clap::Parser;

use self::{figures::Figures, peer::Which, trial::trial};

/// Peers beside bandog, in one run. The server is its own, on a free port, and ends with it.
#[derive(Parser)]
struct Args {
    /// Whom to measure, such as rslock; without a name everybody. The floor and bandog always take part.
    who: Vec<String>,
    /// How long each figure is measured, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How often each figure is measured; the middle one counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Keeps the raw figures in this file.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// Alone, and all on one name.
const TASKS: [usize; 2] = [1, 64];

fn main() -> ExitCode {
    let args = Args::parse();
    let mut all: Vec<Which> = Which::ALL.into_iter().filter(|which| which.is_asked_for(&args.who)).collect();
    if let Some(unknown) = args.who.iter().find(|who| !Which::ALL.iter().any(|which| which.is_named(who))) {
        eprintln!("peers: {unknown:?} is not known; known are {}", Which::ALL.map(|which| which.name()).join(", "));
        return ExitCode::from(64);
    }
    let span = Duration::from_secs_f64(args.seconds);
    let server = RedisServer::start();
    let mut figures = Figures::new(args.rounds, span);
    for round in 0..args.rounds {
        for tasks in TASKS {
            for which in all.iter().copied().filter(|which| which.takes(tasks)) {
                // A key that somebody left behind is not to hold up the next.
                server.cmd(&["FLUSHALL"]);
                let outcome = trial(which, &server.url(), tasks, span);
                figures.add(round, tasks, which, outcome);
            }
        }
        // Nobody always comes after the same neighbour at the same time of the run.
        all.rotate_left(1);
    }
    figures.finish(args.keep.as_deref())
}
