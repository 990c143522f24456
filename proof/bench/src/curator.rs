//! The locks on ZooKeeper beside those of Curator on the same servers: cycles per second, requests for each cycle, and
//! hand-offs.

use std::{collections::BTreeMap, path::Path, time::Duration};

use bandog_testkit::{ZooKeeperEnsemble, ZooKeeperServer};
use serde_json::json;

use crate::{
    cycles::Engine,
    java::Java,
    kinds::{Kind, Load, Lock, passes},
    measure::{Workers, count},
    report::{Report, Wanted, median, quantile},
};

/// The kinds that both libraries have.
const KINDS: [Kind; 3] = [Kind::Mutex, Kind::Read, Kind::Write];
/// Time from the call of a waiter until the lock is released, in a hand-off.
const PAUSE: Duration = Duration::from_millis(20);

/// The servers that are measured.
enum Servers {
    One(ZooKeeperServer),
    Ensemble(ZooKeeperEnsemble),
}

impl Servers {
    fn name(&self) -> &'static str {
        match self {
            Self::One(_) => "1 server",
            Self::Ensemble(_) => "3 servers",
        }
    }

    fn each(&self) -> &[ZooKeeperServer] {
        match self {
            Self::One(server) => std::slice::from_ref(server),
            Self::Ensemble(servers) => servers,
        }
    }

    fn url(&self) -> String {
        let hosts: Vec<_> = self.each().iter().map(|server| server.addr().to_string()).collect();
        format!("zookeeper://{}/bench", hosts.join(","))
    }

    /// The number of requests that clients have sent, with pings.
    fn requests(&self) -> u64 {
        let of = |server: &ZooKeeperServer| {
            let figures = server.ask("mntr");
            let number = figures.lines().find_map(|line| line.strip_prefix("zk_packets_received"));
            number.and_then(|number| number.trim().parse::<f64>().ok()).expect("the number of packets")
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of packets")]
        let all = self.each().iter().map(of).sum::<f64>() as u64;
        all
    }
}

/// A library, with the place of the engine if it is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Curator,
    Ours(Engine),
}

impl Side {
    const OURS: [Self; 2] = [Self::Ours(Engine::OwnThread), Self::Ours(Engine::CurrentRuntime)];

    fn name(self) -> &'static str {
        match self {
            Self::Curator => "Curator 5.9.0",
            Self::Ours(engine) => engine.name(),
        }
    }
}

/// The figures of all rounds.
#[derive(Default)]
struct Figures {
    per_second: Vec<f64>,
    requests: Vec<f64>,
}

/// Measures one server and an ensemble of three. Without the folder of the Java side, Curator is not measured.
pub(crate) fn measure(report: &mut Report, curator: Option<&Path>) {
    for servers in [Servers::One(ZooKeeperServer::start()), Servers::Ensemble(ZooKeeperEnsemble::start(3))] {
        let mut curator = curator.map(|folder| Java::curator(folder, &servers.url()));
        for kind in KINDS {
            for load in Load::ALL {
                cycles(report, &servers, (kind, load), &mut curator);
            }
            hand_offs(report, &servers, kind, &mut curator);
        }
    }
}

