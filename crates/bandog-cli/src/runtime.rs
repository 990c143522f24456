//! The runtime on the main thread.

use rustix::process::{Resource, getrlimit};

use crate::{exit_code::ExitCode, fault::Fault};

/// Number of files that bandog must be able to open at the same time: the files of a client, the files that the start
/// of a child needs, and a few inherited files.
const FILES: u64 = 24;

/// Runs a future on the main thread. `bandog lock` must start its child on this thread: the kernel kills the child when
/// the thread that started the child exits. The main thread lives as long as the process.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    check_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.map_err(|error| Fault::system("cannot start a runtime", error))?.block_on(future)
}

/// Like [`block_on`], but the future can also use sockets, pipes and processes. When the future has ended, this
/// function does not wait for output that a blocked terminal has not accepted yet.
pub(crate) fn block_on_with_io<T>(future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    check_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::system("cannot start a runtime", error))?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    result
}

/// Checks the limit of open files at the start. Without this check, a library would report a low limit later, with an
/// unclear text or a panic.
fn check_files() -> Result<(), Fault> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < FILES => {
            let message = format!("the limit of open files is {limit}, and bandog needs {FILES}: see `ulimit -n`");
            Err(Fault::new(ExitCode::System, message))
        }
        Some(_) | None => Ok(()),
    }
}
