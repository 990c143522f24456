//! The options of the backend that a URL names, and the client over this backend.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use bandog_core::{Clock, Error, ErrorKind, MAX_TTL, Memory, Result};
use bandog_net::CredentialsSource;
#[cfg(feature = "redis")]
use bandog_quorum::{Quorum, QuorumOptions};
#[cfg(feature = "redis")]
use bandog_redis::{Redis, RedisOptions};
#[cfg(any(feature = "mysql", feature = "postgres"))]
use bandog_sql::{Sql, SqlOptions};
#[cfg(feature = "sqlite")]
use bandog_sqlite::{Sqlite, SqliteOptions};
use bandog_sync::{Client, ClientOptions};
#[cfg(feature = "zookeeper")]
use bandog_zookeeper::{ZooKeeper, ZooKeeperOptions};

#[cfg(feature = "redis")]
use crate::url::quorum;
use crate::{
    testing,
    url::{Parts, Scheme},
};

/// The options of a backend.
#[derive(Clone)]
pub(crate) enum StoreOptions {
    #[cfg(feature = "redis")]
    Redis(Box<RedisOptions>),
    #[cfg(feature = "redis")]
    Quorum { options: QuorumOptions, max_ttl: Duration, nodes: Vec<RedisOptions> },
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    Sql(Box<SqlOptions>),
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteOptions),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(Box<ZooKeeperOptions>),
    /// The name of the store.
    Memory(String),
}

impl StoreOptions {
    /// The options that a URL sets, without its timeout.
    pub(crate) fn of(parts: &Parts) -> Result<Self> {
        match parts.scheme {
            Scheme::Redis => redis(parts),
            Scheme::Quorum => quorum(parts),
            Scheme::MySql => mysql(parts),
            Scheme::Postgres => postgres(parts),
            Scheme::Sqlite => sqlite(parts),
            Scheme::ZooKeeper => zookeeper(parts),
            Scheme::Memory => Ok(Self::Memory(parts.place.clone())),
        }
    }

    /// Sets the maximum duration of one request.
    pub(crate) fn timeout(self, timeout: Duration) -> Self {
        match (self, timeout) {
            #[cfg(feature = "redis")]
            (Self::Redis(options), timeout) => Self::Redis(options.timeout(timeout).into()),
            #[cfg(feature = "redis")]
            (Self::Quorum { options, max_ttl, nodes }, timeout) => {
                let options = options.timeout(timeout);
                let nodes = nodes.into_iter().map(|node| node.timeout(options.node_timeout())).collect();
                Self::Quorum { options, max_ttl, nodes }
            }
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            (Self::Sql(options), timeout) => Self::Sql(options.timeout(timeout).into()),
            #[cfg(feature = "sqlite")]
            (Self::Sqlite(options), timeout) => Self::Sqlite(options.timeout(timeout)),
            #[cfg(feature = "zookeeper")]
            (Self::ZooKeeper(options), timeout) => Self::ZooKeeper(options.timeout(timeout).into()),
            (Self::Memory(name), _) => Self::Memory(name),
        }
    }

    /// Sets the source of the credentials. It has no effect for stores without a login.
    pub(crate) fn credentials(self, source: CredentialsSource) -> Self {
        match (self, source) {
            #[cfg(feature = "redis")]
            (Self::Redis(options), source) => Self::Redis(options.credentials(source).into()),
            #[cfg(feature = "redis")]
            (Self::Quorum { options, max_ttl, nodes }, source) => {
                let nodes = nodes.into_iter().map(|node| node.credentials(source.clone())).collect();
                Self::Quorum { options, max_ttl, nodes }
            }
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            (Self::Sql(options), source) => Self::Sql(options.credentials(source).into()),
            #[cfg(feature = "sqlite")]
            (Self::Sqlite(options), _) => Self::Sqlite(options),
            #[cfg(feature = "zookeeper")]
            (Self::ZooKeeper(options), source) => Self::ZooKeeper(options.credentials(source).into()),
            (Self::Memory(name), _) => Self::Memory(name),
        }
    }

