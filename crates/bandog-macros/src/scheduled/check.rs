//! Checks the text of each key at compile time. `bandog-schedule` reads the same texts again when the scheduler starts.

use std::{num::NonZeroU32, str::FromStr, time::Duration};

use bandog_cron::{Cron, DayMatch, Dialect, Phrasing, Rules, Time, Zone};
use syn::{Error, Result};

use super::text::Text;
use crate::{
    duration::{LONGEST, TTLS},
    words::{listed, nearest},
};

/// The result of a check. An error is the second half of an error message. The first half names the key and its text,
/// for example: `zone` is "Mars".
type Checked = std::result::Result<(), String>;

/// A key of the attribute.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// A correct value, which error messages show.
    pub(crate) example: &'static str,
    /// Checks the text of this key.
    pub(crate) check: fn(&str) -> Checked,
}

/// The names of the keys that are triggers. A trigger decides when the job is due.
pub(crate) const TRIGGERS: [&str; 4] = ["cron", "fixed_rate", "fixed_delay", "at"];

/// All keys. The checks `limit` and `pause` are for durations: `pause` accepts the duration zero, and `limit` does not.
pub(crate) const KEYS: [Key; 25] = [
    Key { name: "cron", example: "0 15 10 ? * MON-FRI", check: |_| Ok(()) }, // The function `cron` checks this text.
    Key { name: "fixed_rate", example: "5s", check: period },
    Key { name: "fixed_delay", example: "5s", check: period },
    Key { name: "at", example: "2026-12-31T23:59:00Z", check: instant },
    Key { name: "name", example: "report", check: name },
    Key { name: "zone", example: "Europe/Berlin", check: zone },
    Key { name: "dialect", example: "quartz", check: |text| one_of(text, &["quartz", "spring", "unix"]) },
    Key { name: "day_match", example: "and", check: |text| one_of(text, &["and", "or"]) },
    Key { name: "daylight", example: "skip", check: |text| one_of(text, &["pinned", "elapsed", "skip"]) },
    Key { name: "initial_delay", example: "10s", check: pause },
    Key { name: "overlap", example: "skip", check: overlap },
    Key { name: "catch_up", example: "once", check: catch_up },
    Key { name: "window", example: "1h", check: pause },
    Key { name: "misfire_grace", example: "1m", check: pause },
    Key { name: "on_crash", example: "retry", check: on_crash },
    Key { name: "lease", example: "30s", check: |text| duration(text, *TTLS.start(), "100ms") },
    Key { name: "timeout", example: "10m", check: limit },
    Key { name: "grace", example: "5s", check: pause },
    Key { name: "retry", example: "3", check: retry },
    Key { name: "pause_after", example: "3", check: |text| number::<NonZeroU32>(text, 1) },
    Key { name: "jitter", example: "10s", check: pause },
    Key { name: "scope", example: "each_node", check: |text| one_of(text, &["cluster", "each_node"]) },
    Key { name: "store_down", example: "fail_closed", check: |text| one_of(text, &["fail_closed", "fail_open"]) },
    Key { name: "revision", example: "2", check: |text| number::<u64>(text, 0) },
    Key { name: "enabled", example: "true", check: |text| one_of(text, &["true", "false"]) },
];

/// If the attribute has the key `cron`, checks the cron expression by the rules of the keys `dialect` and `day_match`.
/// The error points at the expression.
pub(crate) fn cron(texts: &[Text]) -> Result<()> {
    let Some(cron) = find(texts, "cron") else { return Ok(()) };
    let dialect = find(texts, "dialect").map_or(Some(Dialect::Quartz), read);
    let days = find(texts, "day_match").map(read::<DayMatch>);
    let (Some(dialect), false) = (dialect, days == Some(None)) else {
        // The dialect or the day match is not known, for one of two reasons. The text can be wrong. Then its own check
        // has reported the error. Or the text can contain an environment variable without a default. Then the value is
        // known only when the job is created.
        return Ok(());
    };
    let rules: Rules = days.flatten().map_or_else(|| dialect.into(), |days| dialect.days(days));
    let Some(text) = cron.known().filter(|text| text.trim() != "-") else { return Ok(()) };
    let refused = |message| Err(Error::new(cron.span(), message));
    match Cron::parse_with(&text, rules) {
        Ok(expression) if expression.never_fires() => refused(format!("`cron` is {text:?}, which never fires")),
        Ok(_) => Ok(()),
        Err(fault) => refused(format!(
            "`cron` is no expression of the {dialect} dialect\n\n{}",
            fault.phrased(Phrasing::Keys).picture()
        )),
    }
}

/// The text of the key `key`. `None` if the attribute does not have the key.
pub(crate) fn find<'a>(texts: &'a [Text], key: &str) -> Option<&'a Text> {
    texts.iter().find(|text| text.key == key)
}

/// Parses a text. `None` if the text is wrong, or if it contains an environment variable without a default.
fn read<T: FromStr>(text: &Text) -> Option<T> {
    text.known()?.trim().parse().ok()
}

