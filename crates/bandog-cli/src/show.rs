//! `bandog show`: the holder of one lock.

use bandog::{Key, Row};

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::Format,
    row, runtime,
    store::{self, Store},
};

/// Shows the holder of a lock, and the clients that wait for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: name, held, owner, fence (the first fence of the present grant: the holder's own, unless the \
holder's program passed the lock on from one task to another), fence_to (the last fence of the grant; both are null \
when the lock is free or the holder is no bandog client), ttl_ms (null when the lock is free or never expires), holder \
(null if the holder is not registered in the store; else host, pid, program, and since: the start of the client), \
waiters (the clients that are known to wait, like holder), store.

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
