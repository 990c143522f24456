//! Workers on Redis whose server or connections fail.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog::work::{Backoff, ClientWork, Delivery, Phase, Running, WorkQueue};
use bandog_testkit::{RedisServer, eventually_async};
use futures_util::future::join_all;

use crate::kit::{SECOND, Seen, count, elements};

const SOON: Duration = Duration::from_secs(60);

/// What the handlers do.
#[derive(Debug, Clone, Default)]
struct Work(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    done: HashSet<String>,
    running: HashSet<String>,
    /// The elements that ran twice at the same time.
    overlaps: Vec<String>,
}

/// An element that runs.
struct Runs(Work, String);

impl Work {
    fn begin(&self, element: &str) -> Runs {
        let mut state = self.0.lock().unwrap();
        if !state.running.insert(element.to_owned()) {
            state.overlaps.push(element.to_owned());
        }
        Runs(self.clone(), element.to_owned())
    }

    fn done(&self, element: &str) {
        self.0.lock().unwrap().done.insert(element.to_owned());
    }

    fn has_done(&self, element: &str) -> bool {
        self.0.lock().unwrap().done.contains(element)
    }

    fn is_running(&self, element: &str) -> bool {
        self.0.lock().unwrap().running.contains(element)
    }

    fn number(&self) -> usize {
        self.0.lock().unwrap().done.len()
    }

    /// Waits until this number of elements is done and the queue is empty, and checks that none ran twice at a time.
    async fn ends(&self, number: usize, queue: &WorkQueue<String>, workers: impl IntoIterator<Item = Running>) {
        eventually_async(SOON, async || self.number() == number).await;
        eventually_async(SOON, async || queue.status().await.unwrap().counts.values().sum::<u64>() == 0).await;
        for workers in workers {
            workers.stop().await.unwrap();
        }
        assert_eq!(self.0.lock().unwrap().overlaps, [""; 0]);
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().running.remove(&self.1);
    }
}

async fn queue(server: &RedisServer) -> WorkQueue<String> {
    bandog::connect(server.url()).await.unwrap().work_queue("orders").unwrap()
}

async fn worker(server: &RedisServer, work: &Work, time: Duration) -> Running {
    let work = work.clone();
    let workers = queue(server).await.workers(16).lease(SECOND).deliveries(1000);
    workers.backoff(Backoff::fixed(Duration::from_millis(10)).unwrap()).run(move |delivery: Delivery<String>| {
        let work = work.clone();
        async move {
            let _runs = work.begin(&delivery);
            tokio::time::sleep(time).await;
            work.done(&delivery);
            Ok::<_, bandog::Error>(())
        }
    })
}

fn names(number: u32) -> Vec<String> {
    (0..number).map(|number| number.to_string()).collect()
}

#[tokio::test]
async fn connections_that_break_lose_no_element() {
    let server = RedisServer::start();
    let (queue, work) = (queue(&server).await, Work::default());
    let workers = [
        worker(&server, &work, Duration::from_millis(2)).await,
        worker(&server, &work, Duration::from_millis(2)).await,
    ];
    let names = names(3000);
    let push = async {
        for chunk in names.chunks(20) {
            queue.push_all(chunk).await.unwrap();
        }
    };
    let breaks = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            server.kill_clients();
        }
    };
    tokio::join!(push, breaks);
    work.ends(names.len(), &queue, workers).await;
}

#[tokio::test]
async fn a_server_that_is_stopped_for_longer_than_the_lease_costs_no_element() {
    let server = RedisServer::start();
    let (queue, work) = (queue(&server).await, Work::default());
    let names = names(24);
    queue.push_all(&names).await.unwrap();
    let workers =
        [worker(&server, &work, Duration::from_secs(6)).await, worker(&server, &work, Duration::from_secs(6)).await];
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.pause();
        tokio::time::sleep(SECOND * 2).await;
        server.resume();
    }
    work.ends(names.len(), &queue, workers).await;
}

