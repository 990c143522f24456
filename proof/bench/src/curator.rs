//! The locks on ZooKeeper beside those of Curator on the same servers: cycles per second, requests for each cycle, and
//! hand-offs.

use std::{path::Path, time::Duration};

use bandog_testkit::{ZooKeeperEnsemble, ZooKeeperServer};
use serde_json::{Value, json};

use crate::{
    cycles::{Load, ours},
    driver::Row,
    handoff::hand_offs,
    java::{CURATOR, Java},
    kinds::Kind,
    measure::Workers,
    report::{Report, Wanted},
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

    /// Cycles with the requests that clients have sent for them.
    fn with_requests(&self, cycles: impl FnOnce() -> Value) -> Value {
        let before = self.requests();
        let mut sample = cycles();
        let requests = (self.requests() - before) as f64;
        sample["requests_per_cycle"] = json!(sample["cycles"].as_f64().map(|cycles| requests / cycles));
        sample
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

/// Measures one server and an ensemble of three. Without the folder of the Java side, Curator is not measured.
pub(crate) fn measure(report: &mut Report, curator: Option<&Path>) {
    let (turns, span) = (report.size.pick(100, 5), report.span);
    for servers in [Servers::One(ZooKeeperServer::start()), Servers::Ensemble(ZooKeeperEnsemble::start(3))] {
        let url = &*servers.url();
        let mut curator = Java::start(CURATOR, curator, url);
        for kind in KINDS {
            for load in Load::ALL {
                let name = json!({"what": "curator-cycles", "servers": servers.name(), "kind": kind.name(),
                    "load": load.name()});
                let rate = if load == Load::ALONE { 1.0 } else { 2.0 };
                Row::new(name, &["per_second", "requests_per_cycle"])
                    .engines(|engine| servers.with_requests(|| ours(url, (Workers::Two, engine), kind, load, span)))
                    .java(&mut curator, |java| servers.with_requests(|| java.cycles(kind.name(), load, span)))
                    .wanted("per_second_ratio", [Some(Wanted::AtLeast(rate))])
                    .wanted("requests_per_cycle_ratio", [Some(Wanted::Below(1.0))])
                    .measure(report);
            }
            let name = json!({"what": "curator-handoff", "servers": servers.name(), "kind": kind.name()});
            Row::new(name, &["p50_ms", "p99_ms"])
                .engines(|engine| hand_offs(url, kind, engine, turns, PAUSE))
                .java(&mut curator, |java| java.hand_offs(kind, turns, PAUSE))
                .measure(report);
        }
    }
}
