//! Cron expressions: the time to parse an expression, and to compute its next fire, compared with other crates. The
//! fastest of several rounds counts, because a busy machine can only slow a round down.

use std::{fmt::Debug, hint::black_box, str::FromStr};

use bandog_cron::{Cron, Time, Zone};
use chrono::{DateTime, TimeZone, Utc};
use serde_json::json;

use crate::report::Report;

const EXPRESSIONS: [&str; 8] = [
    "0/10 * * * * ?",
    "0 0/5 * * * ?",
    "0 0 2 1 * ? *",
    "0 15 10 ? * MON-FRI",
    "0 15 10 ? * 6L",
    "0 0 0 LW * ?",
    "0 0 0 ? * 4#2",
    "0 0 0 29 2 ?",
];

/// Number of instants, spread over a year. Successive calls use different instants.
const INSTANTS: usize = 512;
/// One year, in seconds.
const YEAR: i64 = 365 * 86_400;
/// The first instant, in seconds since 1970.
const FROM: i64 = 1_767_225_600;

/// Nanoseconds per call.
struct Figures {
    parse: f64,
    utc: f64,
    zoned: f64,
}

pub(crate) fn measure(report: &mut Report) {
    for text in EXPRESSIONS {
        let ours = ours(report, text);
        report.raw(json!({"what": "cron", "expression": text, "crate": "bandog-cron",
            "parse_ns": ours.parse, "utc_ns": ours.utc, "new_york_ns": ours.zoned}));
        let mut against = Vec::new();
        for (name, figures) in [("croner", croner(report, text)), ("cron", cron(report, text))] {
            let Some(Figures { parse, utc, zoned }) = figures else {
                against.push(format!("{name} refuses"));
                continue;
            };
            report.raw(json!({"what": "cron", "expression": text, "crate": name,
                "parse_ns": parse, "utc_ns": utc, "new_york_ns": zoned}));
            against.push(format!("{name} {parse:.0} / {utc:.0} / {zoned:.0}"));
        }
        let Figures { parse, utc, zoned } = ours;
        let own = format!("{parse:.0} / {utc:.0} / {zoned:.0}");
        report.row(format!("cron `{text}` ns: parse / UTC / zone"), own, against.join("; "), "≤ 1000 / 60 / 200");
    }
}

fn ours(report: &Report, text: &str) -> Figures {
    let utc = parsed::<Cron>(text);
    let zoned = utc.clone().in_zone(Zone::named("America/New_York").expect("a zone of the built-in table"));
    let instants: Vec<_> = instants().map(Time::from_second).collect();
    Figures {
        parse: report.best(INSTANTS, |_| drop(black_box(Cron::parse(black_box(text))))),
        utc: report.best(INSTANTS, |turn| _ = black_box(utc.next(instants[turn]))),
        zoned: report.best(INSTANTS, |turn| _ = black_box(zoned.next(instants[turn]))),
    }
}

fn croner(report: &Report, text: &str) -> Option<Figures> {
    use croner::parser::{CronParser, Seconds, Year};
    let parser = CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Optional)
        .alternative_weekdays(true)
        .sloppy_ranges(true)
        .build();
    let cron = parser.parse(text).ok()?;
    let (utc, zoned) = moments();
    Some(Figures {
        parse: report.best(INSTANTS, |_| drop(black_box(parser.parse(black_box(text))))),
        utc: report.best(INSTANTS, |turn| drop(black_box(cron.find_next_occurrence(&utc[turn], false)))),
        zoned: report.best(INSTANTS, |turn| drop(black_box(cron.find_next_occurrence(&zoned[turn], false)))),
    })
}

fn cron(report: &Report, text: &str) -> Option<Figures> {
    let cron = cron::Schedule::from_str(text).ok()?;
    let (utc, zoned) = moments();
    Some(Figures {
        parse: report.best(INSTANTS, |_| drop(black_box(cron::Schedule::from_str(black_box(text))))),
        utc: report.best(INSTANTS, |turn| _ = black_box(cron.after(&utc[turn]).next())),
        zoned: report.best(INSTANTS, |turn| _ = black_box(cron.after(&zoned[turn]).next())),
    })
}

fn instants() -> impl Iterator<Item = i64> {
    (0i64..).take(INSTANTS).map(|turn| FROM + turn * 7_919_777 % YEAR)
}

/// The instants as times of the crate `chrono`, in UTC and in New York.
fn moments() -> (Vec<DateTime<Utc>>, Vec<DateTime<chrono_tz::Tz>>) {
    let utc: Vec<_> =
        instants().map(|second| Utc.timestamp_opt(second, 0).single().expect("a second of 2026")).collect();
    let zoned = utc.iter().map(|time| time.with_timezone(&chrono_tz::America::New_York)).collect();
    (utc, zoned)
}

fn parsed<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("an expression of Quartz")
}
