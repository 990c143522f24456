//! Workers on a real Redis, one of which is killed or stopped.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use bandog::Client;
use bandog::work::Phase;
use bandog_example_worker_redis::{Parcel, parcels, sent};
use bandog_testkit::{Process, RedisServer, eventually, eventually_async};

/// Timeout for expected events. A test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(90);

fn program(server: &RedisServer, args: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bandog-example-worker-redis"));
    Process::spawn(command.args(args).env("REDIS_URL", server.url()))
}

fn worker(server: &RedisServer) -> Process {
    let worker = program(server, &["work"]);
    worker.stdout_line("ready", SOON);
    worker
}

/// The number of parcels in these phases.
async fn count(client: &Client, phases: &[Phase]) -> u64 {
    let status = parcels(client).unwrap().status().await.unwrap();
    phases.iter().map(|phase| status.count(*phase)).sum()
}

const OPEN: [Phase; 4] = [Phase::Ready, Phase::Delayed, Phase::Blocked, Phase::Taken];

/// Checks that each parcel was sent, in the order of its customer.
async fn check_sent(client: &Client, customers: &[&str], count: u32) {
    let sent = sent(client).unwrap().slice(0, -1).await.unwrap();
    let all = customers
        .iter()
        .flat_map(|customer| (0..count).map(move |number| Parcel { customer: (*customer).to_owned(), number }));
    let known: BTreeSet<_> = sent.iter().map(|(parcel, _)| parcel.clone()).collect();
    assert_eq!(known, all.collect(), "the parcels that were sent");
    let mut last: BTreeMap<&str, (u32, u64)> = BTreeMap::new();
    for (Parcel { customer, number }, fence) in &sent {
        let before = last.insert(customer, (*number, *fence));
        // A parcel may be sent again, if its worker was killed before the store knew that it was done.
        let is_next = before.is_none_or(|(last, least)| (last..=last + 1).contains(number) && least < *fence);
        assert!(is_next, "{customer}: {number} with fence {fence} after {before:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_if_one_of_three_workers_is_killed() {
    const CUSTOMERS: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
    let server = RedisServer::start();
    let client = bandog::connect(server.url()).await.unwrap();
    let workers = [worker(&server), worker(&server), worker(&server)];
    let mut push = program(&server, &[&["push", "10"][..], &CUSTOMERS].concat());
    assert!(push.wait(SOON).success());

    // It is killed in the middle of a parcel, or directly after it.
    let begun = || workers.iter().position(|worker| worker.stdout().len() > 4);
    let victim = eventually(SOON, begun);
    workers[victim].kill();

    eventually_async(SOON, async || count(&client, &OPEN).await == 0).await;
    assert_eq!(count(&client, &[Phase::Dead]).await, 0);
    check_sent(&client, &CUSTOMERS, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_finishes_its_parcels_at_sigterm() {
    let server = RedisServer::start();
    let client = bandog::connect(server.url()).await.unwrap();
    let mut first = worker(&server);
    assert!(program(&server, &["push", "4", "ann", "bob", "cid", "dan", "eve", "fay"]).wait(SOON).success());
    first.stdout_line("begin", SOON);
    first.term();
    assert!(first.wait(SOON).success());
    let lines = first.stdout();
    let named = |word: &str| lines.iter().filter_map(|line| line.strip_prefix(word)).map(str::to_owned).collect();
    let (begun, sent): (BTreeSet<String>, BTreeSet<String>) = (named("begin "), named("sent "));
    let is_late = |parcel: &&String| parcel.ends_with('3'); // the carrier is busy at its first attempt
    assert_eq!(
        begun.iter().filter(|parcel| !is_late(parcel)).collect::<BTreeSet<_>>(),
        sent.iter().filter(|p| !is_late(p)).collect()
    );
    assert_eq!(lines.last().map(String::as_str), Some("stopped"));
    // Nothing waits for the lease of a worker that has ended.
    assert_eq!(count(&client, &[Phase::Taken]).await, 0);

    let _next = worker(&server);
    eventually_async(SOON, async || count(&client, &OPEN).await == 0).await;
    check_sent(&client, &["ann", "bob", "cid", "dan", "eve", "fay"], 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parcel_that_fails_for_good_is_kept_for_an_operator() {
    let server = RedisServer::start();
    let client = bandog::connect(server.url()).await.unwrap();
    let queue = parcels(&client).unwrap();
    let id = queue.push(&Parcel { customer: String::new(), number: 0 }).await.unwrap().id;
    let _worker = worker(&server);
    let is_dead = async || queue.find(id).await.unwrap().is_some_and(|row| row.phase == Phase::Dead);
    eventually_async(SOON, is_dead).await;
    let row = queue.find(id).await.unwrap().unwrap();
    assert_eq!(row.error.as_deref(), Some("a parcel without a customer"));
}
