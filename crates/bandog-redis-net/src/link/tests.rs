use super::*;
use crate::{
    link::shutdown::{poll_at_shutdown, runtimes},
    options::tests::read,
};

/// No server listens on this port, so each connection attempt fails.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// The runtime drops the task of the link. If the link then started the task again each time, this poll would never
/// return.
#[test]
fn a_call_on_a_runtime_that_shuts_down_fails_in_its_first_poll() {
    for runtime in runtimes() {
        let link = Arc::new(Link::without_scripts(Dialler::new(read(NOWHERE))));
        let call = {
            let link = link.clone();
            async move { link.call(redis::pipe()).await }
        };
        let Poll::Ready(Err(error)) = poll_at_shutdown(runtime, call) else { panic!("the call still waits") };
        assert_eq!(error.kind(), bandog_core::ErrorKind::Unavailable);
        assert!(!error.maybe_applied(), "nothing was sent");
        assert!(error.to_string().contains("runtime"), "{error}");
        // On another runtime, the link starts its task again, and the task tries to connect.
        let next = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = next.block_on(link.call(redis::pipe())).unwrap_err();
        assert!(error.to_string().contains("cannot reach"), "{error}");
    }
}
