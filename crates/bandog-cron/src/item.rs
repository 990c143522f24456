//! The items of a field: numbers, names, ranges and steps, and the special characters `L W #` of the two day fields.

use crate::{Dialect, Field, error::Fault, field::WEEKDAYS, fields::Fields, word::Word};

/// The values that a field of a dialect accepts.
pub(crate) struct Scale {
    field: Field,
    dialect: Dialect,
    min: u32,
    max: u32,
    /// The first value of `*`. In Spring, `*` as day of the week begins with 1, because 0 and 7 both mean Sunday.
    star: u32,
}

impl Scale {
    pub(crate) fn of(field: Field, dialect: Dialect) -> Self {
        let (min, max) = match field {
            Field::Seconds | Field::Minutes => (0, 59),
            Field::Hours => (0, 23),
            Field::DayOfMonth => (1, 31),
            Field::Month => (1, 12),
            Field::DayOfWeek if dialect == Dialect::Quartz => (1, 7),
            Field::DayOfWeek => (0, 7),
            Field::Year => (1970, 2099),
        };
        let star = if field == Field::DayOfWeek && dialect == Dialect::Spring { 1 } else { min };
        Self { field, dialect, min, max, star }
    }

    /// The greatest step that the field accepts.
    fn longest_step(&self) -> u32 {
        match self.field {
            _ if self.dialect == Dialect::Spring => u32::MAX,
            Field::Seconds | Field::Minutes => 59,
            Field::Hours => 23,
            Field::DayOfMonth => 31,
            Field::Month => 12,
            Field::DayOfWeek => 7,
            Field::Year => 129,
        }
    }

    /// A hint with the allowed values of the field.
    fn allowed(&self) -> String {
        let names = match self.field {
            Field::Month => " or JAN to DEC",
            Field::DayOfWeek if self.dialect == Dialect::Quartz => {
                " or SUN to SAT (Sunday is 1 here, 0 or 7 in Spring and Unix)"
            }
            Field::DayOfWeek => " or SUN to SAT (Sunday is 0 or 7 here, 1 in Quartz)",
            Field::Seconds | Field::Minutes | Field::Hours | Field::DayOfMonth | Field::Year => "",
        };
        format!("allowed are {} to {}{names}", self.min, self.max)
    }

    /// A fault of this field at `word`. `what` is the fault, and `hint` is what is allowed or was probably meant.
    fn fault(&self, word: Word<'_>, what: impl Into<String>, hint: impl Into<String>) -> Fault {
        word.fault(self.field, what, hint)
    }
}

/// Parses a list of numbers, names, ranges and steps, and calls `add` with each value.
pub(crate) fn list(word: Word<'_>, scale: &Scale, mut add: impl FnMut(u32)) -> Result<(), Fault> {
    word.items().try_for_each(|item| value_or_range(item, scale, &mut add))
}

/// Parses the day-of-month field, which also accepts `L`, `L-n`, `nW`, `LW` and `L-nW`.
pub(crate) fn days_of_month(word: Word<'_>, scale: &Scale, fields: &mut Fields) -> Result<(), Fault> {
    if is_any(word, scale.dialect) {
        fields.days = u32::MAX;
        return Ok(());
    }
    for item in word.items() {
        let special = item.text.bytes().find(|byte| b"LlWwCc#".contains(byte));
        match special.map(|byte| byte.to_ascii_uppercase()) {
            None => value_or_range(item, scale, &mut |day| fields.days |= 1 << day)?,
            Some(special) if scale.dialect == Dialect::Unix => return Err(no_special_characters(item, scale, special)),
            Some(b'C') => return Err(no_calendar(item, scale)),
            Some(b'#') => {
                let hint = "use # in the day of week, as in FRI#2";
                return Err(scale.fault(item, "# has no meaning here", hint));
            }
            Some(b'L') => from_last(item, scale, fields)?,
            Some(_) => nearest(item, scale, fields)?,
        }
    }
    Ok(())
}

