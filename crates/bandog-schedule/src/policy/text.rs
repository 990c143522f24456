//! The short texts of policies, which are used in attributes and configuration files.

use std::{fmt, num::NonZeroU32, str::FromStr};

use bandog_core::{Error, Result};

use super::{CatchUp, OnCrash, Overlap, Retry, Scope, StoreDown};

/// Splits a text of the form `word` or `word(number)`.
fn split_number(text: &str) -> (&str, Option<&str>) {
    let text = text.trim();
    match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((word, number)) => (word.trim(), Some(number.trim())),
        None => (text, None),
    }
}

/// Parses a number of at least 1.
fn count(text: &str) -> Option<NonZeroU32> {
    text.parse().ok()
}

/// Whether the text consists of digits only.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The error about a text that is not a policy. If only the number in the text is wrong, the error is about the number.
/// `what`: the name of the policy. `words`: the words that take a number. `known`: examples for the user.
fn unreadable<T>(what: &str, text: &str, words: &[&str], known: &str) -> Result<T> {
    match split_number(text) {
        (word, Some(n)) if words.contains(&word) && is_number(n) => {
            Err(Error::misused(format!("{what} = {text:?}: the number must be between 1 and {}", u32::MAX)))
        }
        _ => unknown(what, text, known),
    }
}

/// The error about a text that is not a policy. The parameters are those of [`unreadable`].
fn unknown<T>(what: &str, text: &str, known: &str) -> Result<T> {
    Err(Error::misused(format!("{what} = {text:?} is unknown; write {known}")))
}

impl FromStr for Overlap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match split_number(text) {
            ("skip", None) => Ok(Self::Skip),
            ("queue", None) => Ok(Self::Queue(NonZeroU32::MIN)),
            ("replace", None) => Ok(Self::Replace),
            ("queue", Some(n)) if count(n).is_some() => Ok(Self::Queue(count(n).unwrap_or(NonZeroU32::MIN))),
            ("allow", Some(n)) if count(n).is_some() => Ok(Self::Allow(count(n).unwrap_or(NonZeroU32::MIN))),
            _ => unreadable("overlap", text, &["queue", "allow"], "skip, queue, queue(10), allow(3) or replace"),
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::Queue(n) => write!(f, "queue({n})"),
            Self::Allow(n) => write!(f, "allow({n})"),
            Self::Replace => f.write_str("replace"),
        }
    }
}

impl FromStr for CatchUp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match split_number(text) {
            ("skip", None) => Ok(Self::Skip),
            ("once", None) => Ok(Self::Once),
            ("all", Some(n)) if count(n).is_some() => Ok(Self::All(count(n).unwrap_or(NonZeroU32::MIN))),
            _ => unreadable("catch_up", text, &["all"], "skip, once or all(10)"),
        }
    }
}

impl fmt::Display for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::Once => f.write_str("once"),
            Self::All(n) => write!(f, "all({n})"),
        }
    }
}

impl FromStr for OnCrash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match split_number(text) {
            ("retry", None) => Ok(Self::Retry),
            ("abandon", None) => Ok(Self::Abandon),
            ("retry", Some(n)) if count(n).is_some() => Ok(Self::RetryUpTo(count(n).unwrap_or(NonZeroU32::MIN))),
            _ => unreadable("on_crash", text, &["retry"], "retry, retry(3) or abandon"),
        }
    }
}

impl fmt::Display for OnCrash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry => f.write_str("retry"),
            Self::RetryUpTo(deaths) => write!(f, "retry({deaths})"),
            Self::Abandon => f.write_str("abandon"),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "cluster",
            Self::EachNode => "each_node",
        })
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "cluster" => Ok(Self::Cluster),
            "each_node" => Ok(Self::EachNode),
            _ => unknown("scope", text, "cluster or each_node"),
        }
    }
}

impl fmt::Display for StoreDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FailClosed => "fail_closed",
            Self::FailOpen => "fail_open",
        })
    }
}

impl FromStr for StoreDown {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "fail_closed" => Ok(Self::FailClosed),
            "fail_open" => Ok(Self::FailOpen),
            _ => unknown("store_down", text, "fail_closed or fail_open"),
        }
    }
}

impl FromStr for Retry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match read_retry(text) {
            Some(retry) => Ok(retry),
            None if text.split_whitespace().next().is_some_and(|n| is_number(n) && n.parse::<u32>().is_err()) => {
                Err(Error::misused(format!("retry = {text:?}: the number must be between 0 and {}", u32::MAX)))
            }
            None => unknown("retry", text, "3, \"3 from 1s to 1m\", \"3 within 10m\" or \"3 until next tick\""),
        }
    }
}

/// Parses the text of a [`Retry`].
fn read_retry(text: &str) -> Option<Retry> {
    let mut words = text.split_whitespace().peekable();
    let mut retry = Retry::times(words.next()?.parse().ok()?);
    // Reads this word and the duration after it. Returns `Some(None)` if the text does not continue with this word, and
    // `None` if the duration cannot be parsed.
    let mut time = |word| {
        if words.next_if_eq(&word).is_none() {
            return Some(None);
        }
        // A duration can have several words, for example `1m 30s`.
        let mut text = words.next()?.to_owned();
        while let Some(more) = words.next_if(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
            text = format!("{text} {more}");
        }
        humantime::parse_duration(&text).ok().map(Some)
    };
    (retry.base, retry.cap) = (time("from")?.unwrap_or(retry.base), time("to")?.unwrap_or(retry.cap));
    retry.within = time("within")?;
    // The remaining words: either none, or `until next tick`.
    let rest: Vec<&str> = words.collect();
    retry.until_next_tick = rest == ["until", "next", "tick"];
    (rest.is_empty() || retry.until_next_tick).then_some(retry)
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [base, cap] = [self.base, self.cap].map(humantime::format_duration);
        write!(f, "{} from {base} to {cap}", self.times)?;
        if let Some(within) = self.within {
            write!(f, " within {}", humantime::format_duration(within))?;
        }
        f.write_str(if self.until_next_tick { " until next tick" } else { "" })
    }
}
