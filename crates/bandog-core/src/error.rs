//! The error type. An error has a kind, the operation that failed, the key, and the cause. The error also says whether
//! the store might have applied the request.

mod subject;

use std::{error::Error as StdError, fmt, sync::Arc};

use crate::Key;

/// The result type of all bandog crates.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error that caused another error.
type Cause = Arc<dyn StdError + Send + Sync + 'static>;

/// An error with its kind, the verb (the operation that failed, such as `lock`), the key and the cause.
///
/// A busy lock is not an error: a `try_` method returns `None` if it does not get the lock in time. Cloning an error is
/// cheap.
///
/// The text of an error has five parts in this order: the verb, the key, the message, the kind in parentheses, and the
/// cause. The records of jobs and the sessions of nodes are named in words instead of their keys. If the cause is an error of the same kind, the kind is printed once. Parts that the error does not have are left
/// out. The kind [`ErrorKind::Misused`] is left out too: the message of such an error names the allowed values, so the kind
/// would add nothing.
///
/// ```
/// use bandog::Error;
///
/// let misused = Error::misused("the ttl is 0s; it must be at least 100ms").during("lock");
/// assert_eq!(misused.to_string(), "lock: the ttl is 0s; it must be at least 100ms");
/// assert_eq!(Error::unavailable("no answer").to_string(), "no answer (Unavailable)");
///
/// let caused = Error::unavailable("the master is away").caused_by(Error::unavailable("no answer"));
/// assert_eq!(caused.to_string(), "the master is away (Unavailable): no answer");
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
    /// Whether the store might have applied the request although the client got no answer.
    maybe_applied: bool,
    /// Whether the store has refused the data of one transaction. The same work can succeed with other data.
    about_data: bool,
    /// Whether the server has refused the login of the client.
    about_login: bool,
    /// Whether a transaction of another program has locked the rows.
    about_locked_rows: bool,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store did not answer, or cannot serve the request at present. A retry can succeed.
    Unavailable,
    /// The store refuses the request, for example because of a wrong password, a missing right, or a key with data of
    /// another type. A retry does not help.
    Denied,
    /// The caller passed a value that is not allowed, or made a call that can never succeed. The error is returned
    /// before any I/O.
    Misused,
    /// This backend does not support the operation.
    Unsupported,
    /// The lock was lost: another client might hold it now.
    Lost,
    /// The client was closed, or its engine (the task that sends the client's requests) has ended.
    Closed,
    /// Too few replicas of the store confirmed the grant.
    NotReplicated,
    /// The store has data that bandog did not write, or that is damaged.
    Corrupt,
    /// Too many calls wait, and the client accepts no more. A later retry can succeed.
    Overloaded,
    /// The call is part of a deadlock: its owner holds a lock for which another call of the deadlock waits. The same
    /// call can succeed after the owner has released its locks.
    Deadlock,
}

