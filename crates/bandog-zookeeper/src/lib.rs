//! The ZooKeeper backend of [bandog](https://docs.rs/bandog). Its locks have the layout of Apache Curator, so Java
//! services share them.
//!
//! A lock is a folder of ephemeral sequential nodes. The first node of the folder holds the lock. ZooKeeper deletes the
//! nodes of a client when its session expires, so a hold never outlives the session.
//!
//! A program uses this backend through the crate `bandog`, with a URL such as `zookeeper://host:2181/locks`.

mod batches;
mod check;
mod claims;
mod downgrade;
mod encoding;
mod fault;
mod folders;
mod host;
mod inspect;
mod keeper;
mod key_locks;
mod leases;
mod nodes;
mod opening;
mod options;
mod queue;
mod records;
mod registry;
mod renewals;
mod semaphore;
mod servers;
mod session;
mod table;
mod tls;
mod unused;
mod waiters;

pub use host::ZooKeeper;
pub use options::ZooKeeperOptions;
