//! Clients for tests, and `connect` in a test whose clock is paused.

use std::time::Duration;

use bandog::{ConnectOptions, ErrorKind, blocking, connect, testing};
use bandog_testkit::{LogCapture, RedisServer};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn a_lease_expires_in_paused_time() {
    let client = testing::client();
    let guard = client.mutex("orders").lease(HOUR).lock().await.unwrap();
    assert!(client.mutex("orders").try_lock().await.unwrap().is_none());
    let start = tokio::time::Instant::now();
    guard.lost().await;
    let passed = start.elapsed();
    assert!(passed <= HOUR && passed > HOUR / 100 * 98, "{passed:?}");
    assert!(client.mutex("orders").try_lock_for(HOUR).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn clients_of_one_store_share_locks_and_clients_of_two_stores_do_not() {
    let (store, client_of_another_store) = (testing::Store::new(), testing::client());
    let (one, other) = (store.client(), store.clone().client_with(|options| options.watchdog(HOUR)));
    let guard = one.mutex("orders").lock().await.unwrap();
    assert!(other.mutex("orders").try_lock().await.unwrap().is_none());
    assert!(client_of_another_store.mutex("orders").try_lock().await.unwrap().is_some());
    tokio::time::sleep(HOUR).await;
    assert!(!guard.is_lost(), "the watchdog must renew the lock");
    drop(guard);
    let guard = other.mutex("orders").lock().await.unwrap();
    assert!(guard.remaining() > HOUR / 2, "the ttl of this client must be an hour");
}

/// A test client works in real time, too.
#[tokio::test]
async fn a_test_client_works_without_a_pause() {
    let client = testing::client();
    let guard = client.mutex("orders").lease(Duration::from_millis(100)).lock().await.unwrap();
    guard.lost().await;
    assert!(client.mutex("orders").try_lock_for(HOUR).await.unwrap().is_some());
}

#[test]
#[should_panic(expected = "outside a Tokio runtime")]
fn a_test_client_needs_a_runtime() {
    drop(testing::client());
}

#[tokio::test(start_paused = true)]
async fn memory_under_a_paused_clock_is_refused_and_the_error_names_the_test_client() {
    let lazy = ConnectOptions::parse("memory:").and_then(ConnectOptions::connect_lazy);
    let options = ConnectOptions::parse("memory:").unwrap().on_current_runtime();
    for refused in [connect("memory:").await, connect("memory:shop").await, lazy, options.connect().await] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused);
        assert!(error.to_string().contains("bandog::testing::client()"), "{error}");
    }
    tokio::time::resume();
    connect("memory:").await.unwrap().close().await.unwrap();
}

/// Blocking calls follow the machine's clock, so a paused clock of tokio does not affect them.
#[tokio::test(start_paused = true)]
async fn blocking_clients_work_under_a_paused_clock() {
    let locked = tokio::task::spawn_blocking(|| {
        let client = blocking::connect("memory:")?;
        client.mutex("orders").lock()?.release()
    });
    locked.await.unwrap().unwrap();
}

/// Under a paused clock, a client of a real store works and logs a warning. With `on_current_runtime` it is refused,
/// because the requests of its engine would time out.
#[tokio::test(start_paused = true)]
async fn a_real_store_under_a_paused_clock_works_on_a_thread_of_its_own() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let server = RedisServer::start();
    let client = connect(server.url()).await.unwrap();
    assert_eq!(log.lines_with("tokio's clock is paused").len(), 1);
    client.mutex("orders").lock().await.unwrap().release().await.unwrap();
    client.close().await.unwrap();

    let error = ConnectOptions::parse(server.url()).unwrap().on_current_runtime().connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("time out immediately"), "{error}");
}
