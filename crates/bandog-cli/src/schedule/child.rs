//! One run of a job's command: bandog starts a keeper, a hidden process that starts and watches the command. If
//! necessary, bandog orders the keeper to end the command. At the end, bandog reads the keeper's report.

use std::{
    ffi::OsString,
    fmt, io,
    os::{fd::OwnedFd, unix::net},
    path::PathBuf,
    pin::{Pin, pin},
    process::Stdio,
    time::Duration,
};

use bandog::schedule::RunRow;
use bandog_cron::{Time, Zone};
use signal_hook::low_level::signal_name;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, stderr, stdout},
    net::UnixStream,
    process::{self, Command},
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{
    keep::{self, CommandEnd, KeeperReport},
    output::{LineForm, OutputFormat, Tail, forward},
    program::{self, Missing},
};
use crate::{console, exec, http, process_tree::heir, store};

/// Time that a keeper gets after the order to kill the command. After this timeout, bandog kills the keeper itself.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the rest of the output after all processes are dead. The timeout matters in two cases: another process
/// holds the pipe open, or no process reads bandog's output.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// A job's command and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandSpec {
    pub(super) job: String,
    pub(super) command: Vec<OsString>,
    /// The working directory. None means that of bandog.
    pub(super) directory: Option<PathBuf>,
    pub(super) env: Vec<(String, String)>,
    /// The store's URL without its password. None if the user gave no URL.
    pub(super) url: Option<String>,
    /// Time between TERM and KILL.
    pub(super) grace: Duration,
    /// The zone of the job.
    pub(super) zone: Zone,
    /// The form of the lines that the command prints.
    pub(super) output: OutputFormat,
}

/// The identity of a run and its attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunId {
    pub(super) tick: Time,
    pub(super) fence: u64,
    pub(super) attempt: u32,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct RunResult {
    pub(super) result: Result<(), Failure>,
    /// The end of the command's output.
    pub(super) tail: Tail,
}

/// The reason of a failed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    Missing(Missing),
    /// The command exited with this code.
    Exit(u8),
    /// The signal with this number ended the command.
    Signal(i32),
    /// The command exited with 0 after bandog had ordered its end, so its work may be incomplete.
    CutShort,
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
            Self::Machine(why) => f.write_str(why),
        }
    }
}

impl CommandSpec {
    /// The command for a run of this job that has failed for good. Variables contain its result. If the directory of
    /// the job cannot be entered, the command runs in that of bandog: it may be the reason of the failure.
    pub(super) fn after(&self, command: &[OsString], failed: &RunRow) -> Self {
        let result = [
            ("BANDOG_STATE", failed.state.as_str().to_owned()),
            ("BANDOG_ERROR", failed.error.clone().unwrap_or_default()),
            ("BANDOG_NODE", failed.node.clone().unwrap_or_default()),
            ("BANDOG_RUN", failed.id.to_string()),
        ];
        // A variable cannot contain a zero byte.
        let result = result.map(|(name, value)| (name.to_owned(), value.replace('\0', "")));
        let directory = self.directory.clone().filter(|directory| program::enter(directory).is_ok());
        let env = self.env.iter().cloned().chain(result).collect();
        Self { command: command.to_vec(), directory, env, ..self.clone() }
    }

    /// Runs the command to its end. When `cancelled` resolves, all processes of the command get TERM, and after the
    /// grace period KILL. When `hurried` resolves, all processes of the command are killed immediately.
    ///
    /// # Cancel safety
    /// If the future is dropped, the keeper kills the command and its descendants immediately.
    pub(super) async fn run(
        &self,
        run_id: &RunId,
        cancelled: impl Future<Output = ()>,
        hurried: impl Future<Output = ()>,
    ) -> RunResult {
        let tail = Tail::default();
        let result = match program::check(&self.command, &self.env, self.directory.as_deref()) {
            Ok(()) => {
                let stop_requests =
                    StopRequests { cancelled: pin!(cancelled), hurried: pin!(hurried), grace: self.grace };
                self.run_kept(run_id, stop_requests, &tail).await
            }
            Err(missing) => Err(Failure::Missing(missing)),
        };
        RunResult { result, tail }
    }

    /// Runs the command under a keeper.
    async fn run_kept<C, H>(
        &self,
        run_id: &RunId,
        stop_requests: StopRequests<'_, C, H>,
        tail: &Tail,
    ) -> Result<(), Failure>
    where
        C: Future<Output = ()>,
        H: Future<Output = ()>,
    {
        let mut kept =
            self.start(run_id).map_err(|error| Failure::Machine(format!("cannot start the keeper: {error}")))?;
        let (Some(out), Some(err)) = (kept.keeper.stdout.take(), kept.keeper.stderr.take()) else {
            return Err(Failure::Machine("the command's output cannot be read".into()));
        };
        let form = |stream| match self.output {
            OutputFormat::Prefixed => LineForm::prefixed(&self.job),
            OutputFormat::Plain => LineForm::plain(),
            OutputFormat::Json => LineForm::json(&self.job, run_id.tick, run_id.attempt, run_id.fence, stream),
        };
        let printed = async {
            tokio::join!(forward(out, stdout(), form("stdout"), tail), forward(err, stderr(), form("stderr"), tail));
        };
        let ended = kept.ended(stop_requests);
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
        self.result(end)
    }

