//! Children that cannot outlive the test process.
//!
//! If a test process is killed, no destructor runs. So each child asks the kernel for a signal that kills the child
//! when its parent dies. For the kernel, the parent is the *thread* that started the child. The thread of a test ends
//! with the test, which is too early. Therefore one thread, the keeper, starts all children and never ends.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

/// Returns a command that starts `program`. The kernel kills the program when this process dies.
///
/// The command starts `setpriv`, which asks the kernel for the signal and then executes a shell in the same process.
/// The shell checks that its parent is still this process, and then executes the program in the same process. So the
/// pid stays the same. The check is needed because the kernel sends no signal if the parent died before `setpriv` asked
/// for the signal.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", BECOME]).arg(std::process::id().to_string()).arg(program);
    command
}

/// Starts a child from the keeper's thread.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (reply, answer) = sync_channel(1);
    KEEPER.lock().unwrap_or_else(PoisonError::into_inner).send(Job { command, reply }).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}

/// The script of the shell. If the parent of the shell is still the process with the pid `$0`, the shell executes the
/// program in its own process.
const BECOME: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// A command for the keeper, and the channel on which the keeper returns the child.
struct Job {
    command: Command,
    reply: SyncSender<io::Result<Child>>,
}

/// The channel to the keeper's thread. The thread is started when this value is first used.
static KEEPER: LazyLock<Mutex<Sender<Job>>> = LazyLock::new(|| {
    let (jobs, inbox) = channel();
    thread::Builder::new()
        .name("testkit-keeper".into())
        .spawn(move || start_children(&inbox))
        .expect("cannot start the keeper's thread");
    Mutex::new(jobs)
});

/// Starts a child for each job. The sender of the jobs is static, so this loop ends only with the process.
fn start_children(inbox: &Receiver<Job>) {
    for Job { mut command, reply } in inbox {
        // If the caller no longer waits, `send` fails, and the handle of the child is dropped. The child then runs on
        // and dies with this process.
        let _ = reply.send(command.spawn());
    }
}
