//! Several locks at once: all of them or none.
//!
//! # No deadlock
//! A call waits for a lock only while it holds no lock of any other client. The locks of one client are taken in the
//! order of their keys. So if a call waits for a key, all keys that it holds are in the same store and are smaller. A
//! cycle of calls that wait for each other would need a call that waits for a smaller key than one that it holds, so
//! there is no such cycle. Locks that a caller holds in another way, such as a guard of an earlier call, are not part
//! of this argument.
//!
//! # No livelock
//! The locks of the other clients are taken without a wait. If one of them is refused, the call releases everything,
//! and next waits for the locks of the client that was refused. A refusal means that another call holds the lock at
//! that moment, so some call progresses, unless calls only refuse each other in turn. Two calls could do this only by
//! moving in step. So from the second refusal on, the call waits for a random time, which grows up to [`MAX_BACKOFF`],
//! before it starts again. So two calls stay in step only with a probability that decreases exponentially.

mod guard;

use std::{marker::PhantomData, time::Duration};

use bandog_core::{Error, Moment, Result};

pub use self::guard::AllGuard;
use crate::{
    ExclusiveHold, Guard, Mutex, RwLock, Semaphore, SharedHold,
    handle::Handle,
    lock::Lock,
    pause::{check_limit, check_timer, pause},
};

/// Maximum time between a refusal and the next attempt of a call whose locks belong to several clients.
const MAX_BACKOFF: Duration = Duration::from_millis(50);

/// Several locks that are taken together: all of them or none. They can have any names, and can belong to different
/// clients, so that they can be in different stores.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let client = bandog::connect("memory:").await?;
/// let (from, to) = (client.mutex("account-7"), client.mutex("account-3"));
/// let guard = bandog::all([from, to]).lock().await?;
/// let [debit, credit] = guard.fences()[..] else { unreachable!() }; // in the order of the arguments
/// # let _ = (debit, credit);
/// guard.release().await
/// # }
/// ```
///
/// Two calls with the same locks in opposite orders cannot deadlock. The locks of one client are taken in the order of
/// their names. If the locks belong to several clients, the call waits only while it holds no lock of another client:
/// if a lock is held by another caller, the call releases all of its locks, waits for that lock first, and then takes
/// the others again. Random delays after repeated refusals ensure that two such calls do not refuse each other forever.
///
/// While a call waits for a lock, it keeps the locks of the same client that it has got already. So if the holder of one
/// lock hangs, callers that need only the others wait, too. If that is too long, use [`All::try_lock_for`]: at its limit,
/// the call releases all that it has.
///
/// Locks of different kinds are passed as [`AnyLock`] values:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// # let client = bandog::connect("memory:").await?;
/// use bandog::AnyLock;
/// let (catalogue, gpus) = (client.rwlock("catalogue"), client.semaphore("gpu", 5).permits(2));
/// let guard = bandog::all([AnyLock::read(&catalogue), gpus.into(), client.mutex("orders").into()]).lock().await?;
/// # guard.release().await
/// # }
/// ```
///
/// If the list is empty, or names the same lock twice, each call that locks returns `ErrorKind::Misused`.
///
/// If all locks are mutexes or locks of writers, the guard is an `AllGuard<ExclusiveHold>`, and a transaction can check it
/// ([`AllGuard::fence_sql`]). With a reader or permits in the list, it is an `AllGuard<SharedHold>`.
pub fn all<S>(locks: impl IntoIterator<Item = impl IntoAnyLock<AnyLock = AnyLock<S>>>) -> All<S> {
    All::of(locks.into_iter().map(|lock| lock.into_any_lock().lock).collect())
}

/// A lock of any kind, for [`all`]. `S` says whether other holders can have the lock at the same time. If the locks of a list
/// differ in this, the list is one of `AnyLock<SharedHold>`, to which each lock converts:
/// `[AnyLock::from(permits), AnyLock::write(&catalogue).into()]`.
#[derive(Debug, Clone)]
pub struct AnyLock<S = SharedHold> {
    pub(crate) lock: Lock,
    sharing: PhantomData<fn() -> S>,
}

