//! Curator's `InterProcessSemaphoreV2` and semaphores of bandog.

use std::{
    fs,
    time::{Duration, Instant},
};

use bandog_testkit::{eventually, eventually_async};
use zookeeper_client::Client;

use crate::{
    curator::{BOTH_WAYS, LONG, Place, SESSION, SHORT},
    neighbour::{PendingAnswer, Program, SOON},
    objects::Permits,
};

/// The limit of the contended semaphore.
const LIMIT: u32 = 2;
/// Number of turns of each thread.
const TIMES: u32 = 50;
/// Maximum time by which a grant may follow the end of a session.
const SLACK: Duration = Duration::from_secs(2);
const MIXED: &[Program] = &[Program::Curator, Program::Curator, Program::BandogZooKeeper, Program::BandogZooKeeper];

fn permits(place: &Place, index: usize, take: u32, limit: u32) -> Permits {
    place.neighbours[index].permits("a", "gpus", take, limit)
}

/// The number of nodes in a folder of the semaphore.
async fn count(client: &Client, folder: &str) -> usize {
    client.list_children(&format!("/locks/gpus/{folder}")).await.unwrap_or_default().len()
}

/// Waits until these numbers of permits are taken and of nodes wait in the queue.
async fn wait_for(client: &Client, permits: usize, queue: usize) {
    eventually_async(LONG, async || {
        count(client, "leases").await == permits && waiting_nodes(client).await == Some(queue)
    })
    .await;
}

/// The number of nodes in the queue. None if a claim of bandog is just being served.
async fn waiting_nodes(client: &Client) -> Option<usize> {
    let names = client.list_children("/locks/gpus/locks").await.unwrap_or_default();
    for name in &names {
        let (data, _) = client.get_data(&format!("/locks/gpus/locks/{name}")).await.ok()?;
        if String::from_utf8_lossy(&data).contains(" permits:") && !data.ends_with(b" waits") {
            return None;
        }
    }
    Some(names.len())
}

// Promise: Z22
#[test]
fn permits_of_curator_and_bandog_are_never_above_the_limit() {
    assert_eq!(peak(|_| "gpus"), i64::from(LIMIT));
}

/// Checks that the test above can fail: with a semaphore for each side, more permits are in use.
// Promise: Z22
#[test]
fn with_different_names_more_permits_are_in_use() {
    assert!(peak(|program| if program.is_java() { "gpus" } else { "others" }) > i64::from(LIMIT));
}

