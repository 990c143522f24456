//! Runs work that takes much CPU time on other threads than the threads that answer requests.

use hyper::StatusCode;
use tokio::{runtime::Handle, select, sync::oneshot, task::spawn_blocking};

use crate::source::Trouble;

/// Runs this future on a thread for blocking work, so that the threads of the runtime can answer other requests in the
/// meantime. For example, parsing 10,000 records takes almost a second.
///
/// # Cancel safety
/// If the future of this call is dropped, `work` is dropped at its next await.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl Future<Output = Result<T, Trouble>> + Send + 'static,
) -> Result<T, Trouble> {
    // If the future of this call is dropped, `caller` is dropped, too. Then `gone` completes.
    let (caller, gone) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let task = spawn_blocking(move || {
        runtime.block_on(async {
            select! { biased;
                _ = gone => None,
                done = work => Some(done),
            }
        })
    });
    let done = task.await;
    drop(caller);
    done.ok().flatten().unwrap_or_else(|| {
        Err(Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the answer could not be computed"))
    })
}
