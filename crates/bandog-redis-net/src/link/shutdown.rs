//! For tests: polls a future while its runtime shuts down.

use std::{
    pin::Pin,
    sync::mpsc,
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::runtime::{Builder, Runtime};

/// A single-threaded and a multi-threaded runtime.
pub(crate) fn runtimes() -> [Runtime; 2] {
    let [mut one, mut many] = [Builder::new_current_thread(), Builder::new_multi_thread()];
    [one.enable_all().build().unwrap(), many.worker_threads(2).enable_all().build().unwrap()]
}

/// Polls the future once while the runtime shuts down. During the shutdown, the runtime drops each new task before
/// `spawn` returns.
///
/// # Panics
/// If the poll does not return within 10 s.
#[track_caller]
pub(crate) fn poll_at_shutdown<T: Send + 'static>(
    runtime: Runtime,
    future: impl Future<Output = T> + Send + 'static,
) -> Poll<T> {
    let (sender, polled) = mpsc::channel();
    let poll_on_drop = PollOnDrop(Box::pin(future), sender);
    runtime.spawn(async move {
        let _poll_on_drop = poll_on_drop;
        std::future::pending::<()>().await;
    });
    thread::spawn(move || drop(runtime));
    polled.recv_timeout(Duration::from_secs(10)).expect("the poll did not return within 10 s")
}

/// Polls its future when it is dropped, and sends the result.
struct PollOnDrop<T>(BoxFuture<'static, T>, mpsc::Sender<Poll<T>>);

impl<T> Drop for PollOnDrop<T> {
    fn drop(&mut self) {
        let polled = Pin::new(&mut self.0).poll(&mut Context::from_waker(Waker::noop()));
        // The send fails if the test no longer waits. Then the test has failed already.
        let _ = self.1.send(polled);
    }
}
