//! Random expressions, and a second implementation of their items, which follows the definitions literally. Days of the
//! week are numbered as in Quartz: Sunday is 1.

use bandog_cron::{DayMatch, Dialect, Rules};
use fastrand::Rng;

use super::walk::Day;

#[derive(Debug, Clone, Copy)]
enum Item {
    Any,
    AnyStep(u32),
    One(u32),
    /// A range that ends before it begins wraps around.
    Range(u32, u32),
    Step(u32, u32),
    RangeStep(u32, u32, u32),
    /// `L-n`
    Last(u32),
    /// `nW`
    Near(u32),
    /// `L-nW`
    NearLast(u32),
    /// `dL`
    LastOf(u32),
    /// `d#n`
    Nth(u32, u32),
}

use Item::{Any, AnyStep, Last, LastOf, Near, NearLast, Nth, One, Range, RangeStep, Step};

/// An expression before it is written as text.
pub(super) struct Plan {
    seconds: Vec<Item>,
    minutes: Vec<Item>,
    hours: Vec<Item>,
    dates: Option<Vec<Item>>,
    months: Vec<Item>,
    weekdays: Option<Vec<Item>>,
    years: Vec<Item>,
    dialect: Dialect,
    days: Option<DayMatch>,
}

impl Plan {
    pub(super) fn random(random: &mut Rng) -> Self {
        let mut plan = Self {
            seconds: list(random, 0, 59),
            minutes: list(random, 0, 59),
            hours: list(random, 0, 23),
            dates: None,
            months: list(random, 1, 12),
            weekdays: None,
            years: vec![Any],
            dialect: Dialect::Quartz,
            days: None,
        };
        match random.u32(..5) {
            0 => plan.weekdays = Some(list(random, 1, 7)),
            1 => plan.dates = Some(list(random, 1, 31)),
            2 => plan.dates = Some(several(random, special_date)),
            3 => plan.weekdays = Some(several(random, special_weekday)),
            _ => {}
        }
        if random.u32(..4) == 0 {
            let first = random.u32(1990..2090);
            plan.years = vec![[One(first), Range(first, first + 9), Step(first, random.u32(1..20))][random.usize(..3)]];
        }
        plan
    }

    /// An expression that fires often, and only at whole minutes.
    pub(super) fn random_minutes(random: &mut Rng) -> Self {
        let weekdays = (random.u32(..4) == 0).then(|| list(random, 1, 7));
        Self {
            seconds: vec![One(0)],
            minutes: list(random, 0, 59),
            hours: if random.bool() {
                several(random, |random| One(random.u32(..5) * 23 % 24))
            } else {
                list(random, 0, 23)
            },
            dates: None,
            months: vec![Any],
            weekdays,
            years: vec![Any],
            dialect: Dialect::Quartz,
            days: None,
        }
    }

    /// An expression that fires at midnight, on days with the special characters `L`, `W` and `#`.
    pub(super) fn random_special_days(random: &mut Rng) -> Self {
        let (mut dates, mut weekdays) = (None, None);
        if random.bool() {
            dates = Some(several(random, special_date));
        } else {
            weekdays = Some(several(random, special_weekday));
        }
        let months = list(random, 1, 12);
        Self { dates, weekdays, ..Self::midnights(months) }
    }

    /// An expression that fires at midnight and restricts both day fields.
    pub(super) fn random_pair(random: &mut Rng, dialect: Dialect, days: Option<DayMatch>) -> Self {
        let dates = Some(several(random, |random| date_of(random, dialect)));
        let weekdays = Some(several(random, |random| weekday_of(random, dialect)));
        let months = if random.bool() { vec![Any] } else { several(random, |random| One(random.u32(1..=12))) };
        Self { dates, weekdays, dialect, days, ..Self::midnights(months) }
    }

    fn midnights(months: Vec<Item>) -> Self {
        let midnight = || vec![One(0)];
        Self {
            seconds: midnight(),
            minutes: midnight(),
            hours: midnight(),
            dates: None,
            months,
            weekdays: None,
            years: vec![Any],
            dialect: Dialect::Quartz,
            days: None,
        }
    }

    pub(super) fn rules(&self) -> Rules {
        self.days.map_or(self.dialect.into(), |days| self.dialect.days(days))
    }

