//! A file of jobs, as its readers and the scheduler need it.

use std::{fs, io::Read, num::NonZeroUsize, ops::Range, path::Path};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    entry::{self, Entry},
    mistakes::Mistakes,
    table::{Table, kind},
    text::Text,
};
use crate::fault::Fault;

/// The longest file, in bytes.
const LONGEST: u64 = 32 << 20;
/// The largest pool: each run has a keeper and a command, which are processes.
const LARGEST_POOL: usize = 10_000;

/// A file without mistakes.
#[derive(Debug)]
pub(super) struct JobFile {
    pub(super) pool: NonZeroUsize,
    pub(super) jobs: Vec<Entry>,
}

impl JobFile {
    /// Reads a file. All that is wrong with it is told at once.
    pub(super) fn read(path: &Path) -> Result<Self, Fault> {
        let name = path.display().to_string();
        let cannot = |why: &dyn std::fmt::Display| Fault::usage(format!("cannot read {name}: {why}"));
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(|error| cannot(&error))?;
        file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
        if bytes.len() as u64 > LONGEST {
            return Err(cannot(&format!("it is longer than {} MiB", LONGEST >> 20)));
        }
        let text = String::from_utf8(bytes).map_err(|error| no_text(&name, &error))?;
        Self::parse(&name, &Text::new(&text))
    }

    fn parse(name: &str, text: &Text<'_>) -> Result<Self, Fault> {
        let mistakes = Mistakes::default();
        let (document, errors) = DeTable::parse_recoverable(text.as_str());
        for error in errors {
            mistakes.syntax(error.span().unwrap_or(0..0), error.message());
        }
        let root = Table::new("the file", document.get_ref(), &["job", "pool"], &mistakes);
        let pool = pool(root);
        let tables = jobs(root, text);
        let jobs: Vec<_> =
            tables.iter().filter_map(|(span, table)| entry::read(span.clone(), table, text, &mistakes)).collect();
        entry::tell_doubles(&tables, text, &mistakes);
        let said = document.get_ref().get("job").map(Spanned::get_ref);
        if said.is_none_or(|said| said.as_array().is_some_and(|list| list.is_empty())) {
            mistakes.add(0..0, "there is no [[job]] in it");
        }
        let starts: Vec<_> =
            tables.iter().map(|(span, _)| span.start).chain(root.get("pool").map(|(key, _)| key.start)).collect();
        mistakes.none_of(name, text, starts)?;
        Ok(Self { pool, jobs })
    }
}

fn no_text(name: &str, error: &std::string::FromUtf8Error) -> Fault {
    let good = error.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(error.as_bytes());
    let mistakes = Mistakes::default();
    mistakes.syntax(good..good + 1, "this is no UTF-8; TOML files are written in it");
    // There is one mistake, so it is told.
    mistakes.none_of(name, &Text::new(&text), Vec::new()).err().unwrap_or_else(|| Fault::usage(name))
}

/// How many runs at a time; 1 if the file does not say.
fn pool(root: Table<'_>) -> NonZeroUsize {
    let read = || {
        let (_, value) = root.get("pool")?;
        let DeValue::Table(entries) = value.get_ref() else {
            return root.no(value, format!("pool is {}; write a table [pool] with size", kind(value.get_ref())));
        };
        let table = Table::new("[pool]", entries, &["size"], root.mistakes());
        let (_, size) = table.get("size")?;
        let number = match size.get_ref() {
            DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        match number.and_then(NonZeroUsize::new) {
            Some(number) if number.get() <= LARGEST_POOL => Some(number),
            _ => table.no(size, format!("size takes a number from 1 to {LARGEST_POOL}")),
        }
    };
    read().unwrap_or(NonZeroUsize::MIN)
}

/// The tables of jobs, and where their headers stand.
fn jobs<'a>(root: Table<'a>, text: &Text<'_>) -> Vec<(Range<usize>, &'a DeTable<'a>)> {
    let Some((_, value)) = root.get("job") else { return Vec::new() };
    let DeValue::Array(list) = value.get_ref() else {
        let what = "job is written with two brackets: [[job]], since there may be many";
        return root.no(value, what).unwrap_or_default();
    };
    let table = |job: &'a Spanned<DeValue<'a>>| match job.get_ref() {
        DeValue::Table(table) => Some((header(job.span(), text), table)),
        other => root.no(job, format!("a job is a table, and this is {}", kind(other))),
    };
    list.iter().filter_map(table).collect()
}

/// The first line of a table.
fn header(span: Range<usize>, text: &Text<'_>) -> Range<usize> {
    let end = text.as_str().get(span.clone()).and_then(|table| table.find('\n')).map_or(span.end, |at| span.start + at);
    span.start..end
}

#[cfg(test)]
mod tests;