impl Error {
    /// Creates an error of this kind with this message. [`Error::maybe_applied`] is false, unless [`Error::ambiguous`]
    /// is called.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let (verb, key, source) = (None, None, None);
        Self(Arc::new(ErrorParts {
            kind,
            verb,
            key,
            message,
            source,
            maybe_applied: false,
            about_data: false,
            about_login: false,
            about_locked_rows: false,
        }))
    }

    /// Creates an error of the kind [`ErrorKind::Misused`]: the caller passed a wrong value or made a wrong call.
    pub fn misused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Misused, message)
    }

    /// Creates an error of the kind [`ErrorKind::Unavailable`]: the store does not answer.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Creates an error of the kind [`ErrorKind::Lost`]: the lock was lost.
    pub fn lost(key: &Key) -> Self {
        Self::new(ErrorKind::Lost, "the lock was lost: another client might hold it now").at(key)
    }

    /// Creates an error of the kind [`ErrorKind::Closed`]: the client was closed or has ended.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client is closed")
    }

    /// Adds the verb, which names the operation that failed.
    ///
    /// The verbs are `lock`, `claim`, `pass`, `renew`, `release`, `subscribe`, `register`, `deregister`, `show`,
    /// `list`, `members`, `evict`, `forget`, `set_limit`, `check`, `connect`, `swap`, `read`, `names`, `history`,
    /// `set_latch`, `count_down`, `delete_latch`, `latch_count`, `fence` and `complete`.
    #[must_use]
    pub fn during(self, verb: &'static str) -> Self {
        self.with(|parts| parts.verb = Some(verb))
    }

    /// Adds the key that the request was about.
    #[must_use]
    pub fn at(self, key: &Key) -> Self {
        self.with(|parts| parts.key = Some(key.clone()))
    }

    /// Adds the error that caused this error.
    #[must_use]
    pub fn caused_by(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.with(|parts| parts.source = Some(source.into().into()))
    }

    /// Marks the error as ambiguous: the store might have applied the request, although the client got no answer.
    #[must_use]
    pub fn ambiguous(self) -> Self {
        self.with(|parts| parts.maybe_applied = true)
    }

    /// Marks the error as one about the data of a transaction, such as a constraint that is checked at the commit. The same
    /// work can succeed later, so [`Error::is_permanent`] is false.
    #[must_use]
    pub fn about_data(self) -> Self {
        self.with(|parts| parts.about_data = true)
    }

    /// Marks the error as a refusal of the user or the password of the client, for authors of backends. The log then names
    /// the login as the cause, and the client tries again to register itself.
    #[must_use]
    pub fn about_login(self) -> Self {
        self.with(|parts| parts.about_login = true)
    }

    /// Marks the error as one about rows that a transaction of another program has locked, for authors of backends. Nothing is
    /// applied, and the same call can succeed when that transaction has ended.
    #[must_use]
    pub fn about_locked_rows(self) -> Self {
        self.with(|parts| parts.about_locked_rows = true)
    }

    /// The text of the error without its kind. A message that contains the texts of several errors uses it, so that the
    /// kind is printed once, at the end.
    ///
    /// ```
    /// use bandog::Error;
    ///
    /// let (first, second) = (Error::unavailable("a is down"), Error::unavailable("b is down"));
    /// let both = Error::unavailable(format!("{}; {}", first.without_kind(), second.without_kind()));
    /// assert_eq!(both.to_string(), "a is down; b is down (Unavailable)");
    /// ```
    pub fn without_kind(&self) -> String {
        format!("{}{}{}", self.place(), self.0.message, self.cause_text())
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call can succeed later.
    pub fn is_retryable(&self) -> bool {
        match self.kind() {
            ErrorKind::Unavailable | ErrorKind::NotReplicated | ErrorKind::Overloaded => true,
            ErrorKind::Denied
            | ErrorKind::Misused
            | ErrorKind::Unsupported
            | ErrorKind::Lost
            | ErrorKind::Closed
            | ErrorKind::Corrupt
            | ErrorKind::Deadlock => false,
        }
    }

    /// Whether the store might have applied the request although the client got no answer. False if the client could
    /// not connect, because a client without a connection has sent no request.
    pub fn maybe_applied(&self) -> bool {
        self.0.maybe_applied
    }

    /// Whether the store has refused the data of one transaction.
    pub(crate) fn is_about_data(&self) -> bool {
        self.0.about_data
    }

    /// Whether the server has refused the user or the password of the client.
    pub fn is_about_login(&self) -> bool {
        self.0.about_login
    }

    /// Whether a transaction of another program has locked the rows.
    pub fn is_about_locked_rows(&self) -> bool {
        self.0.about_locked_rows
    }

    /// The error that caused this error. Its text is part of the text of this error, so
    /// [`source`](std::error::Error::source) does not return it.
    ///
    /// ```
    /// use bandog::Error;
    ///
    /// let caused = Error::unavailable("no answer").caused_by(std::io::Error::other("broken pipe"));
    /// assert!(caused.cause().is_some_and(|cause| cause.is::<std::io::Error>()));
    /// ```
    pub fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }

    /// The verb (the operation that failed), if it is known.
    pub fn verb(&self) -> Option<&'static str> {
        self.0.verb
    }

    /// The key, if the error has one.
    pub fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    /// The beginning of the structure in `{:#?}`.
    pub(crate) fn structure(kind: ErrorKind, is_permanent: bool) -> String {
        format!("bandog::Error {{ kind: {kind:?}, is_permanent: {is_permanent},")
    }

    /// The beginning of the text: the verb and the key.
    fn place(&self) -> String {
        match (self.verb(), self.key()) {
            (Some(verb), Some(key)) => format!("{verb} {}: ", subject::subject(Some(verb), key)),
            (Some(verb), None) => format!("{verb}: "),
            (None, Some(key)) => format!("{}: ", subject::subject(None, key)),
            (None, None) => String::new(),
        }
    }

    /// The end of the text: the cause. If the cause is an error of the same kind, its kind is not printed again.
    fn cause_text(&self) -> String {
        let Some(source) = &self.0.source else { return String::new() };
        match source.downcast_ref::<Self>().filter(|cause| cause.kind() == self.kind()) {
            Some(cause) => format!(": {}", cause.without_kind()),
            None => format!(": {source}"),
        }
    }

    /// Changes the parts of this error, and returns the changed error. Clones of the error do not change.
    fn with(self, change: impl FnOnce(&mut ErrorParts)) -> Self {
        let mut parts = Arc::unwrap_or_clone(self.0);
        change(&mut parts);
        Self(Arc::new(parts))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorParts { kind, message, .. } = &*self.0;
        write!(f, "{}{message}", self.place())?;
        if *kind != ErrorKind::Misused {
            // The kind helps the user to decide what to do, for example whether to retry. A `Misused` error does not
            // need the kind, because the message of such an error names the allowed values.
            write!(f, " ({kind:?})")?;
        }
        f.write_str(&self.cause_text())
    }
}

/// The text of the error. With `{:#?}`, its structure.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        write!(f, "{} text: {:?} }}", Self::structure(self.kind(), self.is_permanent()), self.to_string())
    }
}

/// The source is the first cause that the text of the error does not contain. So a report that prints an error with its
/// sources, such as `{:#}` of `anyhow`, prints each cause once.
impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let text = self.to_string();
        let is_printed = |cause: &(dyn StdError + 'static)| match cause.downcast_ref::<Self>() {
            Some(error) if text.contains(&error.without_kind()) => true,
            Some(_) | None => text.contains(&cause.to_string()),
        };
        std::iter::successors(self.cause(), |&cause| cause.source()).find(|&cause| !is_printed(cause))
    }
}

#[cfg(test)]
mod tests;
