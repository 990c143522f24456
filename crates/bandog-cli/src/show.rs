//! `bandog show`: the holders of one lock, or the object with a name.

use bandog::{
    Client, ErrorKind, Key,
    admin::{LatchRow, ObjectRow, ObjectState, Row, Structure},
};
use bandog_page::LockJson;
use serde::Serialize;

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    object::{self, Object},
    print::{self, Format},
    row, runtime,
    store::{self, Store},
};

/// Shows the holders of a lock, the clients that wait for it, and why they wait. Also shows the count of a latch, and an
/// object of `bandog grid`: its type, size and ttl, and the command that reads it.
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
  objects   of this name: name, type, size, ttl_ms, store, and command (which reads it); of a list, a set or a sorted
            set also ready and taken (numbers of elements) and lease_ms (until the first lease expires); unsure, if
            the data may be something else

Exit codes: 0 printed, whether the lock is held or not; 64 wrong name or URL; 69 the store does not answer or does not \
exist; 77 the store refuses the request, or its file is damaged.

Examples:
  bandog show deploy
  bandog show deploy --json | jq -e .held
  bandog show -- -odd")]
pub(crate) struct Args {
    /// The name of the lock, latch or object; write a name that begins with `-` after `--`.
    name: String,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// What has this name in the store.
struct Shown {
    lock: LockOrLatch,
    objects: Vec<Object>,
}

enum LockOrLatch {
    Lock(Row),
    /// A latch that is not open.
    Latch(LatchRow),
}

/// A name in JSON. Scripts rely on the names of these fields.
#[derive(Debug, Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    lock: LockJson<'a>,
    objects: Vec<object::Json<'a>>,
}

/// Prints what has the name. Changes nothing.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    let key = Key::new(&args.name).map_err(|error| store.fault(&error))?;
    let shown = runtime::block_on_with_io(async {
        match store.connect_existing().await? {
            Some(client) => shown(&client, &key, &store).await.map(Some),
            None => Ok(None),
        }
    })?;
    match shown {
        None if !args.format.json => row::print_unused(args.format, &store),
        shown => {
            let none = || Shown { lock: LockOrLatch::Lock(Row::free(&key)), objects: Vec::new() };
            shown.unwrap_or_else(none).print(args.format, &store)
        }
    }
}

/// What has this name.
async fn shown(client: &Client, key: &Key, store: &Store) -> Result<Shown, Fault> {
    let row = client.show(key.as_str()).await;
    let found = match client.describe(key.as_str()).await {
        Ok(found) => found.unwrap_or_default(),
        // A user may have the rights for locks only.
        Err(error) if error.kind() == ErrorKind::Denied => Vec::new(),
        Err(error) => return Err(store.fault(&error)),
    };
    let has_ids = found.iter().any(|state| state.row.structure == Structure::Ids);
    let latch = if !has_ids { closed_latch(client, key.as_str(), &row).await } else { None };
    let object = |state: ObjectState| match role(&state.row, &row, latch.is_some(), store.is_setnx()) {
        Role::Lock => None,
        Role::Object => Some(Object { state, unsure: None }),
        Role::Unknown(unsure) => Some(Object { state, unsure: Some(unsure) }),
    };
    let objects: Vec<_> = found.into_iter().filter_map(object).collect();
    let is_foreign = |row: &Row| row.is_held() && row.kind.is_none();
    let lock = match (latch, row) {
        (Some(latch), _) => LockOrLatch::Latch(latch),
        // A hash that is no lock is an object.
        (None, Ok(row)) if is_foreign(&row) && !objects.is_empty() => LockOrLatch::Lock(Row::free(key)),
        (None, Ok(row)) => LockOrLatch::Lock(row),
        (None, Err(_)) if !objects.is_empty() => LockOrLatch::Lock(Row::free(key)),
        (None, Err(error)) => return Err(store.fault(&error)),
    };
    Ok(Shown { lock, objects })
}

/// What the data with the name is.
enum Role {
    /// It is that of the lock.
    Lock,
    Object,
    /// It is an object, or this.
    Unknown(&'static str),
}

/// What an object is, given the lock of the same name. On Redis, a lock is a hash or a string, too.
fn role(object: &ObjectRow, lock: &bandog::Result<Row>, may_be_latch: bool, is_setnx: bool) -> Role {
    let has_hash = matches!(object.structure, Structure::Map | Structure::Multimap(_));
    let has_string = object.structure == Structure::Value;
    match lock {
        Ok(row) if has_string && is_setnx && row.is_held() && row.fence().is_none() => {
            Role::Unknown("a lock, because each string is one with ?layout=setnx")
        }
        Ok(row) if row.kind.is_some() && (has_hash || has_string) => Role::Lock,
        // An offer of a free lock to waiting clients, or a lock that was just released.
        Ok(row) if !row.is_held() && (has_hash || has_string && is_setnx) => Role::Lock,
        _ if has_string && may_be_latch => Role::Unknown("a latch of another program, which is a number, too"),
        Ok(_) | Err(_) => Role::Object,
    }
}

impl Shown {
    fn print(&self, format: Format, store: &Store) -> Result<ExitCode, Fault> {
        let name = store.redacted();
        if format.json {
            let lock = match &self.lock {
                LockOrLatch::Lock(row) => LockJson::new(row, &name),
                LockOrLatch::Latch(row) => LockJson::latch(row, &name),
            };
            let objects = self.objects.iter().map(|object| object.json(&name)).collect();
            return print::done(print::json(&Json { lock, objects }));
        }
        let is_certain = self.objects.iter().any(|object| object.unsure.is_none());
        let lock = match &self.lock {
            LockOrLatch::Latch(row) => row::latch(row, store),
            LockOrLatch::Lock(row)
                if is_certain && !row.is_held() && row.kind.is_none() && row.waiting().count() == 0 =>
            {
                print::line(&format!("in {}", store.described()))
            }
            LockOrLatch::Lock(row) => row::one(row, store),
        };
        let objects = || if self.objects.is_empty() { Ok(()) } else { object::print(&self.objects) };
        print::done(lock.and_then(|()| objects()))
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