fn cycles(report: &mut Report, servers: &Servers, (kind, load): (Kind, Load), curator: &mut Option<Java>) {
    if let Some(curator) = curator {
        // Afterwards the JVM has compiled this code.
        for _ in 0..2 {
            curator.cycles(kind.name(), load.workers(), load.names(), Duration::from_secs(1).max(report.span));
        }
    }
    let mut all: BTreeMap<Side, Figures> = BTreeMap::new();
    for round in 0..report.rounds {
        for side in [Side::OURS[0], Side::Curator, Side::OURS[1]] {
            let before = servers.requests();
            let (per_second, cycles, least) = match (side, &mut *curator) {
                (Side::Ours(engine), _) => ours(report, &servers.url(), (kind, load), engine),
                (Side::Curator, Some(curator)) => {
                    let cycles = curator.cycles(kind.name(), load.workers(), load.names(), report.span);
                    (cycles.per_second, cycles.all, cycles.least)
                }
                (Side::Curator, None) => continue,
            };
            let requests = (servers.requests() - before) as f64 / cycles;
            report.raw(
                json!({"what": "curator-cycles", "servers": servers.name(), "kind": kind.name(), "round": round,
                "load": load.name(), "side": side.name(), "per_second": per_second, "cycles": cycles, "least": least,
                "requests_per_cycle": requests}),
            );
            let figures = all.entry(side).or_default();
            figures.per_second.push(per_second);
            figures.requests.push(requests);
        }
    }
    let of = |side| {
        let figures = all.get(&side)?;
        Some((median(figures.per_second.clone()), median(figures.requests.clone())))
    };
    let text = |(per_second, requests)| format!("{per_second:.0}/s, {requests:.2} requests a cycle");
    for side in Side::OURS {
        let what = format!("ZooKeeper, {}, {}, {}, {}", servers.name(), kind.name(), load.name(), side.name());
        report.row(&what, of(side).map(text).unwrap_or_default(), of(Side::Curator).map(text).unwrap_or_default(), "");
    }
    let figure = format!("{}, {}, {}, beside Curator", servers.name(), kind.name(), load.name());
    let ratios = all.get(&Side::Curator).map(|theirs| {
        let rounds = all[&Side::OURS[0]].per_second.iter().zip(&theirs.per_second);
        median(rounds.map(|(ours, theirs)| ours / theirs).collect())
    });
    report.judge(&figure, Wanted::AtLeast(if load == Load::Alone { 1.0 } else { 2.0 }), ratios);
    let theirs = of(Side::Curator).map(|(_, requests)| requests);
    let ours = of(Side::OURS[0]).map(|(_, requests)| requests);
    report.judge(&format!("requests a cycle: {figure}"), Wanted::Below(theirs.unwrap_or(f64::NAN)), theirs.and(ours));
}

/// Cycles per second, all cycles, and the cycles of the task that was served least.
fn ours(report: &Report, url: &str, (kind, load): (Kind, Load), engine: Engine) -> (f64, f64, u64) {
    Workers::Two.runtime().block_on(async {
        let client = engine.connect(url).await;
        let cycle = |number: usize| {
            let name = format!("ours-{}-{}-{}", kind.name(), load.names(), number % load.names());
            let lock = Lock::new(&client, kind, &name, 1);
            move || {
                let lock = lock.clone();
                async move { lock.cycle().await }
            }
        };
        let counted = count(load.workers(), report.span, cycle).await;
        client.close().await.expect("closed");
        let all: u64 = counted.each.iter().sum();
        (counted.per_second, all as f64, counted.each.iter().min().copied().unwrap_or_default())
    })
}

fn hand_offs(report: &mut Report, servers: &Servers, kind: Kind, curator: &mut Option<Java>) {
    let turns = report.size.pick(100, 5);
    if let Some(curator) = curator {
        curator.hand_offs(kind, turns, PAUSE);
    }
    let mut all: BTreeMap<Side, [Vec<f64>; 2]> = BTreeMap::new();
    for round in 0..report.rounds {
        for side in [Side::OURS[0], Side::Curator, Side::OURS[1]] {
            let mut seconds = match (side, &mut *curator) {
                (Side::Ours(engine), _) => {
                    Workers::Two.runtime().block_on(passes(&servers.url(), kind, engine, turns, PAUSE))
                }
                (Side::Curator, Some(curator)) => curator.hand_offs(kind, turns, PAUSE),
                (Side::Curator, None) => continue,
            };
            let [p50, p99] = [0.5, 0.99].map(|share| quantile(&mut seconds, share) * 1e3);
            report
                .raw(json!({"what": "curator-handoff", "servers": servers.name(), "kind": kind.name(), "round": round,
                "side": side.name(), "p50_ms": p50, "p99_ms": p99}));
            let [p50s, p99s] = all.entry(side).or_default();
            p50s.push(p50);
            p99s.push(p99);
        }
    }
    let text = |side| {
        let [p50s, p99s] = all.get(&side)?.clone();
        Some(format!("p50 {:.2}, p99 {:.2} ms", median(p50s), median(p99s)))
    };
    for side in Side::OURS {
        let what = format!("ZooKeeper, {}, hand-off, {}, {}", servers.name(), kind.name(), side.name());
        report.row(what, text(side).unwrap_or_default(), text(Side::Curator).unwrap_or_default(), "");
    }
}
