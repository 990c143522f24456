//! The error of a wrong expression, with the position of the fault.

use std::fmt;

use crate::{Dialect, Field, ZoneError};

/// The reason for which an expression was refused. `Display` writes one line. [`picture`](Self::picture) also marks the
/// fault in the expression.
///
/// ```
/// use bandog_cron::Cron;
///
/// let error = Cron::parse("0 0 9 ? * MONX").unwrap_err();
/// assert_eq!(error.to_string(), "day of week, column 11: MONX is not a day of the week; did you mean MON?");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(Box<Refusal>);

/// The form in which a hint writes a setting: a call of the library, a key of a file, or an option of a command.
///
/// ```
/// use bandog_cron::{Cron, Phrasing};
///
/// let error = Cron::parse("0 9 * * 1").unwrap_err();
/// assert_eq!(error.hint(), "Quartz begins with seconds; read by Dialect::Unix it means: At 09:00, on Monday");
/// let hint = error.phrased(Phrasing::Options).hint().to_owned();
/// assert_eq!(hint, "Quartz begins with seconds; read by --dialect unix it means: At 09:00, on Monday");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Phrasing {
    /// Calls of the library: `Dialect::Unix`.
    #[default]
    Calls,
    /// Keys of an attribute or a file: `dialect = "unix"`.
    Keys,
    /// Options of a command: `--dialect unix`.
    Options,
}

/// A setting that makes the expression valid without a change of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The setting is the Unix dialect. The expression was refused by `dialect`. In the Unix dialect, the expression is
    /// valid, and `meaning` describes it.
    Unix { dialect: Dialect, meaning: String },
    /// The setting is a time zone, which the expression names in its first word, as some crontabs do. The value is the
    /// name of the zone, or the reason for which the name is no zone.
    Zone(Result<String, ZoneError>),
    /// The expression means the start of a program, which a call of the library replaces.
    Start,
    /// The setting is a [`DayMatch`](crate::DayMatch). The expression was refused because it restricts both day fields.
    Days,
}

impl Remedy {
    /// The hint that describes this remedy.
    fn hint(&self, phrasing: Phrasing) -> String {
        match self {
            Self::Unix { dialect, meaning } => {
                let unix = match phrasing {
                    Phrasing::Calls => "Dialect::Unix",
                    Phrasing::Keys => "dialect = \"unix\"",
                    Phrasing::Options => "--dialect unix",
                };
                let mut name = dialect.to_string();
                name[..1].make_ascii_uppercase();
                format!("{name} begins with seconds; read by {unix} it means: {meaning}")
            }
            Self::Zone(Ok(zone)) => {
                let setting = match phrasing {
                    Phrasing::Calls => format!("zone({zone:?})"),
                    Phrasing::Keys => format!("zone = {zone:?}"),
                    Phrasing::Options => format!("--zone {zone}"),
                };
                format!("the zone is a setting of its own: remove this word, and write {setting}")
            }
            Self::Zone(Err(error)) => {
                let setting = match phrasing {
                    Phrasing::Calls => "zone()",
                    Phrasing::Keys => "the key zone",
                    Phrasing::Options => "--zone",
                };
                format!("the zone is a setting of its own: remove this word, and use {setting}; {error}")
            }
            Self::Start => match phrasing {
                Phrasing::Calls => "for a job that runs once in bandog, call Job::once".into(),
                Phrasing::Keys | Phrasing::Options => "run the command where the program is started".into(),
            },
            Self::Days => {
                let (and, or) = match phrasing {
                    Phrasing::Calls => ("DayMatch::And", "DayMatch::Or"),
                    Phrasing::Keys => ("day_match = \"and\"", "day_match = \"or\""),
                    Phrasing::Options => ("--days and", "--days or"),
                };
                format!("write ? in one of them, or choose a rule: {and} (both must match) or {or} (one must match)")
            }
        }
    }
}

