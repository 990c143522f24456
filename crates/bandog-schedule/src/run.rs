//! A run of a job, as its body sees it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bandog_core::{Error, ErrorKind, Fence, Mark, Records, SqlStatement};
use bandog_cron::Time;
use bandog_sync::Client;
use serde::{Deserialize, Serialize};

use crate::{
    cancel::CancelToken,
    records::{completion_key, job_key, running_text},
    trigger::UnixMs,
};

/// Maximum length of a note, in bytes.
pub const MAX_NOTE: usize = 4096;

/// Maximum length of an error's text, in bytes.
pub const MAX_ERROR: usize = 4096;

/// The cause of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The tick was due.
    Scheduled,
    /// The tick was missed and is caught up.
    CatchUp,
    /// An operator requested a run in addition to the ticks.
    Manual,
    /// An operator requested the run of a past tick.
    Backfill,
    /// The tick was due while the store was down, and the job's policy allows runs without the store
    /// ([`crate::StoreDown::FailOpen`]). Several nodes might run the same tick.
    Unclaimed,
}

impl Kind {
    /// The cause as one word: `scheduled`, `catch_up`, `manual`, `backfill`, `unclaimed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::CatchUp => "catch_up",
            Self::Manual => "manual",
            Self::Backfill => "backfill",
            Self::Unclaimed => "unclaimed",
        }
    }
}

/// A run of a job: its tick, its fence, and its cancellation. Clones refer to the same run.
///
/// A single node of the cluster runs a tick. But no scheduler can promise that the effects of a run happen exactly
/// once: a node might stop in the middle of a run, and then another node takes the run over. Choose one of two
/// remedies. Send [`Run::fence`] with each write, and let the resource refuse a fence that is smaller than the greatest
/// fence that the resource has seen. Or use the job's name and [`Run::tick`] as an idempotency key. If the effects are in
/// the PostgreSQL or MySQL database of the scheduler, complete the run in the same transaction ([`Run::completion_sql`]).
#[derive(Debug, Clone)]
pub struct Run {
    info: Arc<RunInfo>,
    attempt: u32,
    /// The client of the store. None for a scheduler without a store.
    client: Option<Arc<Client>>,
}

/// The values of a run that its body, its task and the dispatcher share. The methods of [`Run`] with the same names
/// describe the values.
#[derive(Debug)]
pub(crate) struct RunInfo {
    pub(crate) name: Arc<str>,
    pub(crate) id: u64,
    pub(crate) tick: Time,
    pub(crate) due: Time,
    /// Time of the claim. For a run without a claim: time of the start.
    pub(crate) started: UnixMs,
    pub(crate) kind: Kind,
    pub(crate) fence: Fence,
    /// The tick of the last run that succeeded before this run.
    pub(crate) last_success: Option<Time>,
    /// The text that the body has set for the history.
    pub(crate) note: Mutex<Option<String>>,
    /// The smallest number of a run of this job that ran or waited at the claim of this run. None for a run that is in no
    /// record.
    pub(crate) oldest_open: Option<u64>,
    /// The lease under which the run was claimed.
    pub(crate) lease: Duration,
    pub(crate) cancel: CancelToken,
}

impl Run {
    pub(crate) fn new(info: Arc<RunInfo>, attempt: u32, client: Option<Arc<Client>>) -> Self {
        Self { info, attempt, client }
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// The run's number: 1 for the job's first run. A takeover by another node does not change the number.
    pub fn id(&self) -> u64 {
        self.info.id
    }

    /// The instant at which the job was due. All nodes compute the same tick, so the tick can be an idempotency key.
    /// The tick of a manual run is the time of the request.
    pub fn tick(&self) -> Time {
        self.info.tick
    }

    /// The planned start: the tick plus the job's jitter.
    pub fn due(&self) -> Time {
        self.info.due
    }

    /// The attempt's number. The first attempt has number 1. Each retry and each takeover by another node adds 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The cause of the run.
    pub fn kind(&self) -> Kind {
        self.info.kind
    }

    /// The fence of the run. It is greater than the fence of every earlier run of this job. A takeover gets a new,
    /// greater fence. A retry on the same node keeps the fence.
    pub fn fence(&self) -> Fence {
        self.info.fence
    }

    /// The job's lease ([`crate::Job::lease`]): if the node dies, another node takes the run over at most this time later.
    pub fn lease(&self) -> Duration {
        self.info.lease
    }

    /// The tick of the last run that succeeded, if there was one.
    pub fn last_success(&self) -> Option<Time> {
        self.info.last_success
    }

    /// Resolves when the run should stop. There are four cases: the attempt has exceeded its timeout, the node stops
    /// and the drain (the time that a stop leaves to runs) is over, the run was cancelled, or the lease of the node's
    /// session is about to expire. If the run does not end within the job's grace ([`crate::Job::grace`]), the run is
    /// dropped.
    ///
    /// After this future has resolved, or [`Run::is_cancelled`] has returned true, the result of the body does not
    /// count, not even `Ok`: the run ends as timed out, interrupted, cancelled or lost, and is retried or handed over as
    /// the job's policies say. A body that never observes the cancellation, and returns `Ok` within the grace, has done
    /// its work, so its run is successful.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn cancelled(&self) {
        self.info.cancel.attempt_cancelled(self.attempt).await;
    }

