//! `bandog forget`: forgets names that are not used any more.

use std::time::{Duration, Instant};

use bandog::{Pattern, backend::IfUnused};
use serde::Serialize;

use crate::{
    confirm::confirm,
    console::{self, StatusLine},
    exit_code::ExitCode,
    fault::Fault,
    print::{self, Format},
    runtime,
    store::{self, Store},
};

/// Interval between two reports of a search if standard error is not a terminal.
const REPORTS: Duration = Duration::from_secs(30);

/// Forgets names that are not used any more, after a confirmation.
///
/// A store keeps a few bytes for each name that was ever locked: its last fence, so that the next one is greater. This
/// command deletes them for the names that match, are free, and were last granted before the given time. A name that a client holds, or
/// for which a client waits in a queue, stays, and so do the names of semaphores with their numbers of permits. Other
/// clients may work on meanwhile, also with the same names. The next fence of a forgotten name is greater than each one before,
/// because it begins at the time of the store.
///
/// The names are read part by part, with pauses, so the search of millions of names takes long and slows no other client down.
/// If the command is interrupted, the names until then are forgotten; run it again for the others.
///
/// On Redis, leave out names that an `RFencedLock` of Redisson uses: its fences would begin again at 1.
///
/// On ZooKeeper, the URL must name a folder: at the top of the tree, empty folders of other programs look like those of old names.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: seen (the number of names that were read), unused (those that match, are free and old enough), \
forgotten, store.

Exit codes: 0 done, also if no name was forgotten; 64 wrong URL or time, or no --yes without a terminal; 69 the store \
does not answer or does not exist; 77 the store refuses the request.

Examples:
  bandog forget 'order-*' --dry-run                the names, one per line; nothing changes
  bandog forget 'order-*' --unused 90d --yes       as in a cron job
  bandog forget '*' --yes --json | jq .forgotten")]
pub(crate) struct Args {
    /// A pattern of names: * matches any text, ? matches one character, and \ escapes the next character.
    pattern: String,
    /// Minimum time since the last grant; at least 1h.
    #[arg(long, value_name = "DUR", default_value = "30d", value_parser = humantime::parse_duration)]
    unused: Duration,
    /// Print the names that would be forgotten, one per line, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for a confirmation.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// The result of the command.
#[derive(Debug, Default, Serialize)]
struct Report {
    seen: u64,
    unused: u64,
    forgotten: u64,
    store: String,
}

/// Searches the names, and forgets those that are unused. Wrong arguments are reported before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { pattern, unused, dry_run, yes, format, .. } = args;
    let store = Store::of(&args.store)?;
    let age = humantime::format_duration(*unused);
    if !dry_run && !yes {
        let what = format!("all names that match {pattern:?} and were not locked for {age}");
        confirm(("forget", "forgets"), &what, "they are kept", &store)?;
    }
    let report = runtime::block_on(async {
        let mut report = Report { store: store.redacted(), ..Report::default() };
        let Some(client) = store.connect_existing().await? else { return Ok(report) };
        let then = if *dry_run { IfUnused::Keep } else { IfUnused::Forget };
        let sweep = client.sweep(Pattern::new(pattern), *unused, then);
        let mut sweep = sweep.map_err(|error| store.fault(&error))?;
        let mut progress = Progress::new();
        while let Some(part) = sweep.next().await.map_err(|error| report.add_to(store.fault(&error)))? {
            report.seen += part.seen;
            report.unused += part.unused.len() as u64;
            if !dry_run {
                report.forgotten = report.unused;
            } else if !format.json {
                let lines: String = part.unused.iter().map(|name| format!("{}\n", console::escaped(name))).collect();
                print::bytes(lines.as_bytes())?;
            }
            progress.show(&report);
        }
        Ok(report)
    })?;
    if format.json {
        return print::done(print::json(&report));
    }
    let Report { seen, unused, store, .. } = &report;
    let verb = if *dry_run { "would be forgotten" } else { "were forgotten" };
    console::report(&format!("{unused} of {seen} names in {store} {verb}: free, and not locked for {age}"));
    Ok(ExitCode::Done)
}

impl Report {
    /// Adds to the error of a search how far it has come.
    fn add_to(&self, fault: Fault) -> Fault {
        match self.forgotten {
            0 => fault,
            number => {
                fault.with_line(&format!("{number} names were forgotten before; run the command again for the others"))
            }
        }
    }
}

/// Shows how far a long search is.
struct Progress {
    line: Option<StatusLine>,
    last: Instant,
}

impl Progress {
    fn new() -> Self {
        Self { line: StatusLine::on_terminal(), last: Instant::now() }
    }

    fn show(&mut self, report: &Report) {
        let text = format!("{} names read, {} of them unused", report.seen, report.unused);
        match &self.line {
            Some(line) => line.draw(&text),
            None if self.last.elapsed() >= REPORTS => {
                console::report(&text);
                self.last = Instant::now();
            }
            None => {}
        }
    }
}
