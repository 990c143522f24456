//! Compares the fires of random expressions with the result of a slow search, which visits each day of the calendar and
//! each minute of a zone.

mod plan;
mod walk;

use std::collections::HashSet;

use bandog_cron::{Cron, DayMatch, Daylight, Dialect, Time, Zone};
use jiff::{Timestamp, tz::TimeZoneDatabase};

use self::{plan::Plan, walk::Walk};

#[test]
fn next_and_prev_find_what_a_walk_through_all_days_finds() {
    let mut random = fastrand::Rng::with_seed(2026);
    let walk = Walk::all();
    for _ in 0..40 {
        let plan = Plan::random(&mut random);
        let text = plan.text();
        let cron = Cron::parse(&text).unwrap_or_else(|error| panic!("{text}\n{}", error.picture()));
        let days: Vec<i64> = walk.days().filter(|day| plan.has_day(walk.day(*day))).collect();
        let times = plan.times();
        for _ in 0..30 {
            let at = random.i64(900_000_000..4_200_000_000);
            let next = walk::after(&days, &times, at);
            let prev = walk::before(&days, &times, at);
            assert_eq!(cron.next(Time::from_second(at)).map(Time::second), next, "{text} after {at}");
            assert_eq!(cron.prev(Time::from_second(at)).map(Time::second), prev, "{text} before {at}");
            if let Some(next) = next {
                assert_eq!(cron.prev(Time::from_second(next + 1)), Some(Time::from_second(next)), "{text} at {next}");
                assert!(cron.matches(Time::from_second(next)), "{text} at {next}");
            }
        }
    }
}

#[test]
fn days_with_special_characters_match_as_in_a_walk_through_four_years() {
    let mut random = fastrand::Rng::with_seed(31);
    let walk = Walk::all();
    for _ in 0..400 {
        let plan = Plan::random_special_days(&mut random);
        let text = plan.text();
        let cron = Cron::parse(&text).unwrap();
        let start = random.i64(0..80_000);
        let days = (start..start + 1461).filter(|day| plan.has_day(walk.day(*day)));
        let found = cron.after(Time::from_second(start * 86_400 - 1)).map(|fire| fire.second() / 86_400);
        let found = found.take_while(|day| *day < start + 1461);
        assert_eq!(found.collect::<Vec<_>>(), days.collect::<Vec<_>>(), "{text} from day {start}");
    }
}

#[test]
fn two_restricted_day_fields_match_as_in_a_walk_through_twelve_years() {
    let mut random = fastrand::Rng::with_seed(13);
    let walk = Walk::all();
    let mut rare = 0;
    for (dialect, days) in [
        (Dialect::Quartz, Some(DayMatch::And)),
        (Dialect::Quartz, Some(DayMatch::Or)),
        (Dialect::Spring, None),
        (Dialect::Spring, Some(DayMatch::Or)),
        (Dialect::Unix, None),
        (Dialect::Unix, Some(DayMatch::And)),
    ] {
        for _ in 0..50 {
            let plan = Plan::random_pair(&mut random, dialect, days);
            let text = plan.text();
            let cron = Cron::parse_with(&text, plan.rules()).unwrap_or_else(|error| panic!("{}", error.picture()));
            let start = random.i64(0..75_000);
            let end = start + 4383;
            let expected: Vec<_> = (start..end).filter(|day| plan.has_day(walk.day(*day))).collect();
            let (from, to) = (Time::from_second(start * 86_400 - 1), Time::from_second(end * 86_400 - 1));
            let found: Vec<_> = cron.between(from, to).map(|fire| fire.second() / 86_400).collect();
            assert_eq!(found, expected, "{text} in {dialect} {days:?} from day {start}");
            let back = std::iter::successors(cron.prev(to), |time| cron.prev(*time)).take_while(|time| *time > from);
            assert!(back.map(|fire| fire.second() / 86_400).eq(expected.iter().rev().copied()), "{text}, backwards");
            if expected.is_empty() {
                assert_eq!(cron.never_fires(), !walk.days().any(|day| plan.has_day(walk.day(day))), "{text}");
            }
            rare += u32::from(expected.len() < 5);
        }
    }
    assert!(rare > 5, "only {rare} expressions fired rarely");
}

