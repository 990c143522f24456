//! The parts of the Gregorian calendar that cron needs. Day 0 is 1970-01-01; weekday 0 is Sunday.
//!
//! The functions `civil` and `first_of` calculate with years that begin on 1 March. So a leap day is the last day of
//! its year. An era is 400 years (146,097 days), and the calendar repeats after each era. Day 0 is 719,468 days after 1
//! March of the year 0.
//!
//! In these functions, `of_era` is the number of a day, counted from the first day of its era. `of_year` is the number
//! of a day, counted from 1 March as 0. `shifted` is the number of a month, counted from March as 0.

/// The date of a day: the year, the month, and the day of the month.
pub(crate) fn civil(day: i64) -> (i64, u32, u32) {
    let days = day + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, small(month), small(of_year - (153 * shifted + 2) / 5 + 1))
}

/// The number of the first day of a month. Day 0 is 1970-01-01.
pub(crate) fn first_of(year: i64, month: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let of_year = (153 * shifted + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

/// Number of days in a month.
pub(crate) fn length(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of the week; 0 is Sunday.
pub(crate) fn weekday(day: i64) -> u32 {
    small((day + 4).rem_euclid(7))
}

/// Converts a number to `u32`. Each caller passes a number that fits into `u32`: a remainder or a part of a date.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "remainders and parts of a date")]
pub(crate) fn small(number: i64) -> u32 {
    number as u32
}
