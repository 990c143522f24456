//! `count_between` counts as many fires as `between` finds.

use std::time::{Duration, Instant};

use bandog_cron::{Cron, Daylight, Dialect, Time, Zone};

const TEXTS: [(Dialect, &str); 14] = [
    (Dialect::Quartz, "0 0/7 * * * ?"),
    (Dialect::Quartz, "0 30 2 * * ?"),
    (Dialect::Quartz, "0 0,30 0-3 * * ?"),
    (Dialect::Quartz, "30 59 23 L * ?"),
    (Dialect::Quartz, "0 0 0 * * ?"),
    (Dialect::Quartz, "0 15 10 ? * MON-FRI 2026-2030/2"),
    (Dialect::Quartz, "0,30 0/5 22-2 1W,15,LW,L-3,L-2W JAN-JUN/2 ?"),
    (Dialect::Quartz, "0 0 0 ? * 2L,6#3"),
    (Dialect::Quartz, "0 0 0 31 6 ?"),
    (Dialect::Quartz, "0 0 12 29 2 ? 2096"),
    (Dialect::Quartz, "0 0 0/3 ? * *"),
    (Dialect::Spring, "0 0 0 13 * FRI"),
    (Dialect::Unix, "*/5 9-17 * * 1-5"),
    (Dialect::Unix, "0 13 1 * 5"),
];

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Africa/Monrovia",
];

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

#[test]
fn as_many_fires_are_counted_as_are_found_one_by_one() {
    let mut seed = 7_u64;
    let mut random = |below: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(seed >> 33).unwrap() % below
    };
    let mut counted = 0;
    for (dialect, text) in TEXTS {
        for zone in ZONES {
            for daylight in [None, Some(Daylight::Pinned), Some(Daylight::Elapsed), Some(Daylight::Skip)] {
                let cron = Cron::parse_with(text, dialect).unwrap().in_zone(Zone::named(zone).unwrap());
                let cron = daylight.map_or(cron.clone(), |daylight| cron.on_daylight(daylight));
                for _ in 0..3 {
                    // Each of the zones changes its clocks after one of these starts. Apia skips a day, and Monrovia
                    // skips 44.5 minutes.
                    let first = [1_300_000_000, 60_000_000, 1_760_000_000][usize::try_from(random(3)).unwrap()];
                    let from = first + random(40_000_000);
                    let (from, to) = (Time::from_millisecond(from * 1000 + random(2) * 500), from + random(10_000_000));
                    let to = Time::from_millisecond(to * 1000 + random(2) * 500);
                    let found = cron.between(from, to).count();
                    let context = format!("{text} {zone} {:?} {from} {to}", cron.daylight());
                    assert_eq!(cron.count_between(from, to, usize::MAX), found, "{context}");
                    assert_eq!(cron.count_between(to, from, 9), 0, "{context}");
                    counted += found;
                }
            }
        }
    }
    assert!(counted > 500_000, "only {counted} fires were counted");
}

#[test]
fn counts_near_changes_of_the_clocks_are_right() {
    for zone in ZONES {
        for daylight in [Daylight::Pinned, Daylight::Elapsed, Daylight::Skip] {
            for text in ["0/7 * * * * ?", "0 0/10 * * * ?", "0 0 0-3 * * ?"] {
                let cron = Cron::parse(text).unwrap().in_zone(Zone::named(zone).unwrap()).on_daylight(daylight);
                for day in
                    ["2011-12-30", "2018-02-18", "2018-11-04", "2026-03-08", "2026-03-29", "2026-04-05", "2026-10-25"]
                {
                    let noon = time(&format!("{day}T12:00:00Z")).second();
                    for half in 0..6 {
                        let (from, to) = (noon - 86_400 + half * 14_400, noon - 86_400 + half * 14_400 + 20_000);
                        let (from, to) = (Time::from_second(from), Time::from_second(to));
                        let found = cron.between(from, to).count();
                        let context = format!("{text} {zone} {daylight:?} {from}");
                        assert_eq!(cron.count_between(from, to, usize::MAX), found, "{context}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_seconds_of_two_hundred_years_are_counted_fast() {
    let began = Instant::now();
    for zone in ZONES {
        let cron = Cron::parse("* * * * * ?").unwrap().in_zone(Zone::named(zone).unwrap());
        let (from, to) = (time("1990-01-01T00:00:00Z"), time("2190-01-01T00:00:00Z"));
        assert_eq!(cron.count_between(from, to, usize::MAX), usize::try_from(to.second() - from.second()).unwrap());
        assert_eq!(cron.count_between(from, to, 1_000), 1_000);
    }
    // To count the fires one by one would take minutes.
    assert!(began.elapsed() < Duration::from_secs(2), "counting took {:?}", began.elapsed());
}
