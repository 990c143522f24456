//! `bandog cron`: when a cron expression fires, and what it means.

use std::{
    env,
    io::{self, Write},
    time::SystemTime,
};

use bandog_cron::{Cron, DayMatch, Dialect, Language, Phrasing, Time, Zone};
use clap::{Subcommand, ValueEnum};

use crate::{exit_code::ExitCode, fault::Fault, print};

/// Shows when a cron expression fires, and what it means.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Prints the next fires, one per line, and `none` if there are no more.
    #[command(after_help = "\
Exit codes: 0 printed, also if it is `none`; 64 a wrong expression, or one that can never fire in any year.

Examples:
  bandog cron next '0 15 10 ? * MON-FRI' --count 5
  bandog cron next '0 30 2 * * ?' --zone America/New_York --from 2026-03-07T12:00:00-05:00
  bandog cron next '*/5 9-17 * * 1-5' --dialect unix
  bandog cron next '0 0 9 13 * FRI' --days and")]
    Next {
        #[command(flatten)]
        expression: Expression,
        /// The instant after which fires are printed, as RFC 3339. The default is the present time.
        #[arg(long, value_name = "RFC3339")]
        from: Option<Time>,
        /// Number of fires to print.
        #[arg(long, default_value_t = 1, value_name = "N")]
        count: usize,
        /// The time zone of the expression, an IANA name.
        #[arg(long, default_value = "UTC", value_name = "ZONE")]
        zone: String,
        /// Use the rules of this machine (`$TZDIR` or /usr/share/zoneinfo) instead of the built-in table.
        #[arg(long)]
        system_zones: bool,
    },
    /// Describes an expression in words.
    #[command(after_help = "\
Exit codes: 0 printed; 64 a wrong expression.

Environment: the first of LC_ALL, LC_MESSAGES and LANG that is set names the language; a value that begins with zh \
means Chinese.

Examples:
  bandog cron explain '0 0 0 LW * ?'
  bandog cron explain '0 0 0 LW * ?' --lang zh")]
    Explain {
        #[command(flatten)]
        expression: Expression,
        /// The language. The default is Chinese if the environment names Chinese, else English.
        #[arg(long, value_enum, value_name = "LANG")]
        lang: Option<Lang>,
    },
}

#[derive(Debug, clap::Args)]
struct Expression {
    /// The expression, as one argument.
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    text: String,
    /// The dialect of the expression.
    #[arg(long, value_enum, default_value_t = Rules::Quartz)]
    dialect: Rules,
    /// How two restricted day fields combine. Without this option Quartz refuses such an expression, Spring uses `and`,
    /// and Unix uses `or`.
    #[arg(long, value_enum, value_name = "WHICH")]
    days: Option<Days>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Rules {
    /// Six fields, or seven with a year; Sunday is 1.
    Quartz,
    /// Six fields; Sunday is 0 or 7.
    Spring,
    /// Five fields, without seconds; Sunday is 0 or 7.
    Unix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// English.
    En,
    /// Chinese.
    Zh,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Days {
    /// A day that matches both fields.
    And,
    /// A day that matches at least one of the fields.
    Or,
}

/// Runs the command, which uses no store.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    match &args.verb {
        Verb::Next { expression, from, count, zone, system_zones } => {
            let find = if *system_zones { Zone::of_system } else { Zone::named };
            let zone = find(zone).map_err(|error| Fault::usage(error.to_string()))?;
            next(&expression.read()?.in_zone(zone), from.unwrap_or_else(|| SystemTime::now().into()), *count)
        }
        Verb::Explain { expression, lang } => explain(&expression.read()?, lang.unwrap_or_else(Lang::of_environment)),
    }
}

impl Lang {
    /// The language that the environment names. English if the environment names no language.
    fn of_environment() -> Self {
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        match ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set) {
            Some(locale) if locale.to_ascii_lowercase().starts_with("zh") => Self::Zh,
            Some(_) | None => Self::En,
        }
    }
}

impl Expression {
    fn read(&self) -> Result<Cron, Fault> {
        let dialect = match self.dialect {
            Rules::Quartz => Dialect::Quartz,
            Rules::Spring => Dialect::Spring,
            Rules::Unix => Dialect::Unix,
        };
        let rules = match self.days {
            None => dialect.into(),
            Some(Days::And) => dialect.days(DayMatch::And),
            Some(Days::Or) => dialect.days(DayMatch::Or),
        };
        Cron::parse_with(&self.text, rules)
            .map_err(|error| with_picture("this is not a cron expression", &error.phrased(Phrasing::Options).picture()))
    }
}

fn next(cron: &Cron, from: Time, count: usize) -> Result<ExitCode, Fault> {
    if cron.never_fires() {
        let picture = format!("{cron}\n^ no year has such a date");
        return Err(with_picture("this cron expression can never fire", &picture));
    }
    let mut fires = cron.after(from);
    let mut out = io::stdout().lock();
    let mut lines = || -> io::Result<()> {
        for _ in 0..count {
            let Some(fire) = fires.next() else { return writeln!(out, "none") };
            writeln!(out, "{}", fire.at(cron.zone()))?;
        }
        Ok(())
    };
    print::done(lines())
}

fn explain(cron: &Cron, lang: Lang) -> Result<ExitCode, Fault> {
    let (language, never) = match lang {
        Lang::En => (Language::English, "It never fires: no year has such a date."),
        Lang::Zh => (Language::Chinese, "永不触发：没有任何一年有这样的日期。"),
    };
    let mut text = format!("{}\n", cron.describe_in(language));
    if cron.never_fires() {
        text.push_str(&format!("{never}\n"));
    }
    print::bytes(text.as_bytes())
}

/// An error with a picture: the expression, and below it a line with a caret. Both lines get the same indentation, so
/// that the caret stays under its column. `what` is the first line of the error.
fn with_picture(what: &str, picture: &str) -> Fault {
    let indented: Vec<_> = picture.lines().map(|line| format!("\n  {line}")).collect();
    Fault::usage(format!("{what}{}", indented.concat()))
}
