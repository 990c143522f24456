//! The result of work that is repeated: the body of a job, or a singleton task. A failure says whether a retry can help.

use std::{error::Error as StdError, fmt};

use crate::{Error, ErrorKind};

/// The kinds of errors with which work can never succeed, however often it is repeated.
const PERMANENT: [ErrorKind; 3] = [ErrorKind::Unsupported, ErrorKind::Misused, ErrorKind::Denied];

/// The result of the body of a job or of a singleton task: `()`, or `Result<(), E>` with any type of error that can be
/// converted into a boxed error. An error counts as a failure.
///
/// A failure is not retried if it can never succeed: if the error, or an error in its chain of sources, is a bandog error
/// with [`Error::is_permanent`]. An error type that hides its source from [`std::error::Error::source`] is retried.
#[diagnostic::on_unimplemented(
    message = "a job or a singleton task must return `()` or `Result<(), E>`, where `E` can be converted into a boxed error",
    label = "bandog cannot decide whether this value is a failure"
)]
pub trait Outcome {
    /// The failure, or none if the work succeeded.
    fn failure(self) -> Option<Failure>;
}

/// The failure of a job's body or of a singleton task.
pub struct Failure {
    text: String,
    /// The bandog error because of which a retry cannot succeed.
    permanent: Option<Error>,
}

impl Failure {
    /// A failure without an error, such as a panic. A retry can succeed.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), permanent: None }
    }

    /// The text of the error and of its sources.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bandog error because of which a retry can never succeed. None if a retry can succeed.
    pub fn permanent(&self) -> Option<&Error> {
        self.permanent.as_ref()
    }

    /// Shortens the text to its first bytes, at most this number.
    #[must_use]
    pub fn cut(mut self, bytes: usize) -> Self {
        if self.text.len() > bytes {
            let end = (0..=bytes).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
            self.text.truncate(end);
            self.text.shrink_to_fit();
        }
        self
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Outcome for () {
    fn failure(self) -> Option<Failure> {
        None
    }
}

/// The type `!` of work that never ends, such as a loop without `break` or `?`. Stable Rust has no other name for it.
type Never = <fn() -> ! as Returning>::Value;

pub trait Returning {
    type Value;
}

impl<T> Returning for fn() -> T {
    type Value = T;
}

/// The result of a function of `#[bandog::scheduled]`.
impl Outcome for Option<Failure> {
    fn failure(self) -> Option<Failure> {
        self
    }
}

impl Outcome for Never {
    fn failure(self) -> Option<Failure> {
        self
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> Outcome for Result<(), E> {
    fn failure(self) -> Option<Failure> {
        let error = self.err()?.into();
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            let source_text = source.to_string();
            // Many errors already contain the text of their cause.
            if !text.contains(&source_text) {
                text = format!("{text}: {source_text}");
            }
            cause = source.source();
        }
        Some(Failure { permanent: permanent(&*error), text })
    }
}

/// The first bandog error in this chain, if it is permanent.
fn permanent(error: &(dyn StdError + 'static)) -> Option<Error> {
    let mut chain = std::iter::successors(Some(error), |&error| error.source());
    match chain.find_map(|error| error.downcast_ref::<Error>()) {
        Some(found) => found.is_permanent().then(|| found.clone()),
        None => behind_a_report(error),
    }
}

/// The same for an error that was put into a report, such as `anyhow::Error`, and then boxed. The box has a type of the
/// report's library, so a downcast fails; and its source is that of the error in the report. But its structure in
/// `{:#?}` is that of the error, and no other type has the structure of a bandog error.
fn behind_a_report(error: &(dyn StdError + 'static)) -> Option<Error> {
    let structure = format!("{error:#?}");
    let kind = PERMANENT.into_iter().find(|kind| structure.starts_with(&Error::structure(*kind, true)))?;
    let text = error.to_string();
    // The text contains the kind, and the new error adds it.
    let message = text.replacen(&format!(" ({kind:?})"), "", 1);
    Some(Error::new(kind, message))
}

impl Error {
    /// Whether the same work can never succeed, however often it is repeated: the kind is [`ErrorKind::Unsupported`],
    /// [`ErrorKind::Misused`] or [`ErrorKind::Denied`], and the error is not about the data of one transaction, and not about
    /// the login of the client, whose password can change. Jobs and singleton tasks do not retry such an error.
    ///
    /// ```
    /// use bandog::Error;
    ///
    /// assert!(Error::misused("the ttl is 0s").is_permanent());
    /// assert!(!Error::unavailable("no answer").is_permanent());
    /// assert!(!Error::new(bandog::ErrorKind::Denied, "wrong password").about_login().is_permanent());
    /// ```
    pub fn is_permanent(&self) -> bool {
        PERMANENT.contains(&self.kind()) && !self.is_about_data() && !self.is_about_login()
    }
}