/// Parses the day-of-week field, which also accepts `L`, `dL` and `d#n`.
pub(crate) fn days_of_week(word: Word<'_>, scale: &Scale, fields: &mut Fields) -> Result<(), Fault> {
    if is_any(word, scale.dialect) {
        fields.weekdays = 127;
        return Ok(());
    }
    for item in word.items() {
        let text = item.text;
        if let Some((day, week)) = item.split_at('#') {
            fields.nth[nth(item, week, scale)?] |= 1 << bit(value(day, scale)?, scale);
        } else if text.eq_ignore_ascii_case("L") {
            last_alone(item, word, scale)?;
            fields.weekdays |= 1 << 6;
        } else if text.ends_with(['L', 'l']) {
            if scale.dialect == Dialect::Unix {
                return Err(no_special_characters(item, scale, b'L'));
            }
            fields.last |= 1 << bit(value(item.part(0, text.len() - 1), scale)?, scale);
        } else if text.ends_with(['C', 'c']) {
            return Err(no_calendar(item, scale));
        } else if text.ends_with(['W', 'w']) {
            let hint = "use W in the day of month, as in 15W";
            return Err(scale.fault(item, "W has no meaning here", hint));
        } else {
            value_or_range(item, scale, &mut |day| fields.weekdays |= 1 << bit(day, scale))?;
        }
    }
    Ok(())
}

/// Whether a day field is a single `*` or `?`. Such a field matches every day.
fn is_any(word: Word<'_>, dialect: Dialect) -> bool {
    word.text == "*" || word.text == "?" && dialect != Dialect::Unix
}

/// The bit of a day of the week in the sets of [`Fields`]. Bit 0 is Sunday.
fn bit(day: u32, scale: &Scale) -> u32 {
    match scale.dialect {
        Dialect::Quartz => day - 1,
        Dialect::Spring | Dialect::Unix => day % 7,
    }
}

/// Parses one item: a value or a range, with or without a step. Calls `add` with each value of the item.
fn value_or_range(item: Word<'_>, scale: &Scale, add: &mut impl FnMut(u32)) -> Result<(), Fault> {
    if item.text.is_empty() {
        return Err(scale.fault(item, "an item of the list is empty", "leave out the comma"));
    }
    let (base, step) = match item.split_at('/') {
        None => (item, None),
        Some((base, step)) => (base, Some(step_of(step, scale)?)),
    };
    let (low, high) = match base.text {
        "*" => (scale.star, scale.max),
        "" if scale.dialect == Dialect::Quartz => (scale.star, scale.max),
        "" => return Err(scale.fault(item, "there is no value before the step", "did you mean */?")),
        _ => match base.split_at('-') {
            Some((low, high)) => range(base, value(low, scale)?, value(high, scale)?, scale)?,
            None => {
                let low = value(base, scale)?;
                (low, if step.is_some() { scale.max } else { low })
            }
        },
    };
    // A range that wraps around, such as 22-2, continues at the beginning of the field.
    let span = scale.max - scale.min + 1;
    let length = if low <= high { high - low } else { high + span - low };
    let mut distance = 0;
    while distance <= length {
        add(scale.min + (low - scale.min + distance) % span);
        distance = distance.saturating_add(step.unwrap_or(1));
    }
    Ok(())
}

/// Checks a range, and returns its first and its last value. If both 0 and 7 mean Sunday, a range such as `7-3` is
/// returned as 0 to 3. `word` is the text of the range.
fn range(word: Word<'_>, low: u32, high: u32, scale: &Scale) -> Result<(u32, u32), Fault> {
    // Whether both 0 and 7 mean Sunday.
    let sunday = scale.field == Field::DayOfWeek && scale.dialect != Dialect::Quartz;
    match scale.dialect {
        _ if low <= high => Ok((low, high)),
        _ if sunday && low == 7 => Ok((0, high)),
        Dialect::Quartz if scale.field != Field::Year => Ok((low, high)),
        Dialect::Quartz => {
            Err(scale.fault(word, "the end of the range is before its start", "a range of years cannot wrap around"))
        }
        Dialect::Spring | Dialect::Unix => {
            let hint = if sunday && high == 0 {
                "Sunday is 7 at the end of a range".to_owned()
            } else {
                format!("write {low}-{},{}-{high}; only in Quartz can a range wrap around", scale.max, scale.star)
            };
            Err(scale.fault(word, "the end of the range is before its start", hint))
        }
    }
}

