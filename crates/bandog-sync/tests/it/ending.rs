//! The end of a client that is dropped without `close()`.

use bandog_conformance::wrap::Delayed;
use bandog_core::{Clock, Memory};
use bandog_sync::Client;
use tokio::time;

use crate::kit::{client, held, memory, ms};

/// The engine is a task of the current runtime, and the last handle of its client is dropped. The release of the lock
/// is still sent. While the engine waits for the answer, it does not keep the runtime busy. (Otherwise the paused clock
/// would never advance.)
#[tokio::test(start_paused = true)]
async fn a_release_is_sent_although_the_last_handle_was_dropped() {
    let store = memory();
    let client = client(Delayed::new(store.clone(), 1, ms(50), ms(50)));
    let guard = client.mutex("orders").lock().await.unwrap();
    drop(client);
    assert_eq!(held(&store).await, ["orders"]);
    drop(guard);
    time::sleep(ms(100)).await;
    assert_eq!(held(&store).await, [""; 0]);
}

/// A guard keeps its client alive. So its lock is renewed although all other handles were dropped.
// Promise: M3
#[tokio::test(start_paused = true)]
async fn a_guard_outlives_its_client() {
    let store = memory();
    let client = client(store.clone());
    let guard = client.mutex("orders").lock().await.unwrap();
    drop(client);
    time::sleep(ms(100_000)).await;
    assert!(!guard.is_lost());
    assert_eq!(held(&store).await, ["orders"]);
    guard.release().await.unwrap();
    assert_eq!(held(&store).await, [""; 0]);
}

/// If the engine has its own thread, the drop of the last handle waits for the release. So a program can simply return
/// from `main`.
// Promise: M3
#[test]
fn the_last_handles_drop_waits_for_the_release() {
    let store = Memory::new(Clock::system());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut waited = 0;
    for _ in 0..20 {
        let client = Client::over(Delayed::new(store.clone(), 1, ms(10), ms(0))).unwrap();
        let guard = runtime.block_on(client.mutex("orders").lock()).unwrap();
        drop(client);
        let start = std::time::Instant::now();
        drop(guard);
        // On a busy machine, the drop might reach its limit before the release is answered.
        if start.elapsed() < ms(90) {
            assert_eq!(runtime.block_on(held(&store)), [""; 0]);
            waited += 1;
        }
        bandog_testkit::eventually(ms(10_000), || runtime.block_on(held(&store)).is_empty());
    }
    assert!(waited > 0);
}

/// The drop of the last handle waits for about 100 ms if the store does not answer.
#[test]
fn the_last_handles_drop_does_not_wait_forever() {
    use bandog_conformance::wrap::{Stopped, Which};
    let wire = Stopped::new(Memory::new(Clock::system()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::over(wire.clone()).unwrap();
    let guard = runtime.block_on(client.mutex("orders").lock()).unwrap();
    wire.stop(Which::Requests);
    let start = std::time::Instant::now();
    drop((client, guard));
    assert!(start.elapsed() >= ms(90), "{:?}", start.elapsed());
    assert!(start.elapsed() <= ms(3000), "{:?}", start.elapsed());
}
