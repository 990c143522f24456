//! From jobs to a scheduler that runs.

use std::{num::NonZeroUsize, time::Duration};

use bandog_core::{Clock, Error, ErrorKind, Result};
use bandog_sync::Client;

use crate::{Job, Jobs, job::Task};

/// A scheduler to be: its jobs, its store, its pool.
#[derive(Default)]
#[must_use = "a scheduler does nothing until it is started"]
pub struct Scheduler {
    client: Option<Client>,
    pool: Option<NonZeroUsize>,
    drain: Option<Duration>,
    clock: Option<Clock>,
    tasks: Vec<Task>,
    faults: Vec<Error>,
}

impl Scheduler {
    /// A scheduler without a store: its jobs run in this process only, and what it knows ends with it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scheduler whose ticks run once in the whole cluster of schedulers over this store, under this client's prefix.
    pub fn over(client: &Client) -> Self {
        Self { client: Some(client.clone()), ..Self::default() }
    }

    /// How many runs this process may have at a time. Default 1, as Spring's. A job that waits for a place is told of in
    /// the log, with whom it waits for.
    pub fn pool(mut self, size: NonZeroUsize) -> Self {
        self.pool = Some(size);
        self
    }

    /// How long [`Running::stop`] lets runs go on before it cancels them. Default 30 s.
    pub fn drain(mut self, time: Duration) -> Self {
        self.drain = Some(time);
        self
    }

    /// The clock that it reads: for tests. Default the client's, without a store [`Clock::system`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// One more job.
    pub fn job(mut self, job: Job) -> Self {
        match job.ready() {
            Ok(task) => self.tasks.push(task),
            Err(fault) => self.faults.push(fault),
        }
        self
    }

    /// More jobs.
    pub fn jobs(self, jobs: impl IntoIterator<Item = Job>) -> Self {
        jobs.into_iter().fold(self, Self::job)
    }

    /// Registers the jobs with the store and begins to run them, as tasks of the current runtime.
    ///
    /// # Errors
    /// `Misused` for a job with a wrong value, for a name that comes twice, and outside a runtime; `Unavailable` when the
    /// store does not answer; `Unsupported` when it keeps no records.
    ///
    /// # Cancel safety
    /// Jobs may have been registered when the future is dropped; none of them runs.
    pub async fn start(self) -> Result<Running> {
        let Self { client, pool, drain, clock, tasks, faults } = self;
        let _ = (client, pool, drain, clock, tasks);
        if let Some(fault) = faults.into_iter().next() {
            return Err(fault);
        }
        Err(Error::new(ErrorKind::Unsupported, "schedules come with the next version"))
    }
}

/// A scheduler that runs, until it is stopped or dropped.
#[derive(Debug)]
pub struct Running {}

impl Running {
    /// Stops in order: claims nothing more, lets runs go on for the drain time, cancels them, drops them after their
    /// grace, and hands what has not ended to other nodes at once (or records it as interrupted: [`crate::OnCrash`]).
    ///
    /// # Errors
    /// `Unavailable` when the store could not be told: other nodes go on after the lease.
    ///
    /// # Cancel safety
    /// It stops even if the future is dropped after its first poll.
    pub async fn stop(self) -> Result<()> {
        Ok(())
    }

    /// Its jobs in the store, for operators; none without a store.
    pub fn jobs(&self) -> Option<Jobs> {
        None
    }
}