    pub(super) fn text(&self) -> String {
        let day = |items: &Option<Vec<Item>>, other: &str| items.as_deref().map_or(other.to_owned(), text);
        let date = if self.weekdays.is_some() { "?" } else { "*" };
        let weekdays = self.weekdays.as_ref().map(|items| match self.dialect {
            Dialect::Quartz => items.clone(),
            Dialect::Spring | Dialect::Unix => items.iter().map(|item| item.sunday_first()).collect(),
        });
        let fields = [
            text(&self.seconds),
            text(&self.minutes),
            text(&self.hours),
            day(&self.dates, date),
            text(&self.months),
            day(&weekdays, "?"),
            text(&self.years),
        ];
        let fields = match self.dialect {
            Dialect::Quartz => &fields[..],
            Dialect::Spring => &fields[..6],
            Dialect::Unix => &fields[1..6],
        };
        fields.join(" ")
    }

    pub(super) fn is_elapsed(&self) -> bool {
        self.hours.iter().any(|item| matches!(item, Any | AnyStep(_) | Step(..) | RangeStep(..)))
    }

    pub(super) fn has_time(&self, second: i64) -> bool {
        let second = u32::try_from(second).unwrap();
        let has = |items: &[Item], value, max| items.iter().any(|item| item.has(value, 0, max));
        has(&self.hours, second / 3600, 23)
            && has(&self.minutes, second / 60 % 60, 59)
            && has(&self.seconds, second % 60, 59)
    }

    pub(super) fn times(&self) -> Vec<i64> {
        (0..86_400).filter(|second| self.has_time(*second)).collect()
    }

    pub(super) fn has_day(&self, day: Day) -> bool {
        let month = self.months.iter().any(|item| item.has(day.month, 1, 12));
        let year =
            self.years.iter().any(|item| matches!(item, Any) || day.year <= 2099 && item.has(day.year, 1970, 2099));
        let date = |items: &[Item]| items.iter().any(|item| item.has_date(day, self.dialect));
        let weekday = |items: &[Item]| items.iter().any(|item| item.has_weekday(day));
        let matches = match (&self.dates, &self.weekdays) {
            (None, None) => true,
            (Some(dates), None) => date(dates),
            (None, Some(weekdays)) => weekday(weekdays),
            (Some(dates), Some(weekdays)) if self.is_one_enough() => date(dates) || weekday(weekdays),
            (Some(dates), Some(weekdays)) => date(dates) && weekday(weekdays),
        };
        month && year && matches
    }

    fn is_one_enough(&self) -> bool {
        self.days.map_or(self.dialect == Dialect::Unix, |days| days == DayMatch::Or)
    }
}

impl Item {
    fn has(self, value: u32, min: u32, max: u32) -> bool {
        let span = max - min + 1;
        let distance = |from: u32, to: u32| (to + span - from) % span;
        match self {
            Any => true,
            AnyStep(step) => (value - min).is_multiple_of(step),
            One(one) => value == one,
            Range(from, to) => distance(from, value) <= distance(from, to),
            Step(from, step) => (from..=max).step_by(step as usize).any(|at| at == value),
            RangeStep(from, to, step) => {
                distance(from, value) <= distance(from, to) && distance(from, value).is_multiple_of(step)
            }
            Last(_) | Near(_) | NearLast(_) | LastOf(_) | Nth(..) => false,
        }
    }

    fn has_date(self, day: Day, dialect: Dialect) -> bool {
        match self {
            Last(back) => day.day + back == day.month_length,
            // If the last day of a month is a Sunday, Spring moves the match into the next month, where it never
            // matches.
            Near(target) if dialect == Dialect::Spring && target == day.month_length && weekday(day, target) == 0 => {
                false
            }
            Near(target) => is_nearest(day, target),
            NearLast(back) => back < day.month_length && is_nearest(day, day.month_length - back),
            plain => plain.has(day.day, 1, 31),
        }
    }

    fn has_weekday(self, day: Day) -> bool {
        let number = day.weekday + 1;
        match self {
            LastOf(wanted) => number == wanted && day.day + 7 > day.month_length,
            Nth(wanted, week) => number == wanted && day.day.div_ceil(7) == week,
            plain => plain.has(number, 1, 7),
        }
    }