/// Parses the step after a `/`.
fn step_of(word: Word<'_>, scale: &Scale) -> Result<u32, Fault> {
    let longest = scale.longest_step();
    let allowed = || match longest {
        u32::MAX => "a step is a number from 1".to_owned(),
        _ => format!("a step is a number from 1 to {longest}"),
    };
    let Some(step) = digits(word.text) else {
        let what = match word.text {
            "" => "the step is missing".to_owned(),
            text => format!("{text} is not a step"),
        };
        return Err(scale.fault(word, what, allowed()));
    };
    match step {
        0 => Err(scale.fault(word, "a step of 0 never advances", allowed())),
        _ if step > longest => Err(scale.fault(word, format!("a step of {} is too long", word.text), allowed())),
        _ => Ok(step),
    }
}

/// Parses a single number or name.
fn value(word: Word<'_>, scale: &Scale) -> Result<u32, Fault> {
    let text = word.text;
    if let Some(number) = digits(text) {
        return match number {
            _ if number > scale.max => Err(scale.fault(word, format!("{text} is too large"), scale.allowed())),
            _ if number < scale.min => Err(scale.fault(word, format!("{text} is too small"), scale.allowed())),
            _ => Ok(number),
        };
    }
    named(word, scale)
}

/// Parses a number. A number that is too large for `u32` becomes `u32::MAX`, which every field refuses.
fn digits(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

/// Parses a name such as `MON`, and returns the number that the dialect uses for this name. If both 0 and 7 mean Sunday
/// in the dialect, `SUN` is 7.
fn named(word: Word<'_>, scale: &Scale) -> Result<u32, Fault> {
    let (text, names) = (word.text, scale.field.names());
    let short = |name: &str| name.is_char_boundary(3) && text.eq_ignore_ascii_case(&name[..3]);
    let found = names.iter().position(|name| short(name) || text.eq_ignore_ascii_case(name));
    if let Some(index) = found {
        #[expect(clippy::cast_possible_truncation, reason = "one of twelve names")]
        let index = index as u32;
        return Ok(match (scale.field, scale.dialect) {
            (Field::DayOfWeek, Dialect::Spring | Dialect::Unix) if index == 0 => 7,
            (Field::DayOfWeek, Dialect::Spring | Dialect::Unix) => index,
            _ => index + 1,
        });
    }
    // A name with the same first three letters was probably meant.
    let begins = |name: &&&str| text.len() >= 3 && text[..3].eq_ignore_ascii_case(&name[..3]);
    let meant = names.iter().find(begins).map(|name| name[..3].to_ascii_uppercase());
    let kind = match scale.field {
        Field::Month => "a month",
        Field::DayOfWeek => "a day of the week",
        Field::Seconds | Field::Minutes | Field::Hours | Field::DayOfMonth | Field::Year => "a number",
    };
    let what = match text {
        "" => "a number is missing".to_owned(),
        "*" => "* must stand alone or before a step".to_owned(),
        _ if text.contains('?') => "? must stand alone, in a day field of Quartz or Spring".to_owned(),
        _ => format!("{text} is not {kind}"),
    };
    let hint = match meant {
        Some(meant) => format!("did you mean {meant}?"),
        None => scale.allowed(),
    };
    Err(scale.fault(word, what, hint))
}

/// Parses `L`, `L-n`, `LW` or `L-nW`, where n is a number of days before the last day of the month.
fn from_last(item: Word<'_>, scale: &Scale, fields: &mut Fields) -> Result<(), Fault> {
    let text = item.text;
    let weekday = text.len() > 1 && text.ends_with(['W', 'w']);
    // The text after `L` and before `W`.
    let rest = item.part(1, text.len() - usize::from(weekday));
    let allowed = "allowed are L, L-3, LW and L-3W";
    if !text.starts_with(['L', 'l']) {
        let hint = if text.eq_ignore_ascii_case("WL") { "did you mean LW?" } else { allowed };
        return Err(scale.fault(item, format!("{text} is no day of the month"), hint));
    }
    let back = match (rest.text, rest.text.strip_prefix('-').and_then(digits)) {
        ("", _) => 0,
        (_, Some(back)) => back,
        (_, None) => return Err(scale.fault(item, format!("{text} is no day of the month"), allowed)),
    };
    if back > 30 {
        return Err(scale.fault(item, "no month has more than 31 days", "allowed is at most L-30"));
    }
    if scale.dialect == Dialect::Spring && !rest.text.is_empty() && (weekday || back == 0) {
        return Err(scale.fault(item, format!("Spring has no {text}"), "allowed are L, L-3 and LW"));
    }
    let set = if weekday { &mut fields.nearest_from_last } else { &mut fields.from_last };
    *set |= 1 << back;
    Ok(())
}

/// Parses `nW`: the weekday nearest to day n.
fn nearest(item: Word<'_>, scale: &Scale, fields: &mut Fields) -> Result<(), Fault> {
    let text = item.text;
    let day = item.part(0, text.len() - 1);
    if text.eq_ignore_ascii_case("WL") {
        return Err(scale.fault(item, "WL is no day of the month", "did you mean LW?"));
    }
    if !text.ends_with(['W', 'w']) || digits(day.text).is_none() {
        let hint = "W must follow a single day, as in 15W or LW";
        return Err(scale.fault(item, format!("{text} is no day of the month"), hint));
    }
    fields.nearest |= 1 << value(day, scale)?;
    Ok(())
}

/// Parses `week`, the number after `#`. The result is the index of the week, counted from 0: `#1` is 0, and `#5` is 4.
/// `item` is the whole item, such as `FRI#2`.
fn nth(item: Word<'_>, week: Word<'_>, scale: &Scale) -> Result<usize, Fault> {
    if scale.dialect == Dialect::Unix {
        return Err(no_special_characters(item, scale, b'#'));
    }
    match digits(week.text) {
        Some(number @ 1..=5) => Ok(number as usize - 1),
        _ => {
            let what = format!("{:?} is no week of the month", week.text);
            Err(scale.fault(item, what, "allowed are #1 to #5, or L for the last, as in FRIL"))
        }
    }
}

/// Checks an item of the day-of-week field that is only `L`. `word` is the whole field. In Quartz, such an item means
/// Saturday, and must be the only item of the field. The other dialects refuse such an item.
fn last_alone(item: Word<'_>, word: Word<'_>, scale: &Scale) -> Result<(), Fault> {
    match scale.dialect {
        Dialect::Unix => Err(no_special_characters(item, scale, b'L')),
        Dialect::Quartz if item.text == word.text => Ok(()),
        Dialect::Quartz | Dialect::Spring => {
            let saturday = WEEKDAYS[6][..3].to_ascii_uppercase();
            let hint = format!("write {saturday}, or name the day, as in FRIL");
            Err(scale.fault(item, "there must be a day of the week before L", hint))
        }
    }
}

/// The fault of an item with a special character that the Unix dialect does not have.
fn no_special_characters(item: Word<'_>, scale: &Scale, character: u8) -> Fault {
    let what = match character {
        b'L' | b'W' | b'#' => format!("{} is unknown to Unix", char::from(character)),
        _ => format!("{} is not a number", item.text),
    };
    scale.fault(item, what, "the Quartz and Spring dialects have L, W and #")
}

/// The fault of an item with the special character `C`. No dialect supports this character.
fn no_calendar(item: Word<'_>, scale: &Scale) -> Fault {
    let what = "C (the next day of a calendar) is not supported: no scheduler ever implemented it";
    scale.fault(item, what, "write the day itself")
}
