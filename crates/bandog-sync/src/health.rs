//! The health of a client and its store, for readiness probes.

use std::{fmt, time::Duration};

use bandog_core::Result;

use crate::{Client, engine::Msg};

/// The health of a client and its store; made by [`Client::health`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the store answered the newest request and did not refuse this client, and no ping has waited for half a
    /// second for its answer.
    pub reachable: bool,
    /// Time since the store's last answer; none if it has never answered this client.
    pub last_answer: Option<Duration>,
    /// Time since the first request of the present outage failed, or since the ping was sent that has no answer; none
    /// while the store is reachable.
    pub away_for: Option<Duration>,
    /// The newest error of the present outage, without secrets; none while the store is reachable.
    pub error: Option<String>,
    /// Number of locks that this client holds, with lost ones whose guards still live: the metric `bandog_holds`.
    pub holds: usize,
    /// Number of calls that wait for a lock.
    pub waiting: usize,
}

impl Client {
    /// The health of this client and its store. Cheap enough for readiness probes: the client answers from the results
    /// of its other requests within the last second. Otherwise it sends one ping, at most one a second for all callers.
    ///
    /// It answers within half a second (a request timeout that is shorter, if there is one). A store that has not
    /// answered the ping by then is not reachable until its next answer.
    ///
    /// An outage of the store is not a reason to restart a process: its locks are held until their deadlines, and
    /// waiting calls continue when the store answers again. So use it for readiness, not for liveness.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// let health = client.health().await?;
    /// let status = if health.reachable { 200 } else { 503 };
    /// println!("{status}: {health}"); // 200: the store answers (last answer 0 ms ago); locks held: 0, calls waiting: 0
    /// # assert_eq!(status, 200);
    /// # client.close().await }
    /// ```
    ///
    /// # Errors
    /// `Closed` after [`Client::close`]. A store that does not answer is no error: [`Health::reachable`] is false.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn health(&self) -> Result<Health> {
        self.request(Msg::CheckHealth).await
    }
}

/// A line for logs and operators.
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