impl<S> AnyLock<S> {
    pub(crate) fn of(lock: Lock) -> Self {
        Self { lock, sharing: PhantomData }
    }
}

impl AnyLock {
    /// A read-write lock that is taken as a reader.
    pub fn read(lock: &RwLock) -> Self {
        Self::of(lock.read.clone())
    }
}

impl AnyLock<ExclusiveHold> {
    /// A read-write lock that is taken as a writer. The guard of such a lock cannot be downgraded.
    pub fn write(lock: &RwLock) -> Self {
        Self::of(lock.write.clone())
    }
}

/// A value that [`all`] takes: a mutex, a semaphore, a reference to one of them, or an [`AnyLock`].
pub trait IntoAnyLock {
    /// The type of the lock.
    type AnyLock;

    /// The lock.
    fn into_any_lock(self) -> Self::AnyLock;
}

impl<S> IntoAnyLock for AnyLock<S> {
    type AnyLock = Self;

    fn into_any_lock(self) -> Self {
        self
    }
}

/// Converts a type of locks, and references to it, to an `AnyLock` of each of these sharings. [`all`] takes it with the
/// first one. An `AnyLock` is made with the function `of`.
macro_rules! any_lock {
    ($Lock:ty, $lock:ident => $inner:expr, $Sharing:ty $(, $Other:ty)?) => {
        $crate::all::any_lock!(@into $Lock, $Sharing);
        $crate::all::any_lock!(@into &$Lock, $Sharing);
        $crate::all::any_lock!(@from $Lock, $lock => $inner, $Sharing);
        $($crate::all::any_lock!(@from $Lock, $lock => $inner, $Other);)?
    };
    (@into $Lock:ty, $Sharing:ty) => {
        impl $crate::IntoAnyLock for $Lock {
            type AnyLock = AnyLock<$Sharing>;

            fn into_any_lock(self) -> Self::AnyLock {
                self.into()
            }
        }
    };
    (@from $Lock:ty, $lock:ident => $inner:expr, $Sharing:ty) => {
        impl From<&$Lock> for AnyLock<$Sharing> {
            fn from($lock: &$Lock) -> Self {
                Self::of($inner.clone())
            }
        }

        impl From<$Lock> for AnyLock<$Sharing> {
            fn from(lock: $Lock) -> Self {
                (&lock).into()
            }
        }
    };
}

pub(crate) use any_lock;

any_lock!(Mutex, mutex => mutex.lock, ExclusiveHold, SharedHold);
any_lock!(Semaphore, semaphore => semaphore.lock, SharedHold);

impl From<AnyLock<ExclusiveHold>> for AnyLock {
    fn from(lock: AnyLock<ExclusiveHold>) -> Self {
        Self::of(lock.lock)
    }
}

/// Several locks that are taken together. Created by [`all`].
///
/// This type is a handle: it is cheap to create, and creating it does no I/O.
#[derive(Debug, Clone)]
pub struct All<S = ExclusiveHold> {
    /// The locks and their order. An error if [`all`] does not accept them: each call that locks returns this error.
    plan: Result<Plan>,
    sharing: PhantomData<fn() -> S>,
}

/// The locks, and the order in which they are taken.
#[derive(Debug, Clone)]
struct Plan {
    /// The locks, in the order of the caller.
    locks: Vec<Lock>,
    /// For each client, the indexes of its locks, in the order of their keys.
    groups: Vec<Vec<usize>>,
}

/// How long a call waits for its locks.
#[derive(Debug, Clone, Copy)]
enum Limit {
    /// Each lock is taken without a wait.
    Once,
    Until(Moment),
    Never,
}

/// The guards that a call has so far, in the order of the caller.
type Guards<S> = Vec<Option<Guard<S>>>;

impl<S> All<S> {
    pub(crate) fn of(locks: Vec<Lock>) -> Self {
        Self { plan: Plan::of(locks), sharing: PhantomData }
    }

    /// The same locks after a change.
    pub(crate) fn map(&self, change: impl FnMut(&Lock) -> Result<Lock>) -> Result<Self> {
        let locks = self.plan()?.locks.iter().map(change).collect::<Result<_>>()?;
        Ok(Self::of(locks))
    }

