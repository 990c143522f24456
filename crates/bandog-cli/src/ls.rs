//! `bandog ls`: the locks that are held, and the latches that are not open; or the objects of the store.

use bandog::{
    Pattern,
    admin::{Cursor, Structure},
};
use bandog_page::ObjectJson;

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    object,
    print::{self, Format},
    row, runtime,
    store::{self, Store},
};

/// The number of names that the store examines in one request for objects.
const EXAMINED: usize = 500;

/// Lists the locks that are held now, and the latches that are not open, sorted by name.
///
/// On Redis, a latch is listed if bandog has set it or counted it down in the last 30 days.
///
/// With --objects, lists the objects of `bandog grid` and of Redisson: their type, their size (of a value in bytes, or else
/// the number of elements) and the time until they expire. A counter, a bit set and a
/// semaphore are values, and a queue is a list.
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
With --objects: name, type, size, ttl_ms (null: no ttl), store

Exit codes: 0 also if no lock is held; 64 wrong URL; 69 the store does not answer or does not exist; 77 the store \
refuses the request, or its file is damaged.

Examples:
  bandog ls
  bandog ls 'order-*' --json | jq -r .name
  bandog ls --objects 'cache:*'")]
pub(crate) struct Args {
    /// A pattern of names: * matches any text, ? matches one character, and \ escapes the next character.
    #[arg(default_value = "*", hide_default_value = true)]
    pattern: String,
    /// List the objects of the store instead of its locks and latches.
    #[arg(long)]
    objects: bool,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Prints the locks and latches. Changes nothing.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    if args.objects {
        return objects(args, &store);
    }
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
        None => row::print_unused(args.format, &store),
    }
}

/// Prints the objects, sorted by name.
fn objects(args: &Args, store: &Store) -> Result<ExitCode, Fault> {
    let (client, pattern) = (store.object_client()?, Pattern::new(&args.pattern));
    let mut found = runtime::block_on_with_io(async {
        let (mut found, mut next) = (Vec::new(), Some(Cursor::default()));
        while let Some(from) = next {
            let page = client.objects(&pattern, &from, EXAMINED).await.map_err(|error| store.fault(&error))?;
            let Some((rows, after)) = page else {
                return Err(Fault::usage(format!("{} has no objects; Redis and memory have them", store.redacted())));
            };
            found.extend(rows);
            next = after;
        }
        Ok(found)
    })?;
    // A scan of Redis may return a key twice, and each page has a part of a cache.
    found.sort_by(|one, other| (&one.key, one.structure.name()).cmp(&(&other.key, other.structure.name())));
    found.dedup_by(|one, other| {
        let is_cache = (one.structure, other.structure) == (Structure::Cache, Structure::Cache);
        let is_same = one.key == other.key && (is_cache || one.structure != Structure::Cache);
        other.size += if is_same && is_cache { one.size } else { 0 };
        is_same
    });
    let text = || {
        print::line(&format!("in {}", store.described()))?;
        if found.is_empty() { print::line("there is no object") } else { object::table(&found) }
    };
    let json = || found.iter().try_for_each(|row| print::json(&ObjectJson::new(row, &store.redacted())));
    print::done(if args.format.json { json() } else { text() })
}
