//! Real servers and real processes for bandog's tests.
//!
//! The promises of a lock concern crashes, pauses and network failures. So each test starts a real server with this
//! crate. Then the test kills or stops the server, or puts a proxy in front of the server that behaves like a bad
//! network. All processes that this crate starts die with the test process, even if the test process is killed.
//!
//! - [`RedisServer`]: a Redis server for one test, on a free port.
//! - [`Replica`]: a replica of such a server, with a proxy in its replication stream.
//! - [`Sentinels`]: sentinels that watch a master.
//! - [`RedisCluster`]: a cluster with all its hash slots. [`moves`] moves its slots while it runs.
//! - [`PostgresServer`]: a PostgreSQL server for one or many tests, each in a database of its own.
//! - [`MariaDbServer`]: the same with MariaDB.
//! - [`PgBouncer`]: a PgBouncer in front of such a server.
//! - [`ZooKeeperServer`]: a ZooKeeper server for one test.
//! - [`ZooKeeperEnsemble`]: several such servers that elect a leader.
//! - [`Wire`]: a TCP proxy that delays, loses or holds back data, and that refuses or resets connections.
//! - [`Process`]: a child process. A test can send signals to the child and wait for lines of its output.
//! - [`LogCapture`]: captures `tracing` events.
//! - [`fuzz`]: random inputs for parsers.
//! - [`eventually()`] and [`eventually_async`]: wait until a condition is true, instead of waiting for a fixed time.
//!
//! This crate runs on Linux only, because it needs `/proc` and the parent-death signal.

mod authority;
mod clock;
mod cluster;
mod ensemble;
mod eventually;
pub mod fuzz;
mod keeper;
mod log_capture;
mod mariadb;
mod pgbouncer;
mod port;
mod postgres;
pub mod process;
mod redis;
mod replica;
mod resp;
mod sentinels;
mod sql_server;
mod version;
mod wire;
mod zookeeper;

pub use authority::{Authority, TlsFiles};
pub use clock::ServerClock;
pub use cluster::{RedisCluster, ReusedCluster, moves};
pub use ensemble::ZooKeeperEnsemble;
pub use eventually::{Fact, eventually, eventually_async};
pub use log_capture::LogCapture;
pub use mariadb::{MariaDb, MariaDbServer};
pub use pgbouncer::PgBouncer;
pub use postgres::{Postgres, PostgresServer};
pub use process::{Process, is_alive};
pub use redis::RedisServer;
pub use replica::Replica;
pub use resp::{RawRedis, Reply};
pub use rustix::process::Signal;
pub use sentinels::Sentinels;
pub use sql_server::{SqlEngine, SqlServer};
pub use version::ServerVersion;
pub use wire::Wire;
pub use zookeeper::ZooKeeperServer;
