//! The kind of the lock: the options that choose it, and the handle of the lock.

use std::{num::NonZeroU32, time::Duration};

use bandog::{AnyLock, Client, Guard, Mutex, Owner, Result, RwLock, Semaphore, SharedHold, backend::Kind};

use crate::fault::Fault;

/// The options that choose the kind of the lock. Without them, the lock is a mutex.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(crate) struct Choice {
    /// A fair mutex: waiters get the lock in the order in which they began to wait.
    #[arg(long)]
    fair: bool,
    /// A read-write lock as a reader: any number of readers at a time, and no writer.
    #[arg(long)]
    shared: bool,
    /// A read-write lock as the writer: one writer at a time, and no reader.
    #[arg(long)]
    exclusive: bool,
    /// A semaphore: take K of its permits, all or none; a semaphore of --of 1 is exclusive.
    #[arg(long, value_name = "K", requires = "of", allow_negative_numbers = true)]
    permits: Option<NonZeroU32>,
}

/// The limit of a semaphore. It is not a member of the group [`Choice`], because it needs --permits.
#[derive(Debug, clap::Args)]
pub(crate) struct Limit {
    /// The number of permits that the semaphore has; all commands must give the same number.
    #[arg(long, value_name = "N", requires = "permits", allow_negative_numbers = true, conflicts_with_all = ["fair", "shared", "exclusive"])]
    of: Option<NonZeroU32>,
}

impl Choice {
    /// The kind of the lock. An error if --permits is greater than --of.
    pub(crate) fn kind(&self, limit: &Limit) -> Result<Kind, Fault> {
        let Self { fair, shared, exclusive, permits } = self;
        Ok(match (permits, limit.of) {
            (Some(take), Some(of)) if *take > of => {
                return Err(Fault::usage(format!("--permits {take} is greater than --of {of}")));
            }
            (Some(take), Some(of)) => Kind::Permits { take: *take, of },
            _ if *fair => Kind::Fair,
            _ if *shared => Kind::Read,
            _ if *exclusive => Kind::Write,
            _ => Kind::Mutex,
        })
    }
}

/// The handle of a lock of any kind.
pub(crate) enum Handle {
    Mutex(Mutex),
    Read(RwLock),
    Write(RwLock),
    Permits(Semaphore),
}

impl Handle {
    /// The lock with this name. With `lease`, the lock has a fixed lease. `owner` holds the locks of the ancestors of this
    /// process, for the search for deadlocks.
    pub(crate) fn new(client: &Client, name: &str, kind: Kind, lease: Option<Duration>, owner: &Owner) -> Self {
        let mutex = |mutex: Mutex| Self::Mutex(if let Some(ttl) = lease { mutex.lease(ttl) } else { mutex });
        let rwlock = |lock: RwLock| if let Some(ttl) = lease { lock.lease(ttl) } else { lock };
        match kind {
            Kind::Mutex => mutex(client.mutex(name).by(owner)),
            Kind::Fair => mutex(client.mutex(name).fair().by(owner)),
            Kind::Read => Self::Read(rwlock(client.rwlock(name).by(owner))),
            Kind::Write => Self::Write(rwlock(client.rwlock(name).by(owner))),
            Kind::Permits { take, of } => {
                let semaphore = client.semaphore(name, of.get()).permits(take.get());
                Self::Permits(if let Some(ttl) = lease { semaphore.lease(ttl) } else { semaphore })
            }
        }
    }

    /// Waits for the lock: for at most `wait`, or without a limit if `wait` is none. None if the lock was busy for the whole
    /// time.
    pub(crate) async fn acquire(&self, wait: Option<Duration>) -> Result<Option<Guard<SharedHold>>> {
        if let Some(wait) = wait {
            return self.try_lock_for(wait).await;
        }
        Ok(Some(match self {
            Self::Mutex(mutex) => mutex.lock().await?.into(),
            Self::Read(lock) => lock.read().await?,
            Self::Write(lock) => lock.write().await?.into(),
            Self::Permits(semaphore) => semaphore.acquire().await?,
        }))
    }

    /// Waits for the lock, for at most `wait`. None if the lock was busy for the whole time.
    pub(crate) async fn try_lock_for(&self, wait: Duration) -> Result<Option<Guard<SharedHold>>> {
        match self {
            Self::Mutex(mutex) => Ok(mutex.try_lock_for(wait).await?.map(Guard::into)),
            Self::Read(lock) => lock.try_read_for(wait).await,
            Self::Write(lock) => Ok(lock.try_write_for(wait).await?.map(Guard::from)),
            Self::Permits(semaphore) => semaphore.try_acquire_for(wait).await,
        }
    }
}

impl From<Handle> for AnyLock {
    fn from(handle: Handle) -> Self {
        match handle {
            Handle::Mutex(mutex) => mutex.into(),
            Handle::Read(lock) => Self::read(&lock),
            Handle::Write(lock) => AnyLock::write(&lock).into(),
            Handle::Permits(semaphore) => semaphore.into(),
        }
    }
}

/// The reason why a claim of this kind was refused for a whole wait, as text. `name` is the lock's name and its store.
pub(crate) fn busy_text(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Mutex | Kind::Fair | Kind::Write => format!("another client holds {name}"),
        Kind::Read => format!("a writer holds {name}, or waits for it"),
        Kind::Permits { take, of } => {
            format!(
                "fewer than {take} of the {of} permits of {name} are free, or the free ones are reserved for a client that \
                 has waited for longer"
            )
        }
    }
}

/// Whether a claim of this kind would wait for holds of its own ancestors, which have the kinds `held` on the same
/// name. Such a wait would never end. A claim of another family does not wait: the store refuses it with an error.
pub(super) fn waits_for(kind: Kind, held: &[Kind]) -> bool {
    let is_same_family = |held: &&Kind| held.family() == kind.family();
    let mut same = held.iter().filter(is_same_family);
    match kind {
        Kind::Mutex | Kind::Fair | Kind::Write => same.next().is_some(),
        Kind::Read => same.any(|held| !matches!(held, Kind::Read)),
        Kind::Permits { take, of } => {
            let held: u64 = same.map(|held| u64::from(held.permits())).sum();
            held > 0 && held + u64::from(take.get()) > u64::from(of.get())
        }
    }
}

#[cfg(test)]
mod tests;
