//! Random inputs for every parser of this crate.

use bandog_cron::{Cron, DayMatch, Daylight, Dialect, Language, Time, Zone};
use bandog_testkit::fuzz;

const QUARTZ: &[&str] = &[
    "0 15 10 ? * MON-FRI",
    "0 0/5 14,18 * * ?",
    "0 0 12 1/5 * ?",
    "0 11 11 11 11 ?",
    "0 15 10 L * ?",
    "0 0 0 LW * ?",
    "0 0 0 L-3 * ?",
    "0 15 10 ? * 6#3",
    "0 15 10 ? * FRIL 2022-2025",
    "0 0 22-2 15W * ?",
    "@daily",
    "* * * * * ?",
    "0 0 0 29 2 ? 2096/4",
];
const SPRING: &[&str] =
    &["0 0 9 * * 1-5", "*/10 * * * * *", "0 0 8-10 * * *", "0 0 0 25 12 ?", "0 0 0 L * *", "0 0 0 * * 5L", "@hourly"];
const UNIX: &[&str] = &["*/5 * * * *", "0 9 * * 1-5", "15 10 1,15 * *", "0 0 13 * 5", "0 0 * * SUN", "@weekly"];
const WORDS: &[&str] = &[
    "*",
    "?",
    "L",
    "W",
    "#",
    "/",
    "-",
    ",",
    "LW",
    "L-",
    "1-5",
    "*/",
    "0/0",
    "59",
    "60",
    "31",
    "32",
    "12",
    "13",
    "2099",
    "2100",
    "1970",
    "MON",
    "SUN",
    "JAN",
    "DEC",
    "FRI#5",
    "7L",
    "@yearly",
    "@every 5s",
    "@reboot",
    "TZ=UTC ",
    " ",
];

/// Instants from which the test searches for fires: before the first fire, between fires, at a gap of the clocks, and
/// near the last fire.
const STARTS: [i64; 4] = [-62_000_000_000, 1_770_000_000, 1_774_745_999, 7_258_118_399];

fn fuzz_dialect(dialect: Dialect, samples: &[&str]) {
    let berlin = Zone::named("Europe/Berlin").unwrap();
    fuzz::texts(&format!("Cron, {dialect}"), samples, WORDS, |text| {
        let cron = match Cron::parse_with(text, dialect) {
            Ok(cron) => cron,
            Err(error) => {
                assert!(error.column() <= text.chars().count() + 1, "{error}");
                assert!(!error.to_string().is_empty() && error.picture().contains('\n'));
                return false;
            }
        };
        assert_eq!(
            Cron::parse_with(cron.text(), cron.rules()).unwrap(),
            cron,
            "the text of an expression is parsed as a different expression"
        );
        assert!(!cron.describe_in(Language::English).is_empty() && !cron.describe_in(Language::Chinese).is_empty());
        let cron = cron.in_zone(berlin.clone());
        for start in STARTS.map(Time::from_second) {
            let Some(next) = cron.next(start) else { continue };
            assert!(next > start, "{text:?} fires at {next}, which is not after {start}");
            assert!(cron.matches(next), "{text:?} does not match its own fire {next}");
            let second_before = Time::from_second(next.second() - 1);
            assert_eq!(cron.next(second_before), Some(next), "{text:?}");
            let second_after = Time::from_second(next.second() + 1);
            assert_eq!(cron.prev(second_after), Some(next), "{text:?}");
        }
        true
    });
}

#[test]
fn fuzz_quartz() {
    fuzz_dialect(Dialect::Quartz, QUARTZ);
}

#[test]
fn fuzz_spring() {
    fuzz_dialect(Dialect::Spring, SPRING);
}

#[test]
fn fuzz_unix() {
    fuzz_dialect(Dialect::Unix, UNIX);
}

#[test]
fn fuzz_words_of_rules() {
    fuzz::texts("words of cron", &["quartz", "spring", "unix", "and", "or", "skip", "both", "first"], &[], |text| {
        let dialect = text.parse::<Dialect>().map(|word| word.to_string()).ok();
        let days = text.parse::<DayMatch>().map(|word| word.to_string()).ok();
        let daylight = text.parse::<Daylight>().map(|word| word.to_string()).ok();
        let Some(written) = dialect.or(days).or(daylight) else { return false };
        assert!(written.eq_ignore_ascii_case(text), "{text:?} is written as {written:?}");
        true
    });
}

