//! Other lock libraries, measured together with bandog: tasks lock and release one name, with an empty section. The
//! results depend on how a waiter notices a release: by a notification, by polling, or not at all.

mod figures;
#[path = "../../bench/src/floor.rs"]
mod floor;
mod peer;
mod trial;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use bandog_testkit::RedisServer;
use clap::Parser;

use self::{figures::Figures, peer::Which, trial::trial};

/// Measures bandog and its peers in one run. The benchmark starts its own server on a free port, and stops it at the
/// end.
#[derive(Parser)]
struct Args {
    /// The peers to measure, such as rslock [default: all]. The floor and bandog are always measured.
    who: Vec<String>,
    /// Duration of each measurement, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Number of measurements of each figure. The middle one is reported.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Keeps the raw figures in this file.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// Numbers of tasks that are measured: one task alone, and 64 tasks on one name.
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
                // A key that a peer has left in the server must not delay the next peer.
                server.cmd(&["FLUSHALL"]);
                let outcome = trial(which, &server.url(), tasks, span);
                figures.add(round, tasks, which, outcome);
            }
        }
        // Each round begins with another peer, so that no peer is always measured at the same time of the run.
        all.rotate_left(1);
    }
    figures.finish(args.keep.as_deref())
}