    /// Whether the run should stop. After a true result, `Ok` of the body does not count: see [`Run::cancelled`].
    pub fn is_cancelled(&self) -> bool {
        self.info.cancel.observe(self.attempt)
    }

    /// Resolves when the node begins to stop ([`crate::Running::stop`], or a signal in
    /// [`crate::Running::until_signal`]), and in all cases in which [`Run::cancelled`] resolves. After the start of the
    /// stop, the run can continue for the time of [`crate::Scheduler::drain`]. Then the run is cancelled. A run that
    /// works in a loop should return when this future resolves. Otherwise the run delays the stop. A run that returns
    /// `Ok` before it is cancelled is recorded as successful.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// ```
    /// use bandog::schedule::{Job, Run, Scheduler};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let consumer = Job::once("consumer").run(async |run: Run| {
    ///     loop {
    ///         tokio::select! {
    ///             () = tokio::time::sleep(Duration::from_secs(1)) => println!("one more message"),
    ///             () = run.stopping() => return,
    ///         }
    ///     }
    /// });
    /// let running = Scheduler::new().drain(Duration::from_secs(30)).job(consumer).start().await?;
    /// running.stop().await // Returns immediately, because the run ends before the drain has passed.
    /// # }
    /// ```
    pub async fn stopping(&self) {
        self.info.cancel.stopping(self.attempt).await;
    }

    /// Whether the node has begun to stop, or the run should stop. A blocking loop checks this in each iteration.
    pub fn is_stopping(&self) -> bool {
        self.info.cancel.is_stopping(self.attempt)
    }

    /// A statement for your own transaction, on a store that is a database (PostgreSQL, MySQL, MariaDB). It completes this
    /// run in the transaction: of all attempts of the run, on any node, the transaction of one can commit. So the effects
    /// that are in this transaction happen once, even if a process dies before the scheduler has recorded the end of the
    /// run, or continues after another node has taken the run over. The crate `bandog-sqlx` executes it
    /// (`run.complete_in(&mut tx)`).
    ///
    /// The transaction must be in the database of the scheduler, at the isolation level READ COMMITTED. Execute the
    /// statement as the last one before the commit. If the database refuses it, roll the transaction back; PostgreSQL does
    /// not commit it. [`SqlStatement::refusal`] recognizes the error.
    ///
    /// The end of the run is recorded as usual, when the body returns. If a process dies between the commit and this
    /// record, the run counts as interrupted. With [`crate::OnCrash::Retry`] another node then runs the body again, and
    /// the statement is refused: the run was completed already.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the run is in no record of a store: a job of this process, or a run without a claim.
    /// - `ErrorKind::Unsupported`: the store is no database in which users have transactions.
    /// - `ErrorKind::Closed`: the client of the scheduler was closed.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn completion_sql(&self) -> bandog_core::Result<SqlStatement> {
        let RunInfo { name, id, tick, fence, .. } = &*self.info;
        let (Some(oldest), Some(client)) = (self.info.oldest_open, &self.client) else {
            let message =
                format!("the run of the job {name:?} is in no record of a store, so it cannot be completed there");
            return Err(Error::new(ErrorKind::Misused, message).during("complete"));
        };
        let mark = Mark {
            key: completion_key(name, *id, tick.millisecond())?,
            within: (job_key(name)?, running_text(*fence)),
            obsolete: (completion_key(name, 0, 0)?, completion_key(name, oldest, 0)?),
        };
        client.records().mark_sql(&mark).await
    }

    /// Sets the note of this run in the history. A new note replaces the previous note. If the text is longer than
    /// [`MAX_NOTE`] bytes, only its last bytes are kept. After the run's end, this method has no effect.
    pub fn note(&self, text: impl Into<String>) {
        let text = text.into();
        let cut = text.len().saturating_sub(MAX_NOTE);
        let start = (cut..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        *self.info.note.lock().unwrap_or_else(PoisonError::into_inner) = Some(text[start..].to_owned());
    }
}

impl RunInfo {
    /// Removes and returns the last note. This is called at the run's end, so later notes are not recorded.
    pub(crate) fn take_note(&self) -> Option<String> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
