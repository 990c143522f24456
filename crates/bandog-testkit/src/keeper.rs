//! Children that cannot outlive the test process.
//!
//! A test process may be killed, and then no destructor runs.
//! So each child requests to be killed by the kernel when its parent dies.
//! For the kernel the parent is a *thread*, and a test's thread ends with its test.
//! Therefore one thread, which never ends, starts each child.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

/// Starts `program` so that it dies with this process.
///
/// `setpriv` requests the death signal, a shell checks its parent, and then it becomes the program; the pid stays the
/// same.
/// The check is needed because a parent that died before the request sends no signal.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", BECOME]).arg(std::process::id().to_string()).arg(program);
    command
}

/// Spawns a child from the permanent thread.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (reply, answer) = sync_channel(1);
    KEEPER.lock().unwrap_or_else(PoisonError::into_inner).send(Job { command, reply }).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}

/// `$0` is the expected parent.
const BECOME: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

struct Job {
    command: Command,
    reply: SyncSender<io::Result<Child>>,
}

static KEEPER: LazyLock<Mutex<Sender<Job>>> = LazyLock::new(|| {
    let (jobs, inbox) = channel();
    thread::Builder::new()
        .name("testkit-keeper".into())
        .spawn(move || keep(&inbox))
        .expect("a thread for the children");
    Mutex::new(jobs)
});

/// The sender is static, so this loop ends only with the process.
fn keep(inbox: &Receiver<Job>) {
    for Job { mut command, reply } in inbox {
        // If the caller is gone, the child's handle is dropped, and the child still dies with this process.
        let _ = reply.send(command.spawn());
    }
}