#[test]
fn fuzz_times() {
    let samples = ["2026-01-31T00:00:00Z", "1969-12-31T23:59:59.5+05:45", "9999-12-31T23:59:59Z", "-009999-01-02T01Z"];
    fuzz::texts("Time", &samples, &["T", "Z", "+23:59", "[Europe/Berlin]", "24:00:00", ":60"], |text| {
        let Ok(time) = text.parse::<Time>() else { return false };
        assert_eq!(time.to_string().parse::<Time>().unwrap(), time, "{text:?}");
        let zone = Zone::named("Asia/Kathmandu").unwrap();
        assert!(!time.at(&zone).to_string().is_empty());
        assert!(Time::from_second(time.second()) <= time);
        true
    });
}

#[test]
fn fuzz_zones() {
    fuzz::texts("Zone", &["Europe/Berlin", "UTC", "Etc/GMT+12", "America/Argentina/Ushuaia"], &["/", ".."], |text| {
        let Ok(zone) = Zone::named(text) else { return false };
        assert_eq!(Zone::named(zone.name()).unwrap().name(), zone.name());
        true
    });
}

#[test]
fn fuzz_zone_files() {
    let samples = [tzif(&[]), tzif(&[(1_000_000_000, 0), (1_100_000_000, 1), (1_200_000_000, 0)])];
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let cron = Cron::parse("0 30 2 * * ?").unwrap();
    fuzz::bytes("Zone::from_tzif", &samples, &["TZif", "2", "\n", "CET-1CEST,M3.5.0,M10.5.0/3\n"], |file| {
        let Ok(zone) = Zone::from_tzif("Test/Zone", file) else { return false };
        let cron = cron.clone().in_zone(zone);
        for start in STARTS.map(Time::from_second) {
            assert!(cron.next(start).is_none_or(|next| next > start));
        }
        true
    });
}

/// A zone file can lack a rule for the years after its last change of the clocks. In an earlier version, the search for
/// changes never ended for such a file.
#[test]
fn a_zone_file_without_a_rule_for_later_years_is_read() {
    let mut file = tzif(&[(1_000_000_000, 0), (1_100_000_000, 1)]);
    file.truncate(file.len() - FOOTER.len());
    file.extend(b"\n\n");
    let zone = Zone::from_tzif("Test/Zone", &file).unwrap();
    let late = Cron::parse("0 0 12 1 1 ?").unwrap().in_zone(zone).next(Time::from_second(4_000_000_000)).unwrap();
    assert_eq!(late.to_string(), "2097-01-01T10:00:00Z", "the last offset, two hours, stays");
}

const FOOTER: &str = "\nCET-1CEST,M3.5.0,M10.5.0/3\n";

/// The file (RFC 8536, version 2) of a zone with two offsets, of one hour and of two hours. Each change is an instant
/// in UTC seconds and the index of the offset that starts then.
fn tzif(changes: &[(i64, u8)]) -> Vec<u8> {
    let header = |changes: usize| {
        let mut header = b"TZif2".to_vec();
        header.extend([0; 15]);
        for count in [0, 0, 0, changes, 2, 8] {
            header.extend(u32::try_from(count).unwrap().to_be_bytes());
        }
        header
    };
    let types = |file: &mut Vec<u8>| {
        for (offset, is_summer, name) in [(3600_i32, 0, 0), (7200, 1, 4)] {
            file.extend(offset.to_be_bytes());
            file.extend([is_summer, name]);
        }
        file.extend(b"CET\0CES\0");
    };
    let mut file = header(0);
    types(&mut file);
    file.extend(header(changes.len()));
    file.extend(changes.iter().flat_map(|(at, _)| at.to_be_bytes()));
    file.extend(changes.iter().map(|(_, to)| to));
    types(&mut file);
    file.extend(FOOTER.as_bytes());
    file
}
