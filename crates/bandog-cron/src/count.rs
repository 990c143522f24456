//! Counts the seconds of the wall clock that match the calendar fields. The functions count bits in sets of values. The
//! functions do not visit each match, because an expression that fires every second has 31 million matches a year.

use crate::{
    calendar::{civil, first_of, length, small, weekday},
    fields::Fields,
};

/// Number of seconds in a day.
const DAY: i64 = 86_400;

impl Fields {
    /// Number of wall-clock seconds from `from` to `until` that match. Both ends are included.
    pub(crate) fn count(&self, from: i64, until: i64) -> u64 {
        // The count begins in 1970, and ends with the last year in which an expression can match.
        let (from, until) = (from.max(0), until.min(first_of(self.last_year() + 1, 1) * DAY - 1));
        if until < from {
            return 0;
        }
        let (first, last) = (from / DAY, until / DAY);
        let (from_second, until_second) = (small(from % DAY), small(until % DAY));
        let all = self.days_between(first, last) * self.times();
        let before_from = if self.has_day(first) { self.times_before(from_second) } else { 0 };
        let after_until = if self.has_day(last) { self.times() - self.times_before(until_second + 1) } else { 0 };
        all - before_from - after_until
    }

    /// Number of days from `first` to `last` that match. Both ends are included.
    fn days_between(&self, first: i64, last: i64) -> u64 {
        let ((mut year, mut month, day), (last_year, last_month, last_day)) = (civil(first), civil(last));
        // `days` and `until` are sets of days of the present month. `days` has the days that are not before `first`,
        // and `until` has the days that are not after `last`.
        let (mut days, mut count) = (u32::MAX << day, 0);
        loop {
            let is_last = (year, month) == (last_year, last_month);
            let until = if is_last { u32::MAX >> (31 - last_day) } else { u32::MAX };
            count += u64::from((self.days_of(year, month) & days & until).count_ones());
            if is_last {
                return count;
            }
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            days = u32::MAX;
        }
    }

    /// Whether a day matches.
    fn has_day(&self, day: i64) -> bool {
        let (year, month, day) = civil(day);
        self.days_of(year, month) >> day & 1 == 1
    }

    /// The matching days of a month, as a set of bits. Bit 1 is the first day of the month.
    fn days_of(&self, year: i64, month: u32) -> u32 {
        if !self.has_year(year) || self.possible >> month & 1 == 0 {
            return 0;
        }
        self.days_in(weekday(first_of(year, month)), length(year, month))
    }

    /// Number of matching seconds in a matching day.
    fn times(&self) -> u64 {
        u64::from(self.hours.count_ones() * self.minutes.count_ones() * self.seconds.count_ones())
    }

    /// Number of matching seconds in the part of a matching day that is before `second`. `second` is counted from
    /// midnight, and is at most 86,400.
    fn times_before(&self, second: u32) -> u64 {
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let (minutes, seconds) = (self.minutes.count_ones(), self.seconds.count_ones());
        let mut count = below(u64::from(self.hours), hour) * minutes * seconds;
        if self.hours >> hour & 1 == 1 {
            count += below(self.minutes, minute) * seconds;
            if self.minutes >> minute & 1 == 1 {
                count += below(self.seconds, second);
            }
        }
        u64::from(count)
    }
}

/// Number of values in `set` that are less than `bit`. In the set, bit n stands for the value n. `bit` is at most 60.
fn below(set: u64, bit: u32) -> u32 {
    (set & !(u64::MAX << bit)).count_ones()
}
