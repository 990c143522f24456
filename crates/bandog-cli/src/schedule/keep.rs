//! The keeper: a hidden process between `bandog schedule` and the command of one run.
//!
//! Orphans of the command become children of the keeper, so the keeper always knows which processes belong to the run.
//! The keeper's standard input is a socket to bandog. When the socket closes for any reason, the keeper kills all
//! processes of the run.

use std::{
    ffi::OsString,
    io,
    os::{fd::AsFd, unix::net},
    process::Stdio,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::{Instant, interval, sleep_until},
};

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    process_tree::{Child, ProcessTree},
    runtime,
    signals::Signals,
};

/// The hidden subcommand's name.
pub(crate) const NAME: &str = "__keep";

/// Order to the keeper: terminate the command.
pub(super) const END: u8 = b'e';
/// Order to the keeper: kill the command. Closing the socket has the same effect.
pub(super) const KILL: u8 = b'k';

/// Maximum interval between two checks of the command. The command is polled because the parent of bandog might have
/// blocked SIGCHLD.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The time between TERM and KILL, and the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    grace_ms: u64,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The final report of the keeper, as one line of JSON. When the keeper sends the report, all processes of the run are
/// dead, except the survivors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeeperReport {
    pub(super) ended: CommandEnd,
    /// Pids of processes that cannot be killed.
    pub(super) survivors: Vec<i32>,
}

/// How the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CommandEnd {
    Exit(u8),
    Signal(i32),
    /// The command could not be started, or its end was not observed.
    Failed(String),
}

/// Runs one command until the command and all its descendants are dead.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    runtime::block_on_with_io(async {
        let mut socket = socket().map_err(|error| Fault::system("cannot open the socket to bandog", error))?;
        let report = match Keeper::start(args) {
            Ok(keeper) => keeper.watch(&mut socket).await,
            Err(fault) => KeeperReport { ended: CommandEnd::Failed(fault.to_string()), survivors: Vec::new() },
        };
        let text = serde_json::to_vec(&report).unwrap_or_default();
        // An error is ignored, because bandog might have closed the socket.
        let _ = socket.write_all(&text).await;
        Ok(ExitCode::Done)
    })
}

/// The socket to bandog, which is the keeper's standard input.
fn socket() -> io::Result<UnixStream> {
    let socket = net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

struct Keeper {
    processes: ProcessTree,
    signals: Signals,
    /// Time between TERM and KILL.
    grace: Duration,
}

impl Keeper {
    fn start(args: &Args) -> Result<Self, Fault> {
        // The keeper catches signals in order to ignore them. If the command must end because of a signal, bandog sends
        // an order.
        let signals = Signals::catch(false).map_err(|error| Fault::system("cannot catch signals", error))?;
        let child = Child {
            command: &args.command,
            variables: Vec::new(),
            stdin: Stdio::null(),
            stdout: Stdio::inherit(),
            own_group: true,
        };
        Ok(Self { processes: ProcessTree::start(child, None)?, signals, grace: Duration::from_millis(args.grace_ms) })
    }

    /// Watches the command until all of its processes are dead. A run ends when its command has ended, and the next run
    /// can then begin. So processes that still run at that time are terminated.
    async fn watch(mut self, socket: &mut UnixStream) -> KeeperReport {
        let mut check = interval(CHECK_INTERVAL);
        let mut kill_at = None;
        let mut order = [0];
        loop {
            let kill_time = sleep_until(kill_at.unwrap_or_else(Instant::now));
            tokio::select! { biased;
                () = kill_time, if kill_at.is_some() => break,
                read = socket.read(&mut order) => match read {
                    Ok(1) if order == [END] => self.end(&mut kill_at),
                    Ok(_) | Err(_) => break,
                },
                _ = self.signals.next() => {}
                _ = check.tick() => {}
            }
            if self.processes.reap().is_some() {
                if self.processes.is_gone() {
                    return self.report(Vec::new());
                }
                self.end(&mut kill_at);
            }
        }
        let survivors = self.processes.kill().await;
        self.report(survivors.into_iter().map(|process| process.number().0).collect())
    }

    /// Sends TERM once, and sets the time of KILL.
    fn end(&self, kill_at: &mut Option<Instant>) {
        kill_at.get_or_insert_with(|| {
            self.processes.end();
            Instant::now() + self.grace
        });
    }

    fn report(mut self, survivors: Vec<i32>) -> KeeperReport {
        let ended = match self.processes.reap() {
            Some(ExitCode::Signal(number)) => CommandEnd::Signal(number),
            Some(code) => CommandEnd::Exit(code.number()),
            None => CommandEnd::Failed("the command cannot be killed".into()),
        };
        KeeperReport { ended, survivors }
    }
}
