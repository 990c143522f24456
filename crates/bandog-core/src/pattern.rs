//! Patterns of names.

use crate::Key;

/// A pattern for names. `*` matches any text, `?` matches one character, and a character after `\` matches itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Creates a pattern from its text.
    pub fn new(glob: impl Into<String>) -> Self {
        Self(glob.into())
    }

    /// The pattern that matches every name.
    pub fn all() -> Self {
        Self::new("*")
    }

    /// The pattern that matches a name if the name begins with `prefix` and `self` matches the rest of the name.
    #[must_use]
    pub fn after(&self, prefix: &str) -> Self {
        let mut glob = String::with_capacity(prefix.len() + self.0.len());
        for c in prefix.chars() {
            if matches!(c, '*' | '?' | '\\') {
                glob.push('\\');
            }
            glob.push(c);
        }
        Self(glob + &self.0)
    }

    /// The pattern that matches this name only.
    ///
    /// ```
    /// use bandog::{Key, Pattern};
    /// let pattern = Pattern::exactly(&Key::new("what*?")?);
    /// assert!(pattern.matches("what*?") && !pattern.matches("whatever"));
    /// # Ok::<(), bandog::Error>(())
    /// ```
    pub fn exactly(key: &Key) -> Self {
        let escaped =
            key.as_str().chars().flat_map(|c| matches!(c, '*' | '?' | '\\').then_some('\\').into_iter().chain([c]));
        Self(escaped.collect())
    }

    /// The text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches a name.
    ///
    /// ```
    /// use bandog::Pattern;
    /// assert!(Pattern::new("order-*").matches("order-17"));
    /// assert!(!Pattern::new("order-?").matches("order-17"));
    /// ```
    pub fn matches(&self, name: &str) -> bool {
        let glob: Vec<char> = self.0.chars().collect();
        let name: Vec<char> = name.chars().collect();
        // `g` is the position in the pattern, and `n` is the position in the name.
        let (mut g, mut n) = (0, 0);
        // The position after the last `*` that was read in the pattern, and the position in the name up to which this
        // `*` matches. None before the first `*`.
        let mut star = None;
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
            // The rest of the pattern does not match here. So the last `*` must match one more character of the name.
            let Some((after, matched)) = star else {
                return false;
            };
            star = Some((after, matched + 1));
            (g, n) = (after, matched + 1);
        }
        while let (Some(Token::Any), width) = token(&glob, g) {
            g += width;
        }
        g == glob.len()
    }
}

/// One part of a pattern.
enum Token {
    /// Any text.
    Any,
    /// Any one character.
    One,
    /// This character.
    This(char),
}

/// The token at a position of the pattern, and its length in characters. None at the end of the pattern.
fn token(glob: &[char], at: usize) -> (Option<Token>, usize) {
    match (glob.get(at), glob.get(at + 1)) {
        (Some('*'), _) => (Some(Token::Any), 1),
        (Some('?'), _) => (Some(Token::One), 1),
        (Some('\\'), Some(c)) => (Some(Token::This(*c)), 2),
        (Some(c), _) => (Some(Token::This(*c)), 1),
        (None, _) => (None, 0),
    }
}
