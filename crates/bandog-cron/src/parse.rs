//! Parses the text of an expression: splits the text into words, replaces macros such as `@daily`, and combines the two
//! day fields.

use crate::{
    DayMatch, Daylight, Dialect, Field, Language, Rules, Zone,
    describe::describe,
    error::{Fault, Remedy},
    fields::Fields,
    item::{self, Scale},
    word::Word,
};

/// Maximum length of an expression, in bytes. Even an expression that lists all seconds and all minutes is shorter.
const LONGEST: usize = 1024;

/// Parses an expression by the rules of a dialect.
pub(crate) fn parse(text: &str, rules: Rules) -> Result<Fields, Fault> {
    let dialect = rules.dialect;
    check_characters(text)?;
    let mut words = [Word { text: "", at: text.len() }; 7];
    let mut count = 0;
    for word in words_of(text) {
        // The array has seven empty words. An eighth word is too many in each dialect.
        let Some(empty_word) = words.get_mut(count) else { return Err(too_many(word, dialect)) };
        *empty_word = word;
        count += 1;
    }
    if let Some(("CRON_TZ" | "TZ", zone)) = words[0].text.split_once('=') {
        let fault = words[0].fault(None, "an expression has no variables", "");
        let zone = Zone::named(zone).map(|zone| zone.name().to_owned());
        return Err(Fault { remedy: Some(Remedy::Zone(zone)), ..fault });
    }
    if words[0].text.starts_with('@') {
        return parse_macro(text, words[0], words[1], dialect);
    }
    let (least, most) = match dialect {
        Dialect::Quartz => (6, 7),
        Dialect::Spring => (6, 6),
        Dialect::Unix => (5, 5),
    };
    if count == 1 && words[0].text == "-" {
        let hint = "to disable a job in bandog, set enabled = false or call Job::disabled";
        return Err(words[0].fault(None, "\"-\" is not a cron expression; Spring uses it to disable a job", hint));
    }
    if count > most {
        return Err(too_many(words[most], dialect));
    }
    if count < least {
        return Err(too_few(&words[..count], dialect));
    }
    match dialect {
        Dialect::Quartz | Dialect::Spring => fields_of(&words, rules),
        Dialect::Unix => {
            let second = Word { text: "0", at: 0 };
            let [minute, hour, day, month, weekday, empty_year, _] = words;
            fields_of(&[second, minute, hour, day, month, weekday, empty_year], rules)
        }
    }
}

/// Parses the fields, from the seconds to the year. A year that is not given is an empty word.
fn fields_of(words: &[Word<'_>; 7], rules: Rules) -> Result<Fields, Fault> {
    let dialect = rules.dialect;
    let [second, minute, hour, day, month, weekday, year] = *words;
    let mut fields = Fields::empty(dialect);
    let scale = |field| Scale::of(field, dialect);
    item::list(second, &scale(Field::Seconds), |bit| fields.seconds |= 1 << bit)?;
    item::list(minute, &scale(Field::Minutes), |bit| fields.minutes |= 1 << bit)?;
    item::list(hour, &scale(Field::Hours), |bit| fields.hours |= 1 << bit)?;
    item::days_of_month(day, &scale(Field::DayOfMonth), &mut fields)?;
    item::list(month, &scale(Field::Month), |bit| fields.months |= 1 << bit)?;
    item::days_of_week(weekday, &scale(Field::DayOfWeek), &mut fields)?;
    let day_match = day_match_of(day, weekday, rules)?;
    fields.either = day_match == Some(DayMatch::Or);
    fields.day_match_override = day_match.filter(|_| day_match != dialect.default_day_match());
    fields.every_year = matches!(year.text, "" | "*");
    if !fields.every_year {
        item::list(year, &scale(Field::Year), |year| fields.add_year(year))?;
    }
    if hour.text.contains(['*', '/']) {
        fields.daylight = Daylight::Elapsed;
    }
    fields.set_possible_months();
    Ok(fields)
}

/// The rule by which the two day fields combine. `None` if at most one of the two fields restricts the days.
fn day_match_of(day: Word<'_>, weekday: Word<'_>, rules: Rules) -> Result<Option<DayMatch>, Fault> {
    if rules.dialect == Dialect::Quartz && day.text == "?" && weekday.text == "?" {
        let hint = "write * in one of them";
        return Err(weekday.fault(Field::DayOfWeek, "both day fields are ?", hint));
    }
    if !day.is_restricted(rules.dialect) || !weekday.is_restricted(rules.dialect) {
        return Ok(None);
    }
    let rule = rules.days.or(rules.dialect.default_day_match());
    if rule.is_none() {
        let fault = weekday.fault(Field::DayOfWeek, "both day fields are restricted", "");
        return Err(Fault { remedy: Some(Remedy::Days), ..fault });
    }
    Ok(rule)
}

/// The macros, each with the Quartz expression that it stands for.
const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 0 1 1 ?"),
    ("@annually", "0 0 0 1 1 ?"),
    ("@monthly", "0 0 0 1 * ?"),
    ("@weekly", "0 0 0 ? * SUN"),
    ("@daily", "0 0 0 * * ?"),
    ("@midnight", "0 0 0 * * ?"),
    ("@hourly", "0 0 * * * ?"),
];

