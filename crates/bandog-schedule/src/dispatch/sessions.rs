//! This node's sessions: renewed locks that prove that the node is alive. The jobs of a node can have leases of
//! different lengths. For each length, the node has one session, whose lock has a lease of this length.

use std::time::Duration;

use bandog_core::{Error, Holding, Result};
use bandog_sync::{Client, Guard};
use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time;

use super::store_event::SessionEvent;
use crate::records::SESSION_PREFIX;

/// Maximum number of sessions in the cluster. The locks of sessions are numbered from 1 to this number.
const MAX_SESSIONS: u32 = 10_000;
/// Delay before a failed attempt to claim a session is repeated.
const RETRY: Duration = Duration::from_millis(500);

/// The sessions of this node, one for each length of lease.
pub(super) struct Sessions {
    client: Client,
    sessions: Vec<Session>,
    /// Futures of the next events: the result of each claim in flight, and two events for each held session. These are
    /// the loss of the session, and the time shortly before its expiry.
    events: FuturesUnordered<BoxFuture<'static, SessionEvent>>,
}

/// A session that this node holds or is claiming.
struct Session {
    /// The length of the lease.
    lease: Duration,
    /// The lock and its claim. None while the session is being claimed.
    held: Option<(Guard, Holding)>,
    /// The runs of the session are cancelled this time before it expires.
    margin: Duration,
}

impl Sessions {
    pub(super) fn new(client: Client) -> Self {
        Self { client, sessions: Vec::new(), events: FuturesUnordered::new() }
    }

    /// This node's session for leases of this length. None if this node does not hold this session now. If the session
    /// is neither held nor being claimed, begins to claim it.
    pub(super) fn get(&mut self, lease: Duration) -> Option<Holding> {
        if let Some(session) = self.of(lease) {
            return session.held.as_ref().filter(|(guard, _)| !guard.is_lost()).map(|(_, holding)| holding.clone());
        }
        self.sessions.push(Session { lease, held: None, margin: expiry_margin(lease, lease) });
        self.claim(lease, Duration::ZERO);
        None
    }

    /// Whether this node holds this session.
    pub(super) fn holds(&self, holding: &Holding) -> bool {
        let held = self.sessions.iter().filter_map(|session| session.held.as_ref());
        held.filter(|(guard, _)| !guard.is_lost()).any(|(_, held)| held == holding)
    }

    /// The claimed sessions of this node with their leases. The result might include a session that has expired,
    /// because the node notices the expiry later.
    pub(super) fn all(&self) -> impl Iterator<Item = (Duration, &Holding)> {
        self.sessions.iter().filter_map(|session| Some((session.lease, &session.held.as_ref()?.1)))
    }

    /// Whether no session is held or being claimed.
    pub(super) fn is_idle(&self) -> bool {
        self.events.is_empty()
    }

    /// Handles the result of a claim. If the claim succeeded, keeps the session, watches for its expiry, and returns
    /// the session's holding. After an error, claims again.
    pub(super) fn keep(&mut self, lease: Duration, result: Result<Guard>) -> Result<Holding> {
        let guard = match result {
            Ok(guard) => guard,
            Err(error) => {
                self.claim(lease, RETRY);
                return Err(error);
            }
        };
        let holding = guard.holding();
        let margin = expiry_margin(lease, guard.remaining());
        self.watch(&guard, lease, holding.clone(), margin, Duration::ZERO);
        let (lost, then) = (guard.lost(), holding.clone());
        self.events.push(Box::pin(async move {
            lost.await;
            SessionEvent::Lost { lease, holding: then }
        }));
        if let Some(session) = self.sessions.iter_mut().find(|session| session.lease == lease) {
            (session.held, session.margin) = (Some((guard, holding.clone())), margin);
        }
        Ok(holding)
    }

    /// Watches a session again. The session was close to its expiry, but a renewal might still save it.
    pub(super) fn watch_again(&self, lease: Duration, holding: &Holding) {
        let Some(session) = self.of(lease) else { return };
        if let Some((guard, _)) = session.held.as_ref().filter(|(_, held)| held == holding) {
            self.watch(guard, lease, holding.clone(), session.margin, session.margin);
        }
    }

    /// Drops a session that has expired, and begins to claim a new session.
    pub(super) fn replace(&mut self, lease: Duration, holding: &Holding) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.lease == lease) else { return };
        if session.held.as_ref().is_some_and(|(_, held)| held == holding) {
            session.held = None;
            self.claim(lease, Duration::ZERO);
        }
    }

    /// Releases every session, so that the other nodes see immediately that this node has stopped.
    pub(super) async fn release_all(&mut self) -> Result<()> {
        self.events.clear();
        let mut result = Ok(());
        for session in self.sessions.drain(..) {
            let Some((guard, _)) = session.held else { continue };
            let released = guard.release().await;
            result = result.and(released);
        }
        result
    }

    /// The next event, or none if no claim is in flight and no session is held.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub(super) async fn next_event(&mut self) -> Option<SessionEvent> {
        self.events.next().await
    }

    /// This node's session for leases of this length. This node might still be claiming the session.
    fn of(&self, lease: Duration) -> Option<&Session> {
        self.sessions.iter().find(|session| session.lease == lease)
    }

    /// Begins to claim a session after this delay.
    fn claim(&self, lease: Duration, delay: Duration) {
        let client = self.client.clone();
        self.events.push(Box::pin(async move {
            if !delay.is_zero() {
                time::sleep(delay).await;
            }
            SessionEvent::Claimed { lease, result: claim_lowest_free(&client, lease).await }
        }));
    }

    /// Adds the event that the session expires within `margin`. The watch begins after this delay.
    fn watch(&self, guard: &Guard, lease: Duration, holding: Holding, margin: Duration, delay: Duration) {
        let expiring = guard.expiring(margin);
        self.events.push(Box::pin(async move {
            if !delay.is_zero() {
                time::sleep(delay).await;
            }
            expiring.await;
            SessionEvent::Expiring { lease, holding }
        }));
    }
}

/// The time between the cancellation of the runs of a session and its expiry. ZooKeeper grants a lock for less than its own
/// session, which can be much less than the lease, and the lock is renewed more often. With the margin of the lease, the runs
/// would be cancelled between two renewals.
fn expiry_margin(lease: Duration, valid_for: Duration) -> Duration {
    // A store that grants the whole lease has needed some of it for its answer.
    let granted = if valid_for >= lease * 3 / 4 { lease } else { valid_for };
    (granted / 6).min(Duration::from_secs(5))
}

/// Claims the session lock with the lowest free number. So no number is greater than the maximum number of sessions
/// that were ever held at the same time.
async fn claim_lowest_free(client: &Client, lease: Duration) -> Result<Guard> {
    for number in 1..=MAX_SESSIONS {
        let lock = client.mutex(format!("{SESSION_PREFIX}{number}")).watchdog(lease).quiet();
        if let Some(guard) = lock.try_lock().await? {
            return Ok(guard);
        }
    }
    Err(Error::unavailable(format!("all {MAX_SESSIONS} sessions of nodes are held")))
}
