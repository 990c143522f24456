//! The runtime on the main thread.

use crate::fault::Fault;

/// Runs a future on the main thread: `bandog lock` starts its child there, whose life is tied to the thread that
/// starts it, and the main thread lives as long as the process.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.map_err(|error| Fault::system("cannot start a runtime", error))?.block_on(future)
}
