//! Redis as a backend of [bandog](https://docs.rs/bandog), wire-compatible with Redisson's RLock and RFencedLock.
//!
//! A lock is a hash under its name. Its only field is the owner, and its ttl is the lease. The fencing token is a
//! second key, and a release is published on a channel. These are Redisson's names, types and messages, so bandog
//! clients and Redisson clients wait for each other's locks.
//!
//! Users of locks need the `bandog` crate only. The promises of this backend are documented at [`Redis`].

mod backoff;
mod check;
mod dial;
#[cfg(test)]
mod fuzz;
mod inspect;
mod leases;
mod link;
mod names;
mod options;
mod records;
mod refusal;
mod registry;
mod reply;
mod scan;
mod script;
mod subscriptions;

pub use leases::Redis;
pub use options::RedisOptions;
