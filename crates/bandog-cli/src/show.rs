//! `bandog show`: who holds one lock.

use bandog::Key;

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    row::{self, Format},
    runtime,
    store::{self, Store},
};

/// Shows who holds a lock, if anybody does.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: name, held, owner, fence (the last one that the holder reserved; null when the holder is no bandog \
client), ttl_ms (null when the lock is free or never ends by itself), store.

Examples:
  bandog show deploy
  bandog show deploy --json | jq -e .held")]
pub(crate) struct Args {
    /// The lock's name.
    name: String,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Looks, and changes nothing.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    Key::new(&args.name).map_err(|error| store.fault(&error))?;
    let row = runtime::block_on(async {
        let client = store.connect().await?;
        client.show(&args.name).await.map_err(|error| store.fault(&error))
    })?;
    let rows = [row];
    row::print(&rows, args.format, &store.shown())
}
