//! Runs one command under a keeper: a hidden process that starts and watches the command. If necessary, bandog orders the
//! keeper to end the command. At the end, bandog reads the keeper's report.

pub(crate) mod keep;
pub(crate) mod output;
pub(crate) mod program;
mod running;

use std::{
    ffi::OsString,
    fmt, io,
    os::{fd::OwnedFd, unix::net},
    path::Path,
    pin::pin,
    process::Stdio,
    time::Duration,
};

use signal_hook::low_level::signal_name;
use tokio::{io::AsyncWrite, net::UnixStream, process::Command, time::timeout};

pub(crate) use self::running::Lease;
use self::{
    keep::{CommandEnd, KeeperReport},
    output::{LineForm, Tail, forward},
    program::Missing,
    running::{KeptEnd, RunningKeeper, StopRequests},
};
use crate::{console, exec, http};

/// Timeout for the rest of the output after all processes are dead. The timeout matters in two cases: another process
/// holds the pipe open, or no process reads bandog's output.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// A command, its environment and its input.
pub(crate) struct Kept<'a> {
    /// The name of the command in messages.
    pub(crate) name: &'a str,
    pub(crate) command: &'a [OsString],
    /// The working directory. None means that of bandog.
    pub(crate) directory: Option<&'a Path>,
    /// Variables in addition to bandog's own environment.
    pub(crate) variables: Vec<(String, String)>,
    /// The variables that identify the processes of this run.
    pub(crate) marks: Vec<(&'static str, String)>,
    /// Time between TERM and KILL.
    pub(crate) grace: Duration,
    /// The bytes of its standard input. None: its standard input is empty.
    pub(crate) input: Option<&'a [u8]>,
    /// The lease that the command must not outlive. None: there is none.
    pub(crate) lease: Option<Lease<'a>>,
}

/// Where an output of the command goes.
pub(crate) struct Sink<'a> {
    pub(crate) form: LineForm<'a>,
    pub(crate) to: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) tail: &'a Tail,
}

/// The reason of a failed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    Missing(Missing),
    /// The command exited with this code.
    Exit(u8),
    /// The signal with this number ended the command.
    Signal(i32),
    /// The command exited with 0 after bandog had ordered its end, so its work may be incomplete.
    CutShort,
    /// The keeper ended the command, because its lease was about to expire.
    Expired,
    /// Bandog or the operating system failed.
    Machine(String),
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(missing) => write!(f, "{missing}"),
            Self::Exit(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match signal_name(*number) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {number}"),
            },
            Self::CutShort => f.write_str("exit code 0 after TERM from bandog"),
            Self::Expired => f.write_str("ended before its lease could expire"),
            Self::Machine(why) => f.write_str(why),
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<(), Failure>,
    /// Whether bandog ordered the end.
    pub(crate) is_ordered: bool,
}

impl Kept<'_> {
    /// Runs the command to its end. When `cancelled` resolves, all processes of the command get TERM, and after the
    /// grace period KILL. When `hurried` resolves, all processes of the command are killed immediately.
    ///
    /// # Cancel safety
    /// If the future is dropped, the keeper kills the command and its descendants immediately.
    pub(crate) async fn run(
        &self,
        [out_sink, err_sink]: [Sink<'_>; 2],
        cancelled: impl Future<Output = ()>,
        hurried: impl Future<Output = ()>,
    ) -> Ended {
        let failed = |failure| Ended { result: Err(failure), is_ordered: false };
        let mut kept = match self.start() {
            Ok(kept) => kept,
            Err(error) => return failed(Failure::Machine(format!("cannot start the keeper: {error}"))),
        };
        let Some((out, err)) = kept.outputs() else {
            return failed(Failure::Machine("the command's output cannot be read".into()));
        };
        let printed = async {
            tokio::join!(
                forward(out, out_sink.to, out_sink.form, out_sink.tail),
                forward(err, err_sink.to, err_sink.form, err_sink.tail)
            );
        };
        let stop_requests = StopRequests { cancelled: pin!(cancelled), hurried: pin!(hurried), grace: self.grace };
        let ended = kept.ended(stop_requests, OUTPUT_TIMEOUT);
        tokio::pin!(printed, ended);
        let mut has_printed = false;
        let end = loop {
            tokio::select! { biased;
                end = &mut ended => break end,
                () = &mut printed, if !has_printed => has_printed = true,
            }
        };
        if !has_printed {
            // After the timeout, the rest is not printed. But the history still has all output that was read.
            let _ = timeout(OUTPUT_TIMEOUT, printed).await;
        }
        Ended { is_ordered: end.is_ordered, result: self.result(end) }
    }

    /// The result of the run. The cause of the end decides, not the exit code.
    fn result(&self, KeptEnd { report, is_ordered }: KeptEnd) -> Result<(), Failure> {
        let Some(KeeperReport { ended, survivors, is_expired }) = report else {
            return Err(Failure::Machine("its keeper process was killed, and the command with it".into()));
        };
        for pid in survivors {
            console::report_queued(&format!("{}: process {pid} cannot be killed and still runs", self.name));
        }
        match ended {
            _ if is_expired => Err(Failure::Expired),
            CommandEnd::Exit(0) if is_ordered => Err(Failure::CutShort),
            CommandEnd::Exit(0) => Ok(()),
            CommandEnd::Exit(code) => Err(Failure::Exit(code)),
            CommandEnd::Signal(number) => Err(Failure::Signal(number)),
            CommandEnd::Failed(why) => Err(Failure::Machine(why)),
        }
    }

    /// Starts the keeper, which then starts the command.
    fn start(&self) -> io::Result<RunningKeeper<'_>> {
        let (ours, theirs) = net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // This path stays valid even if the program file is replaced while bandog runs.
        let mut keeper = Command::new("/proc/self/exe");
        keeper.arg0("bandog").args([keep::NAME, &self.grace.as_millis().to_string()]);
        let lease = self.lease.map(|lease| (lease, (lease.deadline)()));
        if let Some((_, until)) = lease {
            keeper.arg(format!("--until={}", until.as_nanos()));
        }
        if let Some(input) = self.input {
            keeper.arg(format!("--input={}", input.len()));
        }
        keeper.arg("--").args(self.command);
        keeper.env_remove(http::TOKEN_VARIABLE);
        // These are for bandog itself: a command must neither use its sockets nor report in its name.
        for name in exec::SERVICE {
            keeper.env_remove(name);
        }
        keeper.envs(self.variables.iter().map(|(name, value)| (name, value)));
        keeper.envs(self.marks.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = self.directory {
            keeper.current_dir(directory);
        }
        keeper.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The keeper gets its own process group. So the signals of terminal keys reach only bandog.
        keeper.process_group(0);
        let marks = self.marks.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let outbox = self.input.map(<[u8]>::to_vec).unwrap_or_default();
        let socket = UnixStream::from_std(ours)?;
        Ok(RunningKeeper::new(keeper.spawn()?, socket, marks, outbox, lease))
    }
}
