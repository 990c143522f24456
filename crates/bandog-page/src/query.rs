//! The query of a URL.

use hyper::StatusCode;
use percent_encoding::percent_decode_str;

use crate::source::Trouble;

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
        for pair in query.unwrap_or_default().split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = || value.parse::<usize>().map_err(|_| wrong(format!("`{key}` must be a number")));
            match key {
                "name" => {
                    let text = value.replace('+', " ");
                    let text = percent_decode_str(&text).decode_utf8();
                    wanted.name = text.map_err(|_| wrong("`name` must be UTF-8 text"))?.to_lowercase();
                }
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

/// The error for a wrong parameter in the query.
fn wrong(message: impl Into<String>) -> Trouble {
    Trouble::new(StatusCode::BAD_REQUEST, "query", message)
}
