//! The main trait of a backend, [`Leases`]: it claims, renews and releases locks, and notifies waiters.
//!
//! A backend only executes the calls of `bandog-sync`. It never waits for a lock, never renews a lock by itself, and
//! does not count re-entries.

use std::{fmt::Debug, num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{
    Claim, ClientId, Error, ErrorKind, Fence, Fences, Holding, Inspect, Key, Kind, Kinds, Latches, LockState, Member,
    Notifier, Result, SqlDialect, SqlStatement, Subscription,
};

/// One step of [`Leases::apply`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Grants the key to this claim, if no other claim holds it. If this claim holds the key already, its hold lasts for
    /// the ttl of this step, or longer if it lasted longer before. A quorum sends such a claim with a shorter ttl.
    Claim(Claim),
    /// Frees the key and notifies its subscribers, if this claim holds it. If the claim has a place ([`Claim::joins`]),
    /// the step removes the place.
    Release(Claim),
    /// Passes the key from one claim to another claim of the same key. This is one atomic step, and the subscribers are
    /// not notified. If `from` does not hold the key, the step is an ordinary claim of `to`.
    ///
    /// Both claims are of the same kind, or of the same number of permits. Exception: a pass from [`Kind::Write`] to
    /// [`Kind::Read`] is a *downgrade*. It notifies the subscribers, because other readers can get the key now. Any
    /// other pass, and each pass of [`Kind::Fair`], is refused with [`ErrorKind::Misused`](crate::ErrorKind::Misused).
    Pass {
        /// The claim that holds the key. It is boxed, because passes are rare and each step should be small.
        from: Box<Claim>,
        /// The claim that gets the key.
        to: Claim,
    },
}

impl Step {
    /// The key of the step.
    pub fn key(&self) -> &Key {
        match self {
            Self::Claim(claim) | Self::Release(claim) | Self::Pass { to: claim, .. } => &claim.key,
        }
    }

    /// The kind of the lock. Each backend has a `match` over all kinds. So if a kind is added, a backend that does not
    /// handle the new kind no longer compiles.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Claim(claim) | Self::Release(claim) | Self::Pass { to: claim, .. } => claim.kind,
        }
    }

    /// The verb of the step in error messages.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Release(_) => "release",
            Self::Pass { .. } => "pass",
        }
    }
}

/// The answer to a [`Step`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The answer to a claim or a pass.
    Claimed(Verdict),
    /// The answer to a release.
    Released(Released),
}

/// The answer to a claim or a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// This claim holds the key.
    Granted {
        /// The fences that the grant reserved: at least one, and at most as many as the claim requested. If a claim is
        /// sent again, it gets the same fences.
        fences: Fences,
        /// The duration of the hold, counted from the beginning of the call. It is at most the requested ttl, and can
        /// be shorter. During this time, the store does not grant the key to another claim, with two exceptions. The
        /// first exception is a hold that is released, passed to another claim ([`Step::Pass`]) or evicted. The second
        /// exception is a store that loses its data.
        valid_for: Duration,
        /// The claims of the same client that directly follow this claim in the queue of a fair mutex, in the order of
        /// the queue: no claim of another client is between them. Each number is the number of a claim id. A store can
        /// leave out claims at the end of this list. For other kinds of locks, and for a claim that is sent again, the
        /// list is empty.
        followers: Vec<u64>,
    },
    /// Another claim holds the key.
    Busy {
        /// The time after which the store can perhaps grant the claim although nothing is released: because a hold
        /// expires that is not renewed, or because the place of another claim expires. If the hold never expires, the
        /// value is one second.
        retry_after: Duration,
        /// The number of claims before this claim in the queue of the lock. None if the lock has no queue, or if the
        /// claim has no place in the queue ([`Claim::joins`]).
        ahead: Option<u32>,
    },
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The hold is extended.
    Extended {
        /// The new duration of the hold, counted from the beginning of the call, as in [`Verdict::Granted`]. It can be
        /// shorter than the requested ttl, and can differ from the duration in the grant or in an earlier renewal.
        valid_for: Duration,
    },
    /// This claim does not hold the key. It waits, and its place ([`Claim::joins`]) is kept for another [`crate::PLACE`].
    /// So a client that believes that the claim holds the key has lost the hold.
    Waiting {
        /// Whether the claim is the first one of the queue of a fair mutex, and no claim holds the lock. Then the store
        /// grants the lock if the claim is sent again now. This is necessary when the places of the claims before this
        /// claim expire: no release notifies the client then.
        is_next: bool,
    },
    /// This claim does not hold the key, and has no place ([`Claim::joins`]). The store changed nothing.
    Gone,
}

impl Renewal {
    /// The time for which the hold or the place of the claim is valid. None if the claim has neither.
    pub fn valid_for(self) -> Option<Duration> {
        match self {
            Self::Extended { valid_for } => Some(valid_for),
            Self::Waiting { .. } => Some(crate::PLACE),
            Self::Gone => None,
        }
    }
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The key is free, and its subscribers have been notified.
    Freed {
        /// The number of notified clients. The client that released the key is not counted. None if the backend does
        /// not know the number.
        others: Option<u32>,
    },
    /// This claim did not hold the key, but had a place ([`Claim::joins`]). The store has removed the place. If another
    /// claim is the next one now, its subscriber has been notified.
    LeftQueue,
    /// This claim did not hold the key, and had no place. The store changed nothing.
    NotHeld,
}

