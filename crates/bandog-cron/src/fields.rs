//! A compiled expression: one set of bits for each field.

use crate::{DayMatch, Daylight, Dialect, calendar};

/// The first year that the year field accepts.
pub(crate) const FIRST_YEAR: i64 = 1970;
/// The last year that the year field accepts.
pub(crate) const LAST_YEAR: i64 = 2099;
/// The last year in which an expression can fire if its year field is missing or `*`.
pub(crate) const HORIZON: i64 = 2199;

/// The values that match, as a set of bits for each field, and the rules of the expression. In a set, bit n stands for
/// the value n, unless the comment says something else.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Fields {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    pub(crate) hours: u32,
    /// Bit 1 is the first of the month.
    pub(crate) days: u32,
    /// Bit n is the item `nW`: the weekday (Monday to Friday) nearest to day n.
    pub(crate) nearest: u32,
    /// Bit n is the item `L-n`: the day that is n days before the last day of the month. Bit 0 is the item `L`.
    pub(crate) from_last: u32,
    /// Bit n is the item `L-nW`: the weekday (Monday to Friday) nearest to the day `L-n`. Bit 0 is the item `LW`.
    pub(crate) nearest_from_last: u32,
    /// Each number is a set of 32 years. Bit 0 of the first number is 1970.
    pub(crate) years: [u32; 5],
    /// Bit 1 is January.
    pub(crate) months: u16,
    /// The months of the set `months` in which a day can match. Bit 1 is January. If `either` is false, this set does
    /// not contain the months that are too short for every day of the day-of-month field: for example February, if the
    /// field is `30`.
    pub(crate) possible: u16,
    /// Bit 0 is Sunday.
    pub(crate) weekdays: u8,
    /// The weekdays of the items such as `FRIL`, the last Friday of the month. Bit 0 is Sunday.
    pub(crate) last: u8,
    /// The weekdays of the items such as `FRI#2`, the second Friday of the month. The first set is for `#1`, and the
    /// last set is for `#5`. Bit 0 is Sunday.
    pub(crate) nth: [u8; 5],
    /// Whether the year field is missing or `*`. Such an expression can fire in all years up to [`HORIZON`].
    pub(crate) every_year: bool,
    /// Whether a match of one day field is enough, as in a crontab line that restricts both day fields.
    pub(crate) either: bool,
    /// The rule for two restricted day fields, if it differs from the dialect's default.
    pub(crate) day_match_override: Option<DayMatch>,
    pub(crate) dialect: Dialect,
    pub(crate) daylight: Daylight,
}

impl Fields {
    /// Fields that match nothing.
    pub(crate) fn empty(dialect: Dialect) -> Self {
        Self {
            seconds: 0,
            minutes: 0,
            hours: 0,
            days: 0,
            nearest: 0,
            from_last: 0,
            nearest_from_last: 0,
            years: [0; 5],
            months: 0,
            possible: 0,
            weekdays: 0,
            last: 0,
            nth: [0; 5],
            every_year: false,
            either: false,
            day_match_override: None,
            dialect,
            daylight: Daylight::Pinned,
        }
    }

    /// Whether the expression can fire in this year.
    pub(crate) fn has_year(&self, year: i64) -> bool {
        if self.every_year {
            return (FIRST_YEAR..=HORIZON).contains(&year);
        }
        if !(FIRST_YEAR..=LAST_YEAR).contains(&year) {
            return false;
        }
        let bit = calendar::small(year - FIRST_YEAR);
        self.years[(bit / 32) as usize] >> (bit % 32) & 1 == 1
    }

    /// An upper limit for the years in which the expression can fire: [`HORIZON`] if the year field is missing or `*`,
    /// else [`LAST_YEAR`]. A search for a match ends after this year.
    pub(crate) fn last_year(&self) -> i64 {
        if self.every_year { HORIZON } else { LAST_YEAR }
    }