/// Checks the name of a job.
fn name(text: &str) -> Checked {
    let fits = (1..=200).contains(&text.len()) && !text.chars().any(char::is_control);
    if fits { Ok(()) } else { Err("; a job's name has 1 to 200 bytes without control characters".to_owned()) }
}

/// Checks the name of a time zone.
fn zone(text: &str) -> Checked {
    Zone::named(text)
        .map(drop)
        .map_err(|_| ", which is not a zone of the IANA table; write Europe/Berlin or UTC".to_owned())
}

/// Checks the instant of the trigger `at`. `-` disables the job.
fn instant(text: &str) -> Checked {
    if text.trim() == "-" || text.parse::<Time>().is_ok() {
        return Ok(());
    }
    Err(", which is not an instant; write 2026-12-31T23:59:00Z or 2026-12-31T23:59:00+01:00".to_owned())
}

/// Checks the duration of the trigger `fixed_rate` or `fixed_delay`. `-` disables the job.
fn period(text: &str) -> Checked {
    if text.trim() == "-" { Ok(()) } else { limit(text) }
}

/// Checks a duration that must be at least 1 ms.
fn limit(text: &str) -> Checked {
    duration(text, Duration::from_millis(1), "1ms")
}

/// Checks a duration that can be zero.
fn pause(text: &str) -> Checked {
    duration(text, Duration::ZERO, "0s")
}

/// Checks a duration between `least` and 365 days. `least_text` is `least` as a text for the error message.
fn duration(text: &str, least: Duration, least_text: &str) -> Checked {
    match humantime::parse_duration(text) {
        Ok(time) if (least..=LONGEST).contains(&time) => Ok(()),
        Ok(_) => Err(format!("; it must be between {least_text} and 365d")),
        Err(_) => Err(", which is not a duration; write 500ms, 10s or 2m".to_owned()),
    }
}

/// Checks a number of the type `T`. `least` is the smallest number of this type, for the error message.
fn number<T: FromStr>(text: &str, least: u8) -> Checked {
    if text.trim().parse::<T>().is_ok() { Ok(()) } else { Err(format!("; it must be a number from {least}")) }
}

/// Checks that the text is one of the words in `known`.
fn one_of(text: &str, known: &[&str]) -> Checked {
    if known.contains(&text.trim()) { Ok(()) } else { Err(not_allowed(text, known, &listed(known))) }
}

/// The error for a text that is not allowed. `known` are the words that the error can propose, and `all` is the list of
/// all allowed texts.
fn not_allowed(text: &str, known: &[&str], all: &str) -> String {
    match nearest(text, known) {
        Some(meant) => format!("; did you mean {meant:?}? Allowed are {all}"),
        None => format!("; allowed are {all}"),
    }
}

fn overlap(text: &str) -> Checked {
    match word(text) {
        ("skip" | "queue" | "replace", None) | ("queue" | "allow", Some(true)) => Ok(()),
        _ => {
            Err(not_allowed(text, &["skip", "queue", "replace"], "`skip`, `queue`, `queue(10)`, `allow(3)`, `replace`"))
        }
    }
}

fn catch_up(text: &str) -> Checked {
    match word(text) {
        ("skip" | "once", None) | ("all", Some(true)) => Ok(()),
        _ => Err(not_allowed(text, &["skip", "once"], "`skip`, `once`, `all(10)`")),
    }
}

fn on_crash(text: &str) -> Checked {
    match word(text) {
        ("retry" | "abandon", None) | ("retry", Some(true)) => Ok(()),
        _ => Err(not_allowed(text, &["retry", "abandon"], "`retry`, `retry(3)`, `abandon`")),
    }
}

/// Checks the rule for retries, such as `3 from 1s to 1m`: a number, then optional durations, each after its keyword,
/// and optionally `until next tick`.
fn retry(text: &str) -> Checked {
    let mut words = text.split_whitespace().peekable();
    let is_number = words.next().is_some_and(|word| word.parse::<u32>().is_ok());
    // Reads the keyword `word` and the duration after it. Returns true if the duration is correct, or if the keyword is
    // not given.
    let mut time = |word| {
        let is_given = words.next_if_eq(&word).is_some();
        !is_given || words.next().is_some_and(|text| humantime::parse_duration(text).is_ok())
    };
    let are_times = ["from", "to", "within"].map(&mut time) == [true; 3];
    let rest: Vec<&str> = words.collect();
    if is_number && are_times && (rest.is_empty() || rest == ["until", "next", "tick"]) {
        return Ok(());
    }
    Err("; allowed are `3`, `3 from 1s to 1m`, `3 within 10m`, `3 until next tick`".to_owned())
}

/// Splits a text of the form `word` or `word(number)`. The second part of the result is `None` if the text has no
/// parentheses. Otherwise, it is true if the parentheses contain a number that is at least 1.
fn word(text: &str) -> (&str, Option<bool>) {
    let text = text.trim();
    match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((word, number)) => (word.trim(), Some(number.trim().parse::<u32>().is_ok_and(|number| number > 0))),
        None => (text, None),
    }
}
