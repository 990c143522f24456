//! Locks and releases per second beside the floor: with a name for each task, on one name, and by several clients.

use std::time::Duration;

use bandog::{Client, ConnectOptions};
use bandog_testkit::RedisServer;
use serde_json::{Value, json};

use crate::{
    driver::Row,
    floor::{Fenced, Floor, by_hand},
    kinds::{Kind, Lock},
    measure::{Workers, count},
    report::{Report, Wanted},
};

/// The permits of each semaphore.
const PERMITS: u32 = 8;

/// The place where the client's engine (its background task) runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Engine {
    OwnThread,
    CurrentRuntime,
}

impl Engine {
    pub(crate) const ALL: [Self; 2] = [Self::OwnThread, Self::CurrentRuntime];

    pub(crate) async fn connect(self, url: &str) -> Client {
        let options = ConnectOptions::parse(url).expect("a URL");
        let options = match self {
            Self::OwnThread => options,
            Self::CurrentRuntime => options.on_current_runtime(),
        };
        options.connect().await.expect("the server answers")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OwnThread => "own thread",
            Self::CurrentRuntime => "current runtime",
        }
    }
}

/// How many tasks lock how many names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    pub(crate) tasks: usize,
    pub(crate) names: usize,
}

impl Load {
    pub(crate) const ALONE: Self = Self::own_names(1);
    pub(crate) const OWN_NAMES: Self = Self::own_names(64);
    pub(crate) const ONE_NAME: Self = Self { tasks: 64, names: 1 };
    pub(crate) const ALL: [Self; 3] = [Self::ALONE, Self::OWN_NAMES, Self::ONE_NAME];

    pub(crate) const fn own_names(tasks: usize) -> Self {
        Self { tasks, names: tasks }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self { tasks: 1, .. } => "1 worker".into(),
            Self { tasks, names: 1 } => format!("{tasks} workers on one name"),
            Self { tasks, .. } => format!("{tasks} workers, a name each"),
        }
    }
}

/// The cycles of a mutex with a name for each task.
pub(crate) fn measure(report: &mut Report) {
    let (server, span) = (RedisServer::start(), report.span);
    let url = &*server.url();
    for workers in Workers::ALL {
        for tasks in [1, 8, 64, 512] {
            let limits = match (workers, tasks) {
                (Workers::Two, 1) => [Some(0.68), Some(0.92)],
                (Workers::Two, 8) => [Some(0.7), None],
                (Workers::Two, 64) => [Some(1.15), Some(0.95)],
                (Workers::Two, 512) => [Some(1.08), None],
                _ => [None, None],
            };
            Row::new(json!({"what": "cycles", "workers": workers.name(), "tasks": tasks}), &["per_second"])
                .engines(|engine| ours(url, (workers, engine), Kind::Mutex, Load::own_names(tasks), span))
                .wanted("per_second_ratio", limits.map(|limit| limit.map(Wanted::AtLeast)))
                .beside("floor", || by_hand(Floor::dial(url, Fenced::Yes), workers, tasks, span))
                .beside("floor without a fence", || by_hand(Floor::dial(url, Fenced::No), workers, tasks, span))
                .measure(report);
        }
    }
}

/// 64 tasks that lock one name with an empty section, beside the floor of one task: a lock by hand that several tasks want
/// is not faster.
pub(crate) fn one_name(report: &mut Report) {
    let (server, span) = (RedisServer::start(), report.span);
    let url = &*server.url();
    for workers in Workers::ALL {
        Row::new(json!({"what": "one-name", "workers": workers.name()}), &["per_second", "least", "most"])
            .engines(|engine| ours(url, (workers, engine), Kind::Mutex, Load::ONE_NAME, span))
            .wanted("per_second_ratio", [Some(Wanted::AtLeast(2.5)); 2])
            .wanted("least", [Some(Wanted::AtLeast(1.0)); 2])
            .beside("floor of 1 task", || by_hand(Floor::dial(url, Fenced::Yes), workers, 1, span))
            .measure(report);
    }
}

/// Several clients with 16 tasks each on one name: how evenly they share the lock, and the number of commands for each
/// grant, which is one served task.
pub(crate) fn shares(report: &mut Report) {
    for clients in [2, 8] {
        let span = report.span;
        let wanted = [("spread", 0.2), ("evalsha_a_grant", 2.0)][usize::from(clients > 2)];
        Row::new(json!({"what": "shares", "clients": clients}), &["spread", "evalsha_a_grant"])
            .side("16 tasks each on one name", || {
                let server = RedisServer::start();
                let before = server.calls("evalsha");
                let shares = Workers::Two.runtime().block_on(client_shares(&server.url(), clients, span));
                let grants: f64 = shares.iter().sum();
                let mean = grants / clients as f64;
                let spread = shares.iter().map(|share| (share / mean - 1.0).abs()).fold(0.0, f64::max);
                let each = (server.calls("evalsha") - before) as f64 / grants;
                json!({"grants": shares, "spread": spread, "evalsha_a_grant": each})
            })
            .wanted(wanted.0, [Some(Wanted::AtMost(wanted.1))])
            .measure(report);
    }
}

/// Number of grants of each client.
async fn client_shares(url: &str, clients: usize, span: Duration) -> Vec<f64> {
    let mut running = Vec::new();
    for _ in 0..clients {
        let client = Engine::OwnThread.connect(url).await;
        let load = Load { tasks: 16, names: 1 };
        running.push(tokio::spawn(async move { of_client(&client, Kind::Mutex, load, span).await }));
    }
    let mut shares = Vec::new();
    for client in running {
        shares.push(client.await.expect("no panic")["cycles"].as_f64().expect("a number of cycles"));
    }
    shares
}

/// The cycles of a new client in a new runtime.
pub(crate) fn ours(url: &str, of: (Workers, Engine), kind: Kind, load: Load, span: Duration) -> Value {
    let (workers, engine) = of;
    workers.runtime().block_on(async {
        let client = engine.connect(url).await;
        let counted = of_client(&client, kind, load, span).await;
        client.close().await.expect("closed");
        counted
    })
}

async fn of_client(client: &Client, kind: Kind, Load { tasks, names }: Load, span: Duration) -> Value {
    let cycle = |task: usize| {
        let lock = Lock::new(client, kind, &format!("ours-{}-{names}-{}", kind.name(), task % names), PERMITS);
        move || {
            let lock = lock.clone();
            async move { lock.cycle().await }
        }
    };
    count(tasks, span, cycle).await
}
