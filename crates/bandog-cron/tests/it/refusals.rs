//! Expressions that are refused, and the position at which each error points. No text makes the parser panic.

use bandog_cron::{Cron, DayMatch, Dialect, Field, Language, Phrasing, Time, Zone};

use Dialect::{Quartz, Spring, Unix};

/// Dialect, expression, the field in the error, its column, and its reason.
#[rustfmt::skip]
const ROWS: &[(Dialect, &str, Option<Field>, usize, &str)] = &[
    (Quartz, "", None, 1, "the expression is empty; needed are second minute hour day month weekday, and optionally a year"),
    (Quartz, "   ", None, 1, "the expression is empty; needed are second minute hour day month weekday, and optionally a year"),
    (Quartz, "-", None, 1, "\"-\" is not a cron expression; Spring uses it to disable a job; to disable a job in bandog, set enabled = false or call Job::disabled"),
    (Unix, "  - ", None, 3, "\"-\" is not a cron expression; Spring uses it to disable a job; to disable a job in bandog, set enabled = false or call Job::disabled"),
    (Quartz, "0 9 * * 1", None, 10, "there are only 5 fields; Quartz begins with seconds; read by Dialect::Unix it means: At 09:00, on Monday"),
    (Spring, "0 15 10 * *", None, 12, "there are only 5 fields; Spring begins with seconds; read by Dialect::Unix it means: At 15:00, on day 10 of the month"),
    (Quartz, "0 15 10 ? *", None, 12, "there are only 5 fields; needed are second minute hour day month weekday, and optionally a year"),
    (Unix, "0 0 9 * * 1", None, 11, "too many fields; Unix has minute hour day month weekday; Quartz and Spring begin with seconds"),
    (Spring, "0 0 9 * * 1 2030", None, 13, "too many fields; Spring has second minute hour day month weekday; only Quartz has a year"),
    (Quartz, "0 15 10 * * ? 2005 *", None, 20, "too many fields; Quartz has second minute hour day month weekday, and optionally a year"),
    (Quartz, "@often", None, 1, "@often is not a known macro; allowed are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"),
    (Quartz, "@every 5m", None, 1, "@every is a fixed rate, which a cron expression cannot express; for a fixed rate in bandog, set fixed_rate = \"5m\" or call Job::fixed_rate"),
    (Unix, "@EVERY 1h 30m", None, 1, "@every is a fixed rate, which a cron expression cannot express; for a fixed rate in bandog, set fixed_rate = \"1h 30m\" or call Job::fixed_rate"),
    (Unix, "@every", None, 1, "@every is a fixed rate, which a cron expression cannot express; for a fixed rate in bandog, set fixed_rate = \"5m\" or call Job::fixed_rate"),
    (Unix, "@reboot", None, 1, "@reboot is the start of a program, which a cron expression cannot express; for a job that runs once in bandog, call Job::once"),
    (Quartz, "@daily 5", None, 8, "@daily must stand alone; remove the text after it"),
    (Quartz, "0 0 24 * * ?", Some(Field::Hours), 5, "24 is too large; allowed are 0 to 23"),
    (Quartz, "0 99999999999999999999 0 * * ?", Some(Field::Minutes), 3, "99999999999999999999 is too large; allowed are 0 to 59"),
    (Quartz, "0 0 0 0 * ?", Some(Field::DayOfMonth), 7, "0 is too small; allowed are 1 to 31"),
    (Quartz, "0 0 0 1 1 ? 1969", Some(Field::Year), 13, "1969 is too small; allowed are 1970 to 2099"),
    (Quartz, "0 0 0 ? * 0", Some(Field::DayOfWeek), 11, "0 is too small; allowed are 1 to 7 or SUN to SAT (Sunday is 1 here, 0 or 7 in Spring and Unix)"),
    (Spring, "0 0 0 ? * 8", Some(Field::DayOfWeek), 11, "8 is too large; allowed are 0 to 7 or SUN to SAT (Sunday is 0 or 7 here, 1 in Quartz)"),
    (Quartz, "0 0/0 * * * ?", Some(Field::Minutes), 5, "a step of 0 never advances; a step is a number from 1 to 59"),
    (Quartz, "0 0/61 * * * ?", Some(Field::Minutes), 5, "a step of 61 is too long; a step is a number from 1 to 59"),
    (Quartz, "0 0/ * * * ?", Some(Field::Minutes), 5, "the step is missing; a step is a number from 1 to 59"),
    (Quartz, "0 0/5/5 * * * ?", Some(Field::Minutes), 5, "5/5 is not a step; a step is a number from 1 to 59"),
    (Spring, "0 /15 * * * *", Some(Field::Minutes), 3, "there is no value before the step; did you mean */?"),
    (Quartz, "0 1,,2 * * * ?", Some(Field::Minutes), 5, "an item of the list is empty; leave out the comma"),
    (Quartz, "0 1, * * * ?", Some(Field::Minutes), 5, "an item of the list is empty; leave out the comma"),
    (Quartz, "0 1- * * * ?", Some(Field::Minutes), 5, "a number is missing; allowed are 0 to 59"),
    (Quartz, "0 0 0 1 1 ? 2030-2026", Some(Field::Year), 13, "the end of the range is before its start; a range of years cannot wrap around"),
    (Spring, "0 0 22-2 * * *", Some(Field::Hours), 5, "the end of the range is before its start; write 22-23,0-2; only in Quartz can a range wrap around"),
    (Unix, "0 0 * * 5-0", Some(Field::DayOfWeek), 9, "the end of the range is before its start; Sunday is 7 at the end of a range"),
    (Quartz, "0 0 0 ? * MONX", Some(Field::DayOfWeek), 11, "MONX is not a day of the week; did you mean MON?"),
    (Quartz, "0 0 0 1 SEPT ?", Some(Field::Month), 9, "SEPT is not a month; did you mean SEP?"),
    (Quartz, "0 0 0 1 FOO ?", Some(Field::Month), 9, "FOO is not a month; allowed are 1 to 12 or JAN to DEC"),
    (Quartz, "0 0 0 ? * ?", Some(Field::DayOfWeek), 11, "both day fields are ?; write * in one of them"),
    (Quartz, "0 0 0 13 * FRI", Some(Field::DayOfWeek), 12, "both day fields are restricted; write ? in one of them, or choose a rule: DayMatch::And (both must match) or DayMatch::Or (one must match)"),
    (Quartz, "? * * * * ?", Some(Field::Seconds), 1, "? must stand alone, in a day field of Quartz or Spring; allowed are 0 to 59"),
    (Quartz, "L 30 * * * ?", Some(Field::Seconds), 1, "L is not a number; allowed are 0 to 59"),
    (Quartz, "0 0 0 5C * ?", Some(Field::DayOfMonth), 7, "C (the next day of a calendar) is not supported: no scheduler ever implemented it; write the day itself"),
    (Quartz, "0 0 0 ? * 1C", Some(Field::DayOfWeek), 11, "C (the next day of a calendar) is not supported: no scheduler ever implemented it; write the day itself"),
    (Quartz, "0 0 0 WL * ?", Some(Field::DayOfMonth), 7, "WL is no day of the month; did you mean LW?"),
    (Quartz, "0 0 0 1-5W * ?", Some(Field::DayOfMonth), 7, "1-5W is no day of the month; W must follow a single day, as in 15W or LW"),
    (Quartz, "0 0 0 0W * ?", Some(Field::DayOfMonth), 7, "0 is too small; allowed are 1 to 31"),
    (Quartz, "0 0 0 L-31 * ?", Some(Field::DayOfMonth), 7, "no month has more than 31 days; allowed is at most L-30"),
    (Spring, "0 0 0 L-5W * ?", Some(Field::DayOfMonth), 7, "Spring has no L-5W; allowed are L, L-3 and LW"),
    (Quartz, "0 0 0 ? * 6#6", Some(Field::DayOfWeek), 11, "\"6\" is no week of the month; allowed are #1 to #5, or L for the last, as in FRIL"),
    (Quartz, "0 0 0 ? * L,2", Some(Field::DayOfWeek), 11, "there must be a day of the week before L; write SAT, or name the day, as in FRIL"),
    (Unix, "0 0 L * *", Some(Field::DayOfMonth), 5, "L is unknown to Unix; the Quartz and Spring dialects have L, W and #"),
    (Unix, "0 0 ? * *", Some(Field::DayOfMonth), 5, "? must stand alone, in a day field of Quartz or Spring; allowed are 1 to 31"),
    (Quartz, "0 0 9 ？ * 2", None, 7, "'？' has no meaning here; did you mean '?'?"),
    (Quartz, "0 0 9 ? *\u{a0}2", None, 10, "'\\u{a0}' has no meaning here; use plain spaces"),
];

