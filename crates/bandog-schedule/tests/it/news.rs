//! News (the names of changed jobs) reach the other nodes immediately, through notifications. In a simulation, nodes
//! poll only every half minute, so a fast reaction shows that a notification came.

use std::time::Duration;

use bandog_conformance::wrap::{Counting, Delayed};
use bandog_core::{Backend, Clock, Key, Memory, Records, Swap};
use bandog_schedule::{Job, Jobs, OnCrash, Overlap, Run, Scheduler, State, TestScheduler};
use bandog_sync::Client;
use futures_util::FutureExt;
use tokio::{sync::mpsc, time};

/// Time within which a notified node has reacted. It is much shorter than the time to the next regular poll.
const AT_ONCE: Duration = Duration::from_secs(1);

const MS: Duration = Duration::from_millis(1);

fn client(backend: impl Backend) -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(backend).unwrap()
}

fn long() -> Job {
    Job::cron("long", "0 0 * * * ?").on_crash(OnCrash::Retry).run(async |run: Run| {
        if run.attempt() == 1 {
            time::sleep(Duration::from_secs(3600)).await;
        }
    })
}

/// Two replicas some seconds after their last poll. One of them has started a run of an hour.
async fn two(job: impl Fn() -> Job + Send + Sync) -> TestScheduler {
    let test = TestScheduler::at("2026-01-01T00:59:50Z").replicas(2).start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T01:00:03Z").await;
    assert_eq!(test.runs().len(), 1);
    test
}

// Promise: J5
#[tokio::test(start_paused = true)]
async fn a_node_that_stops_hands_its_runs_over() {
    let mut test = two(long).await;
    let first = test.runs()[0].clone();
    let stopped = test.now();
    test.stop_one(first.replica, Duration::ZERO).await.unwrap();
    // `advance` is not used here, because it makes every replica poll.
    time::sleep(AT_ONCE).await;
    let runs = test.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!((runs[1].tick, runs[1].attempt, runs[1].replica), (first.tick, 2, 1 - first.replica));
    // The new run starts after the grace of the old one, which is 5 s.
    assert!(runs[1].began.millisecond() - stopped.millisecond() < 6_000, "{runs:?}");
}

