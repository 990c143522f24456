use std::task::Poll;

use bandog_core::Notifier;

use super::*;
use crate::{
    link::shutdown::{poll_at_shutdown, runtimes},
    options::tests::read,
};

fn orders() -> Source {
    Source::Plain("orders".into())
}

#[test]
fn subscribing_on_a_runtime_that_shuts_down_fails_in_its_first_poll() {
    for runtime in runtimes() {
        let subscriptions = Arc::new(Subscriptions::new(Dialler::new(read("redis://127.0.0.1:1")), Arc::default()));
        let subscribe = {
            let subscriptions = subscriptions.clone();
            async move { subscriptions.subscribe(&orders(), Sink::of(Notifier::new(|| ()))).await.map(drop) }
        };
        let Poll::Ready(Err(error)) = poll_at_shutdown(runtime, subscribe) else { panic!("the call still waits") };
        assert_eq!(error.kind(), bandog_core::ErrorKind::Unavailable);
        assert!(error.to_string().contains("runtime"), "{error}");
        // On another runtime, the task is started and tries to connect.
        let next = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = next.block_on(subscriptions.subscribe(&orders(), Sink::of(Notifier::new(|| ())))).unwrap_err();
        assert!(error.to_string().contains("cannot reach"), "{error}");
    }
}
