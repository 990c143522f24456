//! The query of a URL.

use bandog_core::{Pattern, queues::Phase, structures::Cursor};
use hyper::StatusCode;
use percent_encoding::percent_decode_str;

use crate::{Language, source::Trouble};

/// Maximum number of jobs or locks in one answer with a `limit`.
pub(crate) const MOST: usize = 200;

/// The requested part of the jobs or locks. If `limit` is `None`, this is every row from the row `offset` to the last
/// row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// A text that the names of the requested jobs must contain, in lower case. Empty if every name matches.
    pub(crate) name: String,
    /// The state of the requested jobs.
    pub(crate) is: StateFilter,
    pub(crate) offset: usize,
    pub(crate) limit: Option<usize>,
}

/// The requested objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedObjects {
    pub(crate) pattern: Pattern,
    /// Where the page begins.
    pub(crate) from: Cursor,
}

/// The requested elements of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedElements {
    pub(crate) phase: Phase,
    /// Where the page begins.
    pub(crate) from: Cursor,
}

/// The filter for the state of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum StateFilter {
    #[default]
    Any,
    Running,
    Paused,
    Failing,
}

impl Wanted {
    /// Parses `name=…&is=…&offset=…&limit=…`; each parameter is optional, and other parameters are ignored.
    pub(crate) fn read(query: Option<&str>) -> Result<Self, Trouble> {
        let mut wanted = Self::default();
        for (key, value) in pairs(query) {
            let number = || value.parse::<usize>().map_err(|_| wrong(format!("`{key}` must be a number")));
            match key {
                "name" => wanted.name = decoded(key, value)?.to_lowercase(),
                "is" => wanted.is = StateFilter::read(value)?,
                "offset" => wanted.offset = number()?,
                "limit" => match number()? {
                    limit @ 1..=MOST => wanted.limit = Some(limit),
                    _ => return Err(wrong(format!("`limit` must be a number from 1 to {MOST}"))),
                },
                _ => {}
            }
        }
        Ok(wanted)
    }
}

impl WantedObjects {
    /// Parses `name=…&cursor=…`; each parameter is optional, and other parameters are ignored.
    pub(crate) fn read(query: Option<&str>) -> Result<Self, Trouble> {
        let (mut name, mut from) = (String::new(), Cursor::default());
        for (key, value) in pairs(query) {
            match key {
                "name" => name = decoded(key, value)?,
                "cursor" => from = Cursor(decoded(key, value)?),
                _ => {}
            }
        }
        Ok(Self { pattern: Pattern::new(format!("*{name}*")), from })
    }
}

impl WantedElements {
    /// Parses `phase=…&cursor=…`; other parameters are ignored.
    pub(crate) fn read(query: Option<&str>) -> Result<Self, Trouble> {
        let (mut phase, mut from) = (None, Cursor::default());
        for (key, value) in pairs(query) {
            match key {
                "phase" => phase = Phase::IN_QUEUE.into_iter().find(|phase| phase.as_str() == value),
                "cursor" => from = Cursor(decoded(key, value)?),
                _ => {}
            }
        }
        let phase = phase.ok_or_else(|| wrong("`phase` must be one of ready, delayed, blocked, taken, dead"))?;
        Ok(Self { phase, from })
    }
}

impl StateFilter {
    fn read(text: &str) -> Result<Self, Trouble> {
        match text {
            "" | "all" => Ok(Self::Any),
            "running" => Ok(Self::Running),
            "paused" => Ok(Self::Paused),
            "failing" => Ok(Self::Failing),
            _ => Err(wrong("`is` must be one of all, running, paused, failing")),
        }
    }
}

/// Parses `lang=…`. An unknown language is ignored.
pub(crate) fn language(query: Option<&str>) -> Option<Language> {
    pairs(query).find(|(key, _)| *key == "lang")?.1.parse().ok()
}

/// Parses `queue=…`.
pub(crate) fn queue(query: Option<&str>) -> Result<Option<String>, Trouble> {
    pairs(query).find(|(key, _)| *key == "queue").map(|(key, value)| decoded(key, value)).transpose()
}

/// The parameters and their encoded values.
fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// The decoded value of this parameter.
fn decoded(key: &str, value: &str) -> Result<String, Trouble> {
    let text = value.replace('+', " ");
    let text = percent_decode_str(&text).decode_utf8().map_err(|_| wrong(format!("`{key}` must be UTF-8 text")))?;
    Ok(text.into_owned())
}

/// The error for a wrong parameter in the query.
fn wrong(message: impl Into<String>) -> Trouble {
    Trouble::new(StatusCode::BAD_REQUEST, "query", message)
}