#[test]
fn each_error_names_field_column_and_reason() {
    for (dialect, text, field, column, reason) in ROWS {
        let error = Cron::parse_with(text, *dialect).expect_err(text);
        assert_eq!((error.field(), error.column()), (*field, *column), "{text}: {error}");
        assert_eq!(error.to_string().split_once(": ").unwrap().1, *reason, "{text}");
        assert!(error.picture().lines().count() == 2, "{}", error.picture());
        let (shown, caret) = error.picture().split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!((shown.as_str(), caret.find('^')), (*text, Some(column - 1)), "{text}");
    }
}

#[test]
fn a_text_of_200_kb_is_refused_and_a_list_of_all_seconds_and_minutes_is_read() {
    let error = Cron::parse(&"1,".repeat(100_000)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cron expression, column 1025: the expression has 200000 bytes; at most 1024 are allowed"
    );
    let all: Vec<_> = (0..60).map(|number| number.to_string()).collect();
    let text = format!("{0} {0} * * * ?", all.join(","));
    assert_eq!(Cron::parse(&text).unwrap().describe(), "Every second, every day");
}

#[test]
fn no_random_text_makes_the_parser_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    let pieces = [
        "0",
        "1",
        "7",
        "31",
        "59",
        "60",
        "99999999999",
        "*",
        "?",
        "/",
        "-",
        ",",
        "L",
        "W",
        "LW",
        "#",
        "MON",
        "FRI",
        "JAN",
        "MAY",
        "C",
        "@daily",
        " ",
        " ",
        " ",
        " ",
        "\t",
        "\u{0}",
        "ü",
        "，",
        "2030",
        "L-3",
        "5#2",
        "💥",
        "\n",
        "-1",
        "x",
    ];
    for _ in 0..20_000 {
        let count = random.usize(..16);
        let text: String = (0..count).map(|_| pieces[random.usize(..pieces.len())]).collect();
        parse_by_all_rules(&text);
    }
    for _ in 0..10_000 {
        let text: String = (0..random.usize(..24)).map(|_| random.char(..)).collect();
        parse_by_all_rules(&text);
    }
}

