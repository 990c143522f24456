//! The delay of runs: 200 jobs with periods of 1 to 3 s, which is about 110 ticks per second, on one node and on three.

use std::time::{Duration, Instant};

use bandog::{
    Client,
    schedule::{Job, Run, Scheduler},
};
use bandog_core::{Key, Records, Swap, Swapped};
use bandog_testkit::RedisServer;
use serde_json::json;

use super::{Lags, late};
use crate::{
    cycles::Engine,
    measure::Workers,
    report::{Report, quantile},
};

const JOBS: u64 = 200;
/// Duration of the measurement, in full and with `--short`. In the short duration, some jobs are due.
const SPANS: [Duration; 2] = [Duration::from_secs(20), Duration::from_millis(1500)];

pub(crate) fn measure(report: &mut Report) {
    let [full, short] = SPANS;
    let span = report.size.pick(full, short);
    let lags = Workers::Two.runtime().block_on(async { nodes(vec![Scheduler::new()], span).await });
    row(report, span, "of one process", lags, None, String::new());
    for count in [1, 3] {
        let server = RedisServer::start();
        let url = server.url();
        let (lags, trip, calls) = Workers::Two.runtime().block_on(async {
            let clients = clients(&url, count).await;
            let trip = claim_takes(&clients[0]).await;
            let calls = server.calls("evalsha");
            let lags = nodes(clients.iter().map(Scheduler::over).collect(), span).await;
            (lags, trip, server.calls("evalsha") - calls)
        });
        let commands = format!(", {:.2} commands a run", calls as f64 / lags.len() as f64);
        row(report, span, &format!("on Redis, {count} nodes"), lags, Some(trip), commands);
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
        let (lags, trip) = Workers::Two.runtime().block_on(async {
            let clients = clients(&url, count).await;
            let trip = claim_takes(&clients[0]).await;
            (nodes(clients.iter().map(Scheduler::over).collect(), span).await, trip)
        });
        row(report, span, &format!("on SQLite, {count} nodes"), lags, Some(trip), String::new());
    }
}

fn row(report: &mut Report, span: Duration, place: &str, mut lags: Vec<f64>, trip: Option<[f64; 2]>, more: String) {
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(&mut lags, share) * 1e3);
    report.raw(json!({"what": "lag", "place": place, "runs": lags.len(), "seconds": span.as_secs(), "p50_ms": p50,
        "p99_ms": p99, "most_ms": most, "claim_ms": trip.map(|trip| trip.map(|one| one * 1e3)), "more": more}));
    let against = trip.map_or(String::new(), |[p50, p99]| {
        format!("one swap of a record p50 {:.2}, p99 {:.2} ms{more}", p50 * 1e3, p99 * 1e3)
    });
    let target = if trip.is_some() { "p50 ≤ 2, p99 ≤ 5 ms and the swap" } else { "p50 ≤ 2, p99 ≤ 5 ms" };
    report.row(
        format!("how late runs begin, {place}"),
        format!("p50 {p50:.2}, p99 {p99:.2}, at most {most:.2} ms"),
        against,
        target,
    );
}

async fn clients(url: &str, count: usize) -> Vec<Client> {
    let mut clients = Vec::with_capacity(count);
    while clients.len() < count {
        clients.push(Engine::OwnThread.connect(url).await);
    }
    clients
}

/// Runs the jobs for a while on these nodes, and returns the delays of all runs.
async fn nodes(schedulers: Vec<Scheduler>, span: Duration) -> Vec<f64> {
    let lags = Lags::default();
    let mut running = Vec::with_capacity(schedulers.len());
    for scheduler in schedulers {
        running.push(scheduler.pool(200).jobs(jobs(&lags)).start().await.expect("started"));
    }
    tokio::time::sleep(span).await;
    let all = lags.take();
    for one in running {
        one.stop().await.expect("stopped");
    }
    all
}

fn jobs(lags: &Lags) -> impl Iterator<Item = Job> {
    let lags = lags.clone();
    (0..JOBS).map(move |number| {
        let lags = lags.clone();
        Job::fixed_rate(format!("job-{number}"), Duration::from_millis(1000 + 10 * number))
            .initial_delay(Duration::from_millis(1000 + 7 * number))
            .run(move |run: Run| {
                lags.add(late(&run));
                std::future::ready(())
            })
    })
}

/// The time of one swap of a record without other traffic, p50 and p99 in seconds. A claim is one swap.
async fn claim_takes(client: &Client) -> [f64; 2] {
    let mut took = Vec::new();
    let mut from = None;
    while took.len() < 300 {
        let swap = Swap::new(Key::new("trip").expect("a name"), from, "x".repeat(300));
        let start = Instant::now();
        let mut swapped = client.records().swap(&[swap]).await.expect("the store answers").each;
        took.push(start.elapsed().as_secs_f64());
        match swapped.pop() {
            Some(Ok(Swapped::Done(version))) => from = version,
            other => panic!("no other client changes the record: {other:?}"),
        }
    }
    [quantile(&mut took, 0.5), quantile(&mut took, 0.99)]
}
