//! Hints for a refused cron expression in a file. The parser's own hints name dialects and functions of the library,
//! which cannot be used in a file.

use bandog_cron::{Cron, DayMatch, Dialect, ParseError, Time};

/// The names of the days of the week, by their number in a crontab. Sunday has the numbers 0 and 7.
const DAYS: [&str; 8] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
/// Number of fires to compare, in order to check that two expressions mean the same.
const FIRES: usize = 400;
/// The hint for five fields, if no expression can be proposed.
const SIX_FIELDS: &str = "in a file seconds come first, and one day field is ?, as in `0 */5 * * * ?`; name the days of \
                          the week, since Quartz counts them from SUN = 1";

/// The message about a wrong cron expression in a file. `said` is the message of the parser, which ends with the
/// parser's own hint.
pub(super) fn in_a_file(error: &ParseError, expression: &str, said: &str) -> String {
    match file_hint(expression) {
        Some(hint) => {
            let what = said.strip_suffix(error.hint()).unwrap_or(said).trim_end_matches("; ");
            format!("{what}; {hint}")
        }
        None => said.into(),
    }
}

/// The hint for a file. None if the parser's own hint is sufficient.
fn file_hint(expression: &str) -> Option<String> {
    let words: Vec<&str> = expression.split_ascii_whitespace().collect();
    match &words[..] {
        ["-"] => Some("write enabled = false, and in cron the time at which it would run".into()),
        [every, period @ ..] if every.eq_ignore_ascii_case("@every") => {
            let period = if period.is_empty() { "5m".into() } else { period.join(" ") };
            Some(format!("write fixed_rate = {period:?} instead of cron"))
        }
        [reboot] if reboot.eq_ignore_ascii_case("@reboot") => {
            Some("a file cannot express that either: run the command where the program is started".into())
        }
        five @ [_, _, _, _, _] => Some(match six_fields(expression, five) {
            Some(six) => meaning(expression, &six),
            None => SIX_FIELDS.into(),
        }),
        _ if Cron::parse_with(expression, Dialect::Quartz.days(DayMatch::Or)).is_ok() => {
            Some("write ? in one of them; to match a day of either field, write two jobs".into())
        }
        _ => None,
    }
}

/// The hint for an expression with five fields. The expression might be a line of a crontab, or an expression of Quartz
/// without the seconds. So the hint also describes what the proposed expression `six` means.
fn meaning(five: &str, six: &str) -> String {
    let means = Cron::parse(six).map(|cron| cron.describe()).unwrap_or_default();
    match Cron::parse_with(five, Dialect::Unix) {
        Ok(_) => {
            format!("in a file seconds come first: if this is a crontab's line, write `{six}`, which means: {means}")
        }
        Err(_) => format!("in a file seconds come first: `{six}` would mean: {means}"),
    }
}

/// Converts an expression with five fields into an expression of Quartz with six fields. The five fields are a line of
/// a crontab, or fields of Quartz without the seconds. None if no expression of Quartz with the same meaning is found.
fn six_fields(expression: &str, five: &[&str]) -> Option<String> {
    let Ok(unix) = Cron::parse_with(expression, Dialect::Unix) else {
        let six = format!("0 {}", five.join(" "));
        return Cron::parse(&six).is_ok().then_some(six);
    };
    let &[minute, hour, day, month, weekday] = five else { return None };
    let (day, weekday) = match (day, weekday) {
        (day, "*") => (day, "?".into()),
        ("*", weekday) => ("?", named(weekday)),
        (day, weekday) => (day, named(weekday)),
    };
    let six = format!("0 {minute} {hour} {day} {month} {weekday}");
    let fires = |cron: &Cron| cron.after(Time::from_millisecond(0)).take(FIRES).collect::<Vec<_>>();
    Cron::parse(&six).ok().filter(|cron| fires(cron) == fires(&unix)).map(|_| six)
}

/// The field for the day of the week, with names instead of numbers. A name means the same day in each dialect, but a
/// number does not. A step, such as `/2`, is kept.
fn named(weekday: &str) -> String {
    let name =
        |day: &str| day.parse().ok().and_then(|day: usize| DAYS.get(day)).map_or(day.to_owned(), |&day| day.into());
    let item = |item: &str| {
        let (days, step) = item.find('/').map_or((item, ""), |at| item.split_at(at));
        days.split('-').map(name).collect::<Vec<_>>().join("-") + step
    };
    weekday.split(',').map(item).collect::<Vec<_>>().join(",")
}
