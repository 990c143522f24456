//! The runtime on the main thread.

use rustix::process::{Resource, getrlimit};

use crate::{exit_code::ExitCode, fault::Fault};

/// Number of files that bandog must be able to open at the same time: those of a client, of the start of a child, and a
/// few inherited files.
const FILES: u64 = 24;

/// Runs a future on the main thread. `bandog lock` starts its child there: the child dies with the thread that starts
/// it, and the main thread lives as long as the process.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    check_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.map_err(|error| Fault::system("cannot start a runtime", error))?.block_on(future)
}

/// Runs a future on the main thread, with sockets, pipes and processes. At the end, output that a blocked terminal does
/// not accept is abandoned.
pub(crate) fn block_on_with_io<T>(future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    check_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::system("cannot start a runtime", error))?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    result
}

/// Checks the limit of open files at the start, because libraries report a low limit late, with an unclear text, or
/// with a panic.
fn check_files() -> Result<(), Fault> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < FILES => {
            let message = format!("the limit of open files is {limit}, and bandog needs {FILES}: see `ulimit -n`");
            Err(Fault::new(ExitCode::System, message))
        }
        Some(_) | None => Ok(()),
    }
}