#[tokio::test]
async fn a_push_does_not_wait_for_all_that_the_store_has_not_answered() {
    let server = RedisServer::start();
    let client = bandog::connect(format!("{}?timeout=500ms", server.url())).await.unwrap();
    let queue = client.work_queue::<String>("orders").unwrap();
    queue.push("first").await.unwrap();
    server.pause();
    let begun = tokio::time::Instant::now();
    // Each goes in a request of its own, because every second one has an id.
    let pushes = (0..20).map(|number| {
        let push = queue.push(&number.to_string());
        if number % 2 == 0 { push } else { push.once(number.to_string(), SECOND * 60) }
    });
    let errors: Vec<_> =
        join_all(pushes.map(IntoFuture::into_future)).await.into_iter().map(Result::unwrap_err).collect();
    // Three timeouts for each request would be 30 s.
    assert!(begun.elapsed() < SECOND * 15, "{:?}", begun.elapsed());
    assert!(errors.iter().all(|error| error.kind() == bandog::ErrorKind::Unavailable), "{errors:?}");
    assert!(errors[0].maybe_applied() && !errors[19].maybe_applied(), "{errors:?}");
    server.resume();
    queue.push("last").await.unwrap();
    let elements: HashSet<_> = elements(&queue, Phase::Ready).await.into_iter().map(|row| row.payload).collect();
    assert!(!elements.contains(&b"\"19\""[..]), "a push that was not sent is there");
}

#[tokio::test]
async fn an_element_whose_take_is_answered_after_its_lease_has_used_no_attempt() {
    let server = RedisServer::start();
    let (queue, wire) = (queue(&server).await, server.wire());
    let client = bandog::connect(format!("{}?timeout=10s", wire.url())).await.unwrap();
    let seen = Seen::default();
    let workers = client.work_queue::<String>("orders").unwrap().workers(4).lease(SECOND).run({
        let seen = seen.clone();
        move |delivery| {
            seen.add_attempt(&delivery);
            async { Ok::<_, bandog::Error>(()) }
        }
    });
    queue.push("first").await.unwrap();
    eventually_async(SOON, async || seen.all() == ["first 1"]).await;
    wire.delay_replies(SECOND * 3 / 2);
    queue.push("late").await.unwrap();
    eventually_async(SOON, async || count(&queue, Phase::Taken).await == 1).await;
    // The answer arrives.
    tokio::time::sleep(SECOND * 2).await;
    wire.delay_replies(Duration::ZERO);
    eventually_async(SOON, async || seen.all() == ["first 1", "late 1"]).await;
    workers.stop().await.unwrap();
}

#[tokio::test]
async fn workers_go_on_after_all_data_were_lost() {
    let server = RedisServer::start();
    let (queue, work) = (queue(&server).await, Work::default());
    queue.push_all(&names(100)).await.unwrap();
    let workers = worker(&server, &work, Duration::from_millis(300)).await;
    eventually_async(SOON, async || work.number() > 0).await;
    server.cmd(&["FLUSHALL"]);
    queue.push("after").await.unwrap();
    eventually_async(SOON, async || work.has_done("after")).await;
    workers.stop().await.unwrap();
    assert_eq!(count(&queue, Phase::Taken).await, 0);
}

#[tokio::test]
async fn a_push_wakes_a_worker_at_once() {
    let server = RedisServer::start();
    let (queue, work) = (queue(&server).await, Work::default());
    let workers = worker(&server, &work, Duration::ZERO).await;
    queue.push("first").await.unwrap();
    eventually_async(SOON, async || work.number() == 1).await;
    tokio::time::sleep(SECOND).await;
    let mut late = 0;
    for number in 0..50 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let begun = tokio::time::Instant::now();
        queue.push(&number.to_string()).await.unwrap();
        eventually_async(SOON, async || work.number() == number + 2).await;
        late += u32::from(begun.elapsed() > Duration::from_millis(500));
    }
    // Without notifications, each would wait for a poll of a second.
    assert!(late < 10, "{late} of 50 were late");
    workers.stop().await.unwrap();
}

