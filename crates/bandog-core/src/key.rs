//! The name of a lock.

use std::{fmt, sync::Arc};

/// Maximum length of a lock's name, in bytes of UTF-8.
pub const MAX_KEY_LEN: usize = 1024;

/// The name of a lock or a record: 1 to [`MAX_KEY_LEN`] bytes of UTF-8 without control characters, and not only blanks.
///
/// Names are compared byte for byte, so `a` and `A` are two locks. Cloning a key is cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(crate) Arc<str>);

impl Key {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}
