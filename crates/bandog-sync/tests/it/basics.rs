//! The basic behaviour of one lock.

use std::time::Duration;

use bandog_core::{Clock, Memory};
use bandog_sync::Client;

fn client() -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(Memory::new(Clock::tokio())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_taken_released_and_taken_again() {
    let client = client();
    let orders = client.mutex("orders");
    let guard = orders.lock().await.unwrap();
    assert!(orders.try_lock().await.unwrap().is_none());
    assert!(orders.try_lock_for(Duration::from_secs(100)).await.unwrap().is_none());
    assert!(!guard.is_lost());
    let fence = guard.fence();
    guard.release().await.unwrap();
    let again = orders.lock().await.unwrap();
    assert!(again.fence() > fence);
    drop(again);
    client.close().await.unwrap();
    assert_eq!(orders.lock().await.unwrap_err().kind(), bandog_core::ErrorKind::Closed);
}

// Promise: L13
#[tokio::test(start_paused = true)]
async fn waiters_of_one_client_are_served_in_order() {
    let client = client();
    let orders = client.mutex("orders");
    let first = orders.lock().await.unwrap();
    let served = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..200 {
        let (orders, served) = (orders.clone(), served.clone());
        tasks.push(tokio::spawn(async move {
            let guard = orders.lock().await.unwrap();
            served.lock().unwrap().push((number, guard.fence()));
            guard.release().await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let served = served.lock().unwrap().clone();
    assert!(served.is_sorted(), "{served:?}");
    assert_eq!(served.len(), 200);
    assert!(client.show("orders").await.unwrap().owner().is_none());
}

#[tokio::test]
async fn an_engine_runs_on_its_own_thread() {
    let client = Client::over(Memory::new(Clock::system())).unwrap();
    let orders = client.mutex("orders");
    let value = tokio::spawn({
        let orders = orders.clone();
        async move { orders.run(async |guard| guard.fence().get()).await }
    });
    assert!(value.await.unwrap().unwrap() > 0);
    let guard = orders.lock().await.unwrap();
    drop((orders, client));
    drop(guard);
}
