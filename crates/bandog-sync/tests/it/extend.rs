//! `extend(ttl)` of a fixed lease, and `watchdog_while`.

use std::{cell::Cell, future};

use bandog_conformance::wrap::{Counting, Fate, Lossy};
use bandog_core::{Clock, ErrorKind, Inspect, Memory};
use bandog_sync::{Client, Guard, SharedHold};
use tokio::time;

use crate::kit::{client, key, kind, memory, ms, paused, soon};

/// A guard of each kind of lock, with a fixed lease of 3 s.
async fn leased(client: &Client) -> Vec<Guard<SharedHold>> {
    let (lease, rwlock) = (ms(3000), client.rwlock("read").lease(ms(3000)));
    vec![
        client.mutex("mutex").lease(lease).lock().await.unwrap().into(),
        client.mutex("fair").fair().lease(lease).lock().await.unwrap().into(),
        rwlock.read().await.unwrap(),
        client.rwlock("write").lease(lease).write().await.unwrap().into(),
        client.semaphore("permits", 5).permits(2).lease(lease).acquire().await.unwrap(),
    ]
}

/// The store and the guard agree on the new end, and the guard is earlier.
// Promise: L28
#[tokio::test(start_paused = true)]
async fn an_extended_lease_of_any_kind_lasts_for_the_new_time() {
    let store = memory();
    let client = client(store.clone());
    for number in 0..5 {
        let guard = leased(&client).await.swap_remove(number); // the others are released
        time::sleep(ms(2000)).await;
        guard.extend(ms(10_000)).await.unwrap();
        let (left, row) = (guard.remaining(), store.show(&guard.holding().key).await.unwrap());
        assert!(left <= ms(9900) && left > ms(9800), "{}: {left:?}", guard.key());
        assert_eq!(row.holders[0].ttl, Some(ms(10_000)), "{}", guard.key());
        time::sleep(ms(9000)).await;
        assert!(!guard.is_lost(), "{}", guard.key());
        let lost_at = Clock::tokio().now();
        soon(guard.lost()).await;
        assert!(Clock::tokio().now().since(lost_at) <= ms(1000), "{}", guard.key());
        assert_eq!(kind(guard.extend(ms(1000)).await), Some(ErrorKind::Lost));
    }
}