#[test]
fn no_text_with_up_to_three_typing_errors_makes_the_parser_panic() {
    let valid = [
        "0 0/5 9-17 ? * MON-FRI 2026-2030/2",
        "*/28 50-10 22-2 1W,15,LW,L-3,L-2W NOV-FEB ?",
        "0,30 59 23 ? 1,4,7 2#1,6L,SUNL,7#5 2099",
        "0 0 0 29 2 1",
        "@monthly",
        "*/5 9-17 1-31/2 JAN-JUN 1-5",
        "59 59 23 31 12 ? 1970/129",
    ];
    let keys: Vec<char> = "0123456789*?/-,LW#C@ \tMONFRIJAndü".chars().collect();
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..20_000 {
        let mut text: Vec<char> = valid[random.usize(..valid.len())].chars().collect();
        for _ in 0..random.usize(1..4) {
            let (at, key) = (random.usize(..text.len()), keys[random.usize(..keys.len())]);
            match random.u32(..3) {
                0 => text[at] = key,
                1 => text.insert(at, key),
                _ => drop(text.remove(at)),
            }
        }
        parse_by_all_rules(&text.into_iter().collect::<String>());
    }
}

fn parse_by_all_rules(text: &str) {
    for dialect in [Quartz, Spring, Unix] {
        for rules in [dialect.into(), dialect.days(DayMatch::And), dialect.days(DayMatch::Or)] {
            match Cron::parse_with(text, rules) {
                Ok(cron) => check_fires(&cron, text),
                Err(error) => assert!(!error.to_string().is_empty() && error.picture().contains('^')),
            }
        }
    }
}

