//! A parsed file of jobs, or a folder of such files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read},
    num::NonZeroUsize,
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    entry::{self, JobEntry, Zones},
    mistakes::Mistakes,
    table::{Table, kind},
    text::Text,
};
use crate::fault::Fault;

/// Maximum size of a file, in bytes.
const LONGEST: u64 = 32 << 20;
/// Maximum size of the pool. The pool is limited because each run needs two processes, a keeper and a command.
const LARGEST_POOL: usize = 10_000;

/// The jobs of a file or of a folder, without mistakes.
#[derive(Debug)]
pub(super) struct JobFile {
    /// Maximum number of simultaneous runs. None means 1.
    pool: Option<NonZeroUsize>,
    pub(super) jobs: Vec<JobEntry>,
}

impl JobFile {
    /// Reads a file, or all files of a folder whose names end in `.toml` and do not begin with a dot, in the order of their
    /// names. The error contains all mistakes of a file.
    pub(super) fn read(path: &Path) -> Result<Self, Fault> {
        if !path.is_dir() {
            return Self::read_file(path);
        }
        let mut all = Self { pool: None, jobs: Vec::new() };
        let mut places: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut pool_of: Option<PathBuf> = None;
        for path in files(path)? {
            let Self { pool, jobs } = Self::read_file(&path)?;
            if pool.is_some()
                && let Some(first) = pool_of.replace(path.clone())
            {
                let message = format!("{} has a [pool], and so has {}; keep one", path.display(), first.display());
                return Err(Fault::usage(message));
            }
            for job in &jobs {
                if let Some(first) = places.insert(job.name.clone(), path.clone()) {
                    let (name, path, first) = (&job.name, path.display(), first.display());
                    return Err(Fault::usage(format!("{path} has the job {name:?}, and so has {first}; rename one")));
                }
            }
            all.pool = all.pool.or(pool);
            all.jobs.extend(jobs);
        }
        Ok(all)
    }

    /// The names of the jobs that this file has and the other one does not have, that both have with different values, and
    /// that only the other one has.
    pub(super) fn changes<'a>(&'a self, before: &'a Self) -> [Vec<&'a str>; 3] {
        let old: BTreeMap<&str, &JobEntry> = before.jobs.iter().map(|job| (job.name.as_str(), job)).collect();
        let new: BTreeSet<&str> = self.jobs.iter().map(|job| job.name.as_str()).collect();
        let is_changed = |job: &&JobEntry| old.get(job.name.as_str()).is_some_and(|old| *old != *job);
        let name = |job: &'a JobEntry| job.name.as_str();
        [
            self.jobs.iter().map(name).filter(|name| !old.contains_key(name)).collect(),
            self.jobs.iter().filter(is_changed).map(name).collect(),
            before.jobs.iter().map(name).filter(|name| !new.contains(name)).collect(),
        ]
    }

    /// Maximum number of simultaneous runs.
    pub(super) fn pool(&self) -> NonZeroUsize {
        self.pool.unwrap_or(NonZeroUsize::MIN)
    }

    fn read_file(path: &Path) -> Result<Self, Fault> {
        let name = path.display().to_string();
        let cannot = |why: &dyn std::fmt::Display| Fault::usage(format!("cannot read {name}: {why}"));
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(|error| match fs::read_link(path) {
            Ok(target) => cannot(&format!("it is a symbolic link to {}: {error}", target.display())),
            Err(_) => cannot(&error),
        })?;
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
        let root = Table::new("the file", document.get_ref(), &["job", "pool", "zones", "defaults"], &mistakes);
        let (pool, zones, defaults) = (pool(root), zones(root), defaults(root));
        let tables = jobs(root, text);
        let jobs: Vec<_> = tables
            .iter()
            .filter_map(|(span, table)| entry::read(span.clone(), table, defaults, text, &mistakes, zones))
            .collect();
        entry::report_duplicates(&tables, text, &mistakes);
        let list = document.get_ref().get("job").map(Spanned::get_ref);
        if list.is_none_or(|list| list.as_array().is_some_and(|list| list.is_empty())) {
            mistakes.add(0..0, "the file has no [[job]]");
        }
        let starts: Vec<_> = tables
            .iter()
            .map(|(span, _)| span.start)
            .chain(["pool", "zones", "defaults"].into_iter().filter_map(|key| Some(root.get(key)?.0.start)))
            .collect();
        mistakes.into_result(name, text, starts)?;
        Ok(Self { pool, jobs })
    }
}

