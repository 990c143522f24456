//! Latches without async.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

use bandog_core::ErrorKind;

use super::{client, memory};
use crate::kit::{kind, ms};

// Promise: CL2
#[test]
fn threads_wait_until_all_have_counted_down() {
    const PARTIES: usize = 64;
    let client = client(memory());
    let latch = client.latch("start");
    assert!(latch.set(PARTIES as u64).unwrap() && !latch.set(1).unwrap());
    let started = AtomicUsize::new(0);
    thread::scope(|threads| {
        for _ in 0..PARTIES {
            threads.spawn(|| {
                started.fetch_add(1, SeqCst);
                latch.count_down().unwrap();
                latch.wait().unwrap();
                assert_eq!(started.load(SeqCst), PARTIES);
            });
        }
    });
    assert_eq!(latch.count().unwrap(), 0);
    assert!(latch.set(5).unwrap());
    assert!(!latch.wait_for(ms(20)).unwrap());
    assert_eq!(latch.count_down_by(2).unwrap(), 3);
    assert!(latch.delete().unwrap() && !latch.delete().unwrap());
    assert!(latch.wait_for(Duration::from_secs(60)).unwrap());
}

// Promise: CL6
#[test]
fn close_ends_the_waits_of_other_threads() {
    let client = client(memory());
    let latch = client.latch("start");
    latch.set(1).unwrap();
    thread::scope(|threads| {
        let waiter = threads.spawn(|| kind(latch.wait()));
        client.close().unwrap();
        assert_eq!(waiter.join().unwrap(), Some(ErrorKind::Closed));
    });
    assert_eq!(kind(latch.count_down()), Some(ErrorKind::Closed));
}

#[tokio::test]
async fn calls_in_a_task_are_refused() {
    let client = client(memory());
    let latch = client.latch("start");
    let refused = [
        kind(latch.set(1)),
        kind(latch.count_down()),
        kind(latch.count()),
        kind(latch.wait()),
        kind(latch.wait_for(ms(1))),
        kind(latch.delete()),
    ];
    assert_eq!(refused, [Some(ErrorKind::Misused); 6]);
    assert_eq!(client.to_async().latch("start").count().await.unwrap(), 0, "no call has had an effect");
}
