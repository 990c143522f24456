//! The kinds of locks beside those of Redisson on the same server: cycles per second, commands and requests for each cycle,
//! and hand-offs.

mod commands;
mod lock;
mod memory;
mod queue;

use std::{collections::BTreeMap, path::Path, time::Duration};

use bandog_testkit::RedisServer;
use serde_json::{Value, json};

use self::commands::{Commands, Log};
pub(crate) use self::{
    lock::{Kind, Lock},
    memory::{hold as hold_locks, measure as memory},
    queue::measure as queue,
};
use crate::{
    cycles::{Engine, Load, ours},
    driver::Row,
    handoff,
    java::{Java, REDISSON},
    measure::Workers,
    report::{Report, Wanted},
};

/// Time from the call of a waiter until the lock is released, in a hand-off. In this time the waiter claims the lock,
/// subscribes and claims again.
const PAUSE: Duration = Duration::from_millis(3);
const RATE: &str = "per_second";

/// The runtimes of the user in which bandog is measured. In the first one, both have no options.
const OURS: [(Workers, Engine); 4] = [
    (Workers::Two, Engine::OwnThread),
    (Workers::Two, Engine::CurrentRuntime),
    (Workers::Current, Engine::OwnThread),
    (Workers::Current, Engine::CurrentRuntime),
];

fn name((workers, engine): (Workers, Engine)) -> String {
    format!("{}, {}", workers.name(), engine.name())
}

/// Measures the cycles of each kind. `redisson` is the folder of the Java side; without it, Redisson is not measured.
pub(crate) fn measure(report: &mut Report, redisson: Option<&Path>) {
    let (server, span) = (RedisServer::start(), report.span);
    let url = &*server.url();
    let mut redisson = Java::start(REDISSON, redisson, url);
    let mut rates = BTreeMap::new();
    for kind in Kind::ALL {
        for load in Load::ALL {
            let of = |what: &str| json!({"what": what, "kind": kind.name(), "load": load.name()});
            let mut row = Row::new(of("kinds"), &[RATE, "commands_per_cycle"]);
            for side in OURS {
                let (server, measure) = (&server, move || ours(url, side, kind, load, span));
                row = row.side(name(side), move || with_commands(server, measure));
            }
            let [rate, rate_on_current] = match (kind, load) {
                (Kind::Fair, Load::ONE_NAME) => [Some(4.0), None],
                (Kind::Read, Load::ONE_NAME) => [None, Some(20.0)],
                (Kind::Semaphore, Load::ONE_NAME) => [Some(5.0), None],
                _ => [None, None],
            };
            let measured = row
                .java(&mut redisson, |java| with_commands(&server, || java.cycles(kind.name(), load, span)))
                .wanted("per_second_ratio", [rate, rate_on_current].map(|limit| limit.map(Wanted::AtLeast)))
                .wanted("commands_per_cycle_ratio", [Some(Wanted::Below(1.0))])
                .measure(report);
            rates.insert((kind, load), OURS.map(|side| measured.middle(&name(side), RATE)));
            Row::new(of("kinds-requests"), &["requests_per_cycle"])
                .rounds(1)
                .side(name(OURS[0]), || with_requests(&server, || ours(url, OURS[0], kind, load, span / 2)))
                .java(&mut redisson, |java| with_requests(&server, || java.cycles(kind.name(), load, span / 2)))
                .wanted("requests_per_cycle_ratio", [Some(Wanted::Below(1.0))])
                .measure(report);
        }
    }
    let (readers, mutexes) = (rates[&(Kind::Read, Load::ONE_NAME)], rates[&(Kind::Mutex, Load::OWN_NAMES)]);
    for (side, (readers, mutexes)) in OURS.into_iter().zip(readers.into_iter().zip(mutexes)) {
        let ratio = readers.zip(mutexes).map(|(readers, mutexes)| readers / mutexes);
        let what = format!("64 readers of one name, beside mutexes with a name each, {}", name(side));
        report.judge(&what, Wanted::AtLeast(1.0), ratio);
    }
}

/// Cycles with the commands that the server has executed for them, also inside scripts.
fn with_commands(server: &RedisServer, cycles: impl FnOnce() -> Value) -> Value {
    let before = Commands::of(server);
    let mut sample = cycles();
    let commands = Commands::of(server).since(&before);
    sample["commands_per_cycle"] = json!(sample["cycles"].as_f64().map(|cycles| commands.all() as f64 / cycles));
    sample["commands"] = json!(commands);
    sample
}

/// Cycles with the requests that clients have sent for them.
fn with_requests(server: &RedisServer, cycles: impl FnOnce() -> Value) -> Value {
    let log = Log::start(server);
    let mut sample = cycles();
    let requests = log.requests();
    let mut verbs = BTreeMap::<_, u64>::new();
    for request in &requests {
        *verbs.entry(&request.verb).or_default() += 1;
    }
    sample["requests_per_cycle"] = json!(sample["cycles"].as_f64().map(|cycles| requests.len() as f64 / cycles));
    sample["requests"] = json!(verbs);
    sample
}

/// Measures the hand-offs of each kind. Without the folder of the Java side, Redisson is not measured.
pub(crate) fn hand_offs(report: &mut Report, redisson: Option<&Path>) {
    let server = RedisServer::start();
    let url = &*server.url();
    let mut redisson = Java::start(REDISSON, redisson, url);
    let turns = report.size.pick(150, 10);
    for kind in Kind::ALL {
        Row::new(json!({"what": "kinds-handoff", "kind": kind.name()}), &["p50_ms", "p99_ms"])
            .engines(|engine| handoff::hand_offs(url, kind, engine, turns, PAUSE))
            .java(&mut redisson, |java| java.hand_offs(kind, turns, PAUSE))
            .measure(report);
    }
}