    pub(crate) fn add_year(&mut self, year: u32) {
        let bit = year - 1970;
        self.years[(bit / 32) as usize] |= 1 << (bit % 32);
    }

    /// The days of a month that match. Bit 1 is the first day. `first` is the weekday of the first day of the month,
    /// and `length` is the number of days in the month.
    pub(crate) fn days_in(&self, first: u32, length: u32) -> u32 {
        let all = (u32::MAX >> (31 - length)) & !1;
        let by_date = self.by_date(first, length);
        let by_weekday = self.by_weekday(first, length);
        all & if self.either { by_date | by_weekday } else { by_date & by_weekday }
    }

    /// The days that match the day-of-month field, as in [`Fields::days_in`]. The set can contain days after the end of
    /// the month.
    fn by_date(&self, first: u32, length: u32) -> u32 {
        let mut found = self.days;
        if self.from_last | self.nearest | self.nearest_from_last == 0 {
            return found;
        }
        for back in set_bits(self.from_last).take_while(|back| *back < length) {
            found |= 1 << (length - back);
        }
        for day in set_bits(self.nearest).take_while(|day| *day <= length) {
            found |= nearest(day, first, length, self.dialect);
        }
        for back in set_bits(self.nearest_from_last).take_while(|back| *back < length) {
            found |= nearest(length - back, first, length, Dialect::Quartz);
        }
        found
    }

    /// The days that match the day-of-week field, as in [`Fields::days_in`]. The set can contain days after the end of
    /// the month.
    fn by_weekday(&self, first: u32, length: u32) -> u32 {
        if self.weekdays == 127 {
            return u32::MAX;
        }
        let mut found = weeks(self.weekdays, first) << 1;
        if self.nth != [0; 5] {
            for (week, set) in (0u32..).zip(self.nth) {
                found |= rotated(set, first) << (7 * week + 1);
            }
        }
        if self.last != 0 {
            found |= rotated(self.last, (first + length) % 7) << (length - 6);
        }
        found
    }

    /// Sets `possible` to the months of the set `months` that are long enough for at least one day of the day-of-month
    /// field. If a match of one day field is enough, `possible` is the same set as `months`. A search for a match skips
    /// all months that are not in `possible`.
    pub(crate) fn set_possible_months(&mut self) {
        self.possible = self.months;
        if self.either {
            return;
        }
        // February has at most 29 days. April, June, September and November have 30 days.
        for (length, months) in [(29, 1u16 << 2), (30, 1 << 4 | 1 << 6 | 1 << 9 | 1 << 11)] {
            let all = (u32::MAX >> (31 - length)) & !1;
            let has_date = (self.days | self.nearest) & all != 0;
            let from_last = (self.from_last | self.nearest_from_last) & (all >> 1);
            if !has_date && from_last == 0 {
                self.possible &= !months;
            }
        }
    }
}

/// The numbers of the bits that are set, from the lowest to the highest.
pub(crate) fn set_bits(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < 32).then_some(bit)
    })
}

/// A set of weekdays, rotated so that bit 0 is the weekday `first`.
fn rotated(set: u8, first: u32) -> u32 {
    let set = u32::from(set);
    (set >> first | set << (7 - first)) & 127
}

/// A set of weekdays, repeated for five weeks that begin with the weekday `first`. Bit 0 is the first day.
fn weeks(set: u8, first: u32) -> u32 {
    let week = rotated(set, first);
    week | week << 7 | week << 14 | week << 21 | week << 28
}

/// The weekday (Monday to Friday) that is nearest to this day and in the same month, as a set with one bit. `first` is
/// the weekday of the first day of the month, and `length` is the number of days in the month.
fn nearest(day: u32, first: u32, length: u32, dialect: Dialect) -> u32 {
    // The weekday of this day: 0 is Sunday, and 6 is Saturday.
    let moved = match (first + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        // The last day of the month is a Sunday, so the nearest weekday is in the next month. Spring then has no match.
        0 if day == length && dialect == Dialect::Spring => return 0,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    };
    1 << moved
}
