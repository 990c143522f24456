//! The error about a zone.

use std::{fmt, io, path::Path};

use super::hint::hint;

/// The reason for which a zone could not be found or read.
///
/// ```
/// use bandog_cron::Zone;
///
/// let error = Zone::named("China").unwrap_err();
/// assert_eq!(error.to_string(), "\"China\" is not a zone of the IANA table; examples are Asia/Shanghai and UTC");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneError(Box<str>);

impl ZoneError {
    /// The error about a name that the built-in table does not have.
    pub(super) fn unknown(name: &str) -> Self {
        Self::of_name(name, "is not a zone of the IANA table", |_| true)
    }

    /// The error about a zone of the machine whose file cannot be read. `folder`: the folder of the machine's zones.
    pub(super) fn unread(name: &str, folder: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {}
            _ => return Self(format!("the file {:?} cannot be read: {error}", folder.join(name)).into()),
        }
        if !folder.is_dir() {
            let text = format!("the folder {folder:?} of the system's zones does not exist; install it, or set TZDIR");
            return Self(text.into());
        }
        let what = format!("is not in the folder {folder:?} of the system's zones");
        Self::of_name(name, &what, |zone| folder.join(zone).is_file())
    }

    /// The error about data that are no rules of a zone. `what`: the file or the data.
    pub(super) fn no_tzif(what: &str) -> Self {
        Self(format!("{what} cannot be read as a zone, because it is not in the format TZif").into())
    }

    /// The error about a name that is no zone, with a hint. `is_known`: whether a zone exists, for the hint.
    fn of_name(name: &str, what: &str, is_known: impl Fn(&str) -> bool) -> Self {
        let shown: String = name.chars().take(64).collect();
        Self(format!("{shown:?} {what}; {}", hint(&shown, is_known)).into())
    }
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ZoneError {}
