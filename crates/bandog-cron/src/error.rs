//! What is wrong with an expression, and where.

use std::fmt;

use crate::{Dialect, Field};

/// Why an expression was refused. Its `Display` is one line; [`picture`](Self::picture) points at the place.
///
/// ```
/// use bandog_cron::Cron;
///
/// let error = Cron::parse("0 0 9 ? * MONX").unwrap_err();
/// assert_eq!(error.to_string(), "day of week, column 11: MONX is not a day of the week; did you mean MON?");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(Box<Refusal>);

/// Whose words a hint uses where it names a setting.
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

/// A setting that would make the expression one of a dialect, without a change of what it means there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// It is a crontab's line, which means this.
    Unix { dialect: Dialect, meaning: String },
    /// Both day fields are restricted.
    Days,
}

impl Remedy {
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
            Self::Days => {
                let (and, or) = match phrasing {
                    Phrasing::Calls => ("DayMatch::And", "DayMatch::Or"),
                    Phrasing::Keys => ("day_match = \"and\"", "day_match = \"or\""),
                    Phrasing::Options => ("--days and", "--days or"),
                };
                format!(
                    "write ? in one of them, or say what is meant: {and} (both must match) or {or} (one must match)"
                )
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    text: String,
    fault: Fault,
}

/// A refusal before it knows the whole text. Places count characters from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) field: Option<Field>,
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) what: String,
    pub(crate) hint: String,
    /// What the hint is made of where it names a setting.
    pub(crate) remedy: Option<Remedy>,
}

/// So much of the text is shown; a longer one is refused before anything else is said of it.
const SHOWN: usize = 1024;

impl ParseError {
    pub(crate) fn new(text: &str, mut fault: Fault) -> Self {
        fault.phrase(Phrasing::default());
        let shown = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c });
        Self(Box::new(Refusal { text: shown.collect(), fault }))
    }

    /// The same with a hint in these words.
    #[must_use]
    pub fn phrased(mut self, phrasing: Phrasing) -> Self {
        self.0.fault.phrase(phrasing);
        self
    }

    /// The field that is wrong, if it is one.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Field};
    /// assert_eq!(Cron::parse("60 0 0 * * ?").unwrap_err().field(), Some(Field::Seconds));
    /// assert_eq!(Cron::parse("").unwrap_err().field(), None);
    /// ```
    pub fn field(&self) -> Option<Field> {
        self.0.fault.field
    }

    /// Where it is wrong, in characters, the first being 1.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert_eq!(Cron::parse("0 0 24 * * ?").unwrap_err().column(), 5);
    /// ```
    pub fn column(&self) -> usize {
        self.0.fault.at + 1
    }

    /// What is allowed, or what was probably meant. It may be empty.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert_eq!(Cron::parse("0 0 24 * * ?").unwrap_err().hint(), "allowed are 0 to 23");
    /// ```
    pub fn hint(&self) -> &str {
        &self.0.fault.hint
    }

    /// Two lines: the expression, and under it a caret with the reason. They suit a fixed-width font.
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
    fn phrase(&mut self, phrasing: Phrasing) {
        if let Some(remedy) = &self.remedy {
            self.hint = remedy.hint(phrasing);
        }
    }

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
