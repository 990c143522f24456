//! The memory of a process for each lock that it holds.

use std::process::{Command, Stdio};

use bandog_testkit::RedisServer;
use serde_json::json;

use super::Kind;
use crate::{
    cycles::Engine,
    held,
    measure::Workers,
    report::{Report, Wanted},
};

/// Measures how many bytes of memory a held lock of each kind needs. Each measurement is a process of its own, because
/// memory that a process has freed is used again and would not be counted.
pub(crate) fn measure(report: &mut Report) {
    let locks = report.size.pick(100_000, 500);
    let mut of_mutex = None;
    for kind in Kind::ALL {
        let (bytes, lost) = bytes_and_lost(kind, locks);
        report.raw(
            json!({"what": "kinds-memory", "kind": kind.name(), "locks": locks, "bytes_each": bytes, "lost": lost}),
        );
        let of_mutex = *of_mutex.get_or_insert(bytes);
        let ratio = bytes / of_mutex;
        let ours = format!("{bytes:.0} bytes each, ×{ratio:.2}; {lost} lost");
        report.row(format!("{locks} held locks, {}", kind.name()), ours, format!("mutex {of_mutex:.0}"), "");
        if kind == Kind::Read {
            let what = format!("{locks} held read locks: bytes each, beside a mutex");
            report.judge(&what, Wanted::AtMost(1.2), Some(ratio));
            report.judge(&format!("{locks} held read locks: lost"), Wanted::AtMost(0.0), Some(lost));
        }
    }
}

/// The bytes for each lock, and the number of locks that were lost before all were taken.
fn bytes_and_lost(kind: Kind, locks: usize) -> (f64, f64) {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args(["--hold-kind", kind.name(), "--hold-locks", &locks.to_string()]);
    let output = command.stderr(Stdio::inherit()).output().expect("this program starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    let (Some(bytes), Some(lost)) = (numbers.next(), numbers.next()) else {
        panic!("the process that holds locks ended with {}", output.status)
    };
    (bytes, lost)
}

/// The main function of the process that holds locks: prints the bytes for each lock, and the number of lost ones.
pub(crate) fn hold(kind: Kind, locks: usize) {
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
    println!("{bytes} {lost}");
}
