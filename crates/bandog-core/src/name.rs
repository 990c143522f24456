//! Which names are allowed.

use crate::{Error, Key, MAX_KEY_LEN, Result};

impl Key {
    /// Checks a name, and creates a key from it.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Misused`](crate::ErrorKind::Misused) if the name is empty, has only blanks, is longer
    /// than [`MAX_KEY_LEN`] bytes, or has a control character.
    ///
    /// ```
    /// use bandog::Key;
    /// assert_eq!(Key::new("orders")?.as_str(), "orders");
    /// assert!(Key::new("").is_err());
    /// assert!(Key::new("  ").is_err());
    /// # Ok::<(), bandog::Error>(())
    /// ```
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        Self::named("the name", name)
    }

    /// As [`Key::new`]. `what` is the name of the name in the error message, such as `"the name of a latch"`.
    ///
    /// # Errors
    /// As [`Key::new`].
    #[doc(hidden)]
    pub fn named(what: &str, name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Error::misused(format!("{what} is empty; it must have 1 to {MAX_KEY_LEN} bytes")));
        }
        if name.len() > MAX_KEY_LEN {
            let start: String = name.chars().take(32).collect();
            return Err(Error::misused(format!(
                "{what} that starts with {start:?} has {} bytes; at most {MAX_KEY_LEN} are allowed",
                name.len()
            )));
        }
        if let Some(control) = name.chars().find(|c| c.is_control()) {
            return Err(Error::misused(format!(
                "{what} {name:?} has the control character {control:?}; only printable text is allowed"
            )));
        }
        if name.trim().is_empty() {
            return Err(Error::misused(format!("{what} {name:?} has only blanks; it must have another character")));
        }
        Ok(Self(name.into()))
    }
}
