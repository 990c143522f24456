//! How a guard leaves its lock in the store.

use std::sync::Arc;

use bandog_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use super::Guard;
use crate::{Token, engine::Msg};

impl<S> Guard<S> {
    /// Leaves a fixed lease ([`crate::Mutex::lease`]) in the store, so that another process can release it. The lock then
    /// stays held until [`Client::release_detached`](crate::Client::release_detached) is called with the token or the lease
    /// has expired, also if this client is closed or its process has ended.
    ///
    /// From now on nothing watches the lock: no guard is lost when the lease expires. Only the fence of the token
    /// distinguishes a late writer from the next holder. The token is no secret: `bandog show` prints the id in it. It
    /// prevents that a release frees a later hold.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// let guard = client.mutex("deploy").lease(Duration::from_secs(3600)).lock().await?;
    /// let token = guard.detach().await?.to_string(); // to another process
    ///
    /// let token: bandog::Token = token.parse()?;
    /// assert!(client.show("deploy").await?.is_held());
    /// assert!(client.release_detached("deploy", &token).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// After an error, the lock is released as by the drop of the guard.
    /// - `ErrorKind::Lost`: the lock was lost before.
    /// - `ErrorKind::Misused`: the lock has a watchdog, or other guards of this client share it.
    /// - `ErrorKind::Unsupported`: the store keeps such a lock only while its client renews it
    ///   ([`StoreProfile::detachable`](crate::StoreProfile::detachable)).
    /// - `ErrorKind::Unavailable`: the store has not answered an earlier request of this lock, and may still apply it.
    /// - `ErrorKind::Closed`: the client was closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released. If the client has detached the lock at the same moment, the lock stays
    /// held until its lease expires.
    pub async fn detach(self) -> Result<Token> {
        self.check_held()?;
        let (key, token) = (self.turn.key().clone(), Token::of(self.turn.kind, self.holding().id, self.fence()));
        let with_key = |error: Error| error.during("detach").at(&key);
        let kinds = self.handle.profile.detachable;
        if !kinds.contains(token.kind()) {
            let message = format!("{} keeps such a lock only while its client renews it", self.handle.store());
            return Err(with_key(Error::new(ErrorKind::Unsupported, message)));
        }
        let Some(turn) = Arc::into_inner(self.turn) else {
            return Err(with_key(Error::misused(
                "other guards of this owner share the lock, so it cannot be detached",
            )));
        };
        let (report, answer) = oneshot::channel();
        let (slot, hold, ticket) = (turn.slot.clone(), turn.hold, turn.ticket);
        self.handle.send(Msg::Detach { slot, hold, ticket, report })?;
        // The turn is kept until the answer. Its drop releases a lock that is not detached.
        match answer.await {
            Ok(detached) => detached.map(|()| token).map_err(with_key),
            Err(_) => turn.check_held().and(Err(Error::closed().at(&key))),
        }
    }
}
