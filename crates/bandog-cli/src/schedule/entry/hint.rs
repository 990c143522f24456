//! Hints for a refused cron expression in a file, instead of the parser's own hints.

use bandog_cron::{ParseError, Phrasing};

/// The message about a wrong cron expression in a file. `said` is the message of the parser, which ends with the
/// parser's own hint.
pub(super) fn in_a_file(error: &ParseError, expression: &str, said: &str) -> String {
    let what = said.strip_suffix(error.hint()).unwrap_or(said).trim_end_matches("; ");
    let hint = file_hint(expression).unwrap_or_else(|| error.clone().phrased(Phrasing::Keys).hint().to_owned());
    if hint.is_empty() { what.to_owned() } else { format!("{what}; {hint}") }
}

/// The hint for an expression that another key of a file replaces.
fn file_hint(expression: &str) -> Option<String> {
    let words: Vec<&str> = expression.split_ascii_whitespace().collect();
    match &words[..] {
        ["-"] => Some("write enabled = false, and in cron the time at which it would run".into()),
        [every, period @ ..] if every.eq_ignore_ascii_case("@every") => {
            let period = if period.is_empty() { "5m".into() } else { period.join(" ") };
            Some(format!("write fixed_rate = {period:?} instead of cron"))
        }
        _ => None,
    }
}
