//! The health of a client and its store, for readiness probes.

use std::{fmt, time::Duration};

use bandog_core::Result;

use crate::{Client, engine::Msg};

/// The health of a client and its store. Returned by [`Client::health`].
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

impl Client {
    /// Reports the health of this client and its store. This call is cheap enough for readiness probes. If the store
    /// has answered any request within the last second, the client uses that result. Otherwise the client sends a ping,
    /// at most one per second for all callers.
    ///
    /// This call returns within half a second, or within one request timeout if that is shorter. If the store has not
    /// answered the ping by then, the store counts as not reachable until its next answer.
    ///
    /// Use this call for readiness probes, not for liveness probes. An outage of the store is no reason to restart a
    /// process: the process keeps its locks until their deadlines, and its waiting calls continue when the store
    /// answers again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// let health = client.health().await?;
    /// let status = if health.reachable { 200 } else { 503 };
    /// // Prints "200: the store answers (last answer 0 ms ago); locks held: 0, calls waiting: 0".
    /// println!("{status}: {health}");
    /// # assert_eq!(status, 200);
    /// # client.close().await }
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Closed` after [`Client::close`]. It is no error if the store does not answer: [`Health::reachable`]
    /// is false then.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn health(&self) -> Result<Health> {
        self.request(Msg::CheckHealth).await
    }
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
