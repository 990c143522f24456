//! The lock of a call, and its guard, for every kind of lock.

use std::{ops::Deref, time::Duration};

use bandog::{
    AnyLock, Client, Guard, Leadership, Lost, Mutex, Owner, Result, RwLock, Semaphore, SharedHold, WriteGuard,
    backend::ClaimId,
};

use crate::{
    locks::share::Share,
    plan::{self, LIMIT},
};

/// The handle of a call.
pub(super) enum Handle {
    Mutex(Mutex),
    Read(RwLock),
    Write(RwLock),
    Permits(Semaphore),
}

/// The guard of a call.
pub(super) enum Held {
    Guard(Guard<SharedHold>),
    Writer(WriteGuard),
}

impl Handle {
    /// The handle for a share of the lock with this number. A lease is a fixed one. Without a lease, the watchdog renews
    /// the lock.
    pub(super) fn new(client: &Client, name: usize, share: Share, lease: Option<Duration>) -> Self {
        let name = plan::name(name);
        match share {
            Share::Mutex | Share::Fair => {
                let mutex = client.mutex(name);
                let mutex = if share == Share::Fair { mutex.fair() } else { mutex };
                Self::Mutex(match lease {
                    Some(lease) => mutex.lease(lease),
                    None => mutex,
                })
            }
            Share::Read | Share::Write => {
                let lock = client.rwlock(name);
                let lock = match lease {
                    Some(lease) => lock.lease(lease),
                    None => lock,
                };
                if share == Share::Read { Self::Read(lock) } else { Self::Write(lock) }
            }
            Share::Leader => unreachable!("candidates use an election"),
            Share::Permits(number) => {
                let permits = client.semaphore(name, LIMIT).permits(number);
                Self::Permits(match lease {
                    Some(lease) => permits.lease(lease),
                    None => permits,
                })
            }
        }
    }

    /// The same lock for this owner. Semaphores have no owners.
    pub(super) fn by(self, owner: &Owner) -> Self {
        match self {
            Self::Mutex(mutex) => Self::Mutex(mutex.by(owner)),
            Self::Read(lock) => Self::Read(lock.by(owner)),
            Self::Write(lock) => Self::Write(lock.by(owner)),
            Self::Permits(permits) => Self::Permits(permits),
        }
    }

    pub(super) async fn lock(&self) -> Result<Held> {
        match self {
            Self::Mutex(mutex) => mutex.lock().await.map(|guard| Held::Guard(guard.into())),
            Self::Read(lock) => lock.read().await.map(Held::Guard),
            Self::Write(lock) => lock.write().await.map(Held::Writer),
            Self::Permits(permits) => permits.acquire().await.map(Held::Guard),
        }
    }

    pub(super) async fn try_lock(&self) -> Result<Option<Held>> {
        match self {
            Self::Mutex(mutex) => Ok(mutex.try_lock().await?.map(|guard| Held::Guard(guard.into()))),
            Self::Read(lock) => Ok(lock.try_read().await?.map(Held::Guard)),
            Self::Write(lock) => Ok(lock.try_write().await?.map(Held::Writer)),
            Self::Permits(permits) => Ok(permits.try_acquire().await?.map(Held::Guard)),
        }
    }

    pub(super) async fn try_lock_for(&self, wait: Duration) -> Result<Option<Held>> {
        match self {
            Self::Mutex(mutex) => Ok(mutex.try_lock_for(wait).await?.map(|guard| Held::Guard(guard.into()))),
            Self::Read(lock) => Ok(lock.try_read_for(wait).await?.map(Held::Guard)),
            Self::Write(lock) => Ok(lock.try_write_for(wait).await?.map(Held::Writer)),
            Self::Permits(permits) => Ok(permits.try_acquire_for(wait).await?.map(Held::Guard)),
        }
    }

    /// The lock for a call that takes several locks.
    pub(super) fn any(&self) -> AnyLock {
        match self {
            Self::Mutex(mutex) => mutex.into(),
            Self::Read(lock) => AnyLock::read(lock),
            Self::Write(lock) => AnyLock::write(lock).into(),
            Self::Permits(permits) => permits.into(),
        }
    }
}

impl Held {
    pub(super) async fn release(self) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Writer(guard) => guard.release().await,
        }
    }
}

/// The state of a hold, as its holder knows it.
pub(super) trait Proof: Sync {
    fn fence(&self) -> u64;
    fn claim(&self) -> ClaimId;
    fn remaining(&self) -> Duration;
    fn is_lost(&self) -> bool;
    fn lost(&self) -> Lost;
}

impl<S: 'static> Proof for Guard<S> {
    fn fence(&self) -> u64 {
        self.fence().get()
    }

    fn claim(&self) -> ClaimId {
        self.holding().id
    }

    fn remaining(&self) -> Duration {
        self.remaining()
    }

    fn is_lost(&self) -> bool {
        self.is_lost()
    }

    fn lost(&self) -> Lost {
        self.lost()
    }
}

impl Proof for Leadership {
    fn fence(&self) -> u64 {
        self.fence().get()
    }

    fn claim(&self) -> ClaimId {
        self.holding().id
    }

    fn remaining(&self) -> Duration {
        self.remaining()
    }

    fn is_lost(&self) -> bool {
        self.is_lost()
    }

    fn lost(&self) -> Lost {
        self.lost()
    }
}

impl Deref for Held {
    type Target = dyn Proof;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Guard(guard) => guard,
            Self::Writer(guard) => &**guard,
        }
    }
}
