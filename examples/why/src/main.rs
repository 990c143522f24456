//! Locks that fail, and what repairs them: each scene is a small order service with a lock, in its own servers.

mod database;
mod jobs;
mod node;
mod programs;
mod redis;
mod replica;
mod section;
mod service;
mod shop_in_sql;
mod stage;
mod stock;
mod verdict;
mod zookeeper;

use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use programs::Program;
use stage::Stage;

/// A result of this program. Its errors are for the user.
pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Prints a line of the time line.
macro_rules! say {
    ($stage:expr, $who:expr, $($what:tt)*) => { $stage.say($who, format!($($what)*)) };
}
pub(crate) use say;

/// A server program of a scene is missing (`EX_UNAVAILABLE`).
const UNAVAILABLE: u8 = 69;

/// A scene of the book.
struct Scene {
    name: &'static str,
    what: &'static str,
    needs: &'static [Program],
    play: fn(&Stage) -> Result,
}

const fn scene(name: &'static str, needs: &'static [Program], what: &'static str, play: fn(&Stage) -> Result) -> Scene {
    Scene { name, what, needs, play }
}

const REDIS: &[Program] = &[Program::Redis];
const POSTGRES: &[Program] = &[Program::Postgres];
const ZOOKEEPER: &[Program] = &[Program::ZooKeeper];

/// All scenes, in the order of the book.
const SCENES: &[Scene] = &[
    scene("timer", &[], "no lock: each replica returns the stock", redis::timer),
    scene("forever", REDIS, "SETNX without a ttl, and the holder dies", redis::forever),
    scene("short", REDIS, "SET NX PX, and the work takes longer than the ttl", redis::short),
    scene("delete", REDIS, "a late holder deletes the lock of the next one", redis::delete),
    scene("token", REDIS, "compare and delete repairs `delete`, and not `short`", redis::token),
    scene("watchdog", REDIS, "a renewing thread repairs `short`", redis::watchdog),
    scene("pause", REDIS, "the holder is paused, and its renewing thread with it", redis::pause),
    scene("fence", REDIS, "a number with each grant repairs `pause`", redis::fence),
    scene("failover", REDIS, "the master dies before its replica has the lock", redis::failover),
    scene("quorum", REDIS, "bandog over three servers, one of which dies", redis::quorum),
    scene("bandog", REDIS, "bandog on one server: long work, a pause, a kill", redis::bandog),
    scene("clocks", POSTGRES, "a table of locks, with the clocks of the clients", database::clocks),
    scene("server", POSTGRES, "the clock of the server repairs `clocks`", database::server),
    scene("pooled", POSTGRES, "an advisory lock, and its unlock in another connection", database::pooled),
    scene("commit", POSTGRES, "bandog: the transaction of the write checks the lock", database::commit),
    scene("session", ZOOKEEPER, "an ephemeral node, and its client is paused", zookeeper::session),
    scene("czxid", ZOOKEEPER, "bandog: the number of the node repairs `session`", zookeeper::czxid),
    scene("crond", &[], "each replica has a timer", jobs::crond),
    scene("minute", REDIS, "a lock for each tick, and the clocks differ", jobs::minute),
    scene("guess", REDIS, "a lock with a guessed duration, and the run takes longer", jobs::guess),
    scene("crash", REDIS, "a replica dies in its run", jobs::crash),
    scene("tick", &[], "bandog: a job on three replicas whose clocks differ", jobs::tick),
    scene("retry", &[], "bandog: on_crash = \"retry\" repairs `crash`", jobs::retry),
];

/// Shows how a lock fails, and what repairs it.
///
/// Each scene is a small order service: unpaid orders are closed, and their stock
/// is returned. Its replicas are A, B and C, and only one of them may do this at a
/// time. A scene starts its own servers on free ports, and prints what each replica
/// does, with the time in seconds. Its last line is computed from what happened:
///
///   HOLDS: the stock of each order was returned once, each report was sent once,
///          reports did not overlap, and each replica can get the lock
///   FAILS: otherwise
///
/// `bandog-why list` prints the scenes in the order of the book (docs/why-locks.md).
/// Begin with `short`, and read its function in examples/why/src/redis.rs.
///
/// Exit codes: 0 the scene was shown, whatever its result; 1 it could not be shown;
/// 2 wrong command line; 69 a server program is missing.
#[derive(Parser)]
#[command(name = "bandog-why", verbatim_doc_comment)]
struct Arguments {
    /// A scene, `list` (all scenes), or `all` (plays them one after the other, within a minute)
    #[arg(value_parser = PossibleValuesParser::new(names()), hide_possible_values = true)]
    #[arg(required_unless_present_any = ["replica", "node"])]
    scene: Option<String>,
    /// The process of a replica with a lock of bandog in this store.
    #[arg(long, value_name = "URL", hide = true)]
    replica: Option<String>,
    /// The process of a replica with a job of bandog in this store.
    #[arg(long, value_name = "URL", hide = true)]
    node: Option<String>,
}

fn names() -> Vec<&'static str> {
    ["list", "all"].into_iter().chain(SCENES.iter().map(|scene| scene.name)).collect()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match (arguments.replica, arguments.node, arguments.scene.as_deref()) {
        (Some(url), _, _) => service::serve(&url),
        (None, Some(url), _) => node::serve(&url),
        (None, None, Some("list")) => {
            SCENES.iter().for_each(|scene| println!("{:<9} {}", scene.name, scene.what));
            Ok(())
        }
        (None, None, name) => {
            let chosen = SCENES.iter().filter(|scene| name == Some("all") || name == Some(scene.name));
            return play(&chosen.collect::<Vec<_>>());
        }
    };
    finish(result)
}

/// Plays scenes, one after the other.
fn play(scenes: &[&Scene]) -> ExitCode {
    if let Some(missing) = scenes.iter().flat_map(|scene| scene.needs).find_map(|program| program.check().err()) {
        eprintln!("bandog-why: {missing}");
        return UNAVAILABLE.into();
    }
    for scene in scenes {
        if scenes.len() > 1 {
            println!("\n{}: {}", scene.name, scene.what);
        }
        let stage = Stage::new();
        if let Err(error) = (scene.play)(&stage) {
            return finish(Err(error));
        }
        println!("{}", stage.verdict());
    }
    ExitCode::SUCCESS
}

fn finish(result: Result) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bandog-why: {error}");
            ExitCode::FAILURE
        }
    }
}
