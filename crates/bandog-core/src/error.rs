//! One opaque error: what failed, at which key, why, and whether it may have happened all the same.

use std::{error::Error as StdError, fmt, sync::Arc};

use crate::Key;

/// The result of this family of crates.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Arc<dyn StdError + Send + Sync + 'static>;

/// What went wrong, in the words of [`ErrorKind`], with the verb, the key and the cause.
///
/// Busy and timed out are no errors: the calls that try give `None`. Cloning is cheap.
///
/// Its text ends with the kind in brackets, unless it is `Misused`, whose text says what to do by itself.
///
/// ```
/// use bandog::Error;
///
/// let misused = Error::misused("the ttl is 0s; it takes 100ms to 365 days").during("lock");
/// assert_eq!(misused.to_string(), "lock: the ttl is 0s; it takes 100ms to 365 days");
/// assert_eq!(Error::unavailable("no answer").to_string(), "no answer (Unavailable)");
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    verb: Option<&'static str>,
    key: Option<Key>,
    message: String,
    source: Option<Source>,
    maybe_applied: bool,
}

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store did not answer, or cannot serve now. Trying again may help.
    Unavailable,
    /// The store refuses: a password, a missing right, a key of another type. Trying again does not help.
    Denied,
    /// A value or a call that can never work, told before any I/O.
    Misused,
    /// This backend cannot do that.
    Unsupported,
    /// The lock was lost: somebody else may hold it.
    Lost,
    /// The client was closed or its engine has ended.
    Closed,
    /// Too few replicas confirmed the grant.
    NotReplicated,
    /// The store holds something that cannot be read as ours.
    Corrupt,
    /// So much is asked of this client already that it takes no more. Trying again later may help.
    Overloaded,
}

impl Error {
    /// An error of this kind that says this. Nothing was applied, unless [`Error::ambiguous`] says otherwise.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Arc::new(Inner { kind, verb: None, key: None, message, source: None, maybe_applied: false }))
    }

    /// A wrong value or call.
    pub fn misused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Misused, message)
    }

    /// The store does not answer.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// The lock was lost.
    pub fn lost(key: &Key) -> Self {
        Self::new(ErrorKind::Lost, "the lock was lost: somebody else may hold it now").at(key)
    }

    /// The client has ended.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client is closed")
    }

    /// Names our verb: `lock`, `claim`, `pass`, `renew`, `release`, `listen`, `hear`, `announce`,
    /// `withdraw`, `show`, `list`, `members`, `evict`, `check`, `connect`.
    #[must_use]
    pub fn during(self, verb: &'static str) -> Self {
        self.with(|inner| inner.verb = Some(verb))
    }

    /// Names the key.
    #[must_use]
    pub fn at(self, key: &Key) -> Self {
        self.with(|inner| inner.key = Some(key.clone()))
    }

    /// Keeps the cause.
    #[must_use]
    pub fn caused_by(self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.source = Some(Arc::new(source)))
    }

    /// Says that the store may have done what was asked, although no answer came.
    #[must_use]
    pub fn ambiguous(self) -> Self {
        self.with(|inner| inner.maybe_applied = true)
    }

    /// What kind of error it is.
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

    /// Whether the store may have applied the request: its answer was lost. A refused dial surely did nothing.
    pub fn maybe_applied(&self) -> bool {
        self.0.maybe_applied
    }

    /// Our verb that failed, if it is known.
    pub fn verb(&self) -> Option<&'static str> {
        self.0.verb
    }

    /// The key at which it failed, if there is one.
    pub fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        change(&mut inner);
        Self(Arc::new(inner))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, verb, key, message, source, .. } = &*self.0;
        match (verb, key) {
            (Some(verb), Some(key)) => write!(f, "{verb} {key:?}: ")?,
            (Some(verb), None) => write!(f, "{verb}: ")?,
            (None, Some(key)) => write!(f, "{key:?}: ")?,
            (None, None) => {}
        }
        f.write_str(message)?;
        if *kind != ErrorKind::Misused {
            // What was misused says so itself; of the others the kind tells what to do.
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
