//! Queues: who gets an element, and when it comes again.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use bandog::{
    ErrorKind,
    grid::{ClientGrid, Deque, Queue, SortedSet},
};
use bandog_testkit::{RedisServer, eventually_async};
use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use crate::{SOON, grid, keys};

const SECOND: Duration = Duration::from_secs(1);

// Promise: G11
#[tokio::test]
async fn a_waiting_pop_gets_an_element_of_another_program_without_a_poll() {
    let server = RedisServer::start();
    let (own, other) = (grid(&server.url()).await, grid(&server.url()).await);
    let (queue, producer): (Queue<u32>, Queue<u32>) = (own.queue("q").unwrap(), other.queue("q").unwrap());
    // The first element subscribes.
    producer.push(&0).await.unwrap();
    assert_eq!(queue.pop_wait(SOON).await.unwrap(), Some(0));
    let mut fastest = SECOND;
    for number in 1..=20 {
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.pop_wait(SOON).await.unwrap() }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let begin = Instant::now();
        producer.push(&number).await.unwrap();
        assert_eq!(waiting.await.unwrap(), Some(number));
        fastest = fastest.min(begin.elapsed());
    }
    assert!(fastest < Duration::from_millis(200), "polls come each second, and one took {fastest:?}");
    eventually_async(SOON, async || keys(&server).is_empty()).await;
}

#[tokio::test]
async fn pops_take_from_their_ends_and_are_answered_at_once() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let grid = grid(&url).await;
        let deque: Deque<u32> = grid.deque("d").unwrap();
        assert_eq!(deque.pop().await.unwrap(), None);
        assert_eq!(deque.pop_wait(Duration::ZERO).await.unwrap(), None);
        assert_eq!(deque.push_all(&[1, 2, 3]).await.unwrap(), 3);
        deque.push_front(&0).await.unwrap();
        assert_eq!(deque.peek(9).await.unwrap(), [0, 1, 2, 3]);
        assert_eq!((deque.pop_back().await.unwrap(), deque.pop().await.unwrap()), (Some(3), Some(0)));
        assert_eq!(deque.drain(9).await.unwrap(), [1, 2]);
        eventually_async(SOON, async || deque.taken_len().await.unwrap() == 0).await;
        let sorted: SortedSet<String> = grid.sorted_set("s").unwrap();
        let waiting = tokio::spawn({
            let sorted = sorted.clone();
            async move { sorted.pop_max_wait(SOON).await.unwrap() }
        });
        sorted.insert(2.5, "a").await.unwrap();
        assert_eq!(waiting.await.unwrap(), Some(("a".to_owned(), 2.5)));
    }
}

// Promise: G11
#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time() {
    let queue: Queue<u32> = bandog::testing::client().grid().queue("q").unwrap();
    let begin = Instant::now();
    assert_eq!(queue.pop_wait(Duration::from_millis(1_500)).await.unwrap(), None);
    assert_eq!(begin.elapsed().as_millis(), 1_500);
}

// Promise: G7, G9
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_and_a_dropped_element_is_the_next_one() {
    let grid = bandog::testing::client().grid();
    let queue: Queue<u32> = grid.queue("q").unwrap().lease(SECOND * 3);
    queue.push_all(&[1, 2]).await.unwrap();
    let first = queue.take(SECOND).await.unwrap().unwrap();
    tokio::time::sleep(SECOND * 60).await;
    assert!(!first.is_lost());
    assert_eq!((queue.len().await.unwrap(), queue.taken_len().await.unwrap()), (1, 1));
    let fence = first.fence();
    drop(first);
    let again = queue.take(SECOND).await.unwrap().unwrap();
    assert_eq!((*again, again.delivery()), (1, 2));
    assert!(again.fence() > fence);
    again.release().await.unwrap();
    let again = queue.take(SECOND).await.unwrap().unwrap();
    assert_eq!((*again, again.delivery()), (1, 3));
    again.done().await.unwrap();
    assert_eq!(queue.pop().await.unwrap(), Some(2));
}

// Promise: G7
#[test]
fn after_the_end_of_a_runtime_elements_come_again_and_calls_run_elsewhere() {
    let server = RedisServer::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let queue: Queue<u32> =
        first.block_on(async { grid(&server.url()).await.queue("q").unwrap().lease(Duration::from_secs(1)) });
    let taken = first.block_on(async {
        queue.push_all(&[1, 2]).await.unwrap();
        queue.take(SECOND).await.unwrap().unwrap()
    });
    drop(first);
    let second = runtime();
    second.block_on(async {
        assert_eq!(queue.pop_wait(SOON).await.unwrap(), Some(2));
        timeout(SOON, taken.lost()).await.unwrap();
        let again = queue.take(SOON).await.unwrap().unwrap();
        assert_eq!((*again, again.delivery()), (1, 2), "the lease has expired");
        let gone = taken.done().await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::Lost, "{gone}");
        again.done().await.unwrap();
    });
}

