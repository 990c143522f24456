use std::{
    hint,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    task::{Context, Poll, Waker},
    thread,
};

use bandog_core::{Clock, Memory};
use futures_util::future::join_all;

use crate::{Client, turn_status::Standing};

/// Whoever asks meanwhile must not keep, not even for a moment, the turn of a thread that gives it back.
#[test]
fn a_release_that_has_returned_is_one_though_others_ask() {
    let client = Client::over(Memory::new(Clock::system())).unwrap().blocking().unwrap();
    let (asked, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let went_on = thread::scope(|scope| {
        scope.spawn(|| {
            let client = client.to_async();
            let askers: Vec<_> = (0..64).map(|_| client.mutex("orders").by(&client.owner())).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            while !ended.load(Relaxed) {
                asked.fetch_add(1, Relaxed);
                runtime.block_on(join_all(askers.iter().map(|orders| async { drop(orders.try_lock().await) })));
            }
        });
        let orders = client.mutex("orders");
        let turns = (0..2_000).map(|turn| {
            let guard = orders.lock().unwrap();
            let (status, clock) = guard.guard.watched();
            // It is given back while the engine is at the others' calls, sooner or later among them.
            let before = asked.load(Relaxed);
            while asked.load(Relaxed) == before {
                hint::spin_loop();
            }
            (0..turn * 331 % 30_011).for_each(|_| hint::spin_loop());
            guard.release().unwrap();
            status.standing(clock.now())
        });
        let went_on = turns.filter(|standing| *standing != Standing::Released).count();
        ended.store(true, Relaxed);
        went_on
    });
    assert_eq!(went_on, 0);
}

/// A call that was given up must not keep, not even for a moment, the turn of another call of the same owner.
#[test]
fn a_release_that_has_returned_is_one_though_the_owner_gave_up_another_call() {
    let client = Client::over(Memory::new(Clock::system())).unwrap();
    let orders = client.mutex("orders").by(&client.owner());
    let context = &mut Context::from_waker(Waker::noop());
    let mut went_on = 0;
    for round in 0..40_000 {
        let mut given_up = Box::pin(orders.lock());
        if given_up.as_mut().poll(context).is_ready() {
            continue; // The engine was as fast as that.
        }
        (0..round * 331 % 3_011).for_each(|_| hint::spin_loop());
        let guard = spun(orders.lock()).unwrap();
        drop(given_up);
        let (status, clock) = guard.watched();
        spun(guard.release()).unwrap();
        went_on += usize::from(status.standing(clock.now()) != Standing::Released);
    }
    assert_eq!(went_on, 0);
}

/// The value of a future that is polled until it is there.
fn spun<T>(future: impl Future<Output = T>) -> T {
    let (mut future, context) = (Box::pin(future), &mut Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return value;
        }
        hint::spin_loop();
    }
}
