//! Every day from 1970 to 2199, counted one by one.

#[derive(Debug, Clone, Copy)]
pub(super) struct Day {
    pub(super) year: u32,
    pub(super) month: u32,
    pub(super) day: u32,
    /// Sunday is 0.
    pub(super) weekday: u32,
    /// Number of days in the month.
    pub(super) month_length: u32,
}

/// All days, in order. The search for matching days walks through them one by one.
pub(super) struct Walk(Vec<Day>);

impl Walk {
    pub(super) fn all() -> Self {
        let mut days = Vec::new();
        let mut weekday = 4; // 1970-01-01 was a Thursday.
        for year in 1970..2200 {
            let leap = year % 400 == 0 || year % 4 == 0 && year % 100 != 0;
            let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, month_length) in (1..).zip(lengths) {
                for day in 1..=month_length {
                    days.push(Day { year, month, day, weekday, month_length });
                    weekday = (weekday + 1) % 7;
                }
            }
        }
        Self(days)
    }

    pub(super) fn days(&self) -> impl Iterator<Item = i64> {
        0..i64::try_from(self.0.len()).unwrap()
    }

    pub(super) fn day(&self, number: i64) -> Day {
        self.0[usize::try_from(number).unwrap()]
    }
}

/// The first instant after `at` that has one of these days and one of these times of the day, in seconds.
pub(super) fn after(days: &[i64], times: &[i64], at: i64) -> Option<i64> {
    let today = at / 86_400;
    let first = days.iter().skip_while(|day| **day < today).take(2);
    first.flat_map(|day| times.iter().map(move |time| day * 86_400 + time)).find(|time| *time > at)
}

/// The last instant before `at` that has one of these days and one of these times of the day, in seconds.
pub(super) fn before(days: &[i64], times: &[i64], at: i64) -> Option<i64> {
    let today = at / 86_400;
    let last = days.iter().rev().skip_while(|day| **day > today).take(2);
    last.flat_map(|day| times.iter().rev().map(move |time| day * 86_400 + time)).find(|time| *time < at)
}
