//! Fires near the times at which clocks are set forward or back.

use bandog_cron::{Cron, Daylight, Time, Zone};

/// Number, expression, zone, an instant, and the fires that directly follow the instant.
#[rustfmt::skip]
const ROWS: &[(u32, &str, &str, &str, &[&str])] = &[
    (1, "0 30 2 * * ?", "America/New_York", "2026-03-07T02:30:00-05:00", &["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]),
    (2, "0 30 2,14 * * ?", "America/New_York", "2026-03-07T14:30:00-05:00", &["2026-03-08T03:00:00-04:00", "2026-03-08T14:30:00-04:00"]),
    (3, "0 30 2,3 * * ?", "America/New_York", "2026-03-07T14:30:00-05:00", &["2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00", "2026-03-09T02:30:00-04:00"]),
    (4, "0 0 0 * * ?", "Africa/Cairo", "2025-04-24T00:00:00+02:00", &["2025-04-25T01:00:00+03:00", "2025-04-26T00:00:00+03:00"]),
    (5, "0 0 0 * * ?", "America/Sao_Paulo", "2018-11-03T00:00:00-03:00", &["2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"]),
    (6, "0 0 0/2 * * ?", "America/New_York", "2026-03-07T22:00:00-05:00", &["2026-03-08T00:00:00-05:00", "2026-03-08T04:00:00-04:00", "2026-03-08T06:00:00-04:00"]),
    (7, "0 0/30 * * * ?", "America/New_York", "2026-03-08T01:00:00-05:00", &["2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00"]),
    (8, "0 30 1 * * ?", "America/New_York", "2026-10-31T01:30:00-04:00", &["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]),
    (9, "0 30 1,13 * * ?", "America/New_York", "2026-10-31T13:30:00-04:00", &["2026-11-01T01:30:00-04:00", "2026-11-01T13:30:00-05:00"]),
    (10, "0 0 * * * ?", "America/New_York", "2026-11-01T00:00:00-04:00", &["2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"]),
    (11, "0 0/30 1 * * ?", "America/New_York", "2026-10-31T12:00:00-04:00", &["2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-02T01:00:00-05:00"]),
    (12, "0/5 * * * * ?", "America/New_York", "2026-11-01T01:59:55-04:00", &["2026-11-01T01:00:00-05:00", "2026-11-01T01:00:05-05:00"]),
    (13, "0 45 1 * * ?", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00", &["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"]),
    (14, "0 0/15 * * * ?", "Australia/Lord_Howe", "2026-04-05T01:15:00+11:00", &["2026-04-05T01:30:00+11:00", "2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30", "2026-04-05T02:00:00+10:30"]),
    (15, "0 15 2 * * ?", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", &["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]),
    (16, "0 0 12 * * ?", "Pacific/Apia", "2011-12-29T00:00:00-10:00", &["2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"]),
    // The gap is the last hour of Saturday, and ends at midnight. Midnight is on Sunday, which is another date, so the
    // time in the gap does not fire.
    (17, "0 30 23 * * ?", "America/Scoresbysund", "2026-03-27T23:30:00-02:00", &["2026-03-29T23:30:00-01:00"]),
    // All matches in one gap are one fire.
    (18, "0 0/10 2 * * ?", "Europe/Berlin", "2026-03-28T02:50:00+01:00", &["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]),
];

#[test]
fn the_fires_of_each_row_are_found_forwards_and_backwards() {
    for (number, text, zone, from, fires) in ROWS {
        let cron = Cron::parse(text).unwrap().in_zone(Zone::named(zone).unwrap());
        let found = cron.after(from.parse::<Time>().unwrap()).take(fires.len());
        let found: Vec<_> = found.map(|fire| fire.at(cron.zone()).to_string()).collect();
        assert_eq!(found, *fires, "row {number}");
        for pair in fires.windows(2) {
            let before = cron.prev(pair[1].parse::<Time>().unwrap()).unwrap();
            assert_eq!(before.at(cron.zone()).to_string(), pair[0], "row {number}, backwards");
        }
        for fire in *fires {
            assert!(
                cron.matches(fire.parse::<Time>().unwrap()),
                "row {number}: the expression does not match its own fire {fire}"
            );
        }
    }
}

#[test]
fn on_daylight_chooses_another_rule_for_one_expression() {
    let new_york = Zone::named("America/New_York").unwrap();
    let first = |text: &str, daylight, from: &str| {
        let cron = Cron::parse(text).unwrap().in_zone(new_york.clone()).on_daylight(daylight);
        cron.next(from.parse::<Time>().unwrap()).unwrap().at(&new_york).to_string()
    };
    let evening = "2026-03-07T20:00:00-05:00";
    assert_eq!(first("0 30 2 * * ?", Daylight::Skip, evening), "2026-03-09T02:30:00-04:00");
    assert_eq!(first("0 30 2 * * ?", Daylight::Elapsed, evening), "2026-03-09T02:30:00-04:00");
    assert_eq!(first("0 30 2 * * ?", Daylight::Pinned, evening), "2026-03-08T03:00:00-04:00");
    let first_half_past_one = "2026-11-01T01:30:00-04:00";
    assert_eq!(first("0 30 1 * * ?", Daylight::Elapsed, first_half_past_one), "2026-11-01T01:30:00-05:00");
    assert_eq!(first("0 30 1 * * ?", Daylight::Skip, first_half_past_one), "2026-11-02T01:30:00-05:00");
}

#[test]
fn an_instant_is_read_back_as_it_was_written() {
    for (zone, second, text) in [
        ("Africa/Monrovia", 63_593_069, "1972-01-07T00:44:29Z"),
        ("Africa/Monrovia", 63_593_070, "1972-01-07T00:44:30+00:00"),
        ("Asia/Kathmandu", 0, "1970-01-01T05:30:00+05:30"),
        ("America/St_Johns", 0, "1969-12-31T20:30:00-03:30"),
    ] {
        let time = Time::from_second(second);
        assert_eq!(time.at(&Zone::named(zone).unwrap()).to_string(), text);
        assert_eq!(text.parse(), Ok(time));
    }
}

#[test]
fn all_instants_of_the_last_day_of_9999_are_read_as_the_last_instant() {
    let end = Time::from_second(i64::MAX);
    assert_eq!(end.to_string(), "9999-12-30T22:00:00.999999999Z");
    for text in ["9999-12-31T23:59:59Z", "9999-12-31T00:00:00-05:00", "9999-12-30T22:00:00.999999999Z"] {
        assert_eq!(text.parse(), Ok(end));
    }
    for text in ["9999-12-31", "9999-12-31T23:59:59", "9999-12-32T00:00:00Z", "10000-01-01T00:00:00Z"] {
        assert!(text.parse::<Time>().is_err(), "{text}");
    }
    assert_eq!("9999-12-30T21:59:59Z".parse::<Time>().unwrap().to_string(), "9999-12-30T21:59:59Z");
}