/// Parses the expression `text`, which begins with a macro. `word` is the macro. `next_word` is the word after the
/// macro, and must be empty.
fn parse_macro(text: &str, word: Word<'_>, next_word: Word<'_>, dialect: Dialect) -> Result<Fields, Fault> {
    let Some((_, meaning)) = MACROS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word.text)) else {
        return Err(unknown_macro(text, word));
    };
    if !next_word.text.is_empty() {
        let what = format!("{} must stand alone", word.text);
        return Err(next_word.fault(None, what, "remove the text after it"));
    }
    Ok(Fields { dialect, ..parse(meaning, Dialect::Quartz.into())? })
}

/// The error of an expression that begins with an unknown macro. `text` is the expression, and `word` is the macro.
fn unknown_macro(text: &str, word: Word<'_>) -> Fault {
    if word.text.eq_ignore_ascii_case("@every") {
        let text = text.trim_ascii_end();
        let period = text[word.at + word.text.len()..].trim_ascii_start();
        let what = "@every is a fixed rate, which a cron expression cannot express";
        let period = if period.is_empty() { "5m" } else { period };
        let hint = format!("for a fixed rate in bandog, set fixed_rate = {period:?} or call Job::fixed_rate");
        return Word { text: &text[word.at..], at: word.at }.fault(None, what, hint);
    }
    if word.text.eq_ignore_ascii_case("@reboot") {
        let fault = word.fault(None, "@reboot is the start of a program, which a cron expression cannot express", "");
        return Fault { remedy: Some(Remedy::Start), ..fault };
    }
    let known = "allowed are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly";
    word.fault(None, format!("{} is not a known macro", word.text), known)
}

/// The words of a text, which are separated by white space.
fn words_of(text: &str) -> impl Iterator<Item = Word<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let start = at + rest.len() - rest.trim_ascii_start().len();
        let rest = &text[start..];
        let len = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        at = start + len;
        (len > 0).then(|| Word { text: &rest[..len], at: start })
    })
}

/// Refuses a text that is too long, and a text with other characters than ASCII. All other functions of this file rely
/// on this check: in an ASCII text, positions in bytes and in characters are equal.
fn check_characters(text: &str) -> Result<(), Fault> {
    if text.len() > LONGEST {
        let what = format!("the expression has {} bytes", text.len());
        let at = text.char_indices().take_while(|(byte, _)| *byte < LONGEST).count();
        let hint = format!("at most {LONGEST} are allowed");
        return Err(Fault { field: None, at, len: 1, what, hint, remedy: None });
    }
    if text.bytes().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        return Ok(());
    }
    let allowed = |c: char| c.is_ascii_graphic() || c.is_ascii_whitespace();
    let strange = text.chars().enumerate().find(|(_, c)| !allowed(*c));
    let Some((at, c)) = strange else { return Ok(()) };
    let meant = match c {
        // The full-width forms of ASCII characters, which Chinese and Japanese keyboards write.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        '\u{3001}' => Some(','),
        '\u{2217}' | '\u{d7}' => Some('*'),
        _ => None,
    };
    let hint = match meant {
        Some(meant) => format!("did you mean {meant:?}?"),
        None if c.is_whitespace() => "use plain spaces".into(),
        None => "only ASCII letters, digits and , - * / ? # are allowed".into(),
    };
    Err(Fault { field: None, at, len: 1, what: format!("{c:?} has no meaning here"), hint, remedy: None })
}

/// The error of an expression with too many fields. `word` is the first field that must be removed.
fn too_many(word: Word<'_>, dialect: Dialect) -> Fault {
    let hint = match dialect {
        Dialect::Quartz => "Quartz has second minute hour day month weekday, and optionally a year",
        Dialect::Spring => "Spring has second minute hour day month weekday; only Quartz has a year",
        Dialect::Unix => "Unix has minute hour day month weekday; Quartz and Spring begin with seconds",
    };
    word.fault(None, "too many fields", hint)
}

/// The error of an expression with too few fields.
fn too_few(words: &[Word<'_>], dialect: Dialect) -> Fault {
    let end = words.last().map_or(0, |last| last.at + last.text.len());
    let count = words.len();
    let what = match count {
        0 => "the expression is empty".to_owned(),
        1 => "there is only 1 field".to_owned(),
        _ => format!("there are only {count} fields"),
    };
    let needed = match dialect {
        Dialect::Quartz => "needed are second minute hour day month weekday, and optionally a year",
        Dialect::Spring => "needed are second minute hour day month weekday",
        Dialect::Unix => "needed are minute hour day month weekday",
    };
    let remedy = crontab_remedy(words, dialect);
    Fault { field: None, at: end, len: 1, what, hint: needed.to_owned(), remedy }
}

/// If the words are a valid line of a crontab, returns the remedy to parse this line in the Unix dialect. The remedy
/// includes the meaning of the line in the Unix dialect. The remedy never proposes to add a field to the line, because
/// the new expression might fire at other times or on other days of the week.
fn crontab_remedy(words: &[Word<'_>], dialect: Dialect) -> Option<Remedy> {
    if dialect == Dialect::Unix || words.len() != 5 {
        return None;
    }
    let line = words.iter().map(|word| word.text).collect::<Vec<_>>().join(" ");
    let fields = parse(&line, Dialect::Unix.into()).ok()?;
    Some(Remedy::Unix { dialect, meaning: describe(&fields, Language::English) })
}
