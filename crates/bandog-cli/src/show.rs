//! `bandog show`: the holders of one lock.

use bandog::{Key, Row};

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::Format,
    row, runtime,
    store::{self, Store},
};

/// Shows the holders of a lock, and the clients that wait for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: name, kind (mutex, fair, read-write or semaphore; null if the lock is free or the kind is \
unknown), held, owner, fence (the first fence of the present grant: the holder's own, unless the holder's program \
passed the lock on from one task to another), fence_to (the last fence of the grant; both are null when the lock is \
free or the holder is no bandog client), ttl_ms (null when the lock is free or never expires), holder (null if the \
holder is not registered in the store; else host, pid, program, and since: the start of the client), holders (all \
holders: owner, fence, ttl_ms and holder of each, with mode, which is read or write, or with permits), limit (of a \
semaphore: its number of permits), waiters (like holder: the places of the lock's queue in their order, each with \
its owner, and then the other clients that are known to wait), store.

Exit codes: 0 printed, whether the lock is held or not; 64 wrong name or URL; 69 the store does not answer or does not \
exist; 77 the store refuses the request, or its file is damaged.

Examples:
  bandog show deploy
  bandog show deploy --json | jq -e .held
  bandog show -- -odd")]
pub(crate) struct Args {
    /// The lock's name; write a name that begins with `-` after `--`.
    name: String,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Prints the lock. Changes nothing.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    let key = Key::new(&args.name).map_err(|error| store.fault(&error))?;
    let row = runtime::block_on(async {
        let Some(client) = store.connect_existing().await? else { return Ok(None) };
        let row = client.show(&args.name).await.map_err(|error| store.fault(&error))?;
        Ok(Some(row))
    })?;
    match row {
        Some(row) => row::print_one(&row, args.format, &store.redacted()),
        None => row::print_unused(&[Row::free(&key)], args.format, &store.redacted()),
    }
}
