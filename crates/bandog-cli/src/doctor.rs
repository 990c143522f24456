//! `bandog doctor`: conditions that endanger locks.

mod checks;
mod queues;

use std::io::{self, Write};

use bandog::{
    Client,
    admin::{Finding, Level},
    work::LAYOUT,
};
use serde::Serialize;

use crate::{
    console::escaped,
    exit_code::ExitCode,
    fault::{Fault, has_no_connection},
    print::{self, Format},
    runtime,
    store::{self, Store},
};

/// Checks for conditions that endanger locks: in the store, in its environment, and in its URL. It also finds work queues
/// that nobody looks after: dead elements, and elements without a worker.
///
/// Without --upgrade, this command changes nothing. The level of a finding is fine, advice (a possible improvement), or danger (it can
/// lose locks, or prevent clients from taking them).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json:
  level     fine, advice or danger
  subject   what was checked, in one or two words
  says      the finding
  cure      what to do about it; null if there is no problem

Exit codes:
    0  no finding, or advice only
    1  a danger for locks was found
   64  the URL is wrong
   69  the store does not answer, or does not exist
   77  the store refuses

Examples:
  bandog doctor
  bandog doctor --upgrade --url postgres://admin@db/shop
  bandog doctor --json | jq -r 'select(.level == \"danger\") | .cure'")]
pub(crate) struct Args {
    /// First change the work queues of a database to the newest layout of elements, which programs of older versions cannot use.
    ///
    /// Stop the workers of older versions before. Other stores need no upgrade.
    #[arg(long)]
    upgrade: bool,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Prints the findings. Findings of checks that need no store are printed even if the store does not answer.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    store.options()?;
    let mut findings = checks::all(&store);
    let answer = runtime::block_on_with_io(async {
        let Some(client) = store.existing()? else { return Ok(None) };
        let Err(error) = client.ready().await else {
            let upgraded =
                if args.upgrade { upgrade(&client).await.map_err(|error| store.fault(&error))? } else { None };
            let found = client.check().await.map_err(|error| store.fault(&error))?;
            return Ok(Some([Vec::from_iter(upgraded), found, queues::findings(&client).await].concat()));
        };
        if error.is_retryable() && !has_no_connection(&error) {
            return Err(store.fault(&error)); // The store does not answer.
        }
        // Only one of several servers may refuse the client, or the user may lack rights. Then the findings say which one,
        // and why. A busy server may need longer than a request to refuse each connection of the client: then the next
        // attempt has fewer to try.
        let mut checked = client.check().await;
        for _ in 0..2 {
            if checked.is_err() && has_no_connection(&error) {
                checked = client.check().await;
            }
        }
        match checked {
            Ok(found) if found.iter().any(|finding| finding.level == Level::Danger) => Ok(Some(found)),
            Ok(_) | Err(_) => Err(store.fault(&error)),
        }
    });
    let fault = match answer {
        Ok(Some(found)) => {
            findings.extend(found);
            None
        }
        Ok(None) => {
            findings.push(Finding::fine("database", "it does not exist yet: the first `bandog lock` creates it"));
            None
        }
        Err(fault) => Some(fault.of_doctor()),
    };
    print::done(if args.format.json { json(&findings) } else { table(&findings) })?;
    match fault {
        Some(fault) => Err(fault),
        None if findings.iter().any(|finding| finding.level == Level::Danger) => Ok(ExitCode::Endangered),
        None => Ok(ExitCode::Done),
    }
}

/// Changes the work queues to the newest layout.
async fn upgrade(client: &Client) -> Result<Option<Finding>, bandog::Error> {
    let Some(queues) = client.queues() else { return Ok(None) };
    let says = match queues.upgrade().await? {
        before if before < LAYOUT => {
            format!("the work queues have the layout {LAYOUT} now, and had the layout {before} before")
        }
        _ => format!("the work queues need no upgrade: this version knows the layout {LAYOUT}"),
    };
    Ok(Some(Finding::fine("upgrade", says)))
}

/// A finding in JSON. Scripts rely on the names of these fields.
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

/// Prints the findings for people. The worst finding is printed last.
fn table(findings: &[Finding]) -> io::Result<()> {
    let mut sorted: Vec<_> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.level);
    let subjects = sorted.iter().map(|finding| finding.subject.chars().count()).max().unwrap_or(0);
    let mut out = io::stdout().lock();
    for Finding { level, subject, says, cure } in sorted {
        writeln!(out, "{:6}  {:subjects$}  {}", word(*level), escaped(subject), escaped(says))?;
        if let Some(cure) = cure {
            writeln!(out, "{:6}  {:subjects$}  cure: {}", "", "", escaped(cure))?;
        }
    }
    out.flush()
}

/// The level of a finding, as it is printed.
fn word(level: Level) -> &'static str {
    match level {
        Level::Fine => "fine",
        Level::Advice => "advice",
        Level::Danger => "danger",
    }
}
