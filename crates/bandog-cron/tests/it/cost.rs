//! The memory that an expression takes.

use allocation_counter::measure;
use bandog_cron::{Cron, Dialect, Time, Zone};

const TEXTS: [(Dialect, &str); 8] = [
    (Dialect::Quartz, "0 15 10 ? * MON-FRI 2026-2030/2"),
    (Dialect::Quartz, "0,30 0/5 22-2 1W,15,LW,L-3,L-2W JAN-JUN/2 ?"),
    (Dialect::Quartz, "0 0 0 ? * 2L,6#3"),
    (Dialect::Quartz, "0 0 0 31 6 ?"),
    (Dialect::Quartz, "@daily"),
    (Dialect::Spring, "0 0 0 13 * FRI"),
    (Dialect::Unix, "*/5 9-17 * * 1-5"),
    (Dialect::Unix, "0 0 13 * 5"),
];

#[test]
fn a_cron_takes_at_most_96_bytes() {
    assert!(size_of::<Cron>() <= 96, "{} bytes", size_of::<Cron>());
}

#[test]
fn only_the_text_of_an_expression_is_on_the_heap() {
    let now: Time = "2026-01-01T00:00:00.5Z".parse().unwrap();
    let zone = Zone::named("America/New_York").unwrap();
    for (dialect, text) in TEXTS {
        let mut parsed = None;
        let parse = measure(|| parsed = Some(Cron::parse_with(text, dialect)));
        assert_eq!(
            (parse.count_total, parse.bytes_total),
            (1, text.len() as u64),
            "{text} must allocate once when it is compiled"
        );
        let cron = parsed.unwrap().unwrap();
        for zone in [Zone::UTC, zone.clone()] {
            let cron = cron.clone();
            let search = measure(|| {
                let cron = cron.in_zone(zone);
                let next = cron.next(now);
                assert_eq!(next.is_none(), cron.never_fires());
                assert_eq!(cron.prev(now).is_none(), cron.never_fires() || text.contains("2026"));
                assert_eq!(next.is_some_and(|next| cron.matches(next)), next.is_some());
                assert!(cron.count_between(now, Time::from_second(2_000_000_000), 50) <= 50);
            });
            assert_eq!(search.count_total, 0, "{text} must not allocate in a search for its fires");
        }
    }
}
