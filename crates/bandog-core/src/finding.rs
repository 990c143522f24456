//! The results of a health check of a store.

/// One result of [`crate::Inspect::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The checked property in one or two words, such as `maxmemory-policy`. Later versions use the same words, so
    /// scripts can rely on these words.
    pub subject: String,
    /// The result of the check, in one sentence.
    pub says: String,
    /// The remedy, as a sentence. None if no problem was found.
    pub cure: Option<String>,
}

/// The severity of a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// No problem was found.
    Fine,
    /// A setting could be better, or could not be checked. Locks are safe.
    Advice,
    /// Locks can be lost, or clients can be unable to get locks.
    Danger,
}

impl Finding {
    /// Creates a finding for a check that found no problem.
    pub fn fine(subject: impl Into<String>, says: impl Into<String>) -> Self {
        Self { level: Level::Fine, subject: subject.into(), says: says.into(), cure: None }
    }

    /// Creates a finding about a setting that could be better.
    pub fn advice(subject: impl Into<String>, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { level: Level::Advice, subject: subject.into(), says: says.into(), cure: Some(cure.into()) }
    }

    /// Creates a finding about a danger to locks.
    pub fn danger(subject: impl Into<String>, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { level: Level::Danger, subject: subject.into(), says: says.into(), cure: Some(cure.into()) }
    }
}