// Promise: Z22
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_side_waits_for_permits_of_the_other_side_and_keeps_its_place() {
    let place = Place::of_both(SESSION);
    let client = place.client().await;
    for [holder, waiter] in BOTH_WAYS {
        let (two, one) = (permits(&place, holder, 2, 3), permits(&place, waiter, 1, 3));
        let many = place.neighbours[waiter].permits("b", "gpus", 2, 3);
        two.acquire();
        one.acquire();
        assert!(!many.try_acquire() && !permits(&place, holder, 1, 3).try_acquire());
        let waiting = many.waits();
        // The first waiter of Curator has the node of its first permit already.
        let is_java = place.neighbours[waiter].program.is_java();
        wait_for(&client, 3 + usize::from(is_java), 1).await;
        one.release();
        // There is a free permit, but the waiter that wants two is before this claim.
        assert!(!place.neighbours[holder].permits("c", "gpus", 1, 3).try_acquire());
        assert_eq!(waiting.answered(), None);
        let began = Instant::now();
        two.release();
        assert_eq!(waiting.answer(SOON), "held");
        println!("a hand-over took {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
        assert_eq!(count(&client, "leases").await, 2);
        many.release();
        wait_for(&client, 0, 0).await;
    }
}

// Promise: Z23
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_side_gets_the_permits_of_a_killed_holder() {
    for [holder, waiter] in BOTH_WAYS {
        let (place, waiting) = one_waits(holder, waiter).await;
        let began = Instant::now();
        place.neighbours[holder].kill();
        check(&format!("{:?} was killed", place.neighbours[holder].program), began, waiting);
    }
}

// Promise: Z23
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_side_gets_the_permits_of_a_stopped_holder() {
    for [holder, waiter] in BOTH_WAYS {
        let (place, waiting) = one_waits(holder, waiter).await;
        let began = Instant::now();
        place.neighbours[holder].pause();
        check(&format!("{:?} was stopped", place.neighbours[holder].program), began, waiting);
        place.neighbours[holder].resume();
        let stopped = permits(&place, holder, 2, 2);
        if place.neighbours[holder].program.is_java() {
            stopped.release(); // Curator notices nothing.
        } else {
            assert!(stopped.refused_release().contains("gpus"));
        }
        assert!(!stopped.try_acquire());
        permits(&place, waiter, 1, 2).release();
        stopped.acquire();
    }
}

// Promise: Z23
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_place_of_a_killed_waiter_ends_with_its_session() {
    for [holder, waiter] in BOTH_WAYS {
        let place = Place::of_both(SHORT);
        let client = place.client().await;
        let two = permits(&place, holder, 2, 2);
        two.acquire();
        let _waiting = permits(&place, waiter, 1, 2).waits();
        eventually_async(LONG, async || waiting_nodes(&client).await == Some(1)).await;
        place.neighbours[waiter].kill();
        two.release();
        wait_for(&client, 0, 0).await;
        two.acquire();
    }
}

/// A Java service that follows the limit of bandog has a `SharedCount` of this node.
// Promise: Z22
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_is_a_shared_count() {
    let place = Place::start(SESSION, &[Program::BandogZooKeeper]);
    let client = place.client().await;
    let path = "/locks/%bandog/limits/gpus";
    let one = permits(&place, 0, 1, 3);
    one.acquire();
    assert_eq!(client.get_data(path).await.expect("a limit").0, [0, 0, 0, 3]);
    // As `SharedCount.setCount(1)` writes it.
    client.set_data(path, &[0, 0, 0, 1], None).await.expect("the limit is changed");
    let next = place.neighbours[0].permits("b", "gpus", 1, 1);
    assert!(!next.try_acquire());
    one.release();
    assert!(next.try_acquire());
    next.release();
}

/// Takes and releases permits in several threads of each neighbour. Returns the highest number of permits in use at once.
fn peak(name: impl Fn(Program) -> &'static str) -> i64 {
    let place = Place::start(SESSION, MIXED);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("crowd");
    fs::write(&path, "").expect("a file");
    let began = Instant::now();
    let crowds: Vec<_> = place
        .neighbours
        .iter()
        .enumerate()
        .flat_map(|(number, neighbour)| {
            // Two claims of Curator for several permits each would wait for each other.
            let take = if neighbour.program.is_java() { 1 } else { 1 + u32::try_from(number % 2).expect("a number") };
            let program = neighbour.program;
            ["a", "b", "c"]
                .map(|thread| (program.is_java(), neighbour.permits(thread, name(program), take, LIMIT), take))
        })
        .collect();
    let path = path.to_str().expect("a path in UTF-8");
    let start = |java: bool| {
        let some = crowds.iter().filter(|(is_java, ..)| *is_java == java);
        some.map(|(_, crowd, _)| crowd.crowds(path, TIMES)).collect::<Vec<_>>()
    };
    // A JVM is slow at first. Without this order, bandog may end before Java has its first permit.
    let java = start(true);
    eventually(LONG, || fs::metadata(path).is_ok_and(|file| file.len() > 0));
    for crowd in start(false).into_iter().chain(java) {
        assert_eq!(crowd.answer(LONG), TIMES.to_string());
    }
    let (mut now, mut peak) = (0, 0);
    for change in fs::read(path).expect("the file") {
        now += if change == b'+' { 1 } else { -1 };
        peak = peak.max(now);
    }
    let taken: u32 = crowds.iter().map(|(_, _, take)| take * TIMES).sum();
    println!("{taken} permits, at most {peak} at once, in {:.1} s", began.elapsed().as_secs_f64());
    assert_eq!(now, 0);
    peak
}

/// A place where this neighbour holds all permits, and the other one waits in a session of its own.
async fn one_waits(holder: usize, waiter: usize) -> (Place, PendingAnswer) {
    let place = Place::of_both(SHORT);
    permits(&place, holder, 2, 2).acquire();
    let waiting = permits(&place, waiter, 1, 2).waits();
    let client = place.client().await;
    eventually_async(LONG, async || waiting_nodes(&client).await == Some(1)).await;
    (place, waiting)
}

/// Waits for the grant, and checks that it comes with the end of the holder's session.
#[track_caller]
fn check(what: &str, began: Instant, waiting: PendingAnswer) {
    assert_eq!(waiting.answer(LONG), "held");
    let took = began.elapsed();
    println!("{what}; the other side got a permit after {:.1} s", took.as_secs_f64());
    assert!(took > SHORT / 2 && took < SHORT + SLACK, "after {took:?}");
}
