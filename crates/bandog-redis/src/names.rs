//! Redisson's names for what belongs to a lock, and ours for the registry. The lock itself is the key of exactly its
//! name.

use std::fmt;

use bandog_core::ClientId;

/// What the keys of the registry begin with.
pub(crate) const REGISTRY: &str = "bandog:client:";

/// The key of the fencing token.
pub(crate) struct Token<'a>(pub(crate) &'a str);

/// The channel on which a release is told.
pub(crate) struct Channel<'a>(pub(crate) &'a str);

/// The key of a client's row in the registry.
pub(crate) struct Registered(pub(crate) ClientId);

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