fn check_fires(cron: &Cron, text: &str) {
    assert_eq!(cron.to_string(), text);
    let [start, now, end] = [i64::MIN, 1_700_000_000, i64::MAX].map(Time::from_second);
    let (next, prev) = (cron.next(now), cron.prev(now));
    assert_eq!(next.is_none() && prev.is_none(), cron.never_fires(), "{text}");
    assert!(next.is_none_or(|next| next > now && cron.matches(next)), "{text}");
    assert!(prev.is_none_or(|prev| prev < now && cron.matches(prev)), "{text}");
    let (first, last) = (cron.next(start), cron.prev(end));
    assert!((first <= prev || prev.is_none()) && last >= next, "{text}");
    assert!(first.is_none_or(|first| cron.prev(first).is_none()), "{text}");
    assert!(last.is_none_or(|last| cron.next(last).is_none()), "{text}");
    assert!(!cron.describe().is_empty() && !cron.describe_in(Language::Chinese).is_empty());
}

#[test]
fn searches_from_the_first_and_the_last_instant_find_the_first_and_the_last_fire() {
    let [start, end] = [i64::MIN, i64::MAX].map(Time::from_second);
    for name in jiff::tz::TimeZoneDatabase::bundled().available() {
        let zone = Zone::named(name.as_str()).unwrap();
        for text in ["* * * * * ?", "0 0 0,12 * * ?", "0 0 0 1 1 ? 1970,2099"] {
            let cron = Cron::parse(text).unwrap().in_zone(zone.clone());
            let (first, last) = (cron.next(start).unwrap(), cron.prev(end).unwrap());
            let year = |time: Time| time.at(&zone).to_string()[..4].to_owned();
            let ends = if text.contains("2099") { "2099" } else { "2199" };
            assert_eq!((year(first).as_str(), year(last).as_str()), ("1970", ends), "{text} in {zone}");
            assert_eq!((cron.prev(first), cron.next(last)), (None, None), "{text} in {zone}");
            assert!(cron.next(end).is_none() && cron.prev(start).is_none(), "{text} in {zone}");
        }
    }
}

/// An expression of five fields is only valid in Unix. So the hint must propose the Unix dialect, and name the meaning
/// of the expression in that dialect. The hint must not propose another expression.
#[test]
fn a_hint_that_is_followed_never_changes_the_meaning() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut pick = |items: &[&str]| items[random.usize(..items.len())].to_owned();
    let mut proposed = 0;
    for _ in 0..2_000 {
        let fields = [
            pick(&["0", "*/5", "15", "1-7", "?", "60"]),
            pick(&["0", "15", "*", "9-17", "22-2"]),
            pick(&["*", "10", "?", "L", "1,15"]),
            pick(&["*", "JAN", "6-7", "?"]),
            pick(&["*", "1", "0", "5", "MON-FRI", "7", "?"]),
        ];
        let text = fields.join(" ");
        for dialect in [Quartz, Spring] {
            let error = Cron::parse_with(&text, dialect).unwrap_err();
            let unix = Cron::parse_with(&text, Unix);
            let phrased = |phrasing| error.clone().phrased(phrasing).hint().to_owned();
            let Ok(unix) = unix else {
                assert!(error.hint().starts_with("needed are"), "{error}");
                continue;
            };
            proposed += 1;
            let name = if dialect == Quartz { "Quartz" } else { "Spring" };
            for (phrasing, setting) in [
                (Phrasing::Calls, "Dialect::Unix"),
                (Phrasing::Keys, "dialect = \"unix\""),
                (Phrasing::Options, "--dialect unix"),
            ] {
                let hint = format!("{name} begins with seconds; read by {setting} it means: {}", unix.describe());
                assert_eq!(phrased(phrasing), hint);
            }
        }
    }
    assert!(proposed > 500, "only {proposed} hints proposed the Unix dialect");
    let error = Cron::parse("0 0 0 13 * FRI").unwrap_err();
    for (phrasing, settings) in [
        (Phrasing::Keys, ["day_match = \"and\"", "day_match = \"or\""]),
        (Phrasing::Options, ["--days and", "--days or"]),
    ] {
        let error = error.clone().phrased(phrasing);
        assert!(settings.iter().all(|setting| error.to_string().contains(setting)), "{error}");
        assert!(error.picture().ends_with(error.hint()) && !error.hint().contains("DayMatch"), "{error}");
    }
}

