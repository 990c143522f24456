//! Redis as a backend of [bandog](https://docs.rs/bandog), wire-compatible with Redisson's RLock and RFencedLock.
//!
//! A lock is the hash at its name, whose one field is the owner and whose ttl is the lease; its fencing token is a
//! key beside it, and a release is published on its channel. These are Redisson's names, types and messages, so a
//! Java neighbour waits for our locks and we wait for theirs.
//!
//! Users of locks need the `bandog` crate only. What this backend promises is told by [`Redis`].

mod bell;
mod check;
mod dial;
#[cfg(test)]
mod fuzz;
mod inspect;
mod leases;
mod link;
mod names;
mod options;
mod pause;
mod records;
mod refusal;
mod registry;
mod reply;
mod scan;
mod script;

pub use leases::Redis;
pub use options::RedisOptions;
