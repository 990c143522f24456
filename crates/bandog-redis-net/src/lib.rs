//! Connections to Redis: one server, the master that sentinels name, or the nodes of a cluster.
//!
//! [`Servers`] sends commands and Lua scripts to the server of their keys, keeps subscriptions, and waits for the
//! acknowledgements of replicas. It reconnects after faults, follows failovers and moved slots, and says of each error
//! whether its command may have been applied. It knows nothing of the data.
//!
//! This crate is a part of `bandog`. It has no stable API of its own.

mod cluster;
mod dial;
mod dialler;
mod glob;
mod keys;
mod link;
mod options;
pub mod refusal;
mod replicas;
pub mod replication;
mod replies;
pub mod reply;
mod script;
mod sentinels;
mod server;
mod servers;
mod slots;
mod subscriptions;
mod tracking;

pub use glob::redis_glob;
pub use keys::Keys;
pub use link::Link;
pub use options::{FurtherOptions, Options};
pub use replicas::ACK;
pub use replies::{EachReply, Replies};
pub use script::{Script, ScriptForm, Scripts};
pub use servers::{Master, Servers};
pub use slots::{SLOTS, slot, tag};
pub use tracking::{KeyChange, KeyChanges};
