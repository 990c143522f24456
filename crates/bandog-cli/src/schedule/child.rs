//! One run of a job's command, seen from bandog: a keeper is started, heard, and told to end.

use std::{
    ffi::OsString,
    fmt, io,
    os::{fd::OwnedFd, unix::net},
    pin::{Pin, pin},
    process::Stdio,
    time::Duration,
};

use signal_hook::low_level::signal_name;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, stderr, stdout},
    net::UnixStream,
    process::{self, Command},
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{
    keep::{self, Ended, Report},
    output::{Tail, hand_on},
    program::{self, Missing},
};
use crate::{family::heir, http, store, voice};

/// How long a keeper has, once it was to kill, before it is killed itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the last of the output may take when everybody is dead: longer only if somebody else holds the pipe, or
/// nobody reads what bandog prints.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A job's command and what it finds in its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) job: String,
    pub(super) command: Vec<OsString>,
    pub(super) env: Vec<(String, String)>,
    /// The store's URL without its password, if one was given.
    pub(super) url: Option<String>,
    /// Between TERM and KILL.
    pub(super) grace: Duration,
}

/// What tells one run from any other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ticket {
    /// RFC 3339, in UTC.
    pub(super) tick: String,
    pub(super) fence: u64,
    pub(super) attempt: u32,
}

/// How a run went.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) result: Result<(), Failure>,
    /// What the command printed last.
    pub(super) tail: Tail,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    Missing(Missing),
    Exit(u8),
    Signal(i32),
    /// Bandog or the machine failed it.
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
            Self::Machine(why) => f.write_str(why),
        }
    }
}

impl Work {
    /// Runs the command to its end. When `cancelled` is ready the command is ended: TERM to all of it, and KILL after
    /// the grace; or at once when `hurried` is.
    ///
    /// # Cancel safety
    /// If the future is dropped, the keeper kills the command and all that it has started at once.
    pub(super) async fn run(
        &self,
        ticket: &Ticket,
        cancelled: impl Future<Output = ()>,
        hurried: impl Future<Output = ()>,
    ) -> Done {
        let tail = Tail::default();
        let result = match program::check(&self.command, &self.env) {
            Ok(()) => {
                let orders = Orders { cancelled: pin!(cancelled), hurried: pin!(hurried), grace: self.grace };
                self.run_kept(ticket, orders, &tail).await
            }
            Err(missing) => Err(Failure::Missing(missing)),
        };
        Done { result, tail }
    }

    async fn run_kept<C, H>(&self, ticket: &Ticket, orders: Orders<'_, C, H>, tail: &Tail) -> Result<(), Failure>
    where
        C: Future<Output = ()>,
        H: Future<Output = ()>,
    {
        let mut kept = self.start(ticket).map_err(|error| Failure::Machine(format!("cannot start it: {error}")))?;
        let (Some(out), Some(err)) = (kept.keeper.stdout.take(), kept.keeper.stderr.take()) else {
            return Err(Failure::Machine("its output cannot be read".into()));
        };
        let printed = async {
            tokio::join!(hand_on(out, stdout(), &self.job, tail), hand_on(err, stderr(), &self.job, tail));
        };
        let ended = kept.ended(orders);
        tokio::pin!(printed, ended);
        let mut has_printed = false;
        let report = loop {
            tokio::select! { biased;
                report = &mut ended => break report,
                () = &mut printed, if !has_printed => has_printed = true,
            }
        };
        if !has_printed {
            // What is not printed by then is not lost to the history: it has read the pipe up to there.
            let _ = timeout(LAST_WORDS, printed).await;
        }
        self.result(report)
    }

    fn result(&self, report: Option<Report>) -> Result<(), Failure> {
        let Some(Report { ended, survivors }) = report else {
            return Err(Failure::Machine("its keeper was killed, and the command with it".into()));
        };
        for pid in survivors {
            voice::post(&format!("{}: process {pid} cannot be killed and still runs", self.job));
        }
        match ended {
            Ended::Exit(0) => Ok(()),
            Ended::Exit(code) => Err(Failure::Exit(code)),
            Ended::Signal(number) => Err(Failure::Signal(number)),
            Ended::Failed(why) => Err(Failure::Machine(why)),
        }
    }

    fn start(&self, ticket: &Ticket) -> io::Result<Kept> {
        let (ours, theirs) = net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let marks = self.marks(ticket);
        // The link stays good when the program's file is replaced while bandog runs.
        let mut keeper = Command::new("/proc/self/exe");
        keeper.arg0("bandog").args([keep::NAME, &self.grace.as_millis().to_string(), "--"]).args(&self.command);
        keeper.env_remove(http::TOKEN_VARIABLE);
        keeper.envs(self.url.as_ref().map(|url| (store::VARIABLE, url)));
        keeper.envs(self.env.iter().map(|(name, value)| (name, value))).envs(marks.clone());
        keeper.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
        // What a terminal sends for a key is for bandog.
        keeper.process_group(0);
        let marks = marks.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Kept { keeper: keeper.spawn()?, line: UnixStream::from_std(ours)?, marks })
    }

