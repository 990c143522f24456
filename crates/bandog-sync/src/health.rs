//! The health of a client and its store, for readiness probes.

use std::{fmt, time::Duration};

/// The health of a client and its store. Returned by [`Client::health`](crate::Client::health).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the store is reachable. This is true if three conditions are met: the store has answered the newest
    /// request, the store has not refused this client, and no ping has waited for its answer for half a second.
    pub reachable: bool,
    /// Time since the store's last answer. `None` if the store has never answered this client.
    pub last_answer: Option<Duration>,
    /// Time since the beginning of the present outage. An outage begins when a request fails. If a ping gets no answer,
    /// the outage began when that ping was sent. `None` if the store is reachable.
    pub away_for: Option<Duration>,
    /// The newest error of the present outage, without secrets. `None` if the store is reachable.
    pub error: Option<String>,
    /// Number of locks that this client holds, including lost locks whose guards still exist. The metric `bandog_holds`
    /// counts the same locks, for all clients of the process.
    pub holds: usize,
    /// Number of calls that wait for a lock.
    pub waiting: usize,
}

/// Writes one line for logs and operators.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.reachable { "the store answers" } else { "the store does not answer" })?;
        match self.last_answer {
            Some(age) if age < Duration::from_secs(1) => write!(f, " (last answer {} ms ago)", age.as_millis())?,
            Some(age) => write!(f, " (last answer {} s ago)", age.as_secs())?,
            None => f.write_str(" (no answer yet)")?,
        }
        write!(f, "; locks held: {}, calls waiting: {}", self.holds, self.waiting)?;
        match &self.error {
            Some(error) => write!(f, "; {error}"),
            None => Ok(()),
        }
    }
}