    /// The number of locks, and the handle of the first lock's client.
    pub(crate) fn size(&self) -> Result<(usize, &Handle)> {
        let plan = self.plan()?;
        Ok((plan.locks.len(), plan.handle()))
    }

    /// Waits until all locks are free, and takes them.
    ///
    /// # Errors
    /// As [`Mutex::lock`], for the first lock that cannot be taken. `ErrorKind::Misused` also if there is no lock, if
    /// the same lock is given twice, or if the locks belong to several clients and the call was made outside a Tokio
    /// runtime.
    ///
    /// The call cannot detect all of its own conflicts: if the caller already holds one of these locks, the call waits
    /// forever.
    ///
    /// # Cancel safety
    /// If the future is dropped, the call leaves all queues, and all locks that it has taken are released.
    pub async fn lock(&self) -> Result<AllGuard<S>> {
        match self.acquire(Limit::Never).await? {
            Some(guard) => Ok(guard),
            None => Err(Error::unavailable("the engine ended a wait that has no time limit")),
        }
    }

    /// Takes all locks if all of them are free now. Returns `None` if one of them is held. Then none of them is taken.
    ///
    /// # Errors
    /// As [`All::lock`], and `ErrorKind::Unavailable` if a store does not answer within one request timeout.
    ///
    /// # Cancel safety
    /// As [`All::lock`].
    pub async fn try_lock(&self) -> Result<Option<AllGuard<S>>> {
        self.acquire(Limit::Once).await
    }

    /// Waits for the locks, for at most `limit` in total. The maximum is 365 days. If `limit` is zero, this is
    /// [`All::try_lock`].
    ///
    /// Returns `None` if one of the locks was held. If a store gave no answer, the call returns an error instead. If
    /// the locks belong to several clients, the call can take one request timeout longer than `limit`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// let both = bandog::all(["orders", "stock"].map(|name| client.mutex(name)));
    /// let Some(guard) = both.try_lock_for(Duration::from_secs(5)).await? else {
    ///     return Ok(()); // one of the two was held for 5 s
    /// };
    /// # guard.release().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`All::lock`], and `ErrorKind::Unavailable` if a store gave no answer within `limit`.
    ///
    /// # Cancel safety
    /// As [`All::lock`].
    pub async fn try_lock_for(&self, limit: Duration) -> Result<Option<AllGuard<S>>> {
        let until = |limit| self.size().map(|(_, handle)| Limit::Until(handle.clock.now() + limit));
        self.acquire(check_limit(limit)?.map_or(Ok(Limit::Once), until)?).await
    }

    /// Takes all locks, runs the body and releases the locks. If one of the locks is lost, the body's future is
    /// dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// let both = bandog::all(["orders", "stock"].map(|name| client.mutex(name)));
    /// let locked = both.run(async |guard| guard.fences().len()).await?;
    /// assert_eq!(locked, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`All::lock`], and `ErrorKind::Lost` if a lock was lost before the body ended. If the body ended before the
    /// loss, the call returns the value of the body.
    ///
    /// # Cancel safety
    /// If the future is dropped, first the body is dropped, and then the locks are released.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&AllGuard<S>) -> T) -> Result<T> {
        let guard = self.lock().await?;
        let value = guard.lost().or(|| guard.check_held(), body(&guard)).await?;
        // The locks were held until the body ended, so the value is valid even if a release fails.
        let _ = guard.release().await;
        Ok(value)
    }

    async fn acquire(&self, limit: Limit) -> Result<Option<AllGuard<S>>> {
        let plan = self.plan()?;
        if plan.groups.len() > 1 {
            check_timer("lock")?;
        }
        let (mut first, mut refusals) = (0, 0);
        loop {
            let mut guards: Guards<S> = plan.locks.iter().map(|_| None).collect();
            if plan.take_group(first, limit, &mut guards).await?.is_some() {
                return Ok(None);
            }
            let Some(refused) = plan.take_other_groups(first, &mut guards).await? else {
                return Ok(Some(AllGuard::new(guards.into_iter().flatten().collect())));
            };
            plan.check_same_lock(refused, &guards).await?;
            drop(guards);
            if !plan.wait_before_retry(limit, refusals).await? {
                return Ok(None);
            }
            first = plan.group_of(refused);
            refusals += 1;
        }
    }

    fn plan(&self) -> Result<&Plan> {
        self.plan.as_ref().map_err(Error::clone)
    }
}

