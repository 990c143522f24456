//! Answers that are lost, and outages that last longer than the store remembers, on a store in memory with a paused clock.

use std::{sync::mpsc, thread, time::Duration};

use bandog::{
    Client, ErrorKind,
    grid::{ClientGrid, Grid, Limits, Queue},
};
use bandog_conformance::wrap::{Delayed, Fate, Lossy};
use bandog_core::{Backend, Clock, Memory};
use futures_util::future::join_all;
use tokio::{runtime, time::sleep};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

fn client(backend: impl Backend) -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(backend).unwrap()
}

/// A store that loses what a test wants, and a grid on it.
fn lossy() -> (Lossy<Memory>, Grid) {
    let store = Lossy::new(Memory::new(Clock::tokio()));
    (store.clone(), client(store).grid())
}

/// Runs a test with a paused clock. Panics if it keeps its thread busy: the timers of its runtime do not advance then.
fn paused(test: impl Future<Output = ()> + Send + 'static) {
    let (end, ended) = mpsc::channel();
    thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(test);
        end.send(())
    });
    let result = ended.recv_timeout(Duration::from_secs(120));
    assert_ne!(result, Err(mpsc::RecvTimeoutError::Timeout), "the runtime stands still");
    result.expect("the test has failed");
}

/// An outage that begins with a lost answer, and whatever it lasts: afterwards each call is answered, and by the store.
// Promise: G5, G11
#[test]
fn an_outage_of_any_length_ends() {
    paused(async {
        for seconds in [1, 14, 16, 29, 31, 65] {
            for waits_to_the_end in [false, true] {
                let (store, grid) = lossy();
                let queue: Queue<u32> = grid.queue("q").unwrap();
                assert_eq!(queue.pop().await.unwrap(), None);
                queue.push(&1).await.unwrap();
                store.next([Fate::ReplyLost]);
                let at_most = if waits_to_the_end { SECOND * 200 } else { SECOND / 2 };
                let waiting = tokio::spawn({
                    let queue = queue.clone();
                    async move { queue.pop_wait(at_most).await }
                });
                while store.pending() > 0 {
                    sleep(Duration::from_millis(1)).await;
                }
                store.always(Fate::Refused);
                sleep(SECOND * seconds).await;
                let refused = queue.pop_wait(SECOND).await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
                store.heal();
                let popped = match waiting.await.unwrap() {
                    Ok(popped) => popped,
                    Err(error) => {
                        assert!(!waits_to_the_end && error.kind() == ErrorKind::Unavailable, "{error}");
                        queue.pop_wait(SECOND * 60).await.unwrap()
                    }
                };
                assert_eq!(popped, Some(1), "after {seconds} s");
                assert_eq!(queue.pop_wait(SECOND).await.unwrap(), None);
                sleep(SECOND).await;
                assert_eq!((queue.len().await.unwrap(), queue.taken_len().await.unwrap()), (0, 0));
            }
        }
    });
}

/// An element whose delivery got lost comes again within a minute, however long the leases of its queue are.
// Promise: G7
#[test]
fn a_lost_delivery_comes_again_before_a_long_lease_is_over() {
    paused(async {
        let (store, grid) = lossy();
        let queue: Queue<u32> = grid.queue("q").unwrap().lease(DAY);
        queue.push(&1).await.unwrap();
        store.next([Fate::ReplyLost]);
        let lost = tokio::spawn({
            let queue = queue.clone();
            async move { queue.take(SECOND * 40).await }
        });
        while store.pending() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        store.always(Fate::Refused);
        sleep(SECOND * 20).await;
        store.heal();
        let taken = lost.await.unwrap().unwrap().expect("the element comes again");
        assert_eq!(*taken, 1);
        // The lease of an element that was delivered is that of the queue: a program that ends keeps it for so long.
        sleep(SECOND * 60).await;
        assert!(!taken.is_lost());
        store.always(Fate::Refused);
        sleep(DAY / 2).await;
        assert!(!taken.is_lost());
        store.heal();
        taken.done().await.unwrap();
    });
}

/// A call that comes while another one's answer is lost gets an element, if there is one.
// Promise: G11
#[test]
fn a_repeated_take_does_not_hide_the_other_elements() {
    paused(async {
        for _ in 0..10 {
            let (store, grid) = lossy();
            let queue: Queue<u32> = grid.queue("q").unwrap();
            queue.push_all(&[1, 2, 3, 4, 5]).await.unwrap();
            store.next([Fate::ReplyLost]);
            let pop = || {
                let queue = queue.clone();
                tokio::spawn(async move { queue.pop_wait(SECOND * 5).await })
            };
            let first = pop();
            while store.pending() > 0 {
                sleep(Duration::from_millis(1)).await;
            }
            let drained = tokio::spawn({
                let queue = queue.clone();
                async move { queue.drain(9).await }
            });
            assert!(first.await.unwrap().unwrap().is_some());
            let drained = drained.await.unwrap().unwrap();
            assert_eq!(drained.len(), 4, "{drained:?}");
        }
    });
}

/// The limits of a grid refuse calls, but neither the renewal nor the end of what is taken.
// Promise: G7
#[test]
fn limits_do_not_lose_leases() {
    paused(async {
        let delay = Duration::from_millis(40);
        let store = Delayed::new(Memory::new(Clock::tokio()), 1, Duration::ZERO, delay);
        let grid = client(store).grid_with(Limits { operations: 8, ..Limits::default() });
        let queue: Queue<u32> = grid.queue("q").unwrap().lease(SECOND * 2);
        queue.push_all(&[1, 2]).await.unwrap();
        let (taken, other) = (queue.take(SECOND).await.unwrap().unwrap(), queue.take(SECOND).await.unwrap().unwrap());
        let counter = grid.counter("n").unwrap();
        let calls = (0..50).map(|_| {
            let counter = counter.clone();
            async move {
                let mut refused = 0_u32;
                for _ in 0..2_000 {
                    refused += u32::from(counter.get().await.is_err());
                    sleep(Duration::from_millis(10)).await;
                }
                refused
            }
        });
        let calls = tokio::spawn(join_all(calls));
        sleep(SECOND * 15).await;
        assert!(!taken.is_lost() && !other.is_lost());
        taken.done().await.unwrap();
        other.release().await.unwrap();
        let refused: u32 = calls.await.unwrap().into_iter().sum();
        assert!(refused > 1_000, "{refused} calls were refused");
    });
}