#[test]
fn a_name_that_is_no_zone_gets_the_hint_that_helps() {
    for (name, hint) in [
        ("GMT+8", "write Etc/GMT-8, or name a place"),
        ("UTC-03:00", "write Etc/GMT+3, or name a place"),
        ("+0530", "an offset is no zone; name a place"),
        ("local", "there is no local zone"),
        ("Shanghai", "did you mean Asia/Shanghai?"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("America/New York", "did you mean America/New_York?"),
        ("Mars/Olympus", "examples are Asia/Shanghai and UTC"),
        ("", "examples are Asia/Shanghai and UTC"),
        ("LocalTime", "there is no local zone"),
        ("PST", "abbreviations are ambiguous: name a place, such as America/Los_Angeles for PST"),
        ("ist", "such as Asia/Kolkata, Europe/Dublin or Asia/Jerusalem for IST"),
        ("BST", "such as Europe/London or"),
    ] {
        let error = Zone::named(name).unwrap_err().to_string();
        assert!(error.contains(hint), "{name:?}: {error}");
    }
}

#[test]
fn the_table_is_that_of_2026f_or_later() {
    assert!(Zone::table() >= "2026f", "{}", Zone::table());
}

#[test]
fn an_expression_that_names_its_zone_gets_the_setting() {
    let error = Cron::parse("CRON_TZ=Asia/Shanghai 0 9 * * *").unwrap_err();
    assert!(error.to_string().ends_with("remove this word, and write zone(\"Asia/Shanghai\")"), "{error}");
    let hint = error.phrased(Phrasing::Options).hint().to_owned();
    assert!(hint.ends_with("--zone Asia/Shanghai"), "{hint}");
}

#[test]
fn an_expression_that_names_no_zone_gets_no_setting_that_is_refused() {
    for (text, hint) in [
        ("CRON_TZ=Bogus/Zone 0 9 * * *", "remove this word, and use --zone; \"Bogus/Zone\" is not a zone"),
        ("TZ=local 0 9 * * *", "remove this word, and use --zone; \"local\" is not a zone"),
        ("TZ=Europe/Berln 0 9 * * *", "did you mean Europe/Berlin?"),
        ("TZ=europe/berlin 0 9 * * *", "remove this word, and write --zone Europe/Berlin"),
    ] {
        let error = Cron::parse(text).unwrap_err().phrased(Phrasing::Options);
        assert!(error.hint().contains(hint), "{error}");
        assert!(!error.hint().contains("--zone local") && !error.hint().contains("--zone Bogus"), "{error}");
    }
}

#[test]
fn the_start_of_a_program_is_phrased_for_files_too() {
    for text in ["@reboot", "@reboot /usr/bin/warm"] {
        let error = Cron::parse_with(text, Unix).unwrap_err();
        assert!(error.hint().contains("Job::once"), "{error}");
        for phrasing in [Phrasing::Keys, Phrasing::Options] {
            let hint = error.clone().phrased(phrasing).hint().to_owned();
            assert_eq!(hint, "run the command where the program is started");
        }
    }
}
