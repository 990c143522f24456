//! Redis as a backend of [bandog](https://docs.rs/bandog), wire-compatible with Redisson's RLock, RFencedLock, RFairLock,
//! RReadWriteLock and RPermitExpirableSemaphore.
//!
//! A mutex is a Redis hash whose key is the name of the lock. The only field of the hash is the id of the owner. The ttl
//! of the key is the lease: the lock is free when the key expires. The fencing token is a second key. A release is
//! published on a channel. The names, types and messages are Redisson's, for all kinds of locks. So bandog clients and
//! Redisson clients wait for each other's locks.
//!
//! Users of locks need only the `bandog` crate. The promises of this backend are documented at [`Redis`].

mod answers;
mod check;
#[cfg(test)]
mod fuzz;
mod inspect;
mod latches;
mod leases;
mod names;
mod options;
mod records;
mod refusal;
mod registry;
mod scan;
mod script;
mod slots;
mod uptime;

pub use leases::Redis;
pub use options::{Layout, RedisOptions, Semaphores};
