//! The kinds of locks beside those of Redisson on the same server: cycles per second, commands for each cycle, and
//! hand-offs.

mod commands;
mod handoff;
mod lock;
mod memory;
mod queue;
mod redisson;
mod verdicts;

use std::{collections::BTreeMap, path::Path, time::Duration};

use bandog_testkit::RedisServer;
use serde_json::json;

use self::{commands::Commands, redisson::Redisson};
pub(crate) use self::{
    handoff::measure as hand_offs,
    lock::{Held, Kind, Lock},
    memory::{hold as hold_locks, measure as memory},
    queue::measure as queue,
};
use crate::{
    cycles::Engine,
    measure::{Workers, count},
    report::{Report, median},
};

/// The permits of each semaphore.
const PERMITS: u32 = 8;

/// How many tasks lock how many names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Load {
    Alone,
    OwnNames,
    OneName,
}

impl Load {
    const ALL: [Self; 3] = [Self::Alone, Self::OwnNames, Self::OneName];

    fn workers(self) -> usize {
        match self {
            Self::Alone => 1,
            Self::OwnNames | Self::OneName => 64,
        }
    }

    fn names(self) -> usize {
        match self {
            Self::Alone | Self::OneName => 1,
            Self::OwnNames => 64,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "1 worker",
            Self::OwnNames => "64 workers, a name each",
            Self::OneName => "64 workers on one name",
        }
    }
}

/// The library that is measured, and the runtime in which it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Redisson,
    Ours(Workers, Engine),
}

impl Side {
    /// Our client without options, in a runtime without options on two cores.
    const DEFAULT: Self = Self::Ours(Workers::Two, Engine::OwnThread);
    const ON_CURRENT_RUNTIME: Self = Self::Ours(Workers::Two, Engine::CurrentRuntime);
    const OURS: [Self; 4] = [
        Self::DEFAULT,
        Self::ON_CURRENT_RUNTIME,
        Self::Ours(Workers::Current, Engine::OwnThread),
        Self::Ours(Workers::Current, Engine::CurrentRuntime),
    ];

    fn name(self) -> String {
        match self {
            Self::Redisson => "Redisson 4.7.0".into(),
            Self::Ours(workers, engine) => format!("{}, {}", workers.name(), engine.name()),
        }
    }
}

/// One measurement.
struct Sample {
    per_second: f64,
    /// Number of commands for each cycle, and how many of them are calls of scripts.
    commands: f64,
    scripts: f64,
}

/// The samples of all rounds.
#[derive(Default)]
struct Samples(BTreeMap<(Kind, Load, Side), Vec<Sample>>);

impl Samples {
    /// The median of a figure, if this side was measured.
    fn median(&self, kind: Kind, load: Load, side: Side, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        Some(median(self.0.get(&(kind, load, side))?.iter().map(figure).collect()))
    }

    /// The median of the ratios of two rates of the same round.
    fn ratio(&self, ours: (Kind, Load, Side), other: (Kind, Load, Side)) -> Option<f64> {
        let rounds = self.0.get(&ours)?.iter().zip(self.0.get(&other)?);
        Some(median(rounds.map(|(ours, other)| ours.per_second / other.per_second).collect()))
    }
}

/// Measures the cycles of each kind. `redisson` is the folder of the Java side; without it, Redisson is not measured.
pub(crate) fn measure(report: &mut Report, redisson: Option<&Path>) {
    let server = RedisServer::start();
    let mut redisson = redisson.map(|folder| Redisson::start(folder, &server.url()));
    if let Some(redisson) = &mut redisson {
        // Afterwards the JVM has compiled all of this code.
        for _ in 0..2 {
            for (kind, load) in rows() {
                let span = Duration::from_secs(1).max(report.span);
                redisson.cycles(kind, load.workers(), load.names(), span);
            }
        }
    }
    let mut samples = Samples::default();
    for round in 0..report.rounds {
        for (kind, load) in rows() {
            let mut sides = Side::OURS.to_vec();
            if redisson.is_some() {
                sides.push(Side::Redisson);
            }
            // Each round begins with another side, so that no side is always measured at the same time of the run.
            let first = round % sides.len();
            sides.rotate_left(first);
            for side in sides {
                let sample = match (side, &mut redisson) {
                    (Side::Ours(workers, engine), _) => ours(report, &server, round, (kind, load), (workers, engine)),
                    (Side::Redisson, Some(redisson)) => theirs(report, &server, round, (kind, load), redisson),
                    (Side::Redisson, None) => continue,
                };
                samples.0.entry((kind, load, side)).or_default().push(sample);
            }
        }
    }
    print_rows(report, &samples);
    verdicts::judge(report, &samples);
}

