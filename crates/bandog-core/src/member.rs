//! Who a client is, as operators see it.

use std::time::SystemTime;

use crate::{ClientId, Key};

/// How many of the names that a client waits for it tells of.
pub const MAX_WAITS: usize = 32;

/// A client that a store knows of: one row of its registry, renewed with the client's holds.
///
/// It says who holds or waits, in words; nothing is decided by it. A row ends with its ttl, so a client that was
/// killed is listed for that long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The client: the first half of its owners' names.
    pub id: ClientId,
    /// The name of the machine.
    pub host: String,
    /// The process there.
    pub pid: u32,
    /// The program, as it calls itself.
    pub program: String,
    /// Since when the client lives, by its own wall clock.
    pub since: SystemTime,
    /// The names that it waits for: at most [`MAX_WAITS`] of them.
    pub waits: Vec<Key>,
}
