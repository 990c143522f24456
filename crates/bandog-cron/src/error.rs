//! What is wrong with an expression, and where.

use std::fmt;

use crate::{Dialect, Field};

/// Why an expression was refused. `Display` writes one line; [`picture`](Self::picture) also marks the place.
///
/// ```
/// use bandog_cron::Cron;
///
/// let error = Cron::parse("0 0 9 ? * MONX").unwrap_err();
/// assert_eq!(error.to_string(), "day of week, column 11: MONX is not a day of the week; did you mean MON?");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(Box<Refusal>);

/// How a hint writes the settings that it names: as the user of the library, a file or a command would write them.
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

/// A setting that would make the expression valid without changing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The expression was read in `dialect`, but it is a line of a crontab with this meaning.
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

/// A fault that a parser found, without the text of the whole expression. Positions count characters from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) field: Option<Field>,
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) what: String,
    pub(crate) hint: String,
    /// The source of the hint, if the hint names a setting; the hint is then written again for each [`Phrasing`].
    pub(crate) remedy: Option<Remedy>,
}

/// Maximum number of characters of the text in an error. An expression that is longer is refused for its length.
const SHOWN: usize = 1024;

impl ParseError {
    pub(crate) fn new(text: &str, mut fault: Fault) -> Self {
        fault.phrase(Phrasing::default());
        let shown = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c });
        Self(Box::new(Refusal { text: shown.collect(), fault }))
    }

    /// The same error, with the settings in its hint written in this way.
    #[must_use]
    pub fn phrased(mut self, phrasing: Phrasing) -> Self {
        self.0.fault.phrase(phrasing);
        self
    }

    /// The field that is wrong; `None` if the fault is not in one field.
    ///
    /// ```
    /// # use bandog_cron::{Cron, Field};
    /// assert_eq!(Cron::parse("60 0 0 * * ?").unwrap_err().field(), Some(Field::Seconds));
    /// assert_eq!(Cron::parse("").unwrap_err().field(), None);
    /// ```
    pub fn field(&self) -> Option<Field> {
        self.0.fault.field
    }

    /// Where the fault begins, counted in characters from 1.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert_eq!(Cron::parse("0 0 24 * * ?").unwrap_err().column(), 5);
    /// ```
    pub fn column(&self) -> usize {
        self.0.fault.at + 1
    }

    /// What is allowed, or what was probably meant. The hint may be empty.
    ///
    /// ```
    /// # use bandog_cron::Cron;
    /// assert_eq!(Cron::parse("0 0 24 * * ?").unwrap_err().hint(), "allowed are 0 to 23");
    /// ```
    pub fn hint(&self) -> &str {
        &self.0.fault.hint
    }

    /// Two lines for a fixed-width font: the expression, and under it carets with the reason.
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
