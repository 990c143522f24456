//! The main trait of a backend, [`Leases`]: it claims, renews and releases locks, and notifies waiters.
//!
//! A backend only executes the calls of `bandog-sync`. It never waits for a lock, never renews a lock by itself, and
//! does not count re-entries.

use std::{fmt::Debug, num::NonZeroU32, time::Duration};

use async_trait::async_trait;

use crate::{
    Answer, Claim, ClientId, Error, ErrorKind, Fence, Holding, Key, Member, Notifier, Profile, Renewal, Result,
    SqlStatement, Step, Subscription,
};

/// Leases of keys. A lease is a lock that the store ends after the ttl, unless the client renews the lease.
///
/// A backend does no I/O when it is created. It connects when one of its calls is polled for the first time, and does
/// all its I/O on the Tokio runtime of that call.
///
/// Each call returns within [`Profile::timeout`], and can be repeated without harm. If the future of a call is dropped,
/// the backend might or might not apply the call. The backend applies calls in the order in which they were first
/// polled.
#[async_trait]
pub trait Leases: Debug + Send + Sync + 'static {
    /// Checks that the store answers, and connects to it if necessary.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the store does not answer, for example
    /// because the address is wrong. The kind is [`ErrorKind::Denied`](crate::ErrorKind::Denied) if the store refuses
    /// the user or the password.
    async fn ping(&self) -> Result<()>;

    /// Applies the steps, and returns one answer for each step in the same order.
    ///
    /// Each step is atomic, and the backend attempts each step once. Steps of the same key are applied in the order of
    /// `steps`.
    ///
    /// A grant can reserve fewer fences and last for a shorter time than the claim requested
    /// ([`Verdict::Granted`](crate::Verdict::Granted)).
    ///
    /// A step can be sent again. If a claim or a pass is sent again while its claim holds the key, the store grants the
    /// key again with the same fences, and the ttl starts anew. A release that is sent again changes nothing.
    ///
    /// An error reports whether the step might have been applied ([`crate::Error::maybe_applied`]). If the store
    /// refuses a step with an error, the step has changed nothing.
    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>>;

    /// Renews the claims, and returns one answer for each claim in the same order. A failure at one key does not affect
    /// the other keys.
    ///
    /// If a claim waits and has a place ([`Claim::joins`]), the renewal keeps the place for another [`crate::PLACE`]. For
    /// a claim of [`Kind::Fair`](crate::Kind::Fair), the answer also says whether the store can grant the claim now
    /// ([`Renewal::Waiting { is_next: true }`]).
    ///
    /// A renewal never shortens a hold: if the store keeps the hold for longer than the ttl of this claim, that time stays.
    /// This is also true for several renewals of one claim in one call.
    ///
    /// `Err` means that the state of the hold is unknown. If the store reports that the hold is lost, the answer is
    /// [`Renewal::Gone`].
    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>>;

    /// Calls `notifier` whenever the store might be ready to grant this claim. The calls end when the subscription is
    /// dropped.
    ///
    /// A client subscribes after the store has refused its claim, and repeats the claim later. The client keeps the
    /// subscription while any of its callers waits for the key, even if the client replaces the claim by another claim
    /// of the same key.
    ///
    /// A backend is allowed to notify at every release of `claim.key`. The other fields of `claim` are for a store that
    /// keeps a queue of claims: the backend of such a store can notify only the client whose claim is next.
    ///
    /// The backend must notify after every release that happens after this call has returned. It also notifies after
    /// each other step after which a claim may be granted ([`LockState::wakes_others`](crate::LockState::wakes_others)).
    /// The backend is also allowed to notify without a reason. If a broken connection might have dropped a notification,
    /// the backend notifies as soon as it is connected again. A backend without notifications returns
    /// [`Subscription::silent`], as this default implementation does. The waiters of such a backend poll the store at
    /// least once a second.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let _ = (claim, notifier);
        Ok(Subscription::silent())
    }

    /// Changes the number of permits of the semaphore `key` ([`Kind::Permits`](crate::Kind::Permits)), and notifies the
    /// waiting clients. Claims that name the number before the change are still accepted. Returns this number, or None if
    /// the semaphore is new.
    ///
    /// # Errors
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the backend has no semaphores, as this default
    ///   implementation.
    /// - [`ErrorKind::Denied`](crate::ErrorKind::Denied): a lock of another family holds the name.
    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        let _ = permits;
        Err(Error::new(ErrorKind::Unsupported, "this backend has no semaphores").during("set_limit").at(key))
    }

    /// Writes a client's row to the store's registry (the list of clients, for operators), and replaces the client's
    /// earlier row. The row expires after `ttl`.
    ///
    /// A backend without a registry does nothing.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        let _ = (member, ttl);
        Ok(())
    }

    /// Removes a client's row from the registry.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn deregister(&self, client: ClientId) -> Result<()> {
        let _ = client;
        Ok(())
    }

    /// A statement that checks in a transaction of the user that this claim holds its lock exclusively, and that keeps the
    /// store from granting the lock to another claim until the transaction ends. Renewals, releases, and steps of other
    /// keys go on meanwhile.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store is no database in which users
    /// have transactions, as in this default implementation.
    async fn fence_sql(&self, holding: &Holding, fence: Fence) -> Result<SqlStatement> {
        let _ = fence;
        Err(no_fence_sql(holding))
    }

    /// Waits until the work is done that the backend does by itself after its answers, but for at most this time, such as
    /// claims without a majority of a quorum, which are handed back. The client calls it before it ends, because its runtime
    /// can end at the same time. The default implementation has no such work.
    ///
    /// # Cancel safety
    /// If the future is dropped, the work may continue.
    async fn drain(&self, at_most: Duration) {
        let _ = at_most;
    }

    /// The properties of this backend.
    fn profile(&self) -> Profile;
}

/// The error of a store without transactions of users.
pub(crate) fn no_fence_sql(holding: &Holding) -> Error {
    let message = "this store has no transactions of users; send the fence with each write instead";
    Error::new(ErrorKind::Unsupported, message).during("fence").at(&holding.key)
}
