//! The memory of a process for each lock that it holds.

use bandog_testkit::RedisServer;
use serde_json::{Value, json};

use super::Kind;
use crate::{
    again::Again,
    cycles::Engine,
    driver::Row,
    held,
    measure::Workers,
    report::{Report, Wanted},
};

/// Measures how many bytes of memory a held lock of each kind needs, beside a mutex. Each measurement is a process of its
/// own, because memory that a process has freed is used again and would not be counted.
pub(crate) fn measure(report: &mut Report) {
    let locks = report.size.pick(100_000, 500);
    let process = move |kind: Kind| -> Value {
        let figures = Again::start(&["hold", kind.name(), &locks.to_string()]).output();
        serde_json::from_str(&figures).expect("the figures of the process that holds locks")
    };
    let row = Row::new(json!({"what": "kinds-memory", "locks": locks}), &["bytes_each", "lost"]).rounds(1);
    let others = [Kind::Read, Kind::Fair, Kind::Write, Kind::Semaphore];
    let row = others.into_iter().fold(row, |row, kind| row.side(kind.name(), move || process(kind)));
    row.beside(Kind::Mutex.name(), move || process(Kind::Mutex))
        .wanted("bytes_each_ratio", [Some(Wanted::AtMost(1.2))])
        .wanted("lost", [Some(Wanted::AtMost(0.0))])
        .measure(report);
}

/// The main function of the process that holds locks: prints the bytes for each lock, and the number of lost ones.
pub(crate) fn hold(kind: &str, locks: &str) {
    let kind = Kind::ALL.into_iter().find(|known| known.name() == kind).expect("a kind");
    let locks: usize = locks.parse().expect("a number of locks");
    let server = RedisServer::start();
    let (bytes, lost) = Workers::Two.runtime().block_on(async {
        let client = Engine::OwnThread.connect(&server.url()).await;
        let before = held::resident("VmRSS:");
        let guards = held::take(&client, kind, locks).await;
        let bytes = (held::resident("VmRSS:") - before) as f64 / locks as f64;
        // On a machine that is too busy, the renewals of the first locks can be too late.
        let lost = guards.iter().filter(|guard| guard.is_lost()).count();
        drop(guards);
        client.close().await.expect("closed");
        (bytes, lost)
    });
    println!("{}", json!({"bytes_each": bytes, "lost": lost}));
}
