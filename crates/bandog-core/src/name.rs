//! Which names are allowed.

use crate::{Error, Key, MAX_KEY_LEN, Result};

impl Key {
    /// Checks a name, and creates a key from it.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Misused`](crate::ErrorKind::Misused) if the name is empty, is longer than
    /// [`MAX_KEY_LEN`] bytes, or has a control character.
    ///
    /// ```
    /// use bandog::Key;
    /// assert_eq!(Key::new("orders")?.as_str(), "orders");
    /// assert!(Key::new("").is_err());
    /// # Ok::<(), bandog::Error>(())
    /// ```
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Error::misused("the name of a lock is empty; it must have 1 to 1024 bytes"));
        }
        if name.len() > MAX_KEY_LEN {
            let start: String = name.chars().take(32).collect();
            return Err(Error::misused(format!(
                "the name of a lock that starts with {start:?} has {} bytes; at most {MAX_KEY_LEN} are allowed",
                name.len()
            )));
        }
        if let Some(control) = name.chars().find(|c| c.is_control()) {
            return Err(Error::misused(format!(
                "the name of a lock {name:?} has the control character {control:?}; only printable text is allowed"
            )));
        }
        Ok(Self(name.into()))
    }
}
