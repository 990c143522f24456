//! `bandog release`: takes a lock from its holder.

use bandog::{ErrorKind, Key, LatchRow, Row};

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::Format,
    row, runtime,
    show::closed_latch,
    store::{self, Store},
};

/// Takes a lock from its holders.
///
/// Only its holder can release a lock. This command takes the lock away by force, from a holder that hangs or that no
/// longer exists. A waiter gets the lock immediately. A lock with several
/// holders (readers, or the permits of a semaphore) is taken from all of them. The former holder notices at its next renewal, after a third of
/// its ttl. Until then both clients believe that they hold the lock, and only the fence, which is greater for each
/// later holder, distinguishes them. If the former holder is `bandog lock`, it then terminates its command and exits
/// with 76.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: freed, and the fields of `bandog show --json` before the change.

Exit codes: 0 the lock was taken from its holder; 75 the lock was free, or the name is that of a latch; 64 wrong name \
or URL, or no --force; 69 the store does not answer or does not exist; 77 the store refuses the request, or the name \
is no lock.

Examples:
  bandog show deploy && bandog release deploy --force
  bandog release deploy --force --json | jq .holder")]
pub(crate) struct Args {
    /// The lock's name; write a name that begins with `-` after `--`.
    name: String,
    /// Take the lock although its holder has not released it.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Takes the lock from its holder, and prints this holder.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, force, store, format } = args;
    let store = Store::of(store)?;
    let key = Key::new(name).map_err(|error| store.fault(&error))?;
    if !force {
        return Err(needs_force(name));
    }
    let taken = runtime::block_on(async {
        let Some(client) = store.connect_existing().await? else { return Ok(None) };
        let taken = client.evict(key.as_str()).await;
        let may_be_latch = match &taken {
            Ok(taken) => taken.is_none(),
            Err(error) => error.kind() == ErrorKind::Denied,
        };
        if may_be_latch && let Some(latch) = closed_latch(&client, name, &client.show(name).await).await {
            return Err(is_latch(&latch, &store));
        }
        taken.map_err(|error| store.fault(&error))
    })?;
    if let Some(row) = taken {
        return row::print_taken(&row, *format, &store);
    }
    if format.json {
        row::print_not_taken(&Row::free(&key), &store)?;
    }
    Err(Fault::new(ExitCode::Busy, format!("{name:?} in {} is free", store.redacted())))
}

/// The error for the name of a latch that is not open.
fn is_latch(LatchRow { name, count }: &LatchRow, store: &Store) -> Fault {
    Fault::new(
        ExitCode::Busy,
        format!(
            "{name:?} in {} is a latch, and its count is {count}; a latch has no holder\n  `bandog latch {name} delete` \
             deletes it, which opens it",
            store.redacted()
        ),
    )
}

/// The error for a command line without --force.
fn needs_force(name: &str) -> Fault {
    Fault::usage(format!(
        "only its holder can release {name:?}\n  --force takes the lock away: the holder \
         notices at its next renewal, after a third of its ttl; until then this holder and the next one both believe \
         that they hold the lock, and only the fence distinguishes them"
    ))
}
