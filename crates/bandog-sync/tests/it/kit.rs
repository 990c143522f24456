//! Helpers that the tests of all files use.

use std::time::Duration;

use bandog_core::{Backend, Clock, Error, ErrorKind, Inspect, Key, Memory, Pattern};
use bandog_sync::{Client, ClientOptions, Guard};
use tokio::{task::JoinHandle, time};

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An empty store whose clock can be paused.
pub(crate) fn memory() -> Memory {
    Memory::new(Clock::tokio())
}

/// Options of a client in paused time.
pub(crate) fn paused() -> ClientOptions {
    Client::options().clock(Clock::tokio()).on_current_runtime()
}

/// A client in paused time, with the default ttl of 30 s.
pub(crate) fn client(backend: impl Backend) -> Client {
    paused().over(backend).unwrap()
}

/// The names of the locks that are held in the store.
pub(crate) async fn held(store: &impl Inspect) -> Vec<String> {
    store.list(&Pattern::all()).await.unwrap().into_iter().map(|row| row.name).collect()
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Starts a task that calls `lock()`. When this function returns, the call is in the engine's queue.
pub(crate) async fn waiting(client: &Client, name: &str) -> JoinHandle<Result<Guard, Error>> {
    let mutex = client.mutex(name);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    tokio::task::yield_now().await;
    waiting
}

/// Awaits a future, and fails if it takes more than an hour of virtual time.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    time::timeout(Duration::from_secs(3600), future).await.expect("a future took more than an hour of virtual time")
}
