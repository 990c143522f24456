//! Jobs from outside: for operators, the command and the page. No scheduler need run in this process.

use bandog_core::{Error, ErrorKind, Pattern, Result};
use bandog_cron::Time;
use bandog_sync::Client;

use crate::{JobRow, RunRow};

/// The jobs of a store: what they are, what they did, and words to them. Cheap to clone.
///
/// Nodes notice a word within a second.
#[derive(Debug, Clone)]
pub struct Jobs {
    client: Client,
}

impl Jobs {
    /// The jobs of this client's store, under its prefix.
    pub fn over(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// The jobs whose names match, sorted by name.
    ///
    /// # Errors
    /// As [`bandog_core::Records::read`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list(&self, pattern: &Pattern) -> Result<Vec<JobRow>> {
        let _ = (pattern, &self.client);
        Err(later())
    }

    /// One job.
    ///
    /// # Errors
    /// `Misused` when the store knows no such job, with names that are near; else as [`Jobs::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn show(&self, name: &str) -> Result<JobRow> {
        let _ = name;
        Err(later())
    }

    /// What became of its runs, the latest first: those that wait or run, then the last 50 that ended well, the last 50
    /// that did not, and the last 50 ranges of ticks that did not run.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn history(&self, name: &str) -> Result<Vec<RunRow>> {
        let _ = name;
        Err(later())
    }

    /// Runs it now, beside its ticks, after those that wait already; also while it is paused or disabled. Gives the
    /// run's number.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn run(&self, name: &str) -> Result<u64> {
        let _ = name;
        Err(later())
    }

    /// Stops its ticks until [`Jobs::resume`]. What runs goes on.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn pause(&self, name: &str, reason: &str) -> Result<()> {
        let _ = (name, reason);
        Err(later())
    }

    /// Lets its ticks run again from now on; those in between are recorded as skipped. False: it was not paused.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn resume(&self, name: &str) -> Result<bool> {
        let _ = name;
        Err(later())
    }

    /// Cancels a run that waits or runs, or all of them. Gives the numbers of those that were told.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn cancel(&self, name: &str, run: Option<u64>) -> Result<Vec<u64>> {
        let _ = (name, run);
        Err(later())
    }

    /// Runs the ticks from `from` to `to`, both included, one after the other, whether they ran before or not. Gives how
    /// many they are: at most 10,000.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` for a range without ticks, with too many, or in the future.
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn backfill(&self, name: &str, from: Time, to: Time) -> Result<u64> {
        let _ = (name, from, to);
        Err(later())
    }

    /// Forgets a job and its history. A node that still has it registers it again at its next start.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` while it runs.
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn forget(&self, name: &str) -> Result<()> {
        let _ = name;
        Err(later())
    }
}

fn later() -> Error {
    Error::new(ErrorKind::Unsupported, "schedules come with the next version")
}
