//! Redisson's names for what belongs to a lock, and ours for the registry and for records. The lock itself is the key of
//! exactly its name.

use std::fmt;

use bandog_core::ClientId;

/// What the keys of the registry begin with.
pub(crate) const REGISTRY: &str = "bandog:client:";

/// The sorted set of all clients that have a row in the registry, by the server's time in ms at which the row ends.
pub(crate) const CLIENTS: &str = "bandog:clients";

/// What the keys begin with that say that a client starves.
pub(crate) const STARVING: &str = "bandog:starving:";

/// The set of all records' names.
pub(crate) const INDEX: &str = "bandog:records";

/// What the keys of records and of their histories begin with.
const RECORD: &str = "bandog:record:{";
const HISTORY: &str = "bandog:history:{";

/// The key of the fencing token.
pub(crate) struct Token<'a>(pub(crate) &'a str);

/// The channel on which the release of a lock is told, and swaps of the record of the same name that ring.
pub(crate) struct Channel<'a>(pub(crate) &'a str);

/// The key that says that a client starves for a lock.
pub(crate) struct Starving<'a>(pub(crate) &'a str);

/// The key of a client's row in the registry.
pub(crate) struct Registered(pub(crate) ClientId);

/// The key of a record. It and its history are in one slot of a cluster.
pub(crate) struct Recorded<'a>(pub(crate) &'a str);

/// The key of a record's history.
pub(crate) struct History<'a>(pub(crate) &'a str);

/// Whether a key is where a record or a history lies.
pub(crate) fn is_of_records(key: &str) -> bool {
    (key.starts_with(RECORD) || key.starts_with(HISTORY)) && key.ends_with('}')
}

impl fmt::Display for Recorded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{RECORD}{}}}", self.0)
    }
}

impl fmt::Display for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HISTORY}{}}}", self.0)
    }
}

impl fmt::Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{REGISTRY}{}", self.0)
    }
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, "redisson_lock_token:", self.0)
    }
}

impl fmt::Display for Starving<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, STARVING, self.0)
    }
}

impl fmt::Display for Channel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, "redisson_lock__channel:", self.0)
    }
}

/// A name that has a brace brings its own hash tag, or so Redisson takes it.
fn prefixed(f: &mut fmt::Formatter<'_>, prefix: &str, name: &str) -> fmt::Result {
    f.write_str(prefix)?;
    if name.contains('{') {
        return f.write_str(name);
    }
    f.write_str("{")?;
    f.write_str(name)?;
    f.write_str("}")
}
