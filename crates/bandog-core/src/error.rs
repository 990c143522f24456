//! The error type: the verb, the key, the cause, and whether the request may have been applied.

use std::{error::Error as StdError, fmt, sync::Arc};

use crate::Key;

/// The result type of all bandog crates.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Cause = Arc<dyn StdError + Send + Sync + 'static>;

/// An error with its kind, the verb that failed, the key and the cause.
///
/// A busy lock and an elapsed wait limit are not errors: the `try_` methods return `None`. Cloning is cheap.
///
/// The text ends with the kind in parentheses, except for `Misused`, where the message names the allowed values.
///
/// ```
/// use bandog::Error;
///
/// let misused = Error::misused("the ttl is 0s; it takes 100ms to 365 days").during("lock");
/// assert_eq!(misused.to_string(), "lock: the ttl is 0s; it takes 100ms to 365 days");
/// assert_eq!(Error::unavailable("no answer").to_string(), "no answer (Unavailable)");
/// ```
#[derive(Clone)]
pub struct Error(Arc<ErrorParts>);

#[derive(Clone)]
struct ErrorParts {
    kind: ErrorKind,
    verb: Option<&'static str>,
    key: Option<Key>,
    message: String,
    source: Option<Cause>,
    maybe_applied: bool,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store did not answer, or cannot serve now. A retry may succeed.
    Unavailable,
    /// The store refuses the request: a wrong password, a missing right, a key of another type. A retry does not help.
    Denied,
    /// A value or a call that can never work. It is reported before any I/O.
    Misused,
    /// This backend does not support the operation.
    Unsupported,
    /// The lock was lost: another client may hold it.
    Lost,
    /// The client was closed, or its engine has ended.
    Closed,
    /// Too few replicas confirmed the grant.
    NotReplicated,
    /// The store has data that bandog did not write or that is damaged.
    Corrupt,
    /// The client has too many pending calls and accepts no more. A later retry may succeed.
    Overloaded,
}

impl Error {
    /// An error of this kind with this message. The request was not applied, unless [`Error::ambiguous`] is called.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Arc::new(ErrorParts { kind, verb: None, key: None, message, source: None, maybe_applied: false }))
    }

    /// A `Misused` error: a wrong value or call.
    pub fn misused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Misused, message)
    }

    /// An `Unavailable` error: the store does not answer.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// A `Lost` error: the lock was lost.
    pub fn lost(key: &Key) -> Self {
        Self::new(ErrorKind::Lost, "the lock was lost: another client may hold it now").at(key)
    }

    /// A `Closed` error: the client has ended.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client is closed")
    }

    /// Adds the verb that failed: `lock`, `claim`, `pass`, `renew`, `release`, `subscribe`, `announce`, `withdraw`,
    /// `show`, `list`, `members`, `evict`, `check`, `connect`, `swap`, `read`, `names`, `history`.
    #[must_use]
    pub fn during(self, verb: &'static str) -> Self {
        self.with(|parts| parts.verb = Some(verb))
    }

    /// Adds the key.
    #[must_use]
    pub fn at(self, key: &Key) -> Self {
        self.with(|parts| parts.key = Some(key.clone()))
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.with(|parts| parts.source = Some(Arc::new(source)))
    }

    /// Marks the error as ambiguous: the store may have applied the request, although no answer came.
    #[must_use]
    pub fn ambiguous(self) -> Self {
        self.with(|parts| parts.maybe_applied = true)
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self.kind() {
            ErrorKind::Unavailable | ErrorKind::NotReplicated | ErrorKind::Overloaded => true,
            ErrorKind::Denied
            | ErrorKind::Misused
            | ErrorKind::Unsupported
            | ErrorKind::Lost
            | ErrorKind::Closed
            | ErrorKind::Corrupt => false,
        }
    }

    /// Whether the store may have applied the request, because its answer was lost. False if the connection could not
    /// be made.
    pub fn maybe_applied(&self) -> bool {
        self.0.maybe_applied
    }

    /// The verb that failed, if it is known.
    pub fn verb(&self) -> Option<&'static str> {
        self.0.verb
    }

    /// The key, if the error has one.
    pub fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    fn with(self, change: impl FnOnce(&mut ErrorParts)) -> Self {
        let mut parts = Arc::unwrap_or_clone(self.0);
        change(&mut parts);
        Self(Arc::new(parts))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorParts { kind, verb, key, message, source, .. } = &*self.0;
        match (verb, key) {
            (Some(verb), Some(key)) => write!(f, "{verb} {key:?}: ")?,
            (Some(verb), None) => write!(f, "{verb}: ")?,
            (None, Some(key)) => write!(f, "{key:?}: ")?,
            (None, None) => {}
        }
        f.write_str(message)?;
        if *kind != ErrorKind::Misused {
            // A `Misused` message names the allowed values. For the others, the kind tells the user what to do.
            write!(f, " ({kind:?})")?;
        }
        match source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