/// An expression that was refused, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    /// The text of the expression, with at most [`SHOWN`] characters. A space replaces each control character.
    text: String,
    fault: Fault,
}

/// A fault that a parser found. This value does not contain the text of the expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The field that is wrong. `None` if the fault is not in a single field.
    pub(crate) field: Option<Field>,
    /// The position at which the fault begins, counted in characters from 0.
    pub(crate) at: usize,
    /// Number of characters that are marked as wrong.
    pub(crate) len: usize,
    /// The fault in a few words.
    pub(crate) what: String,
    /// The allowed values, or the expression that was probably meant. Empty if there is no hint.
    pub(crate) hint: String,
    /// The setting that the hint describes. The hint can be written from this value in each [`Phrasing`]. `None` if the
    /// hint describes no setting.
    pub(crate) remedy: Option<Remedy>,
}

/// Maximum number of characters of the expression that an error shows. An expression with more characters is refused
/// because of its length.
const SHOWN: usize = 1024;

impl ParseError {
    pub(crate) fn new(text: &str, mut fault: Fault) -> Self {
        fault.phrase(Phrasing::default());
        let shown = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c });
        Self(Box::new(Refusal { text: shown.collect(), fault }))
    }

    /// The same error, but with a hint that writes settings in this form.
    #[must_use]
    pub fn phrased(mut self, phrasing: Phrasing) -> Self {
        self.0.fault.phrase(phrasing);
        self
    }

    /// The field that is wrong. `None` if the fault is not in a single field.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Field};
    /// assert_eq!(Cron::parse("60 0 0 * * ?").unwrap_err().field(), Some(Field::Seconds));
    /// assert_eq!(Cron::parse("").unwrap_err().field(), None);
    /// ```
    pub fn field(&self) -> Option<Field> {
        self.0.fault.field
    }

    /// The column at which the fault begins, counted in characters from 1.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert_eq!(Cron::parse("0 0 24 * * ?").unwrap_err().column(), 5);
    /// ```
    pub fn column(&self) -> usize {
        self.0.fault.at + 1
    }

    /// The allowed values, or the expression that was probably meant. The hint can be empty.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert_eq!(Cron::parse("0 0 24 * * ?").unwrap_err().hint(), "allowed are 0 to 23");
    /// ```
    pub fn hint(&self) -> &str {
        &self.0.fault.hint
    }

    /// The error as two lines for a fixed-width font. The first line is the expression. The second line has carets
    /// below the fault, and then the reason.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// let error = Cron::parse("0 0 9 ? * 8").unwrap_err();
    /// let (expression, reason) = error.picture().split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    /// assert_eq!(expression, "0 0 9 ? * 8");
    /// assert!(reason.starts_with("          ^ day of week: 8 is too large"), "{reason}");
    /// ```
    pub fn picture(&self) -> String {
        let Refusal { text, fault } = &*self.0;
        let place = fault.at.min(text.chars().count());
        let carets = "^".repeat(fault.len.clamp(1, 40));
        let field = fault.field.map(|field| format!("{field}: ")).unwrap_or_default();
        format!("{text}\n{:place$}{carets} {field}{}", "", fault.reason())
    }
}

impl Fault {
    /// Writes the hint again, with its settings in this form. If there is no remedy, the hint does not change.
    fn phrase(&mut self, phrasing: Phrasing) {
        if let Some(remedy) = &self.remedy {
            self.hint = remedy.hint(phrasing);
        }
    }

    /// The fault and the hint as one text.
    fn reason(&self) -> String {
        if self.hint.is_empty() { self.what.clone() } else { format!("{}; {}", self.what, self.hint) }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field() {
            Some(field) => write!(f, "{field}, ")?,
            None => f.write_str("cron expression, ")?,
        }
        write!(f, "column {}: {}", self.column(), self.0.fault.reason())
    }
}

impl std::error::Error for ParseError {}
