//! Reads one table of a file, key by key.

use std::{ops::Range, time::Duration};

use bandog::backend::MAX_TTL;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::mistakes::Mistakes;

/// A value and its position.
type Value<'a> = Spanned<DeValue<'a>>;

/// A table with a fixed set of keys.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    /// The name of the table in messages.
    called: &'a str,
    entries: &'a DeTable<'a>,
    /// The table with the values of keys that this table does not have.
    defaults: Option<&'a DeTable<'a>>,
    mistakes: &'a Mistakes,
}

impl<'a> Table<'a> {
    /// A table that can have these `keys`. Each other key is reported as a mistake.
    pub(super) fn new(called: &'a str, entries: &'a DeTable<'a>, keys: &[&str], mistakes: &'a Mistakes) -> Self {
        for key in entries.keys().filter(|key| !keys.contains(&key.get_ref().as_ref())) {
            let hint = match meant(key.get_ref(), keys) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("known keys are {}", keys.join(", ")),
            };
            mistakes.add(key.span(), format!("{called} has no key {:?}; {hint}", key.get_ref()));
        }
        Self { called, entries, defaults: None, mistakes }
    }

    /// The same table, with these values of keys that it does not have. A mistake in such a value is reported once, although
    /// several tables have it: it has the same position and message.
    pub(super) fn with_defaults(self, defaults: Option<&'a DeTable<'a>>) -> Self {
        Self { defaults, ..self }
    }

    /// The value of a key, and the position of the key.
    pub(super) fn get(self, key: &str) -> Option<(Range<usize>, &'a Value<'a>)> {
        self.own(key).or_else(|| self.default(key))
    }

    /// As [`Self::get`], without the defaults.
    pub(super) fn own(self, key: &str) -> Option<(Range<usize>, &'a Value<'a>)> {
        let (key, value) = self.entries.get_key_value(key)?;
        Some((key.span(), value))
    }

    /// As [`Self::get`], from the defaults alone.
    pub(super) fn default(self, key: &str) -> Option<(Range<usize>, &'a Value<'a>)> {
        let (key, value) = self.defaults?.get_key_value(key)?;
        Some((key.span(), value))
    }

    pub(super) fn text(self, key: &str) -> Option<(&'a str, &'a Value<'a>)> {
        let (_, value) = self.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some((text, value)),
            other => self.reject(value, format!("{key} is {}; write a text in quotation marks", kind(other))),
        }
    }

    pub(super) fn flag(self, key: &str) -> Option<bool> {
        let (_, value) = self.get(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => self.reject(value, format!("{key} is {}; write true or false", kind(other))),
        }
    }

    /// A duration of at least `least`.
    pub(super) fn duration(self, key: &str, least: Duration) -> Option<Duration> {
        let (_, value) = self.get(key)?;
        let range = format!("between {} and 365d", humantime::format_duration(least));
        let text = match value.get_ref() {
            DeValue::String(text) => text,
            DeValue::Integer(number) => {
                return self.reject(value, format!("{key} has no unit; write it like \"{}s\"", number.as_str()));
            }
            other => return self.reject(value, format!("{key} is {}; write it like \"2s\" or \"500ms\"", kind(other))),
        };
        match humantime::parse_duration(text) {
            Ok(duration) if (least..=MAX_TTL).contains(&duration) => Some(duration),
            Ok(_) => self.reject(value, format!("{key} = {text:?} must be {range}")),
            Err(_) => {
                self.reject(value, format!("{key} = {text:?} is no duration; write it like 500ms, 10s or 2m, {range}"))
            }
        }
    }

    /// A number that is not smaller than `least`.
    pub(super) fn number(self, key: &str, least: u64) -> Option<u64> {
        let (_, value) = self.get(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        match number.filter(|number| (least..=u64::from(u32::MAX)).contains(number)) {
            Some(number) => Some(number),
            None => self.reject(value, format!("{key} takes a number from {least} to {}", u32::MAX)),
        }
    }

    /// Reads the value of a key as a policy. If the value is wrong, the parser of the policy provides the message.
    pub(super) fn policy<T: std::str::FromStr<Err: std::fmt::Display>>(self, key: &str) -> Option<T> {
        let (text, value) = self.text(key)?;
        match text.parse() {
            Ok(policy) => Some(policy),
            Err(error) => self.reject(value, error.to_string()),
        }
    }

    /// Reports a mistake if a required key is missing. `header` is the position of the table's header. Returns `found`,
    /// which is the value that the caller has read for this key.
    pub(super) fn required<T>(self, key: &str, header: Range<usize>, found: Option<T>) -> Option<T> {
        if !self.entries.contains_key(key) {
            self.mistakes.add(header, format!("{} has no {key}", self.called));
        }
        found
    }

    /// Reports a mistake in a value. Always returns `None`, so that a caller can return this result.
    pub(super) fn reject<T>(self, value: &Value<'_>, what: impl Into<String>) -> Option<T> {
        self.mistakes.add(value.span(), what);
        None
    }

    pub(super) fn called(self) -> &'a str {
        self.called
    }

    pub(super) fn mistakes(self) -> &'a Mistakes {
        self.mistakes
    }
}

/// The type of a value as text.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The known key that the user probably meant. The known key differs from `key` in at most two letters. Differences in
/// `_`, in `-` and in capital letters are ignored.
fn meant<'a>(key: &str, keys: &[&'a str]) -> Option<&'a str> {
    let plain: String = key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let distance = |known: &&str| strsim::damerau_levenshtein(&plain, &known.replace('_', ""));
    let nearest = keys.iter().min_by_key(|known| distance(known))?;
    // For a short key, fewer letters can differ.
    (distance(nearest) <= 2.min(nearest.len() / 2)).then_some(nearest)
}