    /// The same item in a dialect where Sunday is 0.
    fn sunday_first(self) -> Self {
        match self {
            One(day) => One(day - 1),
            Range(from, to) => Range(from - 1, to - 1),
            LastOf(day) => LastOf(day - 1),
            Nth(day, week) => Nth(day - 1, week),
            other => other,
        }
    }

    fn text(self) -> String {
        match self {
            Any => "*".into(),
            AnyStep(step) => format!("*/{step}"),
            One(one) => one.to_string(),
            Range(from, to) => format!("{from}-{to}"),
            Step(from, step) => format!("{from}/{step}"),
            RangeStep(from, to, step) => format!("{from}-{to}/{step}"),
            Last(0) => "L".into(),
            Last(back) => format!("L-{back}"),
            Near(day) => format!("{day}W"),
            NearLast(0) => "LW".into(),
            NearLast(back) => format!("L-{back}W"),
            LastOf(day) => format!("{day}L"),
            Nth(day, week) => format!("{day}#{week}"),
        }
    }
}

/// Whether this day is the weekday (Monday to Friday) that is nearest to the day `target` of the same month.
fn is_nearest(day: Day, target: u32) -> bool {
    if target > day.month_length {
        return false;
    }
    let working = (1..=day.month_length).filter(|other| (1..=5).contains(&weekday(day, *other)));
    working.min_by_key(|other| other.abs_diff(target)) == Some(day.day)
}

/// The day of the week of the day `other` in the month of `day`. 0 is Sunday.
fn weekday(day: Day, other: u32) -> u32 {
    (day.weekday + 35 + other - day.day) % 7
}

fn text(items: &[Item]) -> String {
    items.iter().map(|item| item.text()).collect::<Vec<_>>().join(",")
}

fn list(random: &mut Rng, min: u32, max: u32) -> Vec<Item> {
    match random.u32(..6) {
        0 | 1 => vec![Any],
        2 => vec![One(min)],
        _ => several(random, |random| plain(random, min, max)),
    }
}

fn several(random: &mut Rng, mut one: impl FnMut(&mut Rng) -> Item) -> Vec<Item> {
    (0..random.u32(1..4)).map(|_| one(random)).collect()
}

fn plain(random: &mut Rng, min: u32, max: u32) -> Item {
    let (a, b) = (random.u32(min..=max), random.u32(min..=max));
    let step = random.u32(1..=if min == 0 { max } else { max.min(12) });
    [AnyStep(step), One(a), One(b), Range(a, b), Step(a, step), RangeStep(a, b, step)][random.usize(..6)]
}

fn special_date(random: &mut Rng) -> Item {
    let day = random.u32(1..=31);
    [Last(day - 1), Last(0), Near(day), Near(31), NearLast(day - 1), NearLast(0), One(day)][random.usize(..7)]
}

fn special_weekday(random: &mut Rng) -> Item {
    let (day, week) = (random.u32(1..=7), random.u32(1..=5));
    [LastOf(day), Nth(day, week), One(day)][random.usize(..3)]
}

/// An item of the day-of-month field that is valid in this dialect. It is never `*`, so the field is restricted.
fn date_of(random: &mut Rng, dialect: Dialect) -> Item {
    let (a, b) = (random.u32(1..=31), random.u32(1..=31));
    let plain = [One(a), Range(a.min(b), a.max(b)), Step(a, 1 + b / 2)];
    let special = [Last(0), Last(a - 1), Near(a), Near(31), NearLast(0), NearLast(a - 1)];
    match dialect {
        Dialect::Unix => plain[random.usize(..plain.len())],
        _ if random.bool() => plain[random.usize(..plain.len())],
        Dialect::Spring => special[random.usize(..special.len() - 1)],
        Dialect::Quartz => special[random.usize(..special.len())],
    }
}

fn weekday_of(random: &mut Rng, dialect: Dialect) -> Item {
    let (a, b) = (random.u32(1..=7), random.u32(1..=7));
    match dialect {
        Dialect::Unix => [One(a), Range(a.min(b), a.max(b))][random.usize(..2)],
        Dialect::Quartz | Dialect::Spring => {
            [One(a), Range(a.min(b), a.max(b)), LastOf(a), Nth(a, b.min(5))][random.usize(..4)]
        }
    }
}
