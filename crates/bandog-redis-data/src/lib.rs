//! Objects of bandog's grid on Redis: values, counters, maps, sets, lists, sorted sets, multimaps, bit sets and Bloom
//! filters, with the keys, types and bytes of Redisson 4.7; and work queues.
//!
//! An operation is one command or one script, so it is atomic. Elements that are taken out of a list, a set or a sorted set
//! stay in Redis until they are done, in keys of bandog's own beside Redisson's: `bandog:taken:{name}`,
//! `bandog:leases:{name}`, `bandog:again:{name}`, `bandog:fence:{name}`. The answers of operations with an id are in
//! `bandog:ops:{name}`. All of them are in the slot of the object. The last two expire; the others have the ttl of the object
//! and are empty when no element is taken.
//!
//! The expired entries of a timed map are removed by the calls that use them, and by [`TimedOp::Evict`], as Redisson's clients
//! do.
//!
//! [`TimedOp::Evict`]: bandog_core::structures::TimedOp::Evict
//!
//! Work queues ([`Queues`](bandog_core::queues::Queues)) are a layout of bandog's own: the keys `bandog:work:{name}:…`, which
//! `docs/redis-keys.md` of the repository lists. Their scripts are in `lua/work`.
//!
//! Messages are published on channels with PUBLISH or SPUBLISH, as Redisson's topics do.
//!
//! This crate is a part of `bandog`. It has no stable API of its own.

mod command;
mod copies;
mod entry_events;
mod hidden;
mod layouts;
mod live;
mod messages;
mod names;
mod objects;
mod pack;
mod pages;
mod queues;
mod read;
mod scripts;

pub use objects::RedisObjects;
