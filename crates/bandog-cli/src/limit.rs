//! `bandog limit`: changes the number of permits of a semaphore.

use std::num::NonZeroU32;

use bandog::Key;
use serde::Serialize;

use crate::{
    console,
    exit_code::ExitCode,
    fault::Fault,
    print::{self, Format},
    runtime,
    store::{self, Store},
};

/// Changes the number of permits that a semaphore has in the store: the number that `bandog lock` gives with --of, and
/// programs with `semaphore(name, number)`.
///
/// The first claim sets the number. Later claims must give the same number, or the number before the last change. So
/// change the number here first, and then the commands and programs one after another. If more permits are held than
/// the new number, no permits are granted until enough of them are released.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: name, limit, before (null for a new semaphore), store.

Exit codes: 0 changed; 64 wrong name, number or URL; 69 the store does not answer or does not exist; 77 the store \
refuses the request, or the name is in use as another kind of lock.

Examples:
  bandog limit gpu 8
  bandog lock gpu --permits 2 --of 8 -- ./train")]
pub(crate) struct Args {
    /// The name of the semaphore; write a name that begins with `-` after `--`.
    name: String,
    /// The new number of permits.
    #[arg(value_name = "N", allow_negative_numbers = true)]
    number: NonZeroU32,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// The result of the command.
#[derive(Debug, Serialize)]
struct Report<'a> {
    name: &'a str,
    limit: NonZeroU32,
    /// The number before the change. None if the semaphore is new.
    before: Option<u32>,
    store: String,
}

/// Changes the number. Wrong arguments are reported before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, number, format, .. } = args;
    let store = Store::of(&args.store)?;
    Key::new(name).map_err(|error| store.fault(&error))?;
    let changed = runtime::block_on(async {
        let Some(client) = store.connect_existing().await? else { return Ok(None) };
        let semaphore = client.semaphore(name, number.get());
        semaphore.set_limit(number.get()).await.map(Some).map_err(|error| store.fault(&error))
    })?;
    let Some(before) = changed else {
        let text = format!("{} was never used, so it has no semaphore {name:?}", store.redacted());
        return Err(Fault::new(ExitCode::Unavailable, text));
    };
    if format.json {
        print::done(print::json(&Report { name, limit: *number, before, store: store.redacted() }))?;
    } else {
        let before = before.map_or("the semaphore is new".to_owned(), |before| format!("before: {before}"));
        console::report(&format!("{name:?} in {} has {number} permits now ({before})", store.redacted()));
    }
    Ok(ExitCode::Done)
}