impl Plan {
    /// Checks the locks, and sorts them.
    fn of(locks: Vec<Lock>) -> Result<Self> {
        if locks.is_empty() {
            return Err(Error::misused("all() was called without locks; it needs at least one"));
        }
        let keys = locks.iter().map(|lock| lock.key().cloned()).collect::<Result<Vec<_>>>()?;
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (index, lock) in locks.iter().enumerate() {
            match groups.iter_mut().find(|group| locks[group[0]].handle().id == lock.handle().id) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        for group in &mut groups {
            group.sort_by(|one, other| keys[*one].cmp(&keys[*other]));
            if let Some(pair) = group.windows(2).find(|pair| keys[pair[0]] == keys[pair[1]]) {
                return Err(same_lock_twice(&locks[pair[0]]));
            }
        }
        Ok(Self { locks, groups })
    }

    fn handle(&self) -> &Handle {
        self.locks[0].handle()
    }

    fn group_of(&self, lock: usize) -> usize {
        self.groups.iter().position(|group| group.contains(&lock)).unwrap_or_default()
    }

    /// Takes the locks of one client, in the order of their keys. Returns the first lock that is refused, or `None` if
    /// all of them are taken.
    async fn take_group<S>(&self, group: usize, limit: Limit, guards: &mut Guards<S>) -> Result<Option<usize>> {
        for &index in &self.groups[group] {
            let lock = &self.locks[index];
            guards[index] = match limit {
                Limit::Once => lock.try_acquire_for(Duration::ZERO).await?,
                Limit::Never => Some(lock.acquire().await?),
                Limit::Until(end) => {
                    let left = end.since(self.handle().clock.now());
                    if left.is_zero() { None } else { lock.try_acquire_for(left).await? }
                }
            };
            if guards[index].is_none() {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Takes the locks of all clients except one, without a wait. Returns the first lock that is refused, or `None` if
    /// all of them are taken.
    async fn take_other_groups<S>(&self, except: usize, guards: &mut Guards<S>) -> Result<Option<usize>> {
        for group in (0..self.groups.len()).filter(|group| *group != except) {
            if let Some(refused) = self.take_group(group, Limit::Once, guards).await? {
                return Ok(Some(refused));
            }
        }
        Ok(None)
    }

    /// Returns an error if this call itself holds the refused lock, through another client of the same store. Such a
    /// call could never succeed.
    async fn check_same_lock<S>(&self, refused: usize, guards: &Guards<S>) -> Result<()> {
        let lock = &self.locks[refused];
        let key = lock.key()?;
        let Some(ours) = guards.iter().flatten().find(|guard| guard.key() == key.as_str()) else { return Ok(()) };
        let (owner, shown) = (ours.holding().id.to_string(), key.clone());
        // If the state of the lock cannot be read, the call continues to wait.
        let state = lock.handle().query(|backend| Box::pin(async move { backend.show(&shown).await })).await;
        match state {
            Ok(row) if row.holders.iter().any(|holder| holder.owner.as_ref() == Some(&owner)) => {
                Err(same_lock_twice(lock))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Waits for a random time before the next attempt. Returns false if no further attempt is allowed.
    async fn wait_before_retry(&self, limit: Limit, refusals: u32) -> Result<bool> {
        let max = Duration::from_millis((1 << refusals.min(10)) - 1).min(MAX_BACKOFF).mul_f64(fastrand::f64());
        let left = match limit {
            Limit::Once => return Ok(false),
            Limit::Until(end) => end.since(self.handle().clock.now()),
            Limit::Never => Duration::MAX,
        };
        if refusals > 0 {
            pause(self.handle(), max.min(left)).await.map_err(|error| error.during("lock"))?;
        }
        Ok(max < left)
    }
}

fn same_lock_twice(lock: &Lock) -> Error {
    let error = Error::misused("all() was called with the same lock twice; each lock can be given once").during("lock");
    match lock.key() {
        Ok(key) => error.at(key),
        Err(_) => error,
    }
}
