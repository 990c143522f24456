//! The keeper: a hidden process between `bandog schedule` or `bandog work` and the command of one run.
//!
//! Orphans of the command become children of the keeper, so the keeper always knows which processes belong to the run.
//! The keeper's standard input is a socket to bandog. When the socket closes for any reason, the keeper kills all
//! processes of the run. If the run has a lease, the keeper does the same at its deadline, so the command does not outlive
//! the lease while bandog is stopped.

use std::{
    ffi::OsString,
    io,
    os::{fd::AsFd, unix::net},
    process::Stdio,
    time::Duration,
};

use bandog::backend::{Clock, Moment};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::{interval, sleep},
};

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    process_tree::{Child, ProcessTree, input},
    runtime,
    signals::Signals,
};

/// The hidden subcommand's name.
pub(crate) const NAME: &str = "__keep";

/// Order to the keeper: terminate the command.
pub(super) const END: u8 = b'e';
/// Order to the keeper: kill the command. Closing the socket has the same effect.
pub(super) const KILL: u8 = b'k';
/// Order to the keeper: the lease has this deadline now. 8 bytes follow: the nanoseconds of [`Moment`], the lowest byte
/// first.
pub(super) const UNTIL: u8 = b'u';

/// Maximum interval between two checks of the command. The command is polled because the parent of bandog might have
/// blocked SIGCHLD.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The time between TERM and KILL, and the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    grace_ms: u64,
    /// The deadline of the lease, in nanoseconds of [`Moment`].
    #[arg(long)]
    until: Option<u64>,
    /// The number of bytes that bandog sends first: the command's standard input.
    #[arg(long)]
    input: Option<usize>,
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
    /// Whether the command was ended because of the deadline of its lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_expired: bool,
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
        let Ok(stdin) = input(args, &mut socket).await else {
            return Ok(ExitCode::Done); // Bandog has ended, and reads no report.
        };
        let report = match Keeper::start(args, stdin) {
            Ok(keeper) => keeper.watch(&mut socket).await,
            Err(fault) => {
                KeeperReport { ended: CommandEnd::Failed(fault.to_string()), survivors: Vec::new(), is_expired: false }
            }
        };
        let text = serde_json::to_vec(&report).unwrap_or_default();
        // An error is ignored, because bandog might have closed the socket.
        let _ = socket.write_all(&text).await;
        Ok(ExitCode::Done)
    })
}

/// The command's standard input.
async fn input(args: &Args, socket: &mut UnixStream) -> io::Result<Stdio> {
    let Some(length) = args.input else { return Ok(Stdio::null()) };
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes).await?;
    Ok(Stdio::from(input::file_of(&bytes)?))
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
    clock: Clock,
    /// Time between TERM and KILL.
    grace: Duration,
    /// The deadline of the lease.
    until: Option<Moment>,
    /// When the processes are killed, because TERM was sent.
    kill_at: Option<Moment>,
    is_expired: bool,
    /// The bytes of an order that is not complete.
    orders: Vec<u8>,
}

impl Keeper {
    fn start(args: &Args, stdin: Stdio) -> Result<Self, Fault> {
        // The keeper catches signals in order to ignore them. If the command must end because of a signal, bandog sends
        // an order.
        let signals = Signals::catch(false).map_err(|error| Fault::system("cannot catch signals", error))?;
        let (clock, until) = (Clock::system(), args.until.map(Moment::from_nanos));
        if until.is_some_and(|until| until <= clock.now()) {
            return Err(Fault::new(ExitCode::Lost, "the lease was over before the command could start"));
        }
        let child =
            Child { command: &args.command, variables: Vec::new(), stdin, stdout: Stdio::inherit(), own_group: true };
        let processes = ProcessTree::start(child, None)?;
        let grace = Duration::from_millis(args.grace_ms);
        let orders = Vec::new();
        Ok(Self { processes, signals, clock, grace, until, kill_at: None, is_expired: false, orders })
    }

    /// Watches the command until all of its processes are dead. A run ends when its command has ended, and the next run
    /// can then begin. So processes that still run at that time are terminated.
    async fn watch(mut self, socket: &mut UnixStream) -> KeeperReport {
        let mut check = interval(CHECK_INTERVAL);
        loop {
            let now = self.clock.now();
            if self.until.is_some_and(|until| until <= now + self.grace) && self.kill_at.is_none() {
                self.is_expired = true;
                self.end();
            }
            let kill_at = [self.until, self.kill_at].into_iter().flatten().min();
            if kill_at.is_some_and(|at| at <= now) {
                break;
            }
            let warn_at = self.until.filter(|_| self.kill_at.is_none()).map(|until| until - self.grace);
            let wake = [kill_at, warn_at].into_iter().flatten().min();
            tokio::select! { biased;
                () = sleep(wake.unwrap_or(now).since(now)), if wake.is_some() => {}
                read = socket.read_buf(&mut self.orders) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) => if self.obey() {
                        break;
                    },
                },
                _ = self.signals.next() => {}
                _ = check.tick() => {}
            }
            if self.processes.reap().is_some() {
                if self.processes.is_gone() {
                    return self.report(Vec::new());
                }
                self.end();
            }
        }
        let survivors = self.processes.kill().await;
        self.report(survivors.into_iter().map(|process| process.number().0).collect())
    }

    /// Obeys the orders that have come. Returns whether the command must be killed.
    fn obey(&mut self) -> bool {
        loop {
            let length = match self.orders.first() {
                None => return false,
                Some(&END) => {
                    self.end();
                    1
                }
                Some(&UNTIL) => {
                    let Some(nanos) = self.orders.get(1..).and_then(<[u8]>::first_chunk) else { return false };
                    self.until = Some(Moment::from_nanos(u64::from_le_bytes(*nanos)));
                    1 + nanos.len()
                }
                Some(_) => return true,
            };
            self.orders.drain(..length);
        }
    }

    /// Sends TERM once, and sets the time of KILL.
    fn end(&mut self) {
        if self.kill_at.is_none() {
            self.processes.end();
            self.kill_at = Some(self.clock.now() + self.grace);
        }
    }

    fn report(mut self, survivors: Vec<i32>) -> KeeperReport {
        let ended = match self.processes.reap() {
            Some(ExitCode::Signal(number)) => CommandEnd::Signal(number),
            Some(code) => CommandEnd::Exit(code.number()),
            None => CommandEnd::Failed("the command cannot be killed".into()),
        };
        KeeperReport { ended, survivors, is_expired: self.is_expired }
    }
}
