//! One run of a job's command.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use bandog::schedule::RunRow;
use bandog_cron::{Time, Zone};
use tokio::io::{stderr, stdout};

pub(super) use crate::kept::Failure;
use crate::{
    kept::{
        Kept, Sink,
        output::{LineForm, OutputFormat, Tail},
        program,
    },
    store,
};

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
                let sinks = [
                    Sink { form: self.form(run_id, "stdout"), to: Box::new(stdout()), tail: &tail },
                    Sink { form: self.form(run_id, "stderr"), to: Box::new(stderr()), tail: &tail },
                ];
                self.kept(run_id).run(sinks, cancelled, hurried).await.result
            }
            Err(missing) => Err(Failure::Missing(missing)),
        };
        RunResult { result, tail }
    }

    /// The form of the lines of one output.
    fn form(&self, run_id: &RunId, stream: &'static str) -> LineForm<'_> {
        match self.output {
            OutputFormat::Prefixed => LineForm::prefixed(&self.job),
            OutputFormat::Plain => LineForm::plain(),
            OutputFormat::Json => LineForm::json(&self.job, run_id.tick, run_id.attempt, run_id.fence, stream),
        }
    }

    /// The command for a keeper.
    fn kept(&self, run_id: &RunId) -> Kept<'_> {
        let url = self.url.iter().map(|url| (store::VARIABLE.to_owned(), url.clone()));
        let local = ("BANDOG_TICK_LOCAL".to_owned(), run_id.tick.at(&self.zone).to_string());
        Kept {
            name: &self.job,
            command: &self.command,
            directory: self.directory.as_deref(),
            variables: url.chain(self.env.iter().cloned()).chain([local]).collect(),
            marks: self.marks(run_id).into(),
            grace: self.grace,
            input: None,
            lease: None,
        }
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
