//! All libraries that are measured, behind one call that locks and releases one name.
//!
//! Each library is used as in the first example of its documentation, with a ttl of 30 s, which is the default of most
//! libraries.

use std::{error::Error, sync::Arc, time::Duration};

use bandog::ConnectOptions;
use distributed_lock_core::{
    error::LockError,
    traits::{DistributedLock, LockHandle, LockProvider},
};
use distributed_lock_redis::RedisLockProvider;
use redis_lock::{LockAcrossOptions, lock_across};
use redis_lock_redis::aio::MultiplexedConnection;
use redisson::{AsyncRedissonClient, RedissonConfig};
use redlock::RedLock;
use rslock::LockManager;
use tokio::sync::Mutex;

use crate::floor::{Fenced, Floor};

const NAME: &str = "one";
const TTL: Duration = Duration::from_secs(30);

/// A library that is measured, or the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Floor,
    FloorWithoutFence,
    Bandog,
    BandogOnCurrentRuntime,
    Rslock,
    DistributedLock,
    Redisson,
    Redlock,
    RedisLock,
}

impl Which {
    pub(crate) const ALL: [Self; 9] = [
        Self::Floor,
        Self::FloorWithoutFence,
        Self::Bandog,
        Self::BandogOnCurrentRuntime,
        Self::Rslock,
        Self::DistributedLock,
        Self::Redisson,
        Self::Redlock,
        Self::RedisLock,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::FloorWithoutFence => "floor without a fence",
            Self::Bandog => "bandog",
            Self::BandogOnCurrentRuntime => "bandog on the current runtime",
            Self::Rslock => "rslock 0.10.0",
            Self::DistributedLock => "distributed-lock 0.2.0",
            Self::Redisson => "redisson 0.1.0",
            Self::Redlock => "redlock 2.0.0",
            Self::RedisLock => "redis-lock 0.5.1",
        }
    }

    /// How a task notices that the lock is free, as text.
    pub(crate) fn waits(self) -> &'static str {
        match self {
            Self::Floor | Self::FloorWithoutFence => "not at all: the two scripts, one after the other",
            Self::Bandog | Self::BandogOnCurrentRuntime => "in a queue, notified of the release",
            Self::Rslock => "polls after 0-200 ms",
            Self::DistributedLock => "not at all: asked again after 0-200 ms by this program",
            Self::Redisson => "polls after 100 ms, and keeps a connection meanwhile",
            Self::Redlock => "polls after 0-200 ms, blocking its thread, a new connection for each request",
            Self::RedisLock => "polls after 100 ms, gives up after 10 s",
        }
    }

    /// Whether this number of tasks is possible. The floor never waits, so it is measured with one task only.
    pub(crate) fn takes(self, tasks: usize) -> bool {
        tasks == 1 || !matches!(self, Self::Floor | Self::FloorWithoutFence)
    }

    pub(crate) fn is_named(self, who: &str) -> bool {
        self.name().starts_with(who)
    }

    pub(crate) fn is_asked_for(self, who: &[String]) -> bool {
        let always = matches!(self, Self::Floor | Self::Bandog);
        always || who.is_empty() || who.iter().any(|who| self.is_named(who))
    }
}

/// A connected library.
pub(crate) enum Peer {
    Floor(Floor),
    Bandog(bandog::Mutex),
    Rslock(LockManager),
    DistributedLock(RedisLockProvider),
    Redisson(Box<AsyncRedissonClient>),
    Redlock(RedLock),
    RedisLock(Arc<Mutex<MultiplexedConnection>>),
}

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

impl Peer {
    pub(crate) async fn connect(which: Which, url: &str) -> Result<Self, Failure> {
        Ok(match which {
            Which::Floor => Self::Floor(Floor::dial(url, Fenced::Yes).await),
            Which::FloorWithoutFence => Self::Floor(Floor::dial(url, Fenced::No).await),
            Which::Bandog => Self::Bandog(bandog::connect(url).await?.mutex(NAME)),
            Which::BandogOnCurrentRuntime => {
                let options = ConnectOptions::parse(url)?.on_current_runtime();
                Self::Bandog(options.connect().await?.mutex(NAME))
            }
            Which::Rslock => Self::Rslock(LockManager::new(vec![url])),
            Which::DistributedLock => Self::DistributedLock(RedisLockProvider::new(url).await?),
            Which::Redisson => {
                // With the default pool of 10, the waiters use all connections, and the holder has none for its unlock.
                let config = RedissonConfig::single_server(url).with_pool_size(128);
                Self::Redisson(Box::new(AsyncRedissonClient::new(config).await?))
            }
            Which::Redlock => Self::Redlock(RedLock::new(vec![url])),
            Which::RedisLock => {
                let client = redis_lock_redis::Client::open(url)?;
                let connection = client.get_multiplexed_async_connection().await?;
                Self::RedisLock(Arc::new(Mutex::new(connection)))
            }
        })
    }

    /// Locks and releases the name once.
    pub(crate) async fn cycle(&self) -> Result<(), Failure> {
        match self {
            Self::Floor(floor) => floor.cycle(NAME).await,
            Self::Bandog(mutex) => mutex.lock().await?.release().await?,
            Self::Rslock(manager) => manager.acquire(NAME, TTL).await?.release().await,
            Self::DistributedLock(provider) => patiently(provider).await?.release().await?,
            Self::Redisson(client) => {
                let lock = client.get_lock(NAME);
                lock.lock().await?;
                // `unlock` returns false although it has released the lock, so the result is ignored.
                lock.unlock().await?;
            }
            Self::Redlock(redlock) => drop(redlock.acquire_async(NAME.as_bytes(), 30_000).await?),
            Self::RedisLock(connection) => {
                // The default ttl of this library is 10 ms.
                let options = LockAcrossOptions { ttl: TTL, ..LockAcrossOptions::default() };
                lock_across(&[Arc::clone(connection)], NAME, async {}, options).await.map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }
}

/// Locks with distributed-lock. Its `acquire` without a timeout does not wait for a busy lock but fails, so a user must
/// retry. The pause between two attempts is that of similar libraries.
async fn patiently(provider: &RedisLockProvider) -> Result<impl LockHandle, Failure> {
    let lock = provider.create_lock(NAME);
    loop {
        match lock.acquire(None).await {
            Err(LockError::Timeout(_)) => tokio::time::sleep(Duration::from_millis(fastrand::u64(0..200))).await,
            other => return Ok(other?),
        }
    }
}