/// A zone, and an instant near which its clocks change.
const CHANGES: [(&str, &str); 19] = [
    ("America/New_York", "2026-03-08T07:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Africa/Cairo", "2025-04-24T22:00:00Z"),
    ("Africa/Cairo", "2025-10-30T21:00:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),
    ("America/Scoresbysund", "2026-03-29T01:00:00Z"),
    ("America/Scoresbysund", "2026-10-25T01:00:00Z"),
    ("Antarctica/Troll", "2026-03-29T01:00:00Z"),
    ("Antarctica/Troll", "2026-10-25T01:00:00Z"),
    ("Europe/London", "2150-03-29T01:00:00Z"),
    ("Asia/Pyongyang", "2015-08-14T15:00:00Z"),
    ("Asia/Kathmandu", "1985-12-31T18:30:00Z"),
    ("America/St_Johns", "1988-04-03T03:31:00Z"),
    ("Asia/Shanghai", "2026-01-01T00:00:00Z"),
];

#[test]
fn fires_in_zones_are_those_that_a_walk_through_all_minutes_finds() {
    let mut random = fastrand::Rng::with_seed(7);
    let walk = Walk::all();
    let mut counted = 0;
    for (name, change) in CHANGES {
        let change = change.parse::<Time>().unwrap().second();
        counted += compare_near(name, change, 16, &mut random, &walk);
    }
    assert!(counted > 4_000, "only {counted} fires were compared");
}

#[test]
fn fires_near_random_changes_of_random_zones_are_right() {
    let mut random = fastrand::Rng::with_seed(8);
    let walk = Walk::all();
    let database = TimeZoneDatabase::bundled();
    let zones: Vec<_> = database.available().collect();
    let start = Timestamp::from_second(3 * 86_400).unwrap();
    for _ in 0..50 {
        let name = zones[random.usize(..zones.len())].as_str();
        let rules = TimeZoneDatabase::bundled().get(name).unwrap();
        let changes = rules.following(start).map(|change| change.timestamp().as_second());
        let changes: Vec<_> = changes.take_while(|change| *change < 7_258_000_000).collect();
        if !changes.is_empty() {
            compare_near(name, changes[random.usize(..changes.len())], 2, &mut random, &walk);
        }
    }
    // Until this instant Monrovia's clocks were 44 minutes and 30 seconds behind.
    let change = "1972-01-07T00:44:30Z".parse::<Time>().unwrap().second();
    compare_near("Africa/Monrovia", change, 2, &mut random, &walk);
}

/// Compares the fires of random expressions in the two days before and the two days after a change of the clocks.
/// Returns the number of fires that were compared.
fn compare_near(name: &str, change: i64, times: usize, random: &mut fastrand::Rng, walk: &Walk) -> usize {
    let (start, end) = (change - 2 * 86_400, change + 2 * 86_400);
    let walls = walls(name, start, end);
    let mut counted = 0;
    for _ in 0..times {
        let plan = Plan::random_minutes(random);
        let text = plan.text();
        let mut cron = Cron::parse(&text).unwrap().in_zone(Zone::named(name).unwrap());
        assert_eq!(cron.daylight() == Daylight::Elapsed, plan.is_elapsed(), "{text}");
        if random.u32(..4) == 0 {
            cron = cron.on_daylight([Daylight::Pinned, Daylight::Elapsed, Daylight::Skip][random.usize(..3)]);
        }
        let fires = expected(&plan, walk, &walls, cron.daylight());
        let what = format!("{text} in {name}, {:?}, near {}", cron.daylight(), Time::from_second(change));
        let found = cron.between(Time::from_second(start), Time::from_second(end - 1)).map(Time::second);
        assert_eq!(found.collect::<Vec<_>>(), fires, "{what}");
        let back = std::iter::successors(cron.prev(Time::from_second(end)), |time| cron.prev(*time));
        let mut back: Vec<_> = back.take_while(|time| time.second() > start).map(Time::second).collect();
        back.reverse();
        assert_eq!(back, fires, "{what}, backwards");
        assert!(fires.iter().all(|fire| cron.matches(Time::from_second(*fire))), "{what}");
        counted += fires.len();
    }
    counted
}

/// All minutes from `start` to `end`, each in UTC and as the zone's clocks show it. If the zone's offset is not a whole
/// number of minutes, the list has all seconds instead.
fn walls(name: &str, start: i64, end: i64) -> Vec<(i64, i64)> {
    let rules = TimeZoneDatabase::bundled().get(name).unwrap();
    let wall = |second| second + i64::from(rules.to_offset(Timestamp::from_second(second).unwrap()).seconds());
    let whole = [start, wall(start), wall(end)].iter().all(|second| second % 60 == 0);
    (start..end).step_by(if whole { 60 } else { 1 }).map(|second| (second, wall(second))).collect()
}

/// The fires by the rule for daylight saving in docs/cron.md, computed step by step.
fn expected(plan: &Plan, walk: &Walk, walls: &[(i64, i64)], daylight: Daylight) -> Vec<i64> {
    let matches = |wall: i64| plan.has_day(walk.day(wall.div_euclid(86_400))) && plan.has_time(wall.rem_euclid(86_400));
    let step = walls[1].0 - walls[0].0;
    let mut shown = HashSet::from([walls[0].1]);
    let mut fires = Vec::new();
    for pair in walls.windows(2) {
        let ((_, before), (second, wall)) = (pair[0], pair[1]);
        let is_shown_again = !shown.insert(wall);
        let is_match = matches(wall) && (daylight == Daylight::Elapsed || !is_shown_again);
        let missing = (before + step..wall).step_by(usize::try_from(step).unwrap());
        let mut gap = missing.filter(|skipped| skipped / 86_400 == wall / 86_400);
        let is_after_match_in_gap = daylight == Daylight::Pinned && gap.any(matches);
        if is_match || is_after_match_in_gap {
            fires.push(second);
        }
    }
    fires
}

#[test]
fn prev_finds_the_same_fires_as_next_in_every_zone() {
    let mut random = fastrand::Rng::with_seed(600);
    let crons = ["0 30 0,1,2,23 * * ?", "0 0/20 * * * ?", "0 0 0 L * ?"].map(|text| Cron::parse(text).unwrap());
    for name in TimeZoneDatabase::bundled().available() {
        let zone = Zone::named(name.as_str()).unwrap();
        for cron in crons.clone().map(|cron| cron.in_zone(zone.clone())) {
            let start = Time::from_second(random.i64(0..2_000_000_000));
            let fires: Vec<_> = cron.after(start).take(40).collect();
            assert!(fires.is_sorted_by(|a, b| a < b), "{cron} in {name}");
            let back = std::iter::successors(cron.prev(fires[39]), |time| cron.prev(*time));
            assert!(back.take(39).eq(fires[..39].iter().rev().copied()), "{cron} in {name} from {start}");
        }
    }
}

#[test]
fn in_a_crontab_one_of_two_restricted_day_fields_must_match() {
    let walk = Walk::all();
    for (text, must_both_match) in
        [("0 0 13 * 5", false), ("0 0 */13 * 5", true), ("0 0 13 * *", true), ("0 0 * * 5", true)]
    {
        let cron = Cron::parse_with(text, Dialect::Unix).unwrap();
        let date = |day: u32| match text.split(' ').nth(2).unwrap() {
            "13" => day == 13,
            "*" => true,
            _ => [1, 14, 27].contains(&day),
        };
        let weekday = |day: u32| text.ends_with('*') || day == 5;
        for number in walk.days().skip(20_000).take(3000) {
            let day = walk.day(number);
            let (date, weekday) = (date(day.day), weekday(day.weekday));
            let expected = if must_both_match { date && weekday } else { date || weekday };
            assert_eq!(cron.matches(Time::from_second(number * 86_400)), expected, "{text} on {number}");
        }
    }
}
