//! Prints locks, for programs and for people.

use std::{
    io::{self, Write},
    slice,
    time::Duration,
};

use bandog::{
    admin::{Holder, LatchRow, Row},
    backend::Kind,
};
use bandog_page::LockJson;
use serde::Serialize;

use crate::{
    console::escaped,
    exit_code::ExitCode,
    fault::Fault,
    holder_text,
    print::{self, Format},
    store::Store,
};

/// The result of `bandog release --json`.
#[derive(Debug, Serialize)]
struct Taken<'a> {
    /// True if the command took the lock from its holder. False if the lock was free already.
    freed: bool,
    /// The lock as it was before the command.
    #[serde(flatten)]
    before: LockJson<'a>,
}

/// Prints locks and latches on standard output, sorted by name. `none`: the text if there are none.
pub(crate) fn print(
    locks: &[Row],
    latches: &[LatchRow],
    none: &str,
    format: Format,
    store: &Store,
) -> Result<ExitCode, Fault> {
    let objects = || LockJson::all(locks, latches, &store.redacted()).iter().try_for_each(print::json);
    let lines = || match locks.is_empty() && latches.is_empty() {
        true => writeln!(io::stdout().lock(), "in {}\n{none}", store.described()),
        false => table(locks, latches, store),
    };
    print::done(if format.json { objects() } else { lines() })
}

/// Prints one lock with all holders and waiters, for people.
pub(crate) fn one(row: &Row, store: &Store) -> io::Result<()> {
    table(slice::from_ref(row), &[], store).and_then(|()| all_clients(row))
}

/// Prints a count-down latch that is not open, for people.
pub(crate) fn latch(LatchRow { name, count }: &LatchRow, store: &Store) -> io::Result<()> {
    print::line(&format!("in {}\n{} is a latch, and its count is {count}", store.described(), escaped(name)))
}

/// Prints the result of `bandog release` if the command has taken the lock from its holder. `row` is the lock as it was
/// before the command.
pub(crate) fn print_taken(row: &Row, format: Format, store: &Store) -> Result<ExitCode, Fault> {
    let text = || {
        let holder = holder_text::holders(row).unwrap_or_else(|| "an unknown holder".into());
        writeln!(io::stdout().lock(), "took {:?} in {} from {holder}", row.name, store.redacted())
    };
    let object = || print::json(&Taken { freed: true, before: LockJson::new(row, &store.redacted()) });
    print::done(if format.json { object() } else { text() })
}

/// Prints the result of `bandog release --json` if the lock was free already.
pub(crate) fn print_not_taken(row: &Row, store: &Store) -> Result<ExitCode, Fault> {
    print::done(print::json(&Taken { freed: false, before: LockJson::new(row, &store.redacted()) }))
}

/// Prints the result of a query for people if the store does not exist yet. With `--json`, there is no object.
pub(crate) fn print_unused(format: Format, store: &Store) -> Result<ExitCode, Fault> {
    let text = || writeln!(io::stdout().lock(), "in {}\nno lock was ever taken here", store.described());
    print::done(if format.json { Ok(()) } else { text() })
}

/// Prints the name of the store, and a table with one line for each lock and each latch, sorted by name.
fn table(locks: &[Row], latches: &[LatchRow], store: &Store) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "in {}", store.described())?;
    let locks = locks.iter().map(|row| (&row.name, cells(row)));
    let mut lines: Vec<_> = locks.chain(latches.iter().map(|row| (&row.name, cells_of_latch(row)))).collect();
    lines.sort_by_key(|(name, _)| *name);
    let lines: Vec<[String; 6]> = lines.into_iter().map(|(_, cells)| cells).collect();
    let heads = ["NAME", "KIND", "FENCE", "EXPIRES IN", "WAITING", "HOLDER"];
    let widths: [usize; 6] = std::array::from_fn(|at| {
        let widest = lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        widest.max(heads[at].len())
    });
    for line in [heads.map(String::from)].iter().chain(&lines) {
        let [name, kind, fence, ttl, waiting, holder] = line;
        let [names, kinds, fences, ttls, waitings, _] = widths;
        writeln!(out, "{name:names$}  {kind:kinds$}  {fence:>fences$}  {ttl:ttls$}  {waiting:>waitings$}  {holder}")?;
    }
    out.flush()
}

/// Prints the holders of the lock if there are several, and the clients that are known to wait for the lock, in the
/// order of its queue.
fn all_clients(row: &Row) -> io::Result<()> {
    let holder = |holder: &Holder| holder_text::holder(holder).unwrap_or_else(|| "an unknown holder".into());
    let holders: Vec<_> = if row.holders.len() > 1 { row.holders.iter().map(holder).collect() } else { Vec::new() };
    let waiters: Vec<_> = row.waiting().map(|waiting| holder_text::waiter(row, waiting)).collect();
    let mut out = io::stdout().lock();
    for (title, clients) in [("holders:", holders), ("waiting:", waiters)] {
        if !clients.is_empty() {
            writeln!(out, "{title}")?;
        }
        clients.iter().try_for_each(|client| writeln!(out, "  {client}"))?;
    }
    out.flush()
}

/// The remaining time of a lock as text, such as `250ms`, `12.3s`, `2h 3m`.
pub(crate) fn remaining(ttl: Duration) -> String {
    match ttl.as_secs() {
        0 => format!("{}ms", ttl.as_millis()),
        1..=59 => format!("{:.1}s", ttl.as_secs_f64()),
        secs => humantime::format_duration(Duration::from_secs(secs)).to_string(),
    }
}

/// The fences of the present grant as text. A grant can have a range of fences, because a program can pass its lock on
/// from one task to another. `1790000000162392+63` is the range from 1790000000162392 to 1790000000162455, and the
/// holder has one of these fences.
fn fences(row: &Row) -> Option<String> {
    let Holder { fence, last_fence, .. } = row.holder()?;
    let first = fence.as_ref()?.get();
    Some(match last_fence.map_or(0, |last| last.get().saturating_sub(first)) {
        0 => first.to_string(),
        more => format!("{first}+{more}"),
    })
}

/// The kind of the lock as text. For a semaphore, the text contains the number of permits that are in use.
fn kind(row: &Row) -> Option<String> {
    let kinds = row.holders.iter().filter_map(|holder| holder.kind);
    let in_use: u64 = kinds.map(|kind| u64::from(kind.permits())).sum();
    row.kind.map(|kind| match kind {
        Kind::Permits { of, .. } => format!("{}, {in_use} of {of}", kind.name()),
        Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write => kind.name().into(),
    })
}

/// The cells of a lock's line in the table. The fence and the time are those of the first holder.
fn cells(row: &Row) -> [String; 6] {
    let dash = || "-".to_owned();
    let holder = holder_text::holders(row).unwrap_or_else(|| if row.is_held() { dash() } else { "free".into() });
    let fence = fences(row).unwrap_or_else(dash);
    let ttl = match row.holder() {
        Some(Holder { ttl: Some(ttl), .. }) => remaining(*ttl),
        Some(Holder { ttl: None, .. }) => "never".into(),
        None => dash(),
    };
    let waiting = match row.waiting().count() {
        0 => dash(),
        number => number.to_string(),
    };
    [escaped(&row.name), kind(row).unwrap_or_else(dash), fence, ttl, waiting, holder]
}

/// The cells of a latch's line in the table. A latch has no holder and no ttl, and its waiters are not in the store.
fn cells_of_latch(row: &LatchRow) -> [String; 6] {
    let dash = || "-".to_owned();
    [escaped(&row.name), format!("latch, count {}", row.count), dash(), dash(), dash(), dash()]
}
