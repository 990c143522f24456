//! A lock of any kind, behind one call that takes it and one that releases it.

use bandog::{Client, Guard, Mutex, RwLock, Semaphore, SharedHold};

/// The kinds that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    Read,
    Write,
    Semaphore,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Mutex, Self::Fair, Self::Read, Self::Write, Self::Semaphore];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
            Self::Semaphore => "semaphore",
        }
    }

    /// The kind that a call of this kind waits for: a reader waits only for a writer.
    pub(crate) fn holder(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Mutex | Self::Fair | Self::Write | Self::Semaphore => self,
        }
    }
}

/// A handle of any kind.
#[derive(Clone)]
pub(crate) enum Lock {
    Mutex(Mutex),
    Read(RwLock),
    Write(RwLock),
    Semaphore(Semaphore),
}

impl Lock {
    /// A handle for this name. `permits` is the limit of a semaphore.
    pub(crate) fn new(client: &Client, kind: Kind, name: &str, permits: u32) -> Self {
        match kind {
            Kind::Mutex => Self::Mutex(client.mutex(name)),
            Kind::Fair => Self::Mutex(client.mutex(name).fair()),
            Kind::Read => Self::Read(client.rwlock(name)),
            Kind::Write => Self::Write(client.rwlock(name)),
            Kind::Semaphore => Self::Semaphore(client.semaphore(name, permits)),
        }
    }

    pub(crate) async fn acquire(&self) -> Guard<SharedHold> {
        let held = match self {
            Self::Mutex(mutex) => mutex.lock().await.map(Guard::into),
            Self::Read(lock) => lock.read().await,
            Self::Write(lock) => lock.write().await.map(Guard::from),
            Self::Semaphore(semaphore) => semaphore.acquire().await,
        };
        held.expect("granted")
    }

    /// Takes and releases the lock.
    pub(crate) async fn cycle(&self) {
        self.acquire().await.release().await.expect("released");
    }
}
