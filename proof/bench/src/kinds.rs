//! The kinds of locks beside those of Redisson on the same server: cycles per second, commands for each cycle, and
//! hand-offs.

mod commands;
mod handoff;
mod lock;
mod memory;
mod queue;
mod verdicts;

use std::{collections::BTreeMap, path::Path, time::Duration};

use bandog_testkit::RedisServer;
use serde_json::json;

use self::commands::{Commands, Log};
pub(crate) use self::{
    handoff::{measure as hand_offs, passes},
    lock::{Kind, Lock},
    memory::{hold as hold_locks, measure as memory},
    queue::measure as queue,
};
use crate::{
    cycles::Engine,
    java::{self, Java},
    measure::{Workers, count},
    report::{Report, median},
};

/// The permits of each semaphore.
const PERMITS: u32 = 8;

/// How many tasks lock how many names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    Alone,
    OwnNames,
    OneName,
}

impl Load {
    pub(crate) const ALL: [Self; 3] = [Self::Alone, Self::OwnNames, Self::OneName];

    pub(crate) fn workers(self) -> usize {
        match self {
            Self::Alone => 1,
            Self::OwnNames | Self::OneName => 64,
        }
    }

    pub(crate) fn names(self) -> usize {
        match self {
            Self::Alone | Self::OneName => 1,
            Self::OwnNames => 64,
        }
    }

    pub(crate) fn name(self) -> &'static str {
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
    /// Number of cycles.
    cycles: f64,
    /// Cycles of the task that was served least, and of the task that was served most.
    least: u64,
    most: u64,
    commands: Commands,
}

impl Sample {
    /// The commands for each cycle.
    fn commands(&self) -> f64 {
        self.commands.all() as f64 / self.cycles
    }
}

/// The samples of all rounds.
#[derive(Default)]
struct Samples {
    timed: BTreeMap<(Kind, Load, Side), Vec<Sample>>,
    /// Requests for each cycle.
    requests: BTreeMap<(Kind, Load, Side), f64>,
}

impl Samples {
    /// The median of a figure, if this side was measured.
    fn median(&self, kind: Kind, load: Load, side: Side, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        Some(median(self.timed.get(&(kind, load, side))?.iter().map(figure).collect()))
    }

    /// The median of the ratios of two rates of the same round.
    fn ratio(&self, ours: (Kind, Load, Side), other: (Kind, Load, Side)) -> Option<f64> {
        let rounds = self.timed.get(&ours)?.iter().zip(self.timed.get(&other)?);
        Some(median(rounds.map(|(ours, other)| ours.per_second / other.per_second).collect()))
    }
}

/// Measures the cycles of each kind. `redisson` is the folder of the Java side; without it, Redisson is not measured.
pub(crate) fn measure(report: &mut Report, redisson: Option<&Path>) {
    let server = RedisServer::start();
    let mut redisson = redisson.map(|folder| Java::redisson(folder, &server.url()));
    if let Some(redisson) = &mut redisson {
        // Afterwards the JVM has compiled all of this code.
        for _ in 0..2 {
            for (kind, load) in rows() {
                let span = Duration::from_secs(1).max(report.span);
                redisson.cycles(kind.name(), load.workers(), load.names(), span);
            }
        }
    }
    let mut samples = Samples::default();
    for (kind, load) in rows() {
        for side in [Side::DEFAULT, Side::Redisson] {
            let log = Log::start(&server);
            let Some(sample) = run(&server, report.span / 2, (kind, load, side), &mut redisson) else { continue };
            let requests = log.requests();
            let mut verbs = BTreeMap::<_, u64>::new();
            for request in &requests {
                *verbs.entry(&request.verb).or_default() += 1;
            }
            let each = requests.len() as f64 / sample.cycles;
            report.raw(json!({"what": "kinds-requests", "kind": kind.name(), "load": load.name(), "side": side.name(),
                "cycles": sample.cycles, "requests_per_cycle": each, "requests": verbs}));
            samples.requests.insert((kind, load, side), each);
        }
    }
    for round in 0..report.rounds {
        for (kind, load) in rows() {
            let mut sides = [&Side::OURS[..], &[Side::Redisson]].concat();
            // Each round begins with another side, so that no side is always measured at the same time of the run.
            let first = round % sides.len();
            sides.rotate_left(first);
            for side in sides {
                let Some(sample) = run(&server, report.span, (kind, load, side), &mut redisson) else { continue };
                report.raw(json!({"what": "kinds", "round": round, "kind": kind.name(), "load": load.name(),
                    "side": side.name(), "per_second": sample.per_second, "cycles": sample.cycles,
                    "least": sample.least, "most": sample.most, "commands_per_cycle": sample.commands(),
                    "commands": sample.commands}));
                samples.timed.entry((kind, load, side)).or_default().push(sample);
            }
        }
    }
    print_rows(report, &samples);
    verdicts::judge(report, &samples);
}

fn rows() -> impl Iterator<Item = (Kind, Load)> {
    Kind::ALL.into_iter().flat_map(|kind| Load::ALL.map(|load| (kind, load)))
}

/// Takes one sample. Without a JVM, there is no sample of Redisson.
fn run(
    server: &RedisServer,
    span: Duration,
    (kind, load, side): (Kind, Load, Side),
    redisson: &mut Option<Java>,
) -> Option<Sample> {
    match (side, redisson) {
        (Side::Ours(workers, engine), _) => Some(ours(server, span, (kind, load), (workers, engine))),
        (Side::Redisson, Some(redisson)) => Some(theirs(server, span, (kind, load), redisson)),
        (Side::Redisson, None) => None,
    }
}

fn ours(
    server: &RedisServer,
    span: Duration,
    (kind, load): (Kind, Load),
    (workers, engine): (Workers, Engine),
) -> Sample {
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
    Sample {
        per_second: counted.per_second,
        cycles: counted.each.iter().sum::<u64>() as f64,
        least: counted.each.iter().min().copied().unwrap_or_default(),
        most: counted.each.iter().max().copied().unwrap_or_default(),
        commands,
    }
}

fn theirs(server: &RedisServer, span: Duration, (kind, load): (Kind, Load), redisson: &mut Java) -> Sample {
    let before = Commands::of(server);
    let java::Cycles { per_second, all, least, most } =
        redisson.cycles(kind.name(), load.workers(), load.names(), span);
    Sample { per_second, cycles: all, least, most, commands: Commands::of(server).since(&before) }
}

fn print_rows(report: &mut Report, samples: &Samples) {
    for (kind, load) in rows() {
        for side in Side::OURS {
            let ratio = samples.ratio((kind, load, side), (kind, load, Side::Redisson));
            let ratio = ratio.map(|ratio| format!("×{ratio:.2}, ")).unwrap_or_default();
            let text = |side| {
                let rate = samples.median(kind, load, side, |sample| sample.per_second)?;
                let commands = samples.median(kind, load, side, Sample::commands)?;
                let requests = samples.requests.get(&(kind, load, side));
                let requests = requests.map(|each| format!(", {each:.2} requests")).unwrap_or_default();
                Some(format!("{rate:.0}/s, {commands:.2} commands{requests} a cycle"))
            };
            let against = text(Side::Redisson).map(|text| format!("Redisson {text}")).unwrap_or_default();
            let what = format!("{}, {}, {}", kind.name(), load.name(), side.name());
            report.row(what, format!("{ratio}{}", text(side).unwrap_or_default()), against, "");
        }
    }
}
