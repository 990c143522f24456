//! One run of a job, as its body sees it.

use std::{
    error::Error as StdError,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bandog_core::Fence;
use bandog_cron::Time;
use serde::{Deserialize, Serialize};

use crate::{cancel::Cancel, trigger::Ms};

/// How much of a note is kept, in bytes.
pub const MAX_NOTE: usize = 4096;

/// How much of an error's text is kept, in bytes.
pub const MAX_ERROR: usize = 4096;

/// Why a run came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Its tick came.
    Scheduled,
    /// Its tick had been missed.
    CatchUp,
    /// Somebody asked for it now.
    Manual,
    /// Somebody asked for a tick of the past.
    Backfill,
    /// Its tick came while the store was away, and the job runs all the same: perhaps on several nodes
    /// ([`crate::StoreDown::FailOpen`]).
    Unclaimed,
}

impl Kind {
    /// One word: `scheduled`, `catch_up`, `manual`, `backfill`, `unclaimed`.
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

/// One run of a job: its tick, its fence, and whether it should stop. Clones are the same run.
///
/// One node of the cluster runs a tick, but nothing can promise that the effects of a run happen exactly once: a node
/// may stop in the middle and another take over. Send [`Run::fence`] along with writes, and let the resource refuse a
/// smaller one than it has seen; or use the job's name and [`Run::tick`] as an idempotency key.
#[derive(Debug, Clone)]
pub struct Run {
    facts: Arc<Facts>,
    attempt: u32,
}

#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) name: Arc<str>,
    pub(crate) id: u64,
    pub(crate) tick: Time,
    pub(crate) due: Time,
    /// When it was claimed, or begun without a claim.
    pub(crate) started: Ms,
    pub(crate) kind: Kind,
    pub(crate) fence: Fence,
    pub(crate) last_success: Option<Time>,
    pub(crate) note: Mutex<Option<String>>,
    pub(crate) cancel: Cancel,
}

impl Run {
    pub(crate) fn new(facts: Arc<Facts>, attempt: u32) -> Self {
        Self { facts, attempt }
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The run's number: 1 for the job's first run. It stays when another node takes over.
    pub fn id(&self) -> u64 {
        self.facts.id
    }

    /// The instant that this run is for: the same on every node, so it serves as an idempotency key. Of a manual run it
    /// is when it was asked for.
    pub fn tick(&self) -> Time {
        self.facts.tick
    }

    /// When it was to start: the tick and the job's jitter.
    pub fn due(&self) -> Time {
        self.facts.due
    }

    /// 1 for the first try, one more for each retry and each take-over.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Why it runs.
    pub fn kind(&self) -> Kind {
        self.facts.kind
    }

    /// Greater than that of every earlier run of this job; a take-over has a greater one too, a retry the same.
    pub fn fence(&self) -> Fence {
        self.facts.fence
    }

    /// The tick of the last run that ended well, if there was one.
    pub fn last_success(&self) -> Option<Time> {
        self.facts.last_success
    }

    /// Resolves when the run should stop: its time is up, the node stops, somebody cancelled it, or its lease is about
    /// to end. After the job's grace it is dropped where it stands.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn cancelled(&self) {
        self.facts.cancel.over(self.attempt).await;
    }

    /// Whether the run should stop.
    pub fn is_cancelled(&self) -> bool {
        self.facts.cancel.is_over(self.attempt)
    }

    /// Resolves when the node begins to stop ([`crate::Running::stop`], or a signal in
    /// [`crate::Running::until_signal`]), and whenever [`Run::cancelled`] does. The run may then go on for the drain
    /// ([`crate::Scheduler::drain`]) before it is cancelled: a run that works in a loop comes to its end here, so that it
    /// does not delay the stop. A run that gives `Ok` after it is recorded as one that ended well.
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
    /// running.stop().await // At once, and not after 30 s.
    /// # }
    /// ```
    pub async fn stopping(&self) {
        self.facts.cancel.stopping(self.attempt).await;
    }

    /// Whether the node has begun to stop, or the run should stop: what a blocking loop asks in each turn.
    pub fn is_stopping(&self) -> bool {
        self.facts.cancel.is_stopping(self.attempt)
    }

    /// Leaves a note in the history beside this run, instead of an earlier one. Its end is kept if it is longer than
    /// [`MAX_NOTE`] bytes. After the run's end it does nothing.
    pub fn note(&self, text: impl Into<String>) {
        let text = text.into();
        let cut = text.len().saturating_sub(MAX_NOTE);
        let start = (cut..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        *self.facts.note.lock().unwrap_or_else(PoisonError::into_inner) = Some(text[start..].to_owned());
    }
}

impl Facts {
    /// What it said last; what it says afterwards nobody hears.
    pub(crate) fn take_note(&self) -> Option<String> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a body may give: nothing, or a result whose error is a failure.
#[diagnostic::on_unimplemented(
    message = "a job gives nothing or `Result<(), E>`, where `E` is an error or becomes a boxed one",
    label = "a scheduler does not know whether this is a failure"
)]
pub trait Outcome {
    /// None when the run ended well.
    fn failure(self) -> Option<Failure>;
}

/// Why a run failed, in words.
pub struct Failure(pub(crate) String);

impl Failure {
    /// Its beginning, as much of it as is kept.
    pub(crate) fn cut(mut self) -> Self {
        if self.0.len() > MAX_ERROR {
            let end = (0..=MAX_ERROR).rev().find(|at| self.0.is_char_boundary(*at)).unwrap_or(0);
            self.0.truncate(end);
            self.0.shrink_to_fit();
        }
        self
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Outcome for () {
    fn failure(self) -> Option<Failure> {
        None
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> Outcome for Result<(), E> {
    fn failure(self) -> Option<Failure> {
        let error = self.err()?.into();
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            let source_text = source.to_string();
            // Many errors tell their cause themselves.
            if !text.contains(&source_text) {
                text = format!("{text}: {source_text}");
            }
            cause = source.source();
        }
        Some(Failure(text))
    }
}
