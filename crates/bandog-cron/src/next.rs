//! Finds the next and the previous match of the calendar fields. A match is a second of the wall clock, counted from
//! 1970-01-01T00:00:00, without a zone.

use crate::{
    calendar::{civil, first_of, length, small, weekday},
    fields::{FIRST_YEAR, Fields},
};

/// Number of seconds in a day.
const DAY: i64 = 86_400;

impl Fields {
    /// The first match at or after this wall-clock second.
    pub(crate) fn at_or_after(&self, wall: i64) -> Option<i64> {
        let wall = wall.max(0);
        let (today, second) = (wall / DAY, small(wall % DAY));
        let mut day = self.day_from(today)?;
        if day == today {
            if let Some(second) = self.time_from(second) {
                return Some(day * DAY + i64::from(second));
            }
            day = self.day_from(today + 1)?;
        }
        let (hour, minute) = (self.hours.trailing_zeros(), self.minutes.trailing_zeros());
        Some(day * DAY + i64::from(hour * 3600 + minute * 60 + self.seconds.trailing_zeros()))
    }

    /// The last match at or before this wall-clock second.
    pub(crate) fn at_or_before(&self, wall: i64) -> Option<i64> {
        let end = first_of(self.last_year() + 1, 1) * DAY - 1;
        let wall = wall.min(end);
        if wall < 0 {
            return None;
        }
        let (today, second) = (wall / DAY, small(wall % DAY));
        let mut day = self.day_until(today)?;
        if day == today {
            if let Some(second) = self.time_until(second) {
                return Some(day * DAY + i64::from(second));
            }
            day = self.day_until(today - 1)?;
        }
        let (hour, minute) = (31 - self.hours.leading_zeros(), 63 - self.minutes.leading_zeros());
        Some(day * DAY + i64::from(hour * 3600 + minute * 60 + 63 - self.seconds.leading_zeros()))
    }

    /// The first matching day at or after this day.
    fn day_from(&self, day: i64) -> Option<i64> {
        let (mut year, mut month, day) = civil(day);
        // The days that are not before `day`, as a set of bits. This set applies only to the first month of the search.
        let mut days = u32::MAX << day;
        while year <= self.last_year() {
            let mut months = if self.has_year(year) { u32::from(self.possible) & u32::MAX << month } else { 0 };
            while months != 0 {
                let found = months.trailing_zeros();
                let first = first_of(year, found);
                let matching = self.days_in(weekday(first), length(year, found));
                let matching = if found == month { matching & days } else { matching };
                if matching != 0 {
                    return Some(first + i64::from(matching.trailing_zeros()) - 1);
                }
                months &= months - 1;
            }
            (year, month, days) = (year + 1, 1, u32::MAX);
        }
        None
    }

    /// The last matching day at or before this day.
    fn day_until(&self, day: i64) -> Option<i64> {
        let (mut year, mut month, day) = civil(day);
        // The days that are not after `day`, as a set of bits. This set applies only to the month in which the search
        // begins.
        let mut days = u32::MAX >> (31 - day);
        while year >= FIRST_YEAR {
            let mut months = if self.has_year(year) { u32::from(self.possible) & u32::MAX >> (31 - month) } else { 0 };
            while months != 0 {
                let found = 31 - months.leading_zeros();
                let first = first_of(year, found);
                let matching = self.days_in(weekday(first), length(year, found));
                let matching = if found == month { matching & days } else { matching };
                if matching != 0 {
                    return Some(first + 31 - i64::from(matching.leading_zeros()) - 1);
                }
                months &= !(1 << found);
            }
            (year, month, days) = (year - 1, 12, u32::MAX);
        }
        None
    }

    /// The first second at or after `from` that matches the hours, minutes and seconds. Seconds are counted from
    /// midnight.
    fn time_from(&self, from: u32) -> Option<u32> {
        let hours = u64::from(self.hours);
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        if hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = from_bit(self.seconds, second)
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = from_bit(self.minutes, minute + 1) {
                return Some(hour * 3600 + minute * 60 + self.seconds.trailing_zeros());
            }
        }
        let hour = from_bit(hours, hour + 1)?;
        Some(hour * 3600 + self.minutes.trailing_zeros() * 60 + self.seconds.trailing_zeros())
    }

    /// The last second at or before `until` that matches the hours, minutes and seconds. Seconds are counted from
    /// midnight.
    fn time_until(&self, until: u32) -> Option<u32> {
        let hours = u64::from(self.hours);
        let (hour, minute, second) = (until / 3600, until / 60 % 60, until % 60);
        if hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = before_bit(self.seconds, second + 1)
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = before_bit(self.minutes, minute) {
                return Some(hour * 3600 + minute * 60 + 63 - self.seconds.leading_zeros());
            }
        }
        let hour = before_bit(hours, hour)?;
        Some(hour * 3600 + (63 - self.minutes.leading_zeros()) * 60 + 63 - self.seconds.leading_zeros())
    }
}

/// The number of the lowest bit in `set` that is not lower than the bit number `bit`. `bit` is at most 60.
fn from_bit(set: u64, bit: u32) -> Option<u32> {
    let rest = set & u64::MAX << bit;
    (rest != 0).then(|| rest.trailing_zeros())
}

/// The number of the highest bit in `set` that is lower than the bit number `bit`. `bit` is at most 60.
fn before_bit(set: u64, bit: u32) -> Option<u32> {
    let rest = set & !(u64::MAX << bit);
    (rest != 0).then(|| 63 - rest.leading_zeros())
}
