//! Prints objects, for programs and for people.

use std::io::{self, BufWriter, Write};

use bandog::admin::{Elements, ObjectRow, ObjectState, Structure, Values};
use bandog_page::ObjectJson;
use serde::Serialize;

use crate::{console::escaped, print, row};

/// An object of `bandog show`.
pub(crate) struct Object {
    pub(crate) state: ObjectState,
    /// Why the data may be something else, too.
    pub(crate) unsure: Option<&'static str>,
}

/// An object of `bandog show --json`. Scripts rely on the names of these fields.
#[derive(Debug, Serialize)]
pub(crate) struct Json<'a> {
    #[serde(flatten)]
    object: ObjectJson<'a>,
    ready: Option<u64>,
    taken: Option<u64>,
    lease_ms: Option<u64>,
    command: String,
    unsure: Option<&'static str>,
}

impl Object {
    pub(crate) fn json<'a>(&'a self, store: &'a str) -> Json<'a> {
        let ObjectState { row, elements } = &self.state;
        let lease = elements.and_then(|elements| elements.lease);
        Json {
            object: ObjectJson::new(row, store),
            ready: elements.map(|elements| elements.ready),
            taken: elements.map(|elements| elements.taken),
            lease_ms: lease.map(|lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
            command: self.command(),
            unsure: self.unsure,
        }
    }

    /// The command that reads the object.
    fn command(&self) -> String {
        let ObjectState { row: ObjectRow { key, structure, size, .. }, elements } = &self.state;
        let is_queue = elements.is_some_and(|elements| elements.taken > 0 || elements.ready > *size);
        let (object, verb) = match structure {
            Structure::Value | Structure::Ids => ("value", "get"),
            Structure::Map => ("map", "list"),
            Structure::TimedMap => ("map", "list --timed"),
            Structure::Set => ("set", "list"),
            Structure::List if is_queue => ("queue", "list"),
            Structure::List => ("list", "list"),
            Structure::Sorted => ("sorted", "list"),
            Structure::Multimap(Values::Set) => ("multimap", "keys"),
            Structure::Multimap(Values::List) => ("multimap", "keys --list"),
            Structure::Bits => ("bits", "count"),
            Structure::Bloom => ("bloom", "count"),
            Structure::Journal => ("journal", "list"),
            Structure::Cache => return format!("bandog ls --objects {}", word(key.as_str())),
        };
        format!("bandog grid {object} {} {verb}", word(key.as_str()))
    }

    /// Prints the lines below the table.
    fn details(&self) -> io::Result<()> {
        let name = escaped(self.state.row.key.as_str());
        if let Some(Elements { ready, taken, lease }) = self.state.elements {
            let lease = lease.map(|lease| format!("; the first lease expires in {}", row::remaining(lease)));
            let lease = lease.unwrap_or_default();
            print::line(&format!("{name}: {ready} elements can be taken, and {taken} are taken{lease}"))?;
        }
        if let Some(unsure) = self.unsure {
            print::line(&format!("{name}: the store does not say whether it is this: {unsure}"))?;
        }
        print::line(&format!("read it with: {}", escaped(&self.command())))
    }
}

/// Prints objects with the commands that read them.
pub(crate) fn print(objects: &[Object]) -> io::Result<()> {
    table(objects.iter().map(|object| &object.state.row))?;
    objects.iter().try_for_each(Object::details)
}

/// Prints a table with one line for each object.
pub(crate) fn table<'a>(objects: impl IntoIterator<Item = &'a ObjectRow>) -> io::Result<()> {
    let lines: Vec<_> = objects.into_iter().map(|object| (escaped(object.key.as_str()), object)).collect();
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max("NAME".len());
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{:width$}  {:13}  {:>10}  EXPIRES IN", "NAME", "TYPE", "SIZE")?;
    for (name, ObjectRow { structure, size, ttl, .. }) in lines {
        let ttl = ttl.map_or("never".to_owned(), row::remaining);
        writeln!(out, "{name:width$}  {:13}  {size:>10}  {ttl}", structure.name())?;
    }
    out.flush()
}

/// A name as a word of a shell.
fn word(name: &str) -> String {
    let is_plain = name.chars().all(|sign| sign.is_ascii_alphanumeric() || "_./:@%+,-".contains(sign));
    let word = if is_plain { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) };
    if name.starts_with('-') { format!("-- {word}") } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        let words = ["a:b", "a b", "it's", "{a}", "-x", "$(x)"].map(word);
        assert_eq!(words, ["a:b", "'a b'", r"'it'\''s'", "'{a}'", "-- -x", "'$(x)'"]);
    }
}
