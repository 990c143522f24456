//! What a look at a store's health finds.

/// One thing that [`crate::Inspect::check`] looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at, in a word or two that scripts may rely on, such as `maxmemory-policy`.
    pub subject: String,
    /// What was found, in a sentence.
    pub says: String,
    /// What to do about it; none when all is well.
    pub cure: Option<String>,
}

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// All is well.
    Fine,
    /// It could be better, or could not be looked at; locks hold.
    Advice,
    /// Locks may be lost or kept from their users.
    Danger,
}

impl Finding {
    /// All is well.
    pub fn fine(subject: impl Into<String>, says: impl Into<String>) -> Self {
        Self { level: Level::Fine, subject: subject.into(), says: says.into(), cure: None }
    }

    /// It could be better.
    pub fn advice(subject: impl Into<String>, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { level: Level::Advice, subject: subject.into(), says: says.into(), cure: Some(cure.into()) }
    }

    /// Locks are in danger.
    pub fn danger(subject: impl Into<String>, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { level: Level::Danger, subject: subject.into(), says: says.into(), cure: Some(cure.into()) }
    }
}
