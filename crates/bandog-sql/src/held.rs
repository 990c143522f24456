//! The modes `rowlock` and `advisory`: while a claim holds a lock, a session of the database holds it, too. So locks that
//! other programs take in their own sessions exclude those of bandog.
//!
//! The lease stays: it decides between clients of bandog, and has the fence, the time of expiry and the waiters. A claim
//! takes the lock of the database first, and then the lease. It is granted if it got both.
//!
//! A keeper is the task of one name. It owns the session, and sees at once if the session ends.

pub(crate) mod check;
mod keeper;
mod lock;
mod sessions;
mod steps;

use std::sync::Arc;

use bandog_core::{Claim, ClaimId, Error, Key, Result, rounded};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

use self::sessions::Command;
pub(crate) use self::sessions::Held;
use crate::context::Context;

/// The steps of a call, which are answered together. The value is whether one of its claims is granted: its caller must not
/// wait until other claims have a connection, because it may use the connection for which they wait.
pub(crate) struct Batch(watch::Sender<bool>);

impl Batch {
    fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    fn set_granted(&self) {
        self.0.send_replace(true);
    }
}

impl Held {
    /// Takes the lock of the database for this claim, or extends it. `from` is a claim that passes the lock on. Returns
    /// whether the claim has the lock. As soon as another claim of its `batch` is granted, it waits for no connection.
    ///
    /// # Cancel safety
    /// If the future is dropped, the claim may have the lock, until it is freed or its ttl has passed.
    pub(crate) async fn take(
        self: &Arc<Self>,
        context: &Arc<Context>,
        claim: &Claim,
        from: Option<ClaimId>,
        batch: &Batch,
    ) -> Result<bool> {
        let (id, ttl, granted) = (claim.id, claim.ttl, batch.0.subscribe());
        self.ask(context, &claim.key, |reply| Command::Take { id, from, ttl, granted, reply }).await?
    }

    /// Extends the time for which the claim has the lock. Returns whether it has the lock.
    ///
    /// # Cancel safety
    /// As [`Held::take`].
    pub(crate) async fn extend(self: &Arc<Self>, context: &Arc<Context>, claim: &Claim) -> Result<bool> {
        let (id, ttl) = (claim.id, claim.ttl);
        self.ask(context, &claim.key, |reply| Command::Extend { id, ttl, reply }).await?
    }

    /// Frees the lock, if this claim has it. Returns whether its session had it until now.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is freed nevertheless.
    pub(crate) async fn free(self: &Arc<Self>, context: &Arc<Context>, claim: &Claim) -> Result<bool> {
        let id = claim.id;
        self.ask(context, &claim.key, |reply| Command::Free { id, reply }).await
    }

    /// Sends a command to the keeper of a name, and waits for the answer.
    async fn ask<T>(
        self: &Arc<Self>,
        context: &Arc<Context>,
        key: &Key,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let start = |commands| keeper::start(self.clone(), context.clone(), key.clone(), commands);
        self.send(key, command(reply), start)?;
        let limit = context.options.timeout;
        match timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Error::unavailable("the Tokio runtime of the session has shut down").ambiguous()),
            Err(_) => {
                let message = format!("{} did not answer within {}", context.options.store(), rounded(limit));
                Err(Error::unavailable(message).ambiguous())
            }
        }
    }
}
