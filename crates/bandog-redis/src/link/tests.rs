use super::*;
use crate::link::shutdown::{poll_at_shutdown, runtimes};

/// Nobody listens on this port: what is asked here is asked before any dial could succeed.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// A link that started its task again each time would never return from this poll.
#[test]
fn a_call_on_a_runtime_that_shuts_down_fails_in_its_first_poll() {
    for runtime in runtimes() {
        let link = Arc::new(Link::new(RedisOptions::from_url(NOWHERE).unwrap()));
        let call = {
            let link = link.clone();
            async move { link.call(|_| redis::pipe()).await }
        };
        let Poll::Ready(Err(error)) = poll_at_shutdown(runtime, call) else { panic!("there is nothing to wait for") };
        assert_eq!(error.kind(), bandog_core::ErrorKind::Unavailable);
        assert!(!error.maybe_applied(), "nothing was sent");
        assert!(error.to_string().contains("runtime"), "{error}");
        // On another runtime the link dials.
        let next = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = next.block_on(link.call(|_| redis::pipe())).unwrap_err();
        assert!(error.to_string().contains("cannot reach"), "{error}");
    }
}