    fn marks(&self, ticket: &Ticket) -> [(&'static str, String); 4] {
        [
            ("BANDOG_JOB", self.job.clone()),
            ("BANDOG_TICK", ticket.tick.clone()),
            ("BANDOG_FENCE", ticket.fence.to_string()),
            ("BANDOG_ATTEMPT", ticket.attempt.to_string()),
        ]
    }
}

/// What may end a run before its time.
struct Orders<'a, C, H> {
    cancelled: Pin<&'a mut C>,
    hurried: Pin<&'a mut H>,
    grace: Duration,
}

impl<C: Future<Output = ()>, H: Future<Output = ()>> Orders<'_, C, H> {
    async fn any(&mut self) {
        tokio::select! {
            () = &mut self.cancelled => {}
            () = &mut self.hurried => self.grace = Duration::ZERO,
        }
    }

    /// When the command must be dead.
    async fn kill(&mut self) {
        if !self.grace.is_zero() {
            tokio::select! {
                () = &mut self.hurried => {}
                () = sleep(self.grace + LAST_WORDS) => {}
            }
        }
    }
}

/// A keeper at work. Its line ends when this is dropped.
struct Kept {
    keeper: process::Child,
    line: UnixStream,
    /// What the command and all that it starts have in their environment.
    marks: Vec<String>,
}

impl Kept {
    /// What the keeper reports when everybody is dead; nothing if it was killed itself, and then all are dead too.
    async fn ended<C, H>(&mut self, mut orders: Orders<'_, C, H>) -> Option<Report>
    where
        C: Future<Output = ()>,
        H: Future<Output = ()>,
    {
        let mut text = Vec::new();
        let ended = self.hears(&mut text, orders.any()).await || {
            self.say(keep::END).await;
            // The keeper counts the grace itself; this is for one that does not.
            self.hears(&mut text, orders.kill()).await
        };
        if !ended {
            self.say(keep::KILL).await;
            self.hears(&mut text, sleep(PATIENCE)).await;
        }
        let report = serde_json::from_slice(&text).ok();
        if report.is_none() {
            self.kill().await;
        }
        // It has said its last word, or was killed.
        let _ = timeout(PATIENCE, self.keeper.wait()).await;
        report
    }

    /// Reads until the line ends, which tells that it did, or until then.
    async fn hears(&mut self, text: &mut Vec<u8>, until: impl Future<Output = ()>) -> bool {
        tokio::select! { biased;
            _ = self.line.read_to_end(text) => true,
            () = until => false,
        }
    }

    async fn say(&mut self, word: u8) {
        // A keeper that has just ended does not listen any more.
        let _ = self.line.write_all(&[word]).await;
    }

    /// In the keeper's place: the command itself has died with it, by the kernel.
    async fn kill(&mut self) {
        // One that is dead already is what was wanted.
        let _ = self.keeper.start_kill();
        let marks = self.marks.clone();
        // It ends within its own patience, whatever it meets.
        let _ = spawn_blocking(move || heir::kill_marked(&marks)).await;
    }
}