    /// Forbids the client to create the file of the store.
    pub(crate) fn must_exist(self) -> Self {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(options) => Self::Sqlite(options.must_exist()),
            other => other,
        }
    }

    /// Maximum ttl of a lock.
    pub(crate) fn max_ttl(&self) -> Duration {
        match self {
            #[cfg(feature = "redis")]
            Self::Quorum { max_ttl, .. } => *max_ttl,
            _ => MAX_TTL,
        }
    }

    /// Checks the values that the methods of a backend have set.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(options) => options.check(),
            #[cfg(feature = "redis")]
            Self::Quorum { nodes, .. } => nodes.iter().try_for_each(RedisOptions::check),
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Self::Sql(_) => Ok(()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(options) => options.check(),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(_) => Ok(()),
            Self::Memory(_) => Ok(()),
        }
    }

    /// The text that creates the tables of the store. None if no administrator creates them.
    pub(crate) fn schema_sql(&self) -> Option<String> {
        match self {
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Self::Sql(options) => Some(options.schema_sql()),
            _ => None,
        }
    }

    /// Starts a client.
    pub(crate) fn start(self, client: ClientOptions) -> Result<Client> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(options) => client.over(Redis::new(*options)?),
            #[cfg(feature = "redis")]
            Self::Quorum { options, nodes, .. } => {
                let nodes = nodes.into_iter().map(Redis::new).collect::<Result<Vec<_>>>()?;
                client.over(Quorum::new(nodes, options)?)
            }
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Self::Sql(options) => client.over(Sql::new(*options)?),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(options) => client.over(Sqlite::new(options)?),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(options) => client.over(ZooKeeper::new(*options)),
            Self::Memory(name) => client.over(memory(&name)),
        }
    }
}

/// Returns the store that has this name in this process, and creates it for the first call. If the name is empty, each
/// call creates a new store.
fn memory(name: &str) -> Memory {
    static NAMED: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);
    let fresh = || testing::memory(Clock::system());
    if name.is_empty() {
        return fresh();
    }
    NAMED.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_insert_with(fresh).clone()
}

#[cfg(feature = "redis")]
fn redis(parts: &Parts) -> Result<StoreOptions> {
    let mut options = RedisOptions::from_url(&parts.rest)?;
    if let Some(skew) = parts.java_skew {
        options = options.java_skew(skew);
    }
    if let Some(replicas) = parts.replicas {
        options = options.replicas(replicas);
    }
    Ok(StoreOptions::Redis(options.into()))
}

#[cfg(not(feature = "redis"))]
fn redis(_: &Parts) -> Result<StoreOptions> {
    Err(not_compiled_in("redis"))
}

#[cfg(feature = "redis")]
fn quorum(parts: &Parts) -> Result<StoreOptions> {
    let max_ttl = parts.max_ttl.unwrap_or(QuorumOptions::MAX_TTL);
    let options = QuorumOptions::default().store(quorum::store(&parts.rest)).max_ttl(max_ttl);
    let nodes = quorum::nodes(&parts.rest).iter().map(|url| RedisOptions::from_url(url)).collect::<Result<_>>()?;
    Ok(StoreOptions::Quorum { options, max_ttl, nodes })
}

#[cfg(not(feature = "redis"))]
fn quorum(_: &Parts) -> Result<StoreOptions> {
    Err(not_compiled_in("redis"))
}

#[cfg(feature = "mysql")]
fn mysql(parts: &Parts) -> Result<StoreOptions> {
    sql(parts)
}

#[cfg(not(feature = "mysql"))]
fn mysql(_: &Parts) -> Result<StoreOptions> {
    Err(not_compiled_in("mysql"))
}

#[cfg(feature = "postgres")]
fn postgres(parts: &Parts) -> Result<StoreOptions> {
    sql(parts)
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &Parts) -> Result<StoreOptions> {
    Err(not_compiled_in("postgres"))
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
fn sql(parts: &Parts) -> Result<StoreOptions> {
    SqlOptions::from_url(&parts.rest).map(|options| StoreOptions::Sql(options.into()))
}

#[cfg(feature = "sqlite")]
fn sqlite(parts: &Parts) -> Result<StoreOptions> {
    Ok(StoreOptions::Sqlite(SqliteOptions::at(&parts.place)))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Parts) -> Result<StoreOptions> {
    Err(not_compiled_in("sqlite"))
}

#[cfg(feature = "zookeeper")]
fn zookeeper(parts: &Parts) -> Result<StoreOptions> {
    ZooKeeperOptions::from_url(&parts.rest).map(|options| StoreOptions::ZooKeeper(options.into()))
}

#[cfg(not(feature = "zookeeper"))]
fn zookeeper(_: &Parts) -> Result<StoreOptions> {
    Err(not_compiled_in("zookeeper"))
}

#[cfg_attr(
    all(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite", feature = "zookeeper"),
    expect(dead_code, reason = "everything is compiled in")
)]
fn not_compiled_in(feature: &str) -> Error {
    let message = format!(
        "this program was built without bandog's feature {feature:?}: build it with `--features {feature}`, or add the \
         feature to bandog in Cargo.toml"
    );
    Error::new(ErrorKind::Unsupported, message)
}
