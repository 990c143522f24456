//! Describes an expression in English. The phrase begins with the times of the day and ends with the years.

use crate::{
    field::{MONTHS, WEEKDAYS},
    fields::{Fields, set_bits},
};

use super::{outline::Outline, shape::Shape};

pub(super) fn phrase(fields: &Fields, outline: &Outline) -> String {
    let mut parts = vec![time(outline), days(fields, outline)];
    parts.extend(months(outline));
    parts.extend(years(outline));
    let mut phrase = parts.join(", ");
    if let Some(first) = phrase.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    phrase
}

/// The phrase for the seconds, minutes and hours.
fn time(outline: &Outline) -> String {
    if let Some(times) = &outline.clock {
        return format!("at {}", list(times));
    }
    if outline.on_the_minute() && outline.minutes == Shape::One(0) {
        return match &outline.hours {
            Shape::All => "every hour".into(),
            Shape::Steps { from: 0, by } => format!("every {by} hours"),
            Shape::Steps { from, by } => format!("every {by} hours from {from:02}:00"),
            Shape::Range(from, to) => format!("every hour from {from:02}:00 to {to:02}:00"),
            Shape::One(_) | Shape::List(_) | Shape::None => format!("on the hour{}", hours_phrase(outline)),
        };
    }
    let seconds = if outline.on_the_minute() { None } else { Some(interval_phrase(&outline.seconds, "second", 59)) };
    let minutes = match (&outline.minutes, &seconds) {
        (Shape::All, Some(_)) => None,
        (minutes, _) => Some(interval_phrase(minutes, "minute", 59)),
    };
    let intervals: Vec<_> = seconds.into_iter().chain(minutes).collect();
    format!("{}{}", intervals.join(", "), hours_phrase(outline))
}

/// The phrase for the seconds or for the minutes. `unit` is `second` or `minute`, and `max` is the largest value.
fn interval_phrase(shape: &Shape, unit: &str, max: u32) -> String {
    match shape {
        Shape::All => format!("every {unit}"),
        Shape::Steps { from: 0, by } => format!("every {by} {unit}s"),
        Shape::Steps { from, by } => format!("every {by} {unit}s from {unit} {from}"),
        Shape::Range(from, to) => format!("at {unit}s {from} to {to}"),
        Shape::One(one) => format!("at {unit} {one}"),
        Shape::List(_) | Shape::None => format!("at {unit}s {}", list(&shape.values(max))),
    }
}

/// The phrase for the hours. This phrase is appended to the phrase for the minutes. So it begins with a space, or is
/// empty.
fn hours_phrase(outline: &Outline) -> String {
    match &outline.hours {
        Shape::All if matches!(outline.minutes, Shape::All | Shape::Steps { .. }) => String::new(),
        Shape::All => " of every hour".into(),
        Shape::Range(from, to) => format!(" from {from:02}:00 to {to:02}:59"),
        Shape::One(one) => format!(" from {one:02}:00 to {one:02}:59"),
        hours @ (Shape::Steps { .. } | Shape::List(_) | Shape::None) => {
            format!(" in the hours {}", list(&hours.values(23)))
        }
    }
}

/// The phrase for both day fields.
fn days(fields: &Fields, outline: &Outline) -> String {
    let (date, weekday) = (dates(fields, outline), weekdays(fields, outline));
    match (date, weekday) {
        (None, None) => "every day".into(),
        (None, _) | (_, None) if fields.either => "every day".into(),
        (Some(days), None) | (None, Some(days)) => days,
        (Some(date), Some(weekday)) if fields.either => format!("{date}, or {weekday}"),
        (Some(date), Some(weekday)) => format!("{date}, if it is also {weekday}"),
    }
}

/// The phrase for the days of the month. `None` if all days match.
fn dates(fields: &Fields, outline: &Outline) -> Option<String> {
    let mut found = Vec::new();
    match &outline.days {
        Shape::All => return None,
        Shape::None => {}
        Shape::One(day) => found.push(format!("on day {day} of the month")),
        Shape::Range(from, to) => found.push(format!("on days {from} to {to} of the month")),
        days @ (Shape::Steps { .. } | Shape::List(_)) => {
            found.push(format!("on days {} of the month", list(&days.values(31))));
        }
    }
    found.extend(set_bits(fields.nearest).map(|day| format!("on the weekday nearest to day {day} of the month")));
    found.extend(set_bits(fields.from_last).map(|back| format!("on {}", from_last(back))));
    found.extend(set_bits(fields.nearest_from_last).map(|back| match back {
        0 => "on the last weekday (Monday to Friday) of the month".into(),
        back => format!("on the weekday nearest to {}", from_last(back)),
    }));
    Some(list(&found))
}

/// The phrase for the day that is `back` days before the last day of the month.
fn from_last(back: u32) -> String {
    match back {
        0 => "the last day of the month".into(),
        1 => "the day before the last of the month".into(),
        back => format!("the day {back} days before the last of the month"),
    }
}

/// The phrase for the days of the week. `None` if all days match.
fn weekdays(fields: &Fields, outline: &Outline) -> Option<String> {
    let name = |day: u32| WEEKDAYS[day as usize % 7];
    let mut found = Vec::new();
    match &outline.weekdays {
        Shape::All => return None,
        Shape::None => {}
        Shape::Range(from, to) => found.push(format!("{} to {}", name(*from), name(*to))),
        days @ (Shape::One(_) | Shape::Steps { .. } | Shape::List(_)) => {
            let names: Vec<_> = days.values(7).into_iter().map(name).collect();
            found.push(format!("on {}", list(&names)));
        }
    }
    for (set, which) in fields.nth.into_iter().zip(["1st", "2nd", "3rd", "4th", "5th"]) {
        found.extend(set_bits(set.into()).map(|day| format!("on the {which} {} of the month", name(day))));
    }
    found.extend(set_bits(fields.last.into()).map(|day| format!("on the last {} of the month", name(day))));
    Some(list(&found))
}

/// The phrase for the months. `None` if all months match.
fn months(outline: &Outline) -> Option<String> {
    let name = |month: u32| MONTHS[month as usize - 1];
    Some(match &outline.months {
        Shape::All => return None,
        Shape::Range(from, to) => format!("from {} to {}", name(*from), name(*to)),
        months => format!("in {}", list(&months.values(12).into_iter().map(name).collect::<Vec<_>>())),
    })
}

/// The phrase for the years. `None` if all years match.
fn years(outline: &Outline) -> Option<String> {
    Some(match &outline.years {
        Shape::All => return None,
        Shape::Range(from, to) => format!("from {from} to {to}"),
        years => format!("in {}", list(&years.values(2099))),
    })
}

/// The items as a list, such as `a, b and c`.
fn list(items: &[impl ToString]) -> String {
    let items: Vec<_> = items.iter().map(ToString::to_string).collect();
    match items.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        few => few.join(""),
    }
}
