//! `bandog show`: the holders of one lock.

use bandog::{
    Client, ErrorKind, Key,
    admin::{LatchRow, Row},
};

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::Format,
    row, runtime,
    store::{self, Store},
};

/// Shows the holders of a lock, the clients that wait for it, and why they wait. Also shows the count of a latch.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json:
  name
  kind      mutex, fair, read-write, semaphore or latch; null if the lock is free or the kind is unknown
  held      whether a client holds the lock
  owner     the owner's id in the store
  fence     the first fence of the present grant: the holder's own, unless its program passed the lock on
            from one task to another; null if the lock is free or the holder is no bandog client
  fence_to  the last fence of the grant; null as fence is
  ttl_ms    the remaining time; null if the lock is free or never expires
  holder    host, pid, program and since (the start of the client); null if it is not registered in the store
  holders   all holders: owner, fence, ttl_ms and holder of each, with mode (read or write) or permits
  limit     of a semaphore: its number of permits
  count     of a latch that is not open
  waiters   like holder, with reason (why it waits): first the places of the lock's queue in their order, each
            with its owner and ahead (the number of places before it), then other clients that wait
  store

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

/// The lock or the latch of this name in the store.
enum Shown {
    Lock(Row),
    /// A latch that is not open.
    Latch(LatchRow),
}

/// Prints the lock. Changes nothing.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    let key = Key::new(&args.name).map_err(|error| store.fault(&error))?;
    let row = runtime::block_on(async {
        let Some(client) = store.connect_existing().await? else { return Ok(None) };
        let row = client.show(&args.name).await;
        match closed_latch(&client, &args.name, &row).await {
            Some(latch) => Ok(Some(Shown::Latch(latch))),
            None => row.map(|row| Some(Shown::Lock(row))).map_err(|error| {
                let fault = store.fault(&error);
                match error.kind() == ErrorKind::Denied && client.structures().is_some() {
                    true => fault.with_line("`bandog ls --objects NAME` prints what it is, if it is an object"),
                    false => fault,
                }
            }),
        }
    })?;
    match row {
        Some(Shown::Latch(row)) => row::print_latch(&row, args.format, &store),
        Some(Shown::Lock(row)) => row::print_one(&row, args.format, &store),
        None => row::print_unused(&[Row::free(&key)], args.format, &store),
    }
}

/// The latch with this name, if it exists and is not open. `row`: the result of `Client::show` for the name.
pub(crate) async fn closed_latch(client: &Client, name: &str, row: &bandog::Result<Row>) -> Option<LatchRow> {
    // On Redis, a latch can be a key of another type than a lock, which `show` refuses. A free row with a kind is that of
    // a semaphore, whose number is not the count of a latch.
    let is_no_lock = match row {
        Ok(row) => !row.is_held() && row.kind.is_none(),
        Err(error) => error.kind() == ErrorKind::Denied,
    };
    if !is_no_lock {
        return None;
    }
    // If the count cannot be read, the name counts as the name of a lock.
    let count = client.latch(name).count().await.ok().filter(|count| *count > 0)?;
    Some(LatchRow { name: name.into(), count })
}
