//! A piece of an expression and its place.

use crate::{Dialect, Field, error::Fault};

/// A piece of the expression's text, and the position in the text at which the piece begins.
#[derive(Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Word<'a> {
    /// A fault at this word. `what` is the fault, and `hint` is what is allowed or was probably meant.
    pub(crate) fn fault(
        self,
        field: impl Into<Option<Field>>,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Fault {
        let (at, len) = (self.at, self.text.len());
        Fault { field: field.into(), at, len, what: what.into(), hint: hint.into(), remedy: None }
    }

    /// The part of this word from `start` to `end`.
    pub(crate) fn part(self, start: usize, end: usize) -> Self {
        Self { text: &self.text[start..end], at: self.at + start }
    }

    /// The parts before and after the first occurrence of this character. `None` if the word does not have it.
    pub(crate) fn split_at(self, character: char) -> Option<(Self, Self)> {
        let position = self.text.find(character)?;
        Some((self.part(0, position), self.part(position + 1, self.text.len())))
    }

    /// The parts between commas.
    pub(crate) fn items(self) -> impl Iterator<Item = Word<'a>> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let word = rest?;
            let Some((item, after)) = word.split_at(',') else { return rest.take() };
            rest = Some(after);
            Some(item)
        })
    }

    /// Whether this day field restricts the days. In a crontab, a field that begins with a star restricts nothing.
    pub(crate) fn is_restricted(self, dialect: Dialect) -> bool {
        match dialect {
            Dialect::Quartz | Dialect::Spring => self.text != "*" && self.text != "?",
            Dialect::Unix => !self.text.starts_with('*'),
        }
    }
}
