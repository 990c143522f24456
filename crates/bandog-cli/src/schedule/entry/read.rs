//! Reads a job from its table in the file.

use std::{collections::BTreeMap, ffi::OsString, num::NonZeroU32, ops::Range, path::PathBuf, time::Duration};

use bandog::{
    backend::MIN_TTL,
    schedule::{CatchUp, MAX_NAME, OnCrash, Retry},
};
use bandog_cron::{Cron, DayMatch, Daylight, Dialect, ParseError, Time, Zone, ZoneError};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{JobEntry, MISFIRE_GRACE, Rare, Trigger, hint};
use crate::schedule::{
    mistakes::Mistakes,
    table::{Table, kind},
    text::Text,
};

/// The keys of a job.
const KEYS: [&str; 29] = [
    "name",
    "cron",
    "fixed_rate",
    "fixed_delay",
    "at",
    "command",
    "on_failure",
    "directory",
    "zone",
    "initial_delay",
    "overlap",
    "catch_up",
    "misfire_grace",
    "on_crash",
    "timeout",
    "lease",
    "retry",
    "jitter",
    "enabled",
    "env",
    "dialect",
    "day_match",
    "daylight",
    "window",
    "grace",
    "pause_after",
    "revision",
    "scope",
    "store_down",
];
/// The keys of jobs that `[defaults]` can have.
pub(in crate::schedule) const DEFAULTS: [&str; 21] = [
    "on_failure",
    "zone",
    "directory",
    "overlap",
    "catch_up",
    "misfire_grace",
    "on_crash",
    "timeout",
    "lease",
    "retry",
    "jitter",
    "enabled",
    "env",
    "dialect",
    "day_match",
    "daylight",
    "window",
    "grace",
    "pause_after",
    "scope",
    "store_down",
];
/// The keys that only a cron expression has.
const OF_CRON: [&str; 4] = ["zone", "dialect", "day_match", "daylight"];
/// The keys of the triggers.
const TRIGGERS: [&str; 4] = ["cron", "fixed_rate", "fixed_delay", "at"];
/// Prefix of the variables that are reserved for bandog.
const RESERVED_PREFIX: &str = "BANDOG_";
/// The table of the rules of time zones.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::schedule) enum Zones {
    /// That of the program.
    #[default]
    BuiltIn,
    /// That of the machine.
    System,
}

impl Zones {
    fn find(self, name: &str) -> Result<Zone, ZoneError> {
        match self {
            Self::BuiltIn => Zone::named(name),
            Self::System => Zone::of_system(name),
        }
    }
}

/// Minimum period, and minimum timeout.
const SHORTEST: Duration = Duration::from_millis(1);

/// Reads a job, and reports all of its mistakes. A mistake of any job makes the whole file invalid. `header` is the
/// position of the table's header. `defaults`: the values of keys that the table does not have.
pub(in crate::schedule) fn read<'a>(
    header: Range<usize>,
    entries: &'a DeTable<'a>,
    defaults: Option<&'a DeTable<'a>>,
    text: &Text<'_>,
    mistakes: &Mistakes,
    zones: Zones,
) -> Option<JobEntry> {
    let called = match entries.get("name").map(Spanned::get_ref) {
        Some(DeValue::String(name)) => format!("the job {name:?}"),
        _ => "this job".into(),
    };
    let table = Table::new(&called, entries, &KEYS, mistakes).with_defaults(defaults);
    let name = table.required("name", header.clone(), name(table));
    let command = table.required("command", header.clone(), self::command(table, "command"));
    let on_failure = self::command(table, "on_failure");
    let trigger = trigger(table, header, text, zones);
    let initial_delay = initial_delay(table);
    let directory = directory(table);
    let env = env(table);
    let jitter = table.duration("jitter", Duration::ZERO);
    let misfire_grace = table.duration("misfire_grace", Duration::ZERO);
    let timeout = table.duration("timeout", SHORTEST);
    let lease = table.duration("lease", MIN_TTL);
    let (overlap, catch_up, on_crash) = (table.policy("overlap"), table.policy("catch_up"), table.policy("on_crash"));
    let (retry, enabled) = (retry(table), table.flag("enabled"));
    let rare = Rare {
        window: table.duration("window", Duration::ZERO),
        grace: table.duration("grace", Duration::ZERO),
        pause_after: table.number("pause_after", 1).and_then(|number| NonZeroU32::new(u32::try_from(number).ok()?)),
        revision: table.number("revision", 0),
        scope: table.policy("scope"),
        store_down: table.policy("store_down"),
    };
    let trigger = trigger?;
    Some(JobEntry {
        name: name?.into(),
        command: command?,
        on_failure,
        directory,
        env,
        initial_delay: initial_delay.unwrap_or_default(),
        overlap: overlap.unwrap_or(trigger.overlap()),
        catch_up: catch_up.unwrap_or(CatchUp::Once),
        misfire_grace: misfire_grace.unwrap_or(MISFIRE_GRACE),
        on_crash: on_crash.unwrap_or(OnCrash::Abandon),
        timeout,
        lease,
        retry: retry.unwrap_or(Retry::times(0)),
        jitter: jitter.unwrap_or_default(),
        enabled: enabled.unwrap_or(true),
        rare,
        trigger,
    })
}

