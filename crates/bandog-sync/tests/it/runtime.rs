//! Where the engine runs. On its own thread, it works while the user's runtime is blocked or has ended. As a task of
//! the user's runtime, it does not.

use std::{thread, time::Duration};

use bandog_core::{Clock, ErrorKind, Memory};
use bandog_sync::Client;
use bandog_testkit::eventually;
use tokio::runtime::{Builder, Runtime};

use crate::kit::{held, kind, ms};

const TTL: Duration = Duration::from_millis(400);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The user's runtime is blocked for longer than the ttl. An engine on its own thread still renews the lock.
// Promise: L21
#[test]
fn a_blocked_runtime_loses_nothing_on_its_own_thread() {
    let client = Client::options().watchdog(TTL * 2).over(Memory::new(Clock::system())).unwrap();
    runtime().block_on(async {
        let guard = client.mutex("orders").lock().await.unwrap();
        thread::sleep(TTL * 5);
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
    });
}

/// If the engine runs on the blocked runtime, the lock is lost, and the guard reports that at the first check.
// Promise: L21
#[test]
fn a_blocked_runtime_loses_its_locks_on_the_current_runtime() {
    runtime().block_on(async {
        let options = Client::options().watchdog(TTL).on_current_runtime();
        let client = options.over(Memory::new(Clock::system())).unwrap();
        let guard = client.mutex("orders").lock().await.unwrap();
        thread::sleep(TTL * 2);
        assert!(guard.is_lost());
        assert_eq!(kind(guard.release().await), Some(ErrorKind::Lost));
    });
}

/// A client can be used from a second runtime after the first one has ended.
// Promise: L21
#[test]
fn an_ended_runtime_changes_nothing_on_its_own_thread() {
    let store = Memory::new(Clock::system());
    let client = Client::options().watchdog(TTL * 2).over(store.clone()).unwrap();
    let guard = runtime().block_on(client.mutex("orders").lock()).unwrap();
    let since = std::time::Instant::now();
    eventually(TTL * 10, || since.elapsed() > TTL * 5);
    assert!(!guard.is_lost());
    runtime().block_on(async {
        assert!(client.mutex("orders").try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        client.mutex("orders").lock().await.unwrap().release().await.unwrap();
        assert_eq!(held(&store).await, [""; 0]);
    });
}

/// After the end of the runtime on which the engine ran, the client's locks are lost, its calls return `Closed`, and
/// nothing hangs.
#[test]
fn an_ended_runtime_ends_a_client_on_it() {
    let first = runtime();
    let (client, guard, waiter) = first.block_on(async {
        let client = Client::options().on_current_runtime().over(Memory::new(Clock::system())).unwrap();
        let guard = client.mutex("orders").lock().await.unwrap();
        let mutex = client.mutex("orders");
        (client, guard, Box::pin(async move { mutex.lock().await }))
    });
    let lost = guard.lost();
    drop(first);
    let second = runtime();
    assert!(guard.is_lost());
    second.block_on(lost);
    assert_eq!(kind(second.block_on(waiter)), Some(ErrorKind::Closed));
    assert_eq!(kind(second.block_on(client.mutex("orders").try_lock())), Some(ErrorKind::Closed));
    assert!(matches!(kind(second.block_on(guard.release())), Some(ErrorKind::Closed | ErrorKind::Lost)));
    second.block_on(client.idle());
    second.block_on(client.close()).unwrap();
}

/// A guard that is dropped on a thread without a runtime releases its lock.
#[test]
fn a_guard_may_be_dropped_anywhere() {
    let store = Memory::new(Clock::system());
    let client = Client::over(store.clone()).unwrap();
    let guard = runtime().block_on(client.mutex("orders").lock()).unwrap();
    thread::spawn(move || drop(guard)).join().unwrap();
    eventually(Duration::from_secs(10), || runtime().block_on(held(&store)).is_empty());
    let orders = client.mutex("orders");
    let again = runtime().block_on(async { tokio::time::timeout(ms(5000), orders.lock()).await });
    drop(again.unwrap().unwrap());
}