#[tokio::test]
async fn a_full_memory_refuses_pushes_and_its_elements_are_delivered() {
    let server = RedisServer::start();
    let (queue, work) = (queue(&server).await, Work::default());
    let names = names(2000);
    queue.push_all(&names).await.unwrap();
    server.cmd(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let refused = queue.push("refused").await.unwrap_err();
    assert!(refused.to_string().contains("maxmemory") && !refused.maybe_applied(), "{refused}");
    work.ends(names.len(), &queue, [worker(&server, &work, Duration::ZERO).await]).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    queue.push("accepted").await.unwrap();
    work.ends(names.len() + 1, &queue, [worker(&server, &work, Duration::ZERO).await]).await;
}

/// The store counts the lease from the first take, and a repeated one is answered with the same elements.
#[tokio::test]
async fn a_take_that_was_answered_late_is_not_believed_for_longer_than_its_lease() {
    const LEASE: Duration = Duration::from_secs(6);
    let server = RedisServer::start();
    let (queue, work, wire) = (queue(&server).await, Work::default(), server.wire());
    let begin = async |url: String| {
        let (queue, work) = (bandog::connect(&*url).await.unwrap().work_queue("orders").unwrap(), work.clone());
        queue.workers(1).lease(LEASE).run(move |delivery: Delivery<String>| {
            let work = work.clone();
            async move {
                let _runs = work.begin(&delivery);
                tokio::time::sleep(LEASE * 2).await;
                work.done(&delivery);
                Ok::<_, bandog::Error>(())
            }
        })
    };
    let first = begin(format!("{}?timeout=1500ms", wire.url())).await;
    eventually_async(SOON, async || !queue.status().await.unwrap().workers.is_empty()).await;
    let mut pushed = 0;
    let name = loop {
        let name = format!("element {pushed}");
        pushed += 1;
        wire.drop_replies(true);
        queue.push(&name).await.unwrap();
        // Its interval of polls is a second. A take that was on its way before the push gets nothing, and is repeated.
        let is_taken = eventually_async(SOON, async || count(&queue, Phase::Taken).await == 1);
        let is_taken = tokio::time::timeout(SECOND * 4, is_taken).await.is_ok();
        tokio::time::sleep(SECOND).await;
        wire.drop_replies(false);
        if is_taken {
            break name;
        }
        eventually_async(SOON, async || work.has_done(&name)).await;
    };
    eventually_async(SOON, async || work.is_running(&name)).await;
    wire.drop_requests(true); // The lease is not extended.
    let second = begin(server.url()).await;
    eventually_async(SOON, async || work.has_done(&name)).await;
    wire.drop_requests(false);
    work.ends(pushed, &queue, [first, second]).await;
}

/// One slot is full after each take. The next push wakes it nevertheless.
#[tokio::test]
async fn each_push_wakes_a_worker_with_one_slot() {
    let server = RedisServer::start();
    let (queue, work) = (queue(&server).await, Work::default());
    let of_workers = work.clone();
    let workers = bandog::connect(server.url()).await.unwrap().work_queue("orders").unwrap().workers(1);
    let workers = workers.run(move |delivery: Delivery<String>| {
        of_workers.done(&delivery);
        async { Ok::<_, std::io::Error>(()) }
    });
    let begun = std::time::Instant::now();
    for number in 0..200 {
        let name = number.to_string();
        queue.push(&name).await.unwrap();
        eventually_async(SOON, async || work.has_done(&name)).await;
    }
    // With polls alone it needs 100 s on average.
    assert!(begun.elapsed() < SECOND * 60, "{:?}", begun.elapsed());
    workers.stop().await.unwrap();
}

/// The first request of a take arrives after its repetition. What it gets has no taker: it is given back, and costs no attempt.
#[tokio::test]
async fn a_take_that_arrives_late_costs_no_attempt() {
    let server = RedisServer::start();
    let wire = server.wire();
    let url = format!("redis://127.0.0.1:{}?timeout=500ms", wire.port());
    let direct = queue(&server).await;
    let (begun, release) = (Arc::new(Mutex::new(Vec::new())), Arc::new(tokio::sync::Semaphore::new(0)));
    let handler = {
        let (begun, release) = (begun.clone(), release.clone());
        move |delivery: Delivery<String>| {
            let (begun, release) = (begun.clone(), release.clone());
            async move {
                begun.lock().unwrap().push((delivery.to_string(), delivery.attempt()));
                if *delivery == *"busy" {
                    drop(release.acquire().await.unwrap());
                }
                Ok::<_, bandog::Error>(())
            }
        }
    };
    let slow: WorkQueue<String> = bandog::connect(url).await.unwrap().work_queue("orders").unwrap();
    let workers = slow.workers(1).lease(Duration::from_secs(60)).run(handler);
    let has_begun = async |name: &str| begun.lock().unwrap().iter().any(|(begun, _)| begun == name);
    direct.push("first").await.unwrap();
    eventually_async(SOON, async || has_begun("first").await).await;
    // A take waits on this connection, and is repeated on another one.
    let accepted = wire.accepted();
    wire.stall_open(true);
    eventually_async(SOON, async || wire.accepted() > accepted).await;
    direct.push("busy").await.unwrap();
    eventually_async(SOON, async || has_begun("busy").await).await;
    direct.push("late").await.unwrap();
    wire.stall_open(false);
    eventually_async(SOON, async || direct.status().await.unwrap().count(Phase::Taken) == 2).await;
    eventually_async(SOON / 2, async || direct.status().await.unwrap().count(Phase::Ready) == 1).await;
    release.add_permits(1);
    eventually_async(SOON, async || has_begun("late").await).await;
    assert_eq!(begun.lock().unwrap().last(), Some(&("late".to_owned(), 1)));
    workers.stop().await.unwrap();
}

/// A group of pushes, a take or a settlement of a megabyte needs 2 s on this wire, and a request has 1 s. They get smaller, and
/// nothing that was only on its way counts as a delivery.
#[tokio::test]
async fn requests_get_smaller_on_a_slow_wire() {
    const PUSHES: u32 = 256;
    const BYTES: usize = 8 << 10;
    let server = RedisServer::start();
    let (direct, wire) = (queue(&server).await, server.wire());
    let connect = async || {
        let url = format!("{}?timeout=1s", wire.url());
        bandog::connect(&*url).await.unwrap().work_queue::<String>("orders").unwrap()
    };
    let (pushes, works) = (connect().await, connect().await);
    wire.rate(std::num::NonZeroU64::new(500 << 10));
    let failed = std::sync::atomic::AtomicUsize::new(0);
    let push = async |number: u32| {
        let text = format!("{number} {}", "x".repeat(BYTES));
        let push = || pushes.push(&text).once(format!("element {number}"), SOON * 10).keep_result(SOON * 10);
        while let Err(error) = push().await {
            assert!(error.is_retryable(), "{error}");
            failed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    };
    join_all((0..PUSHES).map(push)).await;
    // Groups that stay as large never arrive. What was sent in vain is on the wire for some seconds more.
    let failed = failed.into_inner();
    assert!(failed <= 4 * PUSHES as usize, "{failed} of {PUSHES} pushes failed");
    let begun = Arc::new(Mutex::new(Vec::new()));
    let of_handler = begun.clone();
    let workers = works.workers(PUSHES).lease(SOON * 5).answer(move |delivery: Delivery<String>| {
        of_handler.lock().unwrap().push((delivery.split(' ').next().map(str::to_owned), delivery.attempt()));
        async move { Ok::<_, bandog::Error>(delivery.as_bytes().to_vec()) }
    });
    eventually_async(SOON * 2, async || direct.status().await.unwrap().counts.values().sum::<u64>() == 0).await;
    workers.stop().await.unwrap();
    let begun = begun.lock().unwrap();
    let each: HashSet<_> = begun.iter().map(|(number, _)| number.clone()).collect();
    assert_eq!((begun.len(), each.len()), (PUSHES as usize, PUSHES as usize));
    assert!(begun.iter().all(|(_, attempt)| *attempt == 1), "{begun:?}");
}

/// All handlers end at once, and the wire needs longer than a lease for their results.
#[tokio::test]
async fn what_is_done_keeps_its_lease_until_it_is_settled() {
    const ELEMENTS: u32 = 16;
    const BYTES: usize = 400 << 10;
    let server = RedisServer::start();
    let (direct, wire) = (queue(&server).await, server.wire());
    let url = format!("{}?timeout=6s", wire.url());
    let works = bandog::connect(&*url).await.unwrap().work_queue::<String>("orders").unwrap();
    for stops in [false, true] {
        let push = async |number: u32| direct.push(&number.to_string()).keep_result(SOON * 10).await.unwrap().id;
        let ids = join_all((0..ELEMENTS).map(push)).await;
        let begun = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let of_handler = begun.clone();
        let workers = works.workers(ELEMENTS).lease(Duration::from_secs(10)).answer(move |_: Delivery<String>| {
            of_handler.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async move { Ok::<_, bandog::Error>(vec![b'x'; BYTES]) }
        });
        eventually_async(SOON * 2, async || begun.load(std::sync::atomic::Ordering::Relaxed) == ELEMENTS).await;
        wire.rate(std::num::NonZeroU64::new(500 << 10));
        if !stops {
            eventually_async(SOON * 2, async || direct.status().await.unwrap().counts.values().sum::<u64>() == 0).await;
        }
        workers.stop().await.unwrap();
        wire.rate(None);
        assert_eq!(direct.status().await.unwrap().counts.values().sum::<u64>(), 0);
        for id in ids {
            let outcome = direct.result(id, Duration::ZERO).await.unwrap();
            assert!(matches!(outcome, Some(bandog::work::Outcome::Done(result)) if result.len() == BYTES));
        }
        assert_eq!(begun.load(std::sync::atomic::Ordering::Relaxed), ELEMENTS);
    }
}