    /// The result of the run. The cause of the end decides, not the exit code.
    fn result(&self, KeptEnd { report, is_ordered }: KeptEnd) -> Result<(), Failure> {
        let Some(KeeperReport { ended, survivors }) = report else {
            return Err(Failure::Machine("its keeper process was killed, and the command with it".into()));
        };
        for pid in survivors {
            console::report_queued(&format!("{}: process {pid} cannot be killed and still runs", self.job));
        }
        match ended {
            CommandEnd::Exit(0) if is_ordered => Err(Failure::CutShort),
            CommandEnd::Exit(0) => Ok(()),
            CommandEnd::Exit(code) => Err(Failure::Exit(code)),
            CommandEnd::Signal(number) => Err(Failure::Signal(number)),
            CommandEnd::Failed(why) => Err(Failure::Machine(why)),
        }
    }

    /// Starts the keeper, which then starts the command.
    fn start(&self, run_id: &RunId) -> io::Result<RunningKeeper> {
        let (ours, theirs) = net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let marks = self.marks(run_id);
        // This path stays valid even if the program file is replaced while bandog runs.
        let mut keeper = Command::new("/proc/self/exe");
        keeper.arg0("bandog").args([keep::NAME, &self.grace.as_millis().to_string(), "--"]).args(&self.command);
        keeper.env_remove(http::TOKEN_VARIABLE);
        // These are for bandog itself: a command must neither use its sockets nor report in its name.
        for name in exec::SERVICE {
            keeper.env_remove(name);
        }
        keeper.envs(self.url.as_ref().map(|url| (store::VARIABLE, url)));
        keeper.envs(self.env.iter().map(|(name, value)| (name, value))).envs(marks.clone());
        keeper.env("BANDOG_TICK_LOCAL", run_id.tick.at(&self.zone).to_string());
        if let Some(directory) = &self.directory {
            keeper.current_dir(directory);
        }
        keeper.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The keeper gets its own process group. So the signals of terminal keys reach only bandog.
        keeper.process_group(0);
        let marks = marks.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(RunningKeeper { keeper: keeper.spawn()?, socket: UnixStream::from_std(ours)?, marks })
    }

    /// The variables that identify the processes of this run.
    fn marks(&self, run_id: &RunId) -> [(&'static str, String); 4] {
        [
            ("BANDOG_JOB", self.job.clone()),
            ("BANDOG_TICK", run_id.tick.to_string()),
            ("BANDOG_FENCE", run_id.fence.to_string()),
            ("BANDOG_ATTEMPT", run_id.attempt.to_string()),
        ]
    }
}

/// The requests that end a run early.
struct StopRequests<'a, C, H> {
    /// Resolves when the command must be terminated.
    cancelled: Pin<&'a mut C>,
    /// Resolves when the command must be killed immediately.
    hurried: Pin<&'a mut H>,
    /// Time between TERM and KILL.
    grace: Duration,
}

impl<C: Future<Output = ()>, H: Future<Output = ()>> StopRequests<'_, C, H> {
    /// Resolves at the first request. If that request is `hurried`, the grace period becomes zero.
    async fn any(&mut self) {
        tokio::select! {
            () = &mut self.cancelled => {}
            () = &mut self.hurried => self.grace = Duration::ZERO,
        }
    }

    /// Resolves at the time at which all processes of the command must be dead: at the request `hurried`, or some time
    /// after the end of the grace period. Call this after [`Self::any`] has resolved.
    async fn kill(&mut self) {
        if !self.grace.is_zero() {
            tokio::select! {
                () = &mut self.hurried => {}
                () = sleep(self.grace + OUTPUT_TIMEOUT) => {}
            }
        }
    }
}

/// The end of a keeper and its command.
struct KeptEnd {
    /// The report of the keeper. None if the keeper was killed.
    report: Option<KeeperReport>,
    /// Whether bandog ordered the end.
    is_ordered: bool,
}

/// A running keeper. Dropping this value closes the socket, and then the keeper kills the command.
struct RunningKeeper {
    keeper: process::Child,
    socket: UnixStream,
    /// The variables that identify the command and its descendants, each written `NAME=VALUE`.
    marks: Vec<String>,
}

impl RunningKeeper {
    /// Waits until all processes are dead.
    async fn ended<C, H>(&mut self, mut stop_requests: StopRequests<'_, C, H>) -> KeptEnd
    where
        C: Future<Output = ()>,
        H: Future<Output = ()>,
    {
        let mut text = Vec::new();
        let is_ordered = !self.read_until(&mut text, stop_requests.any()).await;
        let ended = !is_ordered || {
            self.send(keep::END).await;
            // The keeper measures the grace period itself; this timeout is for a keeper that hangs.
            self.read_until(&mut text, stop_requests.kill()).await
        };
        if !ended {
            self.send(keep::KILL).await;
            self.read_until(&mut text, sleep(KEEPER_TIMEOUT)).await;
        }
        let report = serde_json::from_slice(&text).ok();
        if report.is_none() {
            self.kill().await;
        }
        // The keeper has reported or was killed, so it exits soon.
        let _ = timeout(KEEPER_TIMEOUT, self.keeper.wait()).await;
        KeptEnd { report, is_ordered }
    }

    /// Reads from the socket into `text`, until the socket closes or `until` resolves. Returns whether the socket has
    /// closed.
    async fn read_until(&mut self, text: &mut Vec<u8>, until: impl Future<Output = ()>) -> bool {
        tokio::select! { biased;
            _ = self.socket.read_to_end(text) => true,
            () = until => false,
        }
    }

    /// Sends an order to the keeper.
    async fn send(&mut self, order: u8) {
        // An error is ignored, because the keeper might just have exited.
        let _ = self.socket.write_all(&[order]).await;
    }

    /// Kills the keeper and the run's other processes. When the keeper dies, the kernel kills the command.
    async fn kill(&mut self) {
        // An error is ignored, because the keeper might be dead already.
        let _ = self.keeper.start_kill();
        let marks = self.marks.clone();
        // `kill_marked` has its own timeout.
        let _ = spawn_blocking(move || heir::kill_marked(&marks)).await;
    }
}
