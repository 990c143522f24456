//! Describes an expression in Chinese. The phrase begins with the years and ends with the times of the day.

use crate::fields::{Fields, set_bits};

use super::{outline::Outline, shape::Shape};

const WEEKDAYS: [&str; 7] = ["周日", "周一", "周二", "周三", "周四", "周五", "周六"];

pub(super) fn phrase(fields: &Fields, outline: &Outline) -> String {
    let mut parts: Vec<_> = range_phrase(&outline.years, 2099, "年").into_iter().collect();
    parts.extend(range_phrase(&outline.months, 12, "月"));
    parts.push(days(fields, outline));
    parts.push(time(outline));
    parts.join("，")
}

/// The values of a field with their unit, such as `1 至 5 月`. `max` is the largest value of the field. `None` if the
/// field matches all values.
fn range_phrase(shape: &Shape, max: u32, unit: &str) -> Option<String> {
    Some(match shape {
        Shape::All => return None,
        Shape::Range(from, to) => format!("{from} 至 {to} {unit}"),
        some => format!("{} {unit}", list(&some.values(max))),
    })
}

/// The phrase for the seconds, minutes and hours.
fn time(outline: &Outline) -> String {
    if let Some(times) = &outline.clock {
        return list(times);
    }
    if outline.on_the_minute() && outline.minutes == Shape::One(0) {
        return match &outline.hours {
            Shape::All => "每小时整点".into(),
            Shape::Steps { from: 0, by } => format!("每 {by} 小时整点"),
            Shape::Steps { from, by } => format!("从 {from:02}:00 起每 {by} 小时"),
            Shape::Range(from, to) => format!("{from:02}:00 至 {to:02}:00 每小时整点"),
            Shape::One(_) | Shape::List(_) | Shape::None => format!("{} 时整点", list(&outline.hours.values(23))),
        };
    }
    let mut parts: Vec<_> = hours_phrase(outline).into_iter().collect();
    if outline.minutes != Shape::All || outline.on_the_minute() {
        parts.push(interval_phrase(&outline.minutes, "分钟", "分"));
    }
    if !outline.on_the_minute() {
        parts.push(interval_phrase(&outline.seconds, "秒", "秒"));
    }
    parts.join("，")
}

/// The phrase for the seconds or for the minutes. `short` is the unit after the number of a second or minute.
fn interval_phrase(shape: &Shape, unit: &str, short: &str) -> String {
    match shape {
        Shape::All => format!("每{unit}"),
        Shape::Steps { from: 0, by } => format!("每 {by} {unit}"),
        Shape::Steps { from, by } => format!("从第 {from} {short}起每 {by} {unit}"),
        Shape::Range(from, to) => format!("第 {from} 至 {to} {short}"),
        some @ (Shape::One(_) | Shape::List(_) | Shape::None) => format!("第 {} {short}", list(&some.values(59))),
    }
}

/// The phrase for the hours. `None` if the description is clear without this phrase.
fn hours_phrase(outline: &Outline) -> Option<String> {
    match &outline.hours {
        Shape::All if matches!(outline.minutes, Shape::All | Shape::Steps { .. }) => None,
        Shape::All => Some("每小时".into()),
        Shape::Range(from, to) => Some(format!("{from:02}:00 至 {to:02}:59")),
        Shape::One(one) => Some(format!("{one:02}:00 至 {one:02}:59")),
        hours @ (Shape::Steps { .. } | Shape::List(_) | Shape::None) => Some(format!("{} 时", list(&hours.values(23)))),
    }
}

/// The phrase for both day fields.
fn days(fields: &Fields, outline: &Outline) -> String {
    match (dates(fields, outline), weekdays(fields, outline)) {
        (None, None) => "每天".into(),
        (None, _) | (_, None) if fields.either => "每天".into(),
        (Some(days), None) | (None, Some(days)) => days,
        (Some(date), Some(weekday)) if fields.either => format!("{date}或{weekday}"),
        (Some(date), Some(weekday)) => format!("{date}且为{weekday}"),
    }
}

/// The phrase for the days of the month. `None` if all days match.
fn dates(fields: &Fields, outline: &Outline) -> Option<String> {
    if outline.days == Shape::All {
        return None;
    }
    let mut found = Vec::new();
    if outline.days != Shape::None {
        found.extend(range_phrase(&outline.days, 31, "日").map(|days| format!("每月 {days}")));
    }
    found.extend(set_bits(fields.nearest).map(|day| format!("离每月 {day} 日最近的工作日")));
    found.extend(set_bits(fields.from_last).map(from_last));
    found.extend(set_bits(fields.nearest_from_last).map(|back| match back {
        0 => "每月最后一个工作日".into(),
        back => format!("离{}最近的工作日", from_last(back)),
    }));
    Some(list(&found))
}

/// The phrase for the day that is `back` days before the last day of the month.
fn from_last(back: u32) -> String {
    match back {
        0 => "每月最后一天".into(),
        back => format!("每月倒数第 {} 天", back + 1),
    }
}

/// The phrase for the days of the week. `None` if all days match.
fn weekdays(fields: &Fields, outline: &Outline) -> Option<String> {
    let name = |day: u32| WEEKDAYS[day as usize % 7];
    let mut found: Vec<String> = Vec::new();
    match &outline.weekdays {
        Shape::All => return None,
        Shape::None => {}
        Shape::Range(from, to) => found.push(format!("{}至{}", name(*from), name(*to))),
        days @ (Shape::One(_) | Shape::Steps { .. } | Shape::List(_)) => {
            let names: Vec<_> = days.values(7).into_iter().map(name).collect();
            found.push(format!("每{}", list(&names)));
        }
    }
    for (set, which) in fields.nth.into_iter().zip(1..) {
        found.extend(set_bits(set.into()).map(|day| format!("每月第 {which} 个{}", name(day))));
    }
    found.extend(set_bits(fields.last.into()).map(|day| format!("每月最后一个{}", name(day))));
    Some(list(&found))
}

/// The items with the Chinese comma for lists between them.
fn list(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("、")
}
