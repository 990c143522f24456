//! Each tick runs once, although answers are lost or late and nodes race.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_conformance::wrap::{Counting, Delayed, Fate, Lossy};
use bandog_core::{Backend, Clock, Key, Memory, Records, Swap, Swapped};
use bandog_schedule::{Job, Jobs, Overlap, Run, Running, Scheduler};
use bandog_sync::Client;
use tokio::time;

/// The fences under which each tick of each job ran.
type Ran = Arc<Mutex<BTreeMap<(String, String), Vec<u64>>>>;

fn client(backend: impl Backend) -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(backend).unwrap()
}

/// Starts a node with this number of jobs, each of which fires every 500 ms.
async fn node(client: &Client, jobs: usize, ran: &Ran) -> Running {
    let job = |nth: usize| {
        let ran = Arc::clone(ran);
        Job::fixed_rate(format!("job-{nth}"), Duration::from_millis(500)).run(move |run: Run| {
            let tick = (run.name().to_owned(), run.tick().to_string());
            ran.lock().unwrap().entry(tick).or_default().push(run.fence().get());
            time::sleep(Duration::from_millis(20))
        })
    };
    Scheduler::over(client).pool(100).jobs((0..jobs).map(job)).start().await.unwrap()
}

/// Checks that no tick ran twice, and that at least this number of ticks ran.
fn each_once(ran: &Ran, at_least: usize) {
    let ran = ran.lock().unwrap();
    let twice: Vec<_> = ran.iter().filter(|(_, fences)| fences.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(ran.len() >= at_least, "{} of {at_least}", ran.len());
}

// Promise: J1
#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_runs_once() {
    let wire = Lossy::new(Memory::new(Clock::tokio()));
    let (client, ran) = (client(wire.clone()), Ran::default());
    let running = node(&client, 1, &ran).await;
    time::sleep(Duration::from_millis(700)).await;
    running.idle().await;
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Refused] {
        let before = ran.lock().unwrap().len();
        // The fault concerns two calls: the claim of the next tick, and the end of its run.
        wire.next([fate, fate]);
        time::sleep(Duration::from_secs(2)).await;
        assert!(ran.lock().unwrap().len() >= before + 3, "{fate:?}");
    }
    running.stop().await.unwrap();
    each_once(&ran, 12);
    let row = Jobs::over(&client).show("job-0").await.unwrap();
    assert_eq!(usize::try_from(row.ok).unwrap(), ran.lock().unwrap().len(), "{row:?}");
    assert_eq!((row.failed, row.lost, row.live.len()), (0, 0, 0));
}

// Promise: J1
#[tokio::test(start_paused = true)]
async fn a_wire_that_loses_a_tenth_of_everything_makes_no_tick_run_twice() {
    for seed in 0..10 {
        let store = Memory::new(Clock::tokio());
        let ran = Ran::default();
        let mut nodes = Vec::new();
        for number in 0..3 {
            let wire = Lossy::new(store.clone());
            let client = client(wire.clone());
            nodes.push(node(&client, 5, &ran).await);
            wire.at_random(seed * 10 + number, 0.1, Duration::from_millis(300));
        }
        time::sleep(Duration::from_secs(20)).await;
        each_once(&ran, 5 * 35);
        drop(nodes);
    }
}

// Promise: J1
#[tokio::test(start_paused = true)]
async fn slow_wires_of_different_length_make_no_tick_run_twice() {
    let store = Memory::new(Clock::tokio());
    let ran = Ran::default();
    let mut nodes = Vec::new();
    for number in 1..=4_u32 {
        let delay = Duration::from_millis(15) * number;
        let client = client(Delayed::new(store.clone(), u64::from(number), delay, delay));
        nodes.push(node(&client, 3, &ran).await);
    }
    time::sleep(Duration::from_secs(20)).await;
    each_once(&ran, 3 * 38);
}

