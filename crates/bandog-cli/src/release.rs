//! `bandog release`: takes a lock from its holder, or releases one that `bandog acquire` has taken.

use bandog::{
    ErrorKind, Key, Token,
    admin::{LatchRow, Row},
};
use serde::Serialize;

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::{self, Format},
    row, runtime,
    show::closed_latch,
    store::{self, Store},
};

/// Releases a lock that `bandog acquire` has taken, or takes a lock from its holders.
///
/// With --token, the command frees the hold of this token and no other one. If the token does not hold the lock any more,
/// nothing is changed.
///
/// Any other lock can only be released by its holder. With --force, this command takes the lock away by force, from a holder that hangs or that no
/// longer exists. A waiter gets the lock immediately. A lock with several
/// holders (readers, or the permits of a semaphore) is taken from all of them. The former holder notices at its next renewal, after a third of
/// its ttl. Until then both clients believe that they hold the lock, and only the fence, which is greater for each
/// later holder, distinguishes them. If the former holder is `bandog lock`, it then terminates its command and exits
/// with 76.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: freed, and the fields of `bandog show --json` before the change; with --token freed, name and store.

Exit codes: 0 the lock was released, or taken from its holder; 75 the lock was free, the token does not hold it, or the \
name is that of a latch; 64 wrong name, token or URL, or neither --token nor --force; 69 the store does not answer or does not exist; 77 the store refuses the request, or the name \
is no lock.

Examples:
  bandog release deploy --token \"$TOKEN\"
  bandog show deploy && bandog release deploy --force
  bandog release deploy --force --json | jq .holder")]
pub(crate) struct Args {
    /// The lock's name; write a name that begins with `-` after `--`.
    name: String,
    /// Take the lock although its holder has not released it.
    #[arg(long)]
    force: bool,
    /// Release the lock that `bandog acquire` has taken with this token.
    #[arg(long, value_name = "TOKEN", conflicts_with = "force")]
    token: Option<Token>,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Takes the lock from its holder, and prints this holder.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, force, token, store, format } = args;
    let store = Store::of(store)?;
    let key = Key::new(name).map_err(|error| store.fault(&error))?;
    if let Some(token) = token {
        return release(name, token, *format, &store);
    }
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

/// The output of `--token` with `--json`.
#[derive(Debug, Serialize)]
struct Released<'a> {
    freed: bool,
    name: &'a str,
    store: String,
}

/// Releases the lock of a token.
fn release(name: &str, token: &Token, format: Format, store: &Store) -> Result<ExitCode, Fault> {
    let freed = runtime::block_on(async {
        let Some(client) = store.connect_existing().await? else { return Ok(false) };
        client.release_detached(name, token).await.map_err(|error| store.fault(&error))
    })?;
    if format.json {
        print::done(print::json(&Released { freed, name, store: store.redacted() }))?;
    }
    if freed { Ok(ExitCode::Done) } else { Err(not_held(name, store)) }
}

/// The error for a token that does not hold the lock.
pub(crate) fn not_held(name: &str, store: &Store) -> Fault {
    Fault::new(
        ExitCode::Busy,
        format!(
            "this token does not hold {name:?} in {}: its lease is over, it was released, or the token is that of another \
             lock\n  nothing is changed; `bandog show` prints the present holder",
            store.redacted()
        ),
    )
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
        "only its holder can release {name:?}\n  --token releases what `bandog acquire` has taken\n  --force takes the lock away: the holder \
         notices at its next renewal, after a third of its ttl; until then this holder and the next one both believe \
         that they hold the lock, and only the fence distinguishes them"
    ))
}
