//! Children that cannot outlive the test process.
//!
//! A test process can be killed, and then no destructor runs.
//! So each child asks the kernel to kill it when its parent dies.
//! For the kernel, the parent is the *thread* that started the child, and the thread of a test ends with the test.
//! Therefore one thread, the keeper, starts all children and never ends.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

/// Returns a command that starts `program`. The kernel kills the program when this process dies.
///
/// The command starts `setpriv`, which requests the death signal and becomes a shell. The shell checks that its parent
/// is still this process, and becomes the program. The pid stays the same. The check is needed because the kernel sends
/// no signal if the parent died before the request.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", BECOME]).arg(std::process::id().to_string()).arg(program);
    command
}

/// Spawns a child from the keeper.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (reply, answer) = sync_channel(1);
    KEEPER.lock().unwrap_or_else(PoisonError::into_inner).send(Job { command, reply }).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}

/// The script of the shell. If the parent of the shell is still the process with the pid `$0`, the shell becomes the
/// program.
const BECOME: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// A command for the keeper, and the channel on which the keeper returns the child.
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

/// Starts the children. The sender is static, so this loop ends only with the process.
fn keep(inbox: &Receiver<Job>) {
    for Job { mut command, reply } in inbox {
        // If the caller no longer waits, this only drops the child's handle. The child still dies with this process.
        let _ = reply.send(command.spawn());
    }
}
