//! One queue: threads of Java and tasks of Rust push elements and take them, each exactly once.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bandog::grid::{Grid, Queue, codec::Kryo5};
use tokio::task::JoinHandle;

use super::{SIDES, answers, lines, millis, number, reports, span};
use crate::grid::side::Side;

/// The ways in which Rust takes elements.
#[derive(Clone, Copy, Debug)]
enum Way {
    Pop,
    PopWait,
    Take,
    Drain,
}

fn queue(grid: &Grid) -> Queue<String, Kryo5> {
    grid.queue("queue").unwrap().codec(Kryo5)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_element_of_a_queue_is_taken_once() {
    let side = Side::start(SIDES).await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let java = |java: usize, thread: &str, words: &[&str]| {
        side.javas[java].command(thread, &[&["queue kryo5", words[0], "queue"], &words[1..]].concat())
    };
    let (takes, polls) = (path("takes"), path("polls"));
    let takers = java(0, "take", &["take-until-end", &takes]);
    let pollers = java(1, "poll", &["poll-for-long", &millis(), &polls]);
    let offers: Vec<_> =
        (0..SIDES).map(|number| java(number, "offer", &["produce", &millis(), &format!("j{number}-")])).collect();
    let until = Instant::now() + span();
    let pushes: Vec<JoinHandle<usize>> =
        (0..SIDES).map(|number| tokio::spawn(push(queue(&side.grids[number]), number, until))).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let ways = [Way::Pop, Way::PopWait, Way::Take, Way::Drain].into_iter().enumerate();
    let consumers: Vec<_> =
        ways.map(|(at, way)| tokio::spawn(consume(queue(&side.grids[at % SIDES]), way, is_over.clone()))).collect();

    let pushed = reports(pushes).await;
    let offered: Vec<usize> = answers(offers).iter().map(|count| usize::try_from(number(count)).unwrap()).collect();
    is_over.store(true, Relaxed);
    let ours: Vec<Vec<String>> = reports(consumers).await;
    answers(vec![pollers]);
    queue(side.grid()).push("end").await.unwrap();
    answers(vec![takers]);

    let mut all = BTreeSet::new();
    for (prefix, counts) in [("r", &pushed), ("j", &offered)] {
        for (number, count) in counts.iter().enumerate() {
            all.extend((0..*count).map(|element| format!("{prefix}{number}-{element}")));
        }
    }
    let (takes, polls) = (lines(&takes), lines(&polls));
    println!(
        "{} elements; Rust took {:?}, Java took {} and polled {}",
        all.len(),
        ours.iter().map(Vec::len).collect::<Vec<_>>(),
        takes.len(),
        polls.len()
    );
    let found: Vec<String> = [ours.concat(), takes, polls].concat();
    let different: BTreeSet<String> = found.iter().cloned().collect();
    let lost: Vec<_> = all.difference(&different).take(5).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert_eq!(different, all);
    assert_eq!(found.len(), all.len(), "no element comes twice");
    let rest = queue(side.grid());
    assert_eq!((rest.len().await.unwrap(), rest.taken_len().await.unwrap()), (0, 0));
}

/// Pushes elements until this time, and returns their number.
async fn push(queue: Queue<String, Kryo5>, number: usize, until: Instant) -> usize {
    let mut pushed = 0;
    while Instant::now() < until {
        if queue.push(&format!("r{number}-{pushed}")).await.unwrap() > 2_000 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        pushed += 1;
    }
    pushed
}

/// Takes elements, until the queue is empty and nothing is pushed any more.
async fn consume(queue: Queue<String, Kryo5>, way: Way, is_over: Arc<AtomicBool>) -> Vec<String> {
    let second = Duration::from_secs(1);
    let mut taken = Vec::new();
    loop {
        let over = is_over.load(Relaxed);
        let before = taken.len();
        match way {
            Way::Pop => taken.extend(queue.pop().await.unwrap()),
            Way::PopWait => taken.extend(queue.pop_wait(second).await.unwrap()),
            Way::Drain => taken.extend(queue.drain(10).await.unwrap()),
            Way::Take => {
                if let Some(element) = queue.take(second).await.unwrap() {
                    // Some elements go back, and come again.
                    if element.delivery() == 1 && taken.len() % 7 == 0 {
                        element.release().await.unwrap();
                        continue;
                    }
                    taken.push(element.clone());
                    element.done().await.unwrap();
                }
            }
        }
        if taken.len() == before {
            if over {
                return taken;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
