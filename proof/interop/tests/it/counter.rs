//! Threads of Java and tasks of Rust add to one counter, which only the lock protects.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use bandog::Client;
use bandog_interop::counter::Counter;

use crate::{
    counter_file::CounterFile,
    rig::{Rig, TTL, connect},
};

/// Number of tasks or threads of each side.
const TASKS: usize = 4;
/// Number of additions of each task or thread.
const TIMES: u64 = 1000;
/// Number of additions of both sides.
const ALL: u64 = 2 * TASKS as u64 * TIMES;

// Promise: X1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_locks_lose_no_addition() {
    let counter = count_together("lock").await;
    assert_eq!(counter.count(), ALL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_locks_lose_no_addition_and_their_fences_increase() {
    let counter = count_together("fenced").await;
    assert_eq!(counter.count(), ALL);
}

/// Checks that the other tests can fail: without a lock, additions must be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_lock_additions_are_lost() {
    let counter = count_together("none").await;
    let counted = counter.count();
    println!("without a lock {} of {ALL} additions were lost", ALL - counted);
    assert!(counted < ALL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_side_starves_the_other() {
    let rig = Rig::start(TTL).await;
    let span = Duration::from_secs(3);
    let millis = span.as_millis().to_string();
    let theirs: Vec<_> = ["a", "b", "c", "d"].map(|thread| rig.java.send(thread, &["turns", "orders", &millis])).into();
    let mut ours = Vec::new();
    for _ in 0..16 {
        let mutex = rig.ours.mutex("orders");
        ours.push(tokio::spawn(async move {
            let (start, mut turns, mut longest) = (Instant::now(), 0_u32, Duration::ZERO);
            while start.elapsed() < span {
                let asked = Instant::now();
                let guard = mutex.lock().await.expect("granted");
                longest = longest.max(asked.elapsed());
                guard.release().await.expect("released");
                turns += 1;
            }
            (turns, longest)
        }));
    }
    let (mut turns, mut longest) = (Vec::new(), Duration::ZERO);
    for task in ours {
        let (served, wait) = task.await.expect("no panic");
        turns.push(served);
        longest = longest.max(wait);
    }
    let ms = longest.as_secs_f64() * 1e3;
    println!(
        "16 tasks of ours for 3 s: {} turns, the least served {}, longest wait {ms:.0} ms",
        turns.iter().sum::<u32>(),
        turns.iter().min().expect("tasks")
    );
    assert!(turns.iter().all(|served| *served > 0), "{turns:?}");

    let answers: Vec<String> = theirs.into_iter().map(|asked| asked.answer(TTL)).collect();
    let parts = answers.iter().map(|answer| answer.split_once(' ').expect("two numbers"));
    let (turns, waits): (Vec<u64>, Vec<u64>) =
        parts.map(|(turns, wait)| (turns.parse::<u64>().expect("turns"), wait.parse::<u64>().expect("µs"))).unzip();
    let ms = *waits.iter().max().expect("threads") as f64 / 1e3;
    println!(
        "4 threads of Java's meanwhile: {} turns, the least served {}, longest wait {ms:.0} ms",
        turns.iter().sum::<u64>(),
        turns.iter().min().expect("threads")
    );
    assert!(turns.iter().all(|served| *served > 0), "{turns:?}");
}

async fn count_together(kind: &'static str) -> CounterFile {
    let rig = Rig::start(TTL).await;
    let counter = CounterFile::new();
    let other = connect(&rig.server, TTL).await;
    let times = TIMES.to_string();
    let start = Instant::now();
    let theirs: Vec<_> = (0..TASKS)
        .map(|thread| rig.java.command(&thread.to_string(), &[kind, "count", "orders", counter.path(), &times]))
        .collect();
    // The tasks use two clients, so that the lock is not only passed on within one client.
    let ours: Vec<_> = (0..TASKS)
        .map(|task| {
            tokio::spawn(count(
                if task % 2 == 0 { rig.ours.clone() } else { other.clone() },
                kind,
                counter.path.clone(),
            ))
        })
        .collect();
    for task in ours {
        task.await.expect("no panic");
    }
    let done = start.elapsed();
    for asked in theirs {
        assert_eq!(asked.answer(Duration::from_secs(120)), times);
    }
    println!("{ALL} additions in {:.1} s, ours done after {:.1} s", start.elapsed().as_secs_f64(), done.as_secs_f64());
    counter
}

async fn count(client: Client, kind: &str, path: PathBuf) {
    let counter = Counter::open(&path).expect("the counter's file");
    let mutex = client.mutex("orders");
    for _ in 0..TIMES {
        if kind == "none" {
            counter.add(0).expect("added");
            tokio::task::yield_now().await;
            continue;
        }
        let guard = mutex.lock().await.expect("granted");
        counter.add(if kind == "fenced" { guard.fence().get() } else { 0 }).expect("added");
        guard.release().await.expect("released");
    }
}