// Promise: G13
#[tokio::test]
async fn an_element_that_cannot_be_read_stays_the_first() {
    let server = RedisServer::start();
    server.cmd(&["RPUSH", "q", "not JSON", "5"]);
    let queue: Queue<u32> = grid(&server.url()).await.queue("q").unwrap();
    for _ in 0..3 {
        let corrupt = queue.pop().await.unwrap_err();
        assert_eq!(corrupt.kind(), ErrorKind::Corrupt);
        assert!(!corrupt.to_string().contains("not JSON"), "{corrupt}");
        eventually_async(SOON, async || server.cmd(&["LRANGE", "q", "0", "-1"]).texts() == ["not JSON", "5"]).await;
    }
    let corrupt = queue.take(SECOND).await.unwrap_err();
    assert_eq!(corrupt.kind(), ErrorKind::Corrupt);
    server.cmd(&["RPUSH", "q2", "5"]);
    server.cmd(&["SET", "q3", "5"]);
    let other: Queue<u32> = grid(&server.url()).await.queue("q3").unwrap();
    assert_eq!(other.pop_wait(SOON).await.unwrap_err().kind(), ErrorKind::Denied);
}

// Promise: G6
#[tokio::test(flavor = "multi_thread")]
async fn many_producers_and_consumers_move_each_element_once() {
    let server = RedisServer::start();
    let total = 4_000_usize;
    let received = AtomicUsize::new(0);
    let mut seen = vec![0_u8; total];
    let grids = [grid(&server.url()).await, grid(&server.url()).await];
    let producers = (0..8).map(|producer| {
        let queue: Queue<usize> = grids[producer % 2].queue("q").unwrap();
        async move {
            for number in (producer..total).step_by(8) {
                queue.push(&number).await.unwrap();
            }
        }
    });
    let consumers = (0..16).map(|consumer| {
        let queue: Queue<usize> = grids[consumer % 2].queue("q").unwrap();
        let received = &received;
        async move {
            let mut own = Vec::new();
            while received.load(Relaxed) < total {
                if let Some(number) = queue.pop_wait(Duration::from_millis(300)).await.unwrap() {
                    received.fetch_add(1, Relaxed);
                    own.push(number);
                }
            }
            own
        }
    });
    let (_, received) = tokio::join!(join_all(producers), join_all(consumers));
    received.into_iter().flatten().for_each(|number| seen[number] += 1);
    assert!(seen.iter().all(|times| *times == 1), "each element came once");
    eventually_async(SOON, async || keys(&server).is_empty()).await;
}

/// A program that ends after a pop: the element does not come again.
#[test]
fn a_closed_grid_has_confirmed_what_it_popped() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let grid = grid(&server.url()).await;
        let queue: Queue<u32> = grid.queue("q").unwrap();
        queue.push(&1).await.unwrap();
        assert_eq!(queue.pop().await.unwrap(), Some(1));
        grid.close().await.unwrap();
    });
    drop(runtime);
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// Elements that cannot be delivered return in their order, also many, and a number without a bound costs nothing.
#[tokio::test]
async fn a_drain_that_fails_keeps_the_order() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let grid = grid(&url).await;
        let (numbers, texts) = (grid.queue::<u32>("q").unwrap(), grid.queue::<String>("q").unwrap());
        let all: Vec<u32> = (0..2_500).collect();
        numbers.push_all(&all).await.unwrap();
        texts.push("no number").await.unwrap();
        let failed = numbers.drain(usize::MAX).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Corrupt, "{failed}");
        eventually_async(SOON, async || numbers.taken_len().await.unwrap() == 0).await;
        assert_eq!(numbers.drain(2_500).await.unwrap(), all, "{url}");
        assert_eq!(texts.drain(usize::MAX).await.unwrap(), ["no number"]);
    }
}

/// More elements than the script makes available together come before the new ones.
#[tokio::test]
async fn elements_of_expired_leases_come_first() {
    let server = RedisServer::start();
    let queue: Queue<u32> = grid(&server.url()).await.queue("q").unwrap();
    let old: Vec<u32> = (0..300).collect();
    queue.push_all(&old).await.unwrap();
    let (other, mut taken) = (grid(&server.url()).await.queue::<u32>("q").unwrap(), Vec::new());
    for _ in &old {
        taken.push(other.take(SOON).await.unwrap().unwrap());
    }
    let kept: Vec<_> = (300..600).collect();
    queue.push_all(&kept).await.unwrap();
    let expire = "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 0, id) end";
    server.cmd(&["EVAL", expire, "1", "bandog:leases:{q}"]);
    let mut first = queue.drain(256).await.unwrap();
    first.extend(queue.drain(44).await.unwrap());
    first.sort_unstable();
    assert_eq!(first, old);
}

/// A thousand exact calls at once cost as much for each as a few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_exact_calls_at_once_are_applied_once() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let counter = grid.counter("n").unwrap().exact();
    for round in 1..=3 {
        let sums = futures_util::future::join_all((0..3_000).map(|_| counter.add(1).into_future())).await;
        sums.into_iter().for_each(|sum| _ = sum.unwrap());
        assert_eq!(counter.get().await.unwrap(), 3_000 * round);
    }
    // Answers are forgotten when their client can repeat them no more.
    counter.add(1).await.unwrap();
    let kept = server.cmd(&["HLEN", "bandog:ops:{n}"]).int();
    assert!(kept < 100, "{kept} answers are remembered");
}
