//! `bandog doctor`: what may endanger locks.

mod checks;

use std::io::{self, Write};

use bandog::{Finding, Level};
use serde::Serialize;

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::{self, Format},
    runtime,
    store::{self, Store},
    voice::shown,
};

/// Looks for what may endanger locks: in the store, around it, and in how it is named.
///
/// Nothing is changed. What could be better is advice; a danger is what may lose locks or keep them from their users.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json:
  level     fine, advice or danger
  subject   what was looked at, in a word or two
  says      what was found
  cure      what to do about it; null when all is well

Exit codes:
    0  all is well, or there is only advice
    1  something endangers locks
   64  the URL is wrong
   69  the store does not answer, or is not there
   77  the store refuses

Examples:
  bandog doctor
  bandog doctor --json | jq -r 'select(.level == \"danger\") | .cure'")]
pub(crate) struct Args {
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Prints what is found. What bandog finds by itself is printed even if the store does not answer.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    store.options()?;
    let mut findings = checks::all(&store);
    let asked = runtime::block_on(async {
        let Some(client) = store.look().await? else { return Ok(None) };
        client.check().await.map(Some).map_err(|error| store.fault(&error))
    });
    let fault = match asked {
        Ok(Some(found)) => {
            findings.extend(found);
            None
        }
        Ok(None) => {
            findings.push(Finding::fine("database", "it is not there yet: the first `bandog lock` makes it"));
            None
        }
        Err(fault) => Some(fault),
    };
    print::done(if args.format.json { json(&findings) } else { table(&findings) })?;
    match fault {
        Some(fault) => Err(fault),
        None if findings.iter().any(|finding| finding.level == Level::Danger) => Ok(ExitCode::Endangered),
        None => Ok(ExitCode::Done),
    }
}

/// A finding in JSON. Scripts rely on these names.
#[derive(Debug, Serialize)]
struct Object<'a> {
    level: &'static str,
    subject: &'a str,
    says: &'a str,
    cure: Option<&'a str>,
}

fn json(findings: &[Finding]) -> io::Result<()> {
    findings.iter().try_for_each(|Finding { level, subject, says, cure }| {
        print::json(&Object { level: word(*level), subject, says, cure: cure.as_deref() })
    })
}

/// Prints the worst last, where the eye is.
fn table(findings: &[Finding]) -> io::Result<()> {
    let mut sorted: Vec<_> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.level);
    let subjects = sorted.iter().map(|finding| finding.subject.chars().count()).max().unwrap_or(0);
    let mut out = io::stdout().lock();
    for Finding { level, subject, says, cure } in sorted {
        writeln!(out, "{:6}  {:subjects$}  {}", word(*level), shown(subject), shown(says))?;
        if let Some(cure) = cure {
            writeln!(out, "{:6}  {:subjects$}  cure: {}", "", "", shown(cure))?;
        }
    }
    out.flush()
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Fine => "fine",
        Level::Advice => "advice",
        Level::Danger => "danger",
    }
}