/// The files of a folder whose names end in `.toml`, sorted. Hidden files are left out: editors write such files.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let cannot = |error: io::Error| Fault::usage(format!("cannot read the folder {}: {error}", folder.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."));
        if !is_hidden && path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(Fault::usage(format!("the folder {} has no file whose name ends in .toml", folder.display())));
    }
    Ok(found)
}

/// The error for a file that is not UTF-8.
fn no_text(name: &str, error: &std::string::FromUtf8Error) -> Fault {
    let good = error.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(error.as_bytes());
    let mistakes = Mistakes::default();
    mistakes.syntax(good..good + 1, "this is not UTF-8, which TOML requires");
    // There is a mistake, so `into_result` returns an error.
    mistakes.into_result(name, &Text::new(&text), Vec::new()).err().unwrap_or_else(|| Fault::usage(name))
}

/// Reads the maximum number of simultaneous runs. None if the file does not set it.
fn pool(root: Table<'_>) -> Option<NonZeroUsize> {
    let (_, value) = root.get("pool")?;
    let DeValue::Table(entries) = value.get_ref() else {
        return root.reject(value, format!("pool is {}; write a table [pool] with size", kind(value.get_ref())));
    };
    let table = Table::new("[pool]", entries, &["size"], root.mistakes());
    let (_, size) = table.get("size")?;
    let number = match size.get_ref() {
        DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    match number.and_then(NonZeroUsize::new) {
        Some(number) if number.get() <= LARGEST_POOL => Some(number),
        _ => table.reject(size, format!("size takes a number from 1 to {LARGEST_POOL}")),
    }
}

/// The table of the rules of time zones.
fn zones(root: Table<'_>) -> Zones {
    match root.text("zones") {
        None | Some(("built-in", _)) => Zones::BuiltIn,
        Some(("system", _)) => Zones::System,
        Some((_, value)) => root.reject(value, "zones is \"built-in\" or \"system\"").unwrap_or_default(),
    }
}

/// The table with the defaults of all jobs.
fn defaults<'a>(root: Table<'a>) -> Option<&'a DeTable<'a>> {
    let (_, value) = root.get("defaults")?;
    let DeValue::Table(entries) = value.get_ref() else {
        let what = format!("defaults is {}; write a table [defaults] with keys of jobs", kind(value.get_ref()));
        return root.reject(value, what);
    };
    Table::new("[defaults]", entries, &entry::DEFAULTS, root.mistakes());
    Some(entries)
}

/// The tables of jobs, with the positions of their headers.
fn jobs<'a>(root: Table<'a>, text: &Text<'_>) -> Vec<(Range<usize>, &'a DeTable<'a>)> {
    let Some((_, value)) = root.get("job") else { return Vec::new() };
    let DeValue::Array(list) = value.get_ref() else {
        let what = "write two brackets, [[job]], because there may be many jobs";
        return root.reject(value, what).unwrap_or_default();
    };
    let table = |job: &'a Spanned<DeValue<'a>>| match job.get_ref() {
        DeValue::Table(table) => Some((header(job.span(), text), table)),
        other => root.reject(job, format!("a job is a table, and this is {}", kind(other))),
    };
    list.iter().filter_map(table).collect()
}

/// The position of the first line of a table. `span` is the position of the whole table.
fn header(span: Range<usize>, text: &Text<'_>) -> Range<usize> {
    let end = text.as_str().get(span.clone()).and_then(|table| table.find('\n')).map_or(span.end, |at| span.start + at);
    span.start..end
}

#[cfg(test)]
mod tests;
