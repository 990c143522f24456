//! The names of keys and channels: Redisson's names for locks, and our own for the registry and for records. The key of
//! a lock is the name of the lock.

use std::fmt;

use bandog_core::ClientId;

/// The prefix of the registry's keys.
pub(crate) const REGISTRY: &str = "bandog:client:";

/// The sorted set of all registered clients. A client's score is the time in ms, by the server's clock, at which the
/// client's row expires.
pub(crate) const CLIENTS: &str = "bandog:clients";

/// The prefix of the keys that mark a lock with a starving client. A client starves if it has waited for a lock for a
/// second or more.
pub(crate) const STARVING: &str = "bandog:starving:";

/// The prefix of the keys with the operations on latches that the server remembers.
pub(crate) const OPERATIONS: &str = "bandog:ops:";

/// The prefix of the channels of latches.
pub(crate) const LATCH_CHANNEL: &str = "redisson_countdownlatch__channel__";

/// The set of the names of all records.
pub(crate) const INDEX: &str = "bandog:records";

/// The prefixes of the keys of records and of their histories.
const RECORD: &str = "bandog:record:{";
const HISTORY: &str = "bandog:history:{";

/// The key of the fencing token of the lock with this name.
pub(crate) struct TokenKey<'a>(pub(crate) &'a str);

/// The channel of a name. Each release of the lock with this name publishes a message on this channel. Each swap of the
/// record with this name that notifies subscribers does the same.
pub(crate) struct Channel<'a>(pub(crate) &'a str);

/// The key that exists while a client starves for the lock with this name.
pub(crate) struct StarvingKey<'a>(pub(crate) &'a str);

/// The key of the operations on the latch with this name that the server remembers.
pub(crate) struct OperationsKey<'a>(pub(crate) &'a str);

/// The channel of the latch with this name.
pub(crate) struct LatchChannel<'a>(pub(crate) &'a str);

/// The key of a client's row in the registry.
pub(crate) struct ClientRowKey(pub(crate) ClientId);

/// The key of a record. In a Redis Cluster, a record and its history are on the same server.
pub(crate) struct RecordKey<'a>(pub(crate) &'a str);

/// The key of a record's history.
pub(crate) struct HistoryKey<'a>(pub(crate) &'a str);

/// Whether this is the key of a record or of a history.
pub(crate) fn is_of_records(key: &str) -> bool {
    (key.starts_with(RECORD) || key.starts_with(HISTORY)) && key.ends_with('}')
}

impl fmt::Display for RecordKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{RECORD}{}}}", self.0)
    }
}

impl fmt::Display for HistoryKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HISTORY}{}}}", self.0)
    }
}

impl fmt::Display for ClientRowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{REGISTRY}{}", self.0)
    }
}

impl fmt::Display for TokenKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, "redisson_lock_token:", self.0)
    }
}

impl fmt::Display for StarvingKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, STARVING, self.0)
    }
}

impl fmt::Display for OperationsKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, OPERATIONS, self.0)
    }
}

/// As in Redisson, the braces are always added, even if the name contains `{`.
impl fmt::Display for LatchChannel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{LATCH_CHANNEL}{{{}}}", self.0)
    }
}

impl fmt::Display for Channel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, "redisson_lock__channel:", self.0)
    }
}

/// Writes the prefix and the name in braces. As in Redisson, a name that contains `{` gets no braces, because the name
/// may contain its own hash tag. (In a Redis Cluster, the hash tag is the part of a key in braces. It decides which
/// server has the key.)
fn prefixed(f: &mut fmt::Formatter<'_>, prefix: &str, name: &str) -> fmt::Result {
    f.write_str(prefix)?;
    if name.contains('{') {
        return f.write_str(name);
    }
    f.write_str("{")?;
    f.write_str(name)?;
    f.write_str("}")
}