fn rows() -> impl Iterator<Item = (Kind, Load)> {
    Kind::ALL.into_iter().flat_map(|kind| Load::ALL.map(|load| (kind, load)))
}

fn ours(
    report: &mut Report,
    server: &RedisServer,
    round: usize,
    (kind, load): (Kind, Load),
    (workers, engine): (Workers, Engine),
) -> Sample {
    let span = report.span;
    let (counted, commands) = workers.runtime().block_on(async {
        let client = engine.connect(&server.url()).await;
        let cycle = |number: usize| {
            let name = format!("ours-{}-{}-{}", kind.name(), load.names(), number % load.names());
            let lock = Lock::new(&client, kind, &name, PERMITS);
            move || {
                let lock = lock.clone();
                async move { lock.cycle().await }
            }
        };
        let before = Commands::of(server);
        let counted = count(load.workers(), span, cycle).await;
        let commands = Commands::of(server).since(&before);
        client.close().await.expect("closed");
        (counted, commands)
    });
    let (least, most) = (counted.each.iter().min().copied(), counted.each.iter().max().copied());
    let served = (least.unwrap_or_default(), most.unwrap_or_default());
    let cycles = counted.each.iter().sum::<u64>() as f64;
    let side = Side::Ours(workers, engine);
    sample(report, (round, kind, load, side), (counted.per_second, cycles), served, &commands)
}

fn theirs(
    report: &mut Report,
    server: &RedisServer,
    round: usize,
    (kind, load): (Kind, Load),
    redisson: &mut Redisson,
) -> Sample {
    let before = Commands::of(server);
    let cycles = redisson.cycles(kind, load.workers(), load.names(), report.span);
    let commands = Commands::of(server).since(&before);
    let (rates, served) = ((cycles.per_second, cycles.all), (cycles.least, cycles.most));
    sample(report, (round, kind, load, Side::Redisson), rates, served, &commands)
}

/// Prints and returns a sample: cycles per second and in all, and the cycles of the tasks served least and most.
fn sample(
    report: &mut Report,
    (round, kind, load, side): (usize, Kind, Load, Side),
    (per_second, cycles): (f64, f64),
    (least, most): (u64, u64),
    commands: &Commands,
) -> Sample {
    let sample =
        Sample { per_second, commands: commands.all() as f64 / cycles, scripts: commands.scripts() as f64 / cycles };
    report.raw(json!({"what": "kinds", "round": round, "kind": kind.name(), "load": load.name(), "side": side.name(),
        "per_second": per_second, "cycles": cycles, "least": least, "most": most, "commands_per_cycle": sample.commands,
        "scripts_per_cycle": sample.scripts, "commands": commands}));
    sample
}

fn print_rows(report: &mut Report, samples: &Samples) {
    for (kind, load) in rows() {
        for side in Side::OURS {
            let median =
                |side, figure: fn(&Sample) -> f64| samples.median(kind, load, side, figure).unwrap_or(f64::NAN);
            let ratio = samples.ratio((kind, load, side), (kind, load, Side::Redisson));
            let ratio = ratio.map(|ratio| format!("×{ratio:.2}, ")).unwrap_or_default();
            let text = |side| {
                let rate = median(side, |sample| sample.per_second);
                let (commands, scripts) =
                    (median(side, |sample| sample.commands), median(side, |sample| sample.scripts));
                format!("{rate:.0}/s, {commands:.2} commands a cycle, of them {scripts:.2} scripts")
            };
            let against = if ratio.is_empty() { String::new() } else { format!("Redisson {}", text(Side::Redisson)) };
            let what = format!("{}, {}, {}", kind.name(), load.name(), side.name());
            report.row(what, format!("{ratio}{}", text(side)), against, "");
        }
    }
}
