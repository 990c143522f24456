//! Locks as the store sees them, for programs and for people.

use std::{
    io::{self, Write},
    time::Duration,
};

use bandog::Row;
use serde::Serialize;

use crate::{exit_code::ExitCode, fault::Fault, voice::shown};

/// How `show` and `ls` print.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Format {
    /// Print one JSON object a line, for programs.
    #[arg(long)]
    json: bool,
}

/// One lock in JSON. Scripts rely on these names.
#[derive(Debug, Serialize)]
struct Object<'a> {
    name: &'a str,
    held: bool,
    owner: Option<&'a str>,
    fence: Option<u64>,
    ttl_ms: Option<u64>,
    store: &'a str,
}

/// Prints locks on standard output.
pub(crate) fn print(rows: &[Row], format: Format, store: &str) -> Result<ExitCode, Fault> {
    printed(if format.json { json(rows, store) } else { table(rows, store) })
}

/// Prints what there is to say of a store that nobody has used yet: of these locks, that they are free.
pub(crate) fn print_unused(rows: &[Row], format: Format, store: &str) -> Result<ExitCode, Fault> {
    let say = || writeln!(io::stdout().lock(), "in {store}\nno lock was ever taken here");
    printed(if format.json { json(rows, store) } else { say() })
}

fn printed(result: io::Result<()>) -> Result<ExitCode, Fault> {
    match result {
        // A reader that has gone, as `head` does, has read enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Fault::system("cannot print", error)),
        Ok(()) | Err(_) => Ok(ExitCode::Done),
    }
}

/// Prints one object a line.
fn json(rows: &[Row], store: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for row in rows {
        let object = Object {
            name: &row.name,
            held: row.held,
            owner: row.owner.as_deref(),
            fence: row.fence.map(|fence| fence.get()),
            ttl_ms: row.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
            store,
        };
        serde_json::to_writer(&mut out, &object)?;
        writeln!(out)?;
    }
    out.flush()
}

/// Prints which store it is and a table.
fn table(rows: &[Row], store: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "in {store}")?;
    if rows.is_empty() {
        return writeln!(out, "no lock is held");
    }
    let lines: Vec<[String; 4]> = rows.iter().map(cells).collect();
    let heads = ["NAME", "OWNER", "FENCE", "ENDS IN"];
    let widths: [usize; 4] = std::array::from_fn(|at| {
        let widest = lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        widest.max(heads[at].len())
    });
    for line in [heads.map(String::from)].iter().chain(&lines) {
        let [name, owner, fence, ttl] = line;
        let [names, owners, fences, _] = widths;
        writeln!(out, "{name:names$}  {owner:owners$}  {fence:>fences$}  {ttl}")?;
    }
    out.flush()
}

/// A rest of time as people read it: `250ms`, `12.3s`, `2h 3m`.
fn rest(ttl: Duration) -> String {
    match ttl.as_secs() {
        0 => format!("{}ms", ttl.as_millis()),
        1..=59 => format!("{:.1}s", ttl.as_secs_f64()),
        secs => humantime::format_duration(Duration::from_secs(secs)).to_string(),
    }
}

fn cells(row: &Row) -> [String; 4] {
    let dash = || "-".to_owned();
    let owner = row.owner.as_deref().map_or_else(|| if row.held { dash() } else { "free".into() }, shown);
    let fence = row.fence.map_or_else(dash, |fence| fence.get().to_string());
    let ttl = match row.ttl {
        Some(ttl) => rest(ttl),
        None if row.held => "never".into(),
        None => dash(),
    };
    [shown(&row.name), owner, fence, ttl]
}