#[tokio::test(start_paused = true)]
async fn many_claims_at_the_same_time_are_one_round_trip() {
    let counts = Counting::new(Memory::new(Clock::tokio()));
    let (client, ran) = (client(counts.clone()), Ran::default());
    let running = node(&client, 100, &ran).await;
    running.idle().await;
    time::sleep(Duration::from_millis(300)).await;
    let (calls, swaps) = (counts.calls(), counts.swaps());
    time::sleep(Duration::from_secs(5)).await;
    // 10 ticks of 100 jobs: a swap for each claim and one for each end.
    assert_eq!(counts.swaps() - swaps, 2000);
    let calls = counts.calls() - calls;
    assert!(calls <= 60, "{calls} calls for 2000 swaps, 5 polls and some renewals");
    running.stop().await.unwrap();
}

// Promise: J11
#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_fails_the_start_and_later_the_node_waits_for_it() {
    let wire = Lossy::new(Memory::new(Clock::tokio()));
    let client = client(wire.clone());
    wire.always(Fate::Refused);
    let scheduler = || Scheduler::over(&client).job(Job::cron("job", "* * * * * ?").run(async |_: Run| ()));
    let error = scheduler().start().await.unwrap_err();
    assert_eq!(error.kind(), bandog_core::ErrorKind::Unavailable, "{error}");
    wire.heal();
    let ran = Ran::default();
    let running = node(&client, 1, &ran).await;
    time::sleep(Duration::from_secs(3)).await;
    wire.always(Fate::Refused);
    let before = ran.lock().unwrap().len();
    time::sleep(Duration::from_secs(10)).await;
    assert!(ran.lock().unwrap().len() <= before + 1, "nothing runs while the store does not answer");
    wire.heal();
    time::sleep(Duration::from_secs(3)).await;
    assert!(ran.lock().unwrap().len() > before + 20, "ticks within the misfire grace run late");
    running.stop().await.unwrap();
    each_once(&ran, 20);
}

#[tokio::test(start_paused = true)]
async fn runs_that_end_while_a_swap_is_in_flight_are_all_recorded() {
    let wire = Delayed::new(Memory::new(Clock::tokio()), 7, Duration::from_millis(40), Duration::from_millis(40));
    let client = client(wire);
    let begun = Arc::new(Mutex::new(0_u32));
    let counted = Arc::clone(&begun);
    let job = Job::fixed_rate("job", Duration::from_millis(50)).overlap(Overlap::Allow(50.try_into().unwrap()));
    let job = job.run(move |_: Run| {
        let mut begun = counted.lock().unwrap();
        *begun += 1;
        time::sleep(Duration::from_millis(200 + u64::from(*begun % 7) * 13))
    });
    let running = Scheduler::over(&client).pool(100).job(job).start().await.unwrap();
    time::sleep(Duration::from_secs(10)).await;
    running.stop().await.unwrap();
    let row = Jobs::over(&client).show("job").await.unwrap();
    assert!(row.ok > 150 && row.ok == u64::from(*begun.lock().unwrap()), "{row:?}");
    assert_eq!(row.live.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_is_left_alone_and_a_stop_does_not_wait_for_it() {
    let store = Counting::new(Memory::new(Clock::tokio()));
    let delay = Duration::from_millis(5);
    let client = client(Delayed::new(store.clone(), 1, delay, delay));
    let ran = Ran::default();
    let running = node(&client, 1, &ran).await;
    time::sleep(Duration::from_secs(2)).await;
    // This record is unreadable, as if a later version of bandog had written it.
    let key = Key::new("job/job-0").unwrap();
    let mut from = None;
    while let Swapped::Differs(Some(record)) =
        client.records().swap(&[Swap::new(key.clone(), from, "{}")]).await.unwrap().each.remove(0).unwrap()
    {
        from = Some(record.version);
    }
    let (calls, runs) = (store.calls(), ran.lock().unwrap().len());
    time::sleep(Duration::from_secs(100)).await;
    let calls = store.calls() - calls;
    assert!(calls < 300, "{calls} calls in 100 s");
    assert!(ran.lock().unwrap().len() <= runs + 1);
    let began = time::Instant::now();
    let _ = running.stop().await;
    assert!(began.elapsed() <= Duration::from_secs(15), "{:?}", began.elapsed());
}