// Promise: L28
#[tokio::test(start_paused = true)]
async fn a_shorter_time_than_the_rest_shortens_nothing() {
    let store = memory();
    let client = client(store.clone());
    for guard in leased(&client).await {
        guard.extend(ms(100)).await.unwrap();
        assert!(guard.remaining() > ms(2900), "{:?}", guard.remaining());
        let row = store.show(&guard.holding().key).await.unwrap();
        assert_eq!(row.holders[0].ttl, Some(ms(3000)), "{}", guard.key());
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_fixed_lease_with_an_allowed_time_can_be_extended() {
    let client = client(memory());
    let renewed = client.mutex("renewed").lock().await.unwrap();
    let error = renewed.extend(ms(1000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("the watchdog renews this lock"), "{error}");
    let leased = client.mutex("leased").lease(ms(1000)).lock().await.unwrap();
    for ttl in [ms(0), ms(99), ms(366 * 24 * 3_600_000)] {
        assert_eq!(kind(leased.extend(ttl).await), Some(ErrorKind::Misused), "{ttl:?}");
    }
    assert!(leased.remaining() <= ms(1000) && !renewed.is_lost());
    client.close().await.unwrap();
    assert_eq!(kind(leased.extend(ms(1000)).await), Some(ErrorKind::Closed));
}

/// The store says that it does not have the lock any more.
// Promise: L28
#[tokio::test(start_paused = true)]
async fn the_store_decides_about_an_extension() {
    let store = memory();
    let client = client(store.clone());
    let guard = client.mutex("orders").lease(ms(3000)).lock().await.unwrap();
    store.evict(&key("orders")).await.unwrap();
    assert!(!guard.is_lost());
    assert_eq!(kind(guard.extend(ms(3000)).await), Some(ErrorKind::Lost));
    assert!(guard.is_lost());
}

/// Without an answer, the guard keeps its deadline. The client repeats the request, so the guard learns the later end.
// Promise: L28
#[tokio::test(start_paused = true)]
async fn an_extension_without_an_answer_keeps_the_earlier_deadline_until_the_store_answers() {
    for fate in [Fate::Refused, Fate::RequestLost, Fate::ReplyLost] {
        let wire = Lossy::new(memory());
        let client = paused().over(wire.clone()).unwrap();
        let guard = client.mutex("orders").lease(ms(20_000)).lock().await.unwrap();
        wire.always(fate);
        assert_eq!(kind(guard.extend(ms(60_000)).await), Some(ErrorKind::Unavailable), "{fate:?}");
        assert!(guard.remaining() < ms(20_000), "{fate:?}");
        wire.heal();
        time::sleep(ms(5000)).await;
        assert!(guard.remaining() > ms(40_000), "{fate:?}: {:?}", guard.remaining());

        let silent = client.mutex("silent").lease(ms(3000)).lock().await.unwrap();
        wire.always(fate);
        drop(silent.extend(ms(60_000)).await.unwrap_err());
        soon(silent.lost()).await;
        assert_eq!(kind(silent.extend(ms(60_000)).await), Some(ErrorKind::Lost), "{fate:?}");
    }
}

/// A hold that readers share, and guards of one owner: each caller gets its answer.
// Promise: L28
#[tokio::test(start_paused = true)]
async fn several_callers_extend_one_lease() {
    let counts = Counting::new(memory());
    let client = client(counts.clone());
    let owner = client.owner();
    let orders = client.mutex("orders").lease(ms(3000)).by(&owner);
    let (one, two) = (orders.lock().await.unwrap(), orders.lock().await.unwrap());
    let both = tokio::join!(one.extend(ms(5000)), two.extend(ms(9000)));
    assert!(both.0.is_ok() && both.1.is_ok() && one.remaining() > ms(8800));
    let all = bandog_sync::all(["a", "b"].map(|name| client.mutex(name).lease(ms(3000)))).lock().await.unwrap();
    all.extend(ms(7000)).await.unwrap();
    assert!(all.remaining() > ms(6900));
}

// Promise: L28
#[test]
fn a_blocking_caller_extends_its_lease() {
    let client = Client::over(Memory::new(Clock::system())).unwrap().blocking().unwrap();
    let guard = client.mutex("orders").lease(ms(60_000)).lock().unwrap();
    guard.extend(ms(600_000)).unwrap();
    assert!(guard.remaining() > ms(300_000), "{:?}", guard.remaining());
    let renewed = client.mutex("renewed").lock().unwrap();
    assert_eq!(kind(renewed.extend(ms(1000))), Some(ErrorKind::Misused));
    let all = bandog_sync::blocking::all(["a", "b"].map(|name| client.mutex(name).lease(ms(60_000)))).lock().unwrap();
    all.extend(ms(600_000)).unwrap();
    assert!(all.remaining() > ms(300_000));
    let inside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(kind(inside.block_on(async { guard.extend(ms(1000)) })), Some(ErrorKind::Misused));
}

/// The lock is lost when the closure has reported no progress for a ttl.
// Promise: L29
#[tokio::test(start_paused = true)]
async fn a_watchdog_renews_only_while_there_is_progress() {
    let client = client(memory());
    let guard = client.mutex("orders").lease(ms(3000)).lock().await.unwrap();
    let (asked, works) = (Cell::new(0), Cell::new(true));
    let progress = async || {
        asked.set(asked.get() + 1);
        works.get()
    };
    let began = Clock::tokio().now();
    let ended = {
        let mut watchdog = std::pin::pin!(guard.watchdog_while(ms(3000), progress));
        assert!(time::timeout(ms(100_000), &mut watchdog).await.is_err(), "the lock is held while there is progress");
        assert!((95..=105).contains(&asked.get()), "{} calls in 100 s", asked.get());
        works.set(false);
        soon(watchdog).await
    };
    assert_eq!(ended.kind(), ErrorKind::Lost);
    let lasted = Clock::tokio().now().since(began);
    assert!(guard.is_lost() && lasted > ms(101_900) && lasted < ms(103_000), "{lasted:?}");
}

/// A closure that does not return is as one that reports no progress. One answer in time is enough to keep the lock.
// Promise: L29
#[tokio::test(start_paused = true)]
async fn a_closure_that_hangs_is_no_progress() {
    let client = client(memory());
    let guard = client.mutex("orders").lease(ms(3000)).lock().await.unwrap();
    let ended = soon(guard.watchdog_while(ms(3000), async || future::pending().await)).await;
    assert_eq!(ended.kind(), ErrorKind::Lost);

    let guard = client.mutex("others").lease(ms(3000)).lock().await.unwrap();
    let calls = Cell::new(0);
    let every_second = async || {
        calls.set(calls.get() + 1);
        calls.get() % 2 == 0
    };
    let ended = time::timeout(ms(60_000), guard.watchdog_while(ms(3000), every_second)).await;
    assert!(ended.is_err() && !guard.is_lost());
}

/// The watchdog repeats its request while the store does not answer, until the lock is lost.
// Promise: L29
#[tokio::test(start_paused = true)]
async fn an_outage_is_shorter_than_the_lease_or_the_lock_is_lost() {
    let wire = Lossy::new(memory());
    let client = paused().over(wire.clone()).unwrap();
    let guard = client.mutex("orders").lease(ms(3000)).lock().await.unwrap();
    let mut watchdog = std::pin::pin!(guard.watchdog_while(ms(3000), async || true));
    for fate in [Fate::Refused, Fate::RequestLost, Fate::ReplyLost] {
        assert!(time::timeout(ms(1005), &mut watchdog).await.is_err());
        wire.always(fate);
        assert!(time::timeout(ms(1500), &mut watchdog).await.is_err(), "{fate:?}");
        wire.heal();
        assert!(time::timeout(ms(500), &mut watchdog).await.is_err(), "{fate:?}");
        assert!(guard.remaining() > ms(2000), "{fate:?}: {:?}", guard.remaining());
    }
    wire.always(Fate::Refused);
    assert_eq!(soon(watchdog).await.kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_reports_a_wrong_use_at_once() {
    let client = client(memory());
    let renewed = client.mutex("renewed").lock().await.unwrap();
    assert_eq!(renewed.watchdog_while(ms(1), async || true).await.kind(), ErrorKind::Misused);
    let outside = polled_without_a_runtime(&renewed);
    assert_eq!(outside, ErrorKind::Misused);
    assert_eq!(soon(renewed.watchdog_while(ms(300), async || true)).await.kind(), ErrorKind::Misused);
}

/// Polls the future once on a thread without a runtime.
fn polled_without_a_runtime(guard: &Guard) -> ErrorKind {
    std::thread::scope(|scope| {
        let polled = scope.spawn(|| {
            let watchdog = std::pin::pin!(guard.watchdog_while(ms(300), async || true));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            match watchdog.poll(&mut context) {
                std::task::Poll::Ready(error) => error.kind(),
                std::task::Poll::Pending => panic!("the future waits for a timer that does not exist"),
            }
        });
        polled.join().unwrap()
    })
}