// Promise: J5
#[tokio::test(start_paused = true)]
async fn commands_of_operators_reach_the_nodes_at_once() {
    let test = two(|| long().overlap(Overlap::Allow(2.try_into().unwrap()))).await;
    let jobs = test.jobs();
    jobs.run("long").await.unwrap();
    time::sleep(AT_ONCE).await;
    assert_eq!(test.runs().len(), 2, "one replica had no slot, and the other was notified");
    jobs.cancel("long", None).await.unwrap();
    time::sleep(Duration::from_secs(5) + AT_ONCE).await; // The runs are dropped after their grace.
    let history = jobs.history("long").await.unwrap();
    assert_eq!(history.len(), 2);
    assert!(history.iter().all(|run| run.state == State::Cancelled), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_paused_claims_nothing_from_then_on() {
    let job = || Job::fixed_rate("often", Duration::from_secs(1)).run(async |_: Run| ());
    let test = TestScheduler::at("2026-01-01T00:00:00Z").start(|| vec![job()]).await.unwrap();
    test.advance(Duration::from_secs(5)).await;
    let jobs = test.jobs();
    jobs.pause_node("replica-0", "maintenance").await.unwrap();
    time::sleep(100 * MS).await;
    let before = test.runs().len();
    time::sleep(10 * AT_ONCE).await;
    assert_eq!(test.runs().len(), before);
    jobs.resume_node("replica-0").await.unwrap();
    time::sleep(3 * AT_ONCE).await;
    assert!(test.runs().len() > before);
}

/// The notification comes last, so that a notified node finds all changes in one poll.
// Promise: J5
#[tokio::test(start_paused = true)]
async fn a_stop_notifies_after_its_last_change() {
    let store = Memory::new(Clock::tokio());
    // Each call to the store takes some milliseconds.
    let ours = client(Delayed::new(store.clone(), 1, 5 * MS, 5 * MS));
    let theirs = client(store);
    let (began, mut begins) = mpsc::unbounded_channel();
    let job = Job::once("long").on_crash(OnCrash::Retry).run(move |run: Run| {
        began.send(()).unwrap();
        async move {
            run.cancelled().await;
            Err::<(), _>("stopped")
        }
    });
    let running = Scheduler::over(&ours).drain(Duration::ZERO).job(job).start().await.unwrap();
    begins.recv().await.unwrap();
    let session = "schedule/node/1";
    assert!(theirs.show(session).await.unwrap().is_held());
    let mut notifications = theirs.records().subscribe(&Key::new("schedule/board").unwrap()).unwrap();
    let hour = Duration::from_secs(3600);
    time::timeout(hour, notifications.next()).await.unwrap().unwrap();
    let stopping = tokio::spawn(running.stop());
    time::timeout(hour, notifications.next()).await.unwrap().unwrap();
    assert!(!theirs.show(session).await.unwrap().is_held(), "the session was released before the notification");
    let row = Jobs::over(&theirs).show("long").await.unwrap();
    assert_eq!((row.live.len(), row.queued), (0, 1), "{row:?}");
    stopping.await.unwrap().unwrap();
}

/// Other nodes need not know about a claim, so claims cause no notification.
// Promise: J5
#[tokio::test(start_paused = true)]
async fn claims_notify_no_node() {
    let store = Memory::new(Clock::tokio());
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let job = Job::fixed_rate("often", 100 * MS).run(async |_: Run| time::sleep(20 * MS).await);
        nodes.push(Scheduler::over(&client(store.clone())).job(job).start().await.unwrap());
    }
    let reader = client(store);
    let mut notifications = reader.records().subscribe(&Key::new("schedule/board").unwrap()).unwrap();
    time::sleep(AT_ONCE).await;
    notifications.next().await.unwrap();
    time::sleep(60 * AT_ONCE).await;
    assert!(Jobs::over(&reader).show("often").await.unwrap().ok > 500);
    assert!(notifications.next().now_or_never().is_none());
    for node in nodes {
        node.stop().await.unwrap();
        notifications.next().await.unwrap();
    }
}

/// There is a minimum interval between two polls, so a node does not poll once for each command.
// Promise: J5
#[tokio::test(start_paused = true)]
async fn many_commands_cause_few_polls() {
    let store = Memory::new(Clock::tokio());
    let node = Counting::new(store.clone());
    let running = Scheduler::over(&client(node.clone())).job(long()).start().await.unwrap();
    time::sleep(1_500 * MS).await;
    let before = node.reads();
    let jobs = Jobs::over(&client(store));
    for number in 0..200 {
        jobs.pause("long", &number.to_string()).await.unwrap();
        time::sleep(MS).await;
    }
    time::sleep(100 * MS).await;
    let reads = node.reads() - before;
    assert!((2..=2 * 8).contains(&reads), "at most one poll and one read of the news in 50 ms: {reads}");
    running.stop().await.unwrap();
}

/// A replaced run concerns one job, so its notification makes the other nodes read this job only.
#[tokio::test(start_paused = true)]
async fn a_notification_makes_nodes_read_the_job_that_it_names_only() {
    const JOBS: usize = 300;
    let store = Memory::new(Clock::tokio());
    let jobs = || {
        let idle = |nth| Job::cron(format!("idle-{nth}"), "0 0 0 1 1 ? 2099").run(async |_: Run| ());
        let replaced = Job::fixed_rate("replaced", 2 * AT_ONCE).overlap(Overlap::Replace);
        let replaced = replaced.run(async |run: Run| run.cancelled().await);
        (0..JOBS).map(idle).chain([replaced]).collect::<Vec<_>>()
    };
    let (mut nodes, mut counts) = (Vec::new(), Vec::new());
    for node in 0..4 {
        let counted = Counting::new(store.clone());
        // Each node gets its own name. By default, all nodes of one process have the same name, and a node that
        // replaces a run of its own name notifies no other node.
        let scheduler = Scheduler::over(&client(counted.clone())).node(format!("node-{node}"));
        nodes.push(scheduler.jobs(jobs()).start().await.unwrap());
        counts.push(counted);
    }
    time::sleep(5 * AT_ONCE).await;
    let read = || counts.iter().map(Counting::records_read).sum::<usize>();
    let (before, outside) = (read(), Jobs::over(&client(store)));
    let since = outside.show("replaced").await.unwrap().cancelled;
    // Nodes read all jobs once in half a minute in any case.
    time::sleep(20 * AT_ONCE).await;
    let replaced = outside.show("replaced").await.unwrap().cancelled - since;
    assert!((9..=11).contains(&replaced), "{replaced}");
    let read = read() - before;
    // Each node reads the board and the pauses once per second, and a few records for each notification. There was at
    // least one notification.
    assert!((4 * 2 * 20 + 10..JOBS * 2).contains(&read), "4 nodes read {read} records");
    // A command to one of the idle jobs has an effect too.
    outside.run("idle-7").await.unwrap();
    time::sleep(AT_ONCE / 4).await;
    assert_eq!(outside.show("idle-7").await.unwrap().ok, 1);
    for node in nodes {
        node.stop().await.unwrap();
    }
}

/// Nodes and commands of older versions, which have no news, change only the board.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_board_without_news_makes_nodes_read_all_jobs() {
    let store = Memory::new(Clock::tokio());
    let node = Counting::new(store.clone());
    let jobs = (0..50).map(|nth| Job::cron(format!("idle-{nth}"), "0 0 0 1 1 ? 2099").run(async |_: Run| ()));
    let running = Scheduler::over(&client(node.clone())).jobs(jobs).start().await.unwrap();
    time::sleep(3 * AT_ONCE).await;
    let older = client(store.clone());
    let bump = async || {
        let key = Key::new("schedule/board").unwrap();
        let board =
            older.records().read(std::slice::from_ref(&key), &[]).await.unwrap().records.remove(0).unwrap().unwrap();
        let swap = Swap { notifies: true, ..Swap::new(key, Some(board.version), board.value) };
        older.records().swap(&[swap]).await.unwrap();
    };
    let outside = Jobs::over(&client(store.clone()));
    for way in 0..4 {
        let before = node.records_read();
        // The change of the board alone comes by itself, before a change with news, after one, or between two.
        if way >= 2 {
            outside.pause("idle-7", "first").await.unwrap();
        }
        bump().await;
        if way % 2 == 1 {
            outside.pause("idle-8", "then").await.unwrap();
        }
        time::sleep(2 * AT_ONCE).await;
        let read = node.records_read() - before;
        assert!((50..110).contains(&read), "way {way}: {read}");
    }
    let before = node.records_read();
    outside.resume("idle-8").await.unwrap();
    time::sleep(2 * AT_ONCE).await;
    assert!(node.records_read() - before < 15, "{}", node.records_read() - before);
    running.stop().await.unwrap();
}