/// Reports each name that more than one job has. The store has a single record for each name, so a name must be unique.
pub(in crate::schedule) fn report_duplicates(
    tables: &[(Range<usize>, &DeTable<'_>)],
    text: &Text<'_>,
    mistakes: &Mistakes,
) {
    let mut places = BTreeMap::new();
    for (_, entries) in tables {
        let Some(value) = entries.get("name") else { continue };
        let DeValue::String(name) = value.get_ref() else { continue };
        let place = value.span().start;
        let first = *places.entry(name.as_ref()).or_insert(place);
        if first != place {
            let (line, column) = (text.line(first), text.split_line(first).before.chars().count() + 1);
            let what = format!("the job in line {line}, column {column} has the name {name:?} already");
            mistakes.add(value.span(), what);
        }
    }
}

fn name<'a>(table: Table<'a>) -> Option<&'a str> {
    let (name, value) = table.text("name")?;
    if (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Some(name);
    }
    table.reject(value, format!("a name must have 1 to {MAX_NAME} bytes without control characters"))
}

/// Reads a command. An array contains the program and its arguments. A text is a command for the shell.
fn command(table: Table<'_>, key: &str) -> Option<Vec<OsString>> {
    let (_, value) = table.get(key)?;
    let words: Vec<&str> = match value.get_ref() {
        DeValue::String(line) if line.trim().is_empty() => return table.reject(value, format!("{key} is empty")),
        DeValue::String(line) => vec!["sh", "-c", line],
        DeValue::Array(list) => {
            let texts = list.iter().map(|word| match word.get_ref() {
                DeValue::String(word) => Some(word.as_ref()),
                other => table.reject(
                    word,
                    format!("this is {}; write each word of the command in quotation marks", kind(other)),
                ),
            });
            // The mistakes of all words are reported before the return.
            texts.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?
        }
        other => {
            return table.reject(
                value,
                format!("{key} is {}; write [\"program\", \"word\"], or a text for the shell", kind(other)),
            );
        }
    };
    if words.first().is_none_or(|program| program.is_empty()) {
        return table.reject(value, format!("{key} has no program"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return table.reject(value, "a word of a command cannot contain a zero byte");
    }
    Some(words.into_iter().map(OsString::from).collect())
}

/// Reads the trigger. All mistakes in the keys of triggers and of cron expressions are reported.
fn trigger(table: Table<'_>, header: Range<usize>, text: &Text<'_>, zones: Zones) -> Option<Trigger> {
    let given: Vec<_> = TRIGGERS.into_iter().filter_map(|key| Some((key, table.get(key)?.0))).collect();
    if !given.is_empty() && !given.iter().any(|(key, _)| *key == "cron") {
        for (key, (place, _)) in OF_CRON.into_iter().filter_map(|key| Some((key, table.own(key)?))) {
            table.mistakes().add(place, format!("{key} is for cron only"));
        }
    }
    let zone = zone(table, zones);
    let in_zone = |cron: Cron| Some(Trigger::Cron(Box::new(cron.in_zone(zone?))));
    // All triggers are read, so that all mistakes are reported.
    let read = [
        cron(table, text).and_then(in_zone),
        table.duration("fixed_rate", SHORTEST).map(Trigger::FixedRate),
        table.duration("fixed_delay", SHORTEST).map(Trigger::FixedDelay),
        at(table).map(Trigger::At),
    ];
    match &given[..] {
        [_] => read.into_iter().flatten().next(),
        [] => {
            table
                .mistakes()
                .add(header, format!("{} has no trigger; add one of {}", table.called(), TRIGGERS.join(", ")));
            None
        }
        [(first, _), others @ ..] => {
            for (_, place) in others {
                table
                    .mistakes()
                    .add(place.clone(), format!("{} has {first} already; keep one of the two", table.called()));
            }
            None
        }
    }
}

fn cron(table: Table<'_>, text: &Text<'_>) -> Option<Cron> {
    let (expression, value) = table.text("cron")?;
    let dialect: Dialect = table.policy("dialect").unwrap_or_default();
    let rules = match table.policy::<DayMatch>("day_match") {
        Some(days) => dialect.days(days),
        None => dialect.into(),
    };
    let daylight = table.policy::<Daylight>("daylight");
    let cron = match Cron::parse_with(expression, rules) {
        Ok(cron) => cron,
        Err(error) => {
            let (at, said) = position(&error, expression, value, text);
            table.mistakes().add(at, hint::in_a_file(&error, expression, &said));
            return None;
        }
    };
    if cron.never_fires() {
        return table.reject(value, "this expression can never fire: no year has such a date");
    }
    Some(match daylight {
        Some(daylight) => cron.on_daylight(daylight),
        None => cron,
    })
}

/// The position of the mistake in the file, and the parser's message. If the expression contains escapes in the file,
/// the position is that of the whole value.
fn position(
    error: &ParseError,
    expression: &str,
    value: &Spanned<DeValue<'_>>,
    text: &Text<'_>,
) -> (Range<usize>, String) {
    let picture = error.picture();
    // The last line of the picture: carets under the mistake, and the parser's message.
    let under = picture.rsplit('\n').next().unwrap_or_default().trim_start();
    let what = under.trim_start_matches('^').trim_start();
    let carets = under.len() - under.trim_start_matches('^').len();
    let written = text.as_str().get(value.span()).unwrap_or_default();
    let quotes = (written.len().saturating_sub(expression.len())) / 2;
    if written.get(quotes..quotes + expression.len()) != Some(expression) {
        return (value.span(), what.into());
    }
    let byte = |chars: usize| expression.char_indices().nth(chars).map_or(expression.len(), |(at, _)| at);
    let start = value.span().start + quotes;
    let column = error.column() - 1;
    (start + byte(column)..start + byte(column + carets), what.into())
}

/// The zone of the job, or UTC if the job sets no zone. None if the zone is wrong.
fn zone(table: Table<'_>, zones: Zones) -> Option<Zone> {
    if table.get("zone").is_none() {
        return Some(Zone::UTC);
    }
    let (name, value) = table.text("zone")?;
    zones.find(name).map_err(|error| table.reject::<()>(value, error.to_string())).ok()
}

fn at(table: Table<'_>) -> Option<Time> {
    let (_, value) = table.get("at")?;
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        other => {
            return table.reject(value, format!("at is {}; write an instant like 2026-01-31T00:00:00Z", kind(other)));
        }
    };
    text.parse().map_err(|error: bandog_cron::TimeError| table.reject::<()>(value, error.to_string())).ok()
}

fn initial_delay(table: Table<'_>) -> Option<Duration> {
    let (key, _) = table.get("initial_delay")?;
    if table.get("cron").or(table.get("at")).is_some() {
        table.mistakes().add(key, "initial_delay is for fixed_rate and fixed_delay only");
    }
    table.duration("initial_delay", Duration::ZERO)
}

/// Reads the retry policy: a number of retries, or a text that [`Retry`] can parse.
fn retry(table: Table<'_>) -> Option<Retry> {
    let (_, value) = table.get("retry")?;
    match value.get_ref() {
        DeValue::Integer(number) => match u32::from_str_radix(number.as_str(), number.radix()) {
            Ok(times) => Some(Retry::times(times)),
            Err(_) => table.reject(value, format!("retry takes a number from 0 to {}", u32::MAX)),
        },
        _ => table.policy("retry"),
    }
}

/// The working directory of the command.
fn directory(table: Table<'_>) -> Option<PathBuf> {
    let (path, value) = table.text("directory")?;
    if path.is_empty() || path.contains('\0') {
        return table.reject(value, "directory takes the path of a directory");
    }
    Some(path.into())
}

/// The variables of the job, and those of the defaults that the job does not set.
fn env(table: Table<'_>) -> Vec<(String, String)> {
    let read = |found: Option<(_, _)>| found.map(|(_, value)| variables(table, value)).unwrap_or_default();
    let (mut env, own) = (read(table.default("env")), read(table.own("env")));
    env.retain(|(name, _)| own.iter().all(|(other, _)| other != name));
    env.extend(own);
    env
}

fn variables(table: Table<'_>, value: &Spanned<DeValue<'_>>) -> Vec<(String, String)> {
    let DeValue::Table(variables) = value.get_ref() else {
        let what = format!("env is {}; write env = {{ NAME = \"text\" }}", kind(value.get_ref()));
        return table.reject(value, what).unwrap_or_default();
    };
    let variable = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &std::borrow::Cow<'_, str> = name.get_ref();
        if key.is_empty() || key.contains(['=', '\0']) {
            table.mistakes().add(name.span(), "the name of a variable must have at least one character and no =");
        } else if key.starts_with(RESERVED_PREFIX) {
            table
                .mistakes()
                .add(name.span(), format!("variables that begin with {RESERVED_PREFIX} are reserved for bandog"));
        }
        match value.get_ref() {
            DeValue::String(text) if !text.contains('\0') => Some((key.to_string(), text.to_string())),
            DeValue::String(_) => table.reject(value, "a variable cannot contain a zero byte"),
            other => table.reject(value, format!("{key} is {}; write a text in quotation marks", kind(other))),
        }
    };
    variables.iter().filter_map(variable).collect()
}
