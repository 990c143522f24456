//! A look at who holds what.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Fence, Key, Result};

/// One lock as its store sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The lock's name.
    pub name: String,
    /// Whether somebody holds it.
    pub held: bool,
    /// Who holds it, as the store has it: text, because owners need not be ours.
    pub owner: Option<String>,
    /// The last fence that the holder reserved; none when the holder is not a bandog client.
    pub fence: Option<Fence>,
    /// How long the hold lasts if nobody renews it; none for a hold without an end.
    pub ttl: Option<Duration>,
}

impl Row {
    /// The row of a lock that nobody holds.
    pub fn free(key: &Key) -> Self {
        Self { name: key.to_string(), held: false, owner: None, fence: None, ttl: None }
    }
}

/// Which names to list: a glob in which `*` stands for any text, `?` for one character and `\` takes away the meaning
/// of the next character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// A pattern from its text.
    pub fn new(glob: impl Into<String>) -> Self {
        Self(glob.into())
    }

    /// The pattern that every name matches.
    pub fn all() -> Self {
        Self::new("*")
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a name matches.
    ///
    /// ```
    /// use bandog_core::Pattern;
    /// assert!(Pattern::new("order-*").matches("order-17"));
    /// assert!(!Pattern::new("order-?").matches("order-17"));
    /// ```
    pub fn matches(&self, name: &str) -> bool {
        let glob: Vec<char> = self.0.chars().collect();
        let name: Vec<char> = name.chars().collect();
        let (mut g, mut n) = (0, 0);
        let mut star = None; // Where the last `*` stood and what it has swallowed up to.
        while n < name.len() {
            let (token, width) = token(&glob, g);
            match token {
                Some(Token::Any) => {
                    star = Some((g + width, n));
                    g += width;
                    continue;
                }
                Some(Token::One) => {
                    (g, n) = (g + width, n + 1);
                    continue;
                }
                Some(Token::This(c)) if c == name[n] => {
                    (g, n) = (g + width, n + 1);
                    continue;
                }
                Some(Token::This(_)) | None => {}
            }
            let Some((after, swallowed)) = star else {
                return false;
            };
            star = Some((after, swallowed + 1));
            (g, n) = (after, swallowed + 1);
        }
        while let (Some(Token::Any), width) = token(&glob, g) {
            g += width;
        }
        g == glob.len()
    }
}

enum Token {
    Any,
    One,
    This(char),
}

fn token(glob: &[char], at: usize) -> (Option<Token>, usize) {
    match (glob.get(at), glob.get(at + 1)) {
        (Some('*'), _) => (Some(Token::Any), 1),
        (Some('?'), _) => (Some(Token::One), 1),
        (Some('\\'), Some(c)) => (Some(Token::This(*c)), 2),
        (Some(c), _) => (Some(Token::This(*c)), 1),
        (None, _) => (None, 0),
    }
}

/// For operators: what a store knows of its locks. Reading never changes anything.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// The locks that are held now and whose names match, sorted by name.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>>;

    /// One lock, held or not.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]; `Denied` when the key is something else than a lock.
    async fn show(&self, key: &Key) -> Result<Row>;
}
