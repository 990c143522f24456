use std::{
    hint,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    task::{Context, Poll, Waker},
    thread,
};

use bandog_core::{Clock, Memory};
use futures_util::future::join_all;

use crate::{Client, turn_status::TurnState};

/// A turn is the use of a lock by one owner. While a thread releases its turn, calls of other owners must not keep that
/// turn alive, not even for a moment.
#[test]
fn a_release_that_returned_is_final_although_other_owners_call_try_lock() {
    let client = Client::over(Memory::new(Clock::system())).unwrap().blocking().unwrap();
    let (rounds, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let not_released = thread::scope(|scope| {
        scope.spawn(|| {
            let client = client.to_async();
            let others: Vec<_> = (0..64).map(|_| client.mutex("orders").by(&client.owner())).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            while !ended.load(Relaxed) {
                rounds.fetch_add(1, Relaxed);
                runtime.block_on(join_all(others.iter().map(|orders| async { drop(orders.try_lock().await) })));
            }
        });
        let orders = client.mutex("orders");
        let turns = (0..2_000).map(|turn| {
            let guard = orders.lock().unwrap();
            let (status, clock) = guard.guard.status_and_clock();
            // The guard is released at a random moment while the engine processes the calls of the other owners.
            let before = rounds.load(Relaxed);
            while rounds.load(Relaxed) == before {
                hint::spin_loop();
            }
            (0..turn * 331 % 30_011).for_each(|_| hint::spin_loop());
            guard.release().unwrap();
            status.state(clock.now())
        });
        let not_released = turns.filter(|state| *state != TurnState::Released).count();
        ended.store(true, Relaxed);
        not_released
    });
    assert_eq!(not_released, 0);
}

/// A cancelled call must not keep the turn of another call of the same owner alive, not even for a moment.
#[test]
fn a_release_that_returned_is_final_although_the_owner_cancelled_another_call() {
    let client = Client::over(Memory::new(Clock::system())).unwrap();
    let orders = client.mutex("orders").by(&client.owner());
    let context = &mut Context::from_waker(Waker::noop());
    let mut not_released = 0;
    for round in 0..40_000 {
        let mut cancelled = Box::pin(orders.lock());
        if cancelled.as_mut().poll(context).is_ready() {
            continue; // The engine has already granted this call, so there is nothing to cancel.
        }
        (0..round * 331 % 3_011).for_each(|_| hint::spin_loop());
        let guard = poll_until_ready(orders.lock()).unwrap();
        drop(cancelled);
        let (status, clock) = guard.status_and_clock();
        poll_until_ready(guard.release()).unwrap();
        not_released += usize::from(status.state(clock.now()) != TurnState::Released);
    }
    assert_eq!(not_released, 0);
}

/// Polls a future until it is ready.
fn poll_until_ready<T>(future: impl Future<Output = T>) -> T {
    let (mut future, context) = (Box::pin(future), &mut Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return value;
        }
        hint::spin_loop();
    }
}