impl Released {
    /// The answer of a backend that does not count the waiting clients, but knows whether there may be any: the release has
    /// notified some, or the backend cannot notify them.
    pub fn freed(may_have_waiters: bool) -> Self {
        Self::Freed { others: (!may_have_waiters).then_some(0) }
    }
}

/// The properties of a backend.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The address or path of the store, without secrets.
    pub store: String,
    /// Maximum duration of one request. A request without an answer returns an error after this time.
    pub timeout: Duration,
    /// The kinds of locks that the backend supports. `bandog-sync` refuses to create a lock of any other kind, so the
    /// backend gets claims of these kinds only.
    pub kinds: Kinds,
    /// The kinds of locks whose hold stays in the store until its ttl has passed, also if the client and its connections have
    /// ended. Then any client can renew or release the hold, if it knows the id of the claim.
    pub outlive_clients: Kinds,
    /// Whether the backend has records ([`crate::Records`]). Elections, barriers and jobs need them.
    pub has_records: bool,
    /// Whether fences continue to rise after the store has failed over to a replica.
    pub fence_survives_failover: bool,
    /// The time for which a failover or a crash of the store can undo a step after its answer. After a reconnection, the
    /// client sends the releases of this time again. Zero if the store undoes nothing.
    pub may_undo: Duration,
    /// The database whose transactions can check a lock ([`Leases::fence_sql`]). None if the store has no such transactions.
    pub checks_locks_in: Option<SqlDialect>,
    /// The database whose transactions can complete a run of a job ([`crate::Records::mark_sql`]).
    pub completes_runs_in: Option<SqlDialect>,
    /// The clock that decides when a lease expires, as text for messages.
    pub expiry: &'static str,
    /// Maximum number of steps in one call of [`Leases::apply`]. The answers to the steps of a call come together. So a
    /// backend whose grants are answered much later than its other answers sets 1: then no answer waits for a grant.
    pub max_steps: usize,
    /// The number of connections that the backend has made until now. When the backend makes a new connection, the
    /// store might have lost its data, for example in a restart. So the client renews its locks when the number rises.
    pub epoch: watch::Receiver<u64>,
}

impl Profile {
    /// The usual value of [`Profile::max_steps`]. In a larger call, the first steps would wait too long for the others.
    pub const MAX_STEPS: usize = 32;

    /// The profile of a backend that uses no network, and that leaves all decisions to [`LockState`]. The timeout is
    /// 3 s, and the machine's clock decides when leases expire.
    pub fn of_this_machine(store: impl Into<String>) -> Self {
        Self {
            store: store.into(),
            timeout: Duration::from_secs(3),
            kinds: LockState::KINDS,
            outlive_clients: LockState::KINDS,
            has_records: true,
            fence_survives_failover: true,
            may_undo: Duration::ZERO,
            checks_locks_in: None,
            completes_runs_in: None,
            expiry: "this machine's clock",
            max_steps: Self::MAX_STEPS,
            epoch: watch::channel(1).1,
        }
    }
}

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
    /// A grant can reserve fewer fences and last for a shorter time than the claim requested ([`Verdict::Granted`]).
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
    /// a claim of [`Kind::Fair`], the answer also says whether the store can grant the claim now ([`Renewal::Waiting { is_next: true }`]).
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
    /// each other step after which a claim can perhaps be granted ([`LockState::wakes_others`]). The backend is also
    /// allowed to notify without a reason. If a broken connection might have dropped a notification, the backend
    /// notifies as soon as it is connected again. A backend without notifications returns [`Subscription::silent`], as
    /// this default implementation does. The waiters of such a backend poll the store at least once a second.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let _ = (claim, notifier);
        Ok(Subscription::silent())
    }

    /// Changes the number of permits of the semaphore `key` ([`Kind::Permits`]), and notifies the waiting clients.
    /// Claims that name the number before the change are still accepted. Returns this number, or None if the semaphore is
    /// new.
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
    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        let _ = (member, ttl);
        Ok(())
    }

    /// Removes a client's row from the registry.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn withdraw(&self, client: ClientId) -> Result<()> {
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

    /// The time for which the store has kept all its data, at least. A quorum needs it: a store that has lost its data is
    /// not asked for locks until the lost holds have expired. For a server, it is the time since the start.
    ///
    /// # Errors
    /// As [`Leases::ping`]. The kind is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the backend does not
    /// know the time, as in this default implementation, and [`ErrorKind::Denied`](crate::ErrorKind::Denied) if the
    /// server hides it.
    async fn uptime(&self) -> Result<Duration> {
        Err(Error::new(ErrorKind::Unsupported, "this backend does not know how long the store has kept its data"))
    }

    /// Returns the text of a setting that all clients of the store share. If the store has no text for this name and
    /// `text` is given, the store first keeps this text. A text is never replaced. A quorum needs it: its clients compare
    /// their options.
    ///
    /// # Errors
    /// As [`Leases::ping`]. The kind is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the backend keeps no
    /// settings, as in this default implementation.
    async fn setting(&self, name: &str, text: Option<&str>) -> Result<Option<String>> {
        let _ = (name, text);
        Err(Error::new(ErrorKind::Unsupported, "this backend keeps no settings"))
    }

    /// Waits until the work is done that the backend does by itself after its answers, but for at most this time. The client
    /// calls it before it ends, because its runtime can end at the same time. A quorum needs it: claims without a majority
    /// are handed back after the answer. The default implementation has no such work.
    ///
    /// # Cancel safety
    /// If the future is dropped, the work perhaps continues.
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

/// A complete backend: leases, inspection, records and latches.
pub trait Backend: Leases + Inspect + Latches {}

impl<B: Leases + Inspect + Latches> Backend for B {}
