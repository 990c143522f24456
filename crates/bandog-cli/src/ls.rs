//! `bandog ls`: the locks that are held, and the latches that are not open.

use bandog::Pattern;

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::Format,
    row, runtime,
    store::{self, Store},
};

/// Lists the locks that are held now, and the latches that are not open, sorted by name.
///
/// On Redis, a latch is listed if bandog has set it or counted it down in the last 30 days.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json, one object per line:
  name
  kind      mutex, fair, read-write, semaphore or latch; null if the kind is unknown
  held      whether a client holds the lock
  owner     the owner's id in the store
  fence     the first fence of the present grant: the holder's own, unless its program passed the lock on
            from one task to another; null if the lock is free or the holder is no bandog client
  fence_to  the last fence of the grant; null as fence is
  ttl_ms    the remaining time; null if the lock never expires
  holder    host, pid, program and since (the start of the client); null if it is not registered in the store
  holders   all holders: owner, fence, ttl_ms and holder of each, with mode (read or write) or permits
  limit     of a semaphore: its number of permits
  count     of a latch
  waiters   like holder, with reason (why it waits): first the places of the lock's queue in their order, each
            with its owner and ahead (the number of places before it), then other clients that wait
  store

Exit codes: 0 also if no lock is held; 64 wrong URL; 69 the store does not answer or does not exist; 77 the store \
refuses the request, or its file is damaged.

Examples:
  bandog ls
  bandog ls 'order-*' --json | jq -r .name")]
pub(crate) struct Args {
    /// A pattern of names: * matches any text, ? matches one character, and \ escapes the next character.
    #[arg(default_value = "*", hide_default_value = true)]
    pattern: String,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Prints the locks and latches. Changes nothing.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    let rows = runtime::block_on(async {
        let Some(client) = store.connect_existing().await? else { return Ok(None) };
        let pattern = Pattern::new(&args.pattern);
        let locks = client.list(pattern.clone()).await.map_err(|error| store.fault(&error))?;
        let latches = client.list_latches(pattern).await.map_err(|error| store.fault(&error))?;
        Ok(Some((locks, latches)))
    })?;
    match rows {
        Some((locks, latches)) => {
            let none = if args.pattern == "*" { "no lock is held" } else { "no held lock or latch matches" };
            row::print(&locks, &latches, none, args.format, &store)
        }
        None => row::print_unused(&[], args.format, &store),
    }
}
