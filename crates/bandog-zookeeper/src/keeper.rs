//! The background task of a session: it deletes nodes that are no longer needed, and reports what happens to the
//! session.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{
    select,
    time::{Instant, sleep_until},
};
use zookeeper_client::SessionState;

use crate::{host::Shared, session::Session, table::Node};

/// Delay before a deletion that had no answer is repeated.
const RETRY: Duration = Duration::from_millis(200);
/// Maximum interval between two checks of the table.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// Runs until the session ends, or until the backend is dropped.
pub(crate) async fn keep(session: Arc<Session>, backend: Weak<Shared>) {
    let mut states = session.client.state_watcher();
    let mut retry_at = None;
    loop {
        let Some(shared) = backend.upgrade() else { return };
        if !shared.uses(&session) {
            return; // The backend has closed the session, or has another one.
        }
        let due = shared.table.next_due().unwrap_or_else(|| Instant::now() + MAX_SLEEP);
        // After a deletion without an answer, all that is due waits for the repetition.
        let due = retry_at.take().unwrap_or(due);
        let table = Arc::clone(&shared.table);
        drop(shared); // So that this task does not keep the backend alive.
        select! {
            state = states.changed() => {
                let Some(shared) = backend.upgrade() else { return };
                match state {
                    SessionState::SyncConnected => shared.connected_again(),
                    SessionState::Disconnected | SessionState::ConnectedReadOnly => read_certificates(&session).await,
                    SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => {
                        return shared.session_ended(&session);
                    }
                }
            }
            () = table.wake.notified() => {}
            () = sleep_until(due) => {}
        }
        let Some(shared) = backend.upgrade() else { return };
        if !shared.uses(&session) {
            return;
        }
        shared.table.is_tidying.send_replace(true);
        if !shared.tidy(&session).await {
            retry_at = Some(Instant::now() + RETRY);
        }
        shared.table.is_tidying.send_replace(false);
    }
}

/// Reads the files for TLS again, so that the next connection uses certificates that were renewed meanwhile.
async fn read_certificates(session: &Session) {
    let Some(certificates) = &session.certificates else { return };
    if let Err(error) = certificates.read_again().await {
        tracing::warn!(target: "bandog", %error, "the present certificates for TLS stay in use");
    }
}

impl Shared {
    /// Deletes the nodes of expired holds, and the queued nodes of lines without subscribers. Returns false if a
    /// deletion had no answer.
    async fn tidy(&self, session: &Session) -> bool {
        let expired = self.table.due(Instant::now()).into_iter().map(async |(id, line)| {
            let _turn = self.turn(&line).await;
            // The hold may have been renewed or released meanwhile.
            let Some(node) = self.table.take_due(id, Instant::now()) else { return true };
            self.delete_or_suspect(session, node).await
        });
        let left = self.table.left().into_iter().map(async |line| {
            let _turn = self.turn(&line).await;
            // First, so that a subscriber that is lost during the deletion is seen in the next round.
            self.table.has_tidied(&line);
            let unused = self.table.queued(&line).filter(|_| !self.table.has_subscribers(&line));
            if let Some(node) = unused
                && self.settle_queued(session, node).await.is_err()
            {
                self.table.put_back(line);
                return false;
            }
            true
        });
        let suspects = self.table.due_suspects(Instant::now());
        let suspects = suspects.into_iter().map(async |node| self.delete_or_suspect(session, node).await);
        let (expired, left, suspects) = futures_util::join!(join_all(expired), join_all(left), join_all(suspects));
        expired.into_iter().chain(left).chain(suspects).all(|is_done| is_done)
    }

    /// Deletes a node that the table does not have any more. If there is no answer, the deletion is repeated.
    async fn delete_or_suspect(&self, session: &Session, node: Node) -> bool {
        let is_deleted = self.delete(session, &node).await.is_ok();
        if !is_deleted {
            self.table.suspect(node);
        }
        is_deleted
    }
}
