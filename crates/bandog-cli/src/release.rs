//! `bandog release`: take a lock from its holder.

use bandog::{Key, Row};

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::Format,
    row, runtime,
    store::{self, Store},
};

/// Takes a lock from whoever holds it.
///
/// A lock ends with its holder, and nobody else can release it: this takes it away by force, for a holder that hangs
/// or that no longer exists. Whoever waits for the lock gets it at once. The holder learns of it at its next renewal,
/// after a third of its ttl; until then both believe to hold the lock, and only the fence tells them apart, which is
/// greater for every later holder. A running `bandog lock` then ends its command with 76.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: freed, and those of `bandog show --json`, as they were before.

Exit codes: 0 it was taken from its holder; 75 nobody held it; 64 wrong name or URL, or no --force; 69 the store does
not answer or is not there; 77 it refuses, or the name is no lock.

Examples:
  bandog show deploy && bandog release deploy --force
  bandog release deploy --force --json | jq .holder")]
pub(crate) struct Args {
    /// The lock's name; one that begins with `-` goes behind `--`.
    name: String,
    /// Take it although its holder has not given it back.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Frees the lock, and tells who held it.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, force, store, format } = args;
    let store = Store::of(store)?;
    let key = Key::new(name).map_err(|error| store.fault(&error))?;
    if !force {
        return Err(needs_force(name));
    }
    let taken = runtime::block_on(async {
        let Some(client) = store.look().await? else { return Ok(None) };
        client.evict(key.as_str()).await.map_err(|error| store.fault(&error))
    })?;
    if let Some(row) = taken {
        return row::print_taken(&row, *format, &store.shown());
    }
    if format.json {
        row::print_not_taken(&Row::free(&key), &store.shown())?;
    }
    Err(Fault::new(ExitCode::Busy, format!("nobody held {name:?} in {}", store.shown())))
}

fn needs_force(name: &str) -> Fault {
    Fault::usage(format!(
        "only its holder can release {name:?}, and does when its work ends\n  --force takes the lock away: the holder \
         learns of it at its next renewal, after a third of its ttl; until then both it and the next one believe to hold \
         the lock, and only the fence tells them apart"
    ))
}
