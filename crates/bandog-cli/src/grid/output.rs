//! The results on standard output.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde_json::{Map, Value};

use super::codec::{Codec, Shown};
use crate::{
    console::{escaped, report},
    exit_code::ExitCode,
    print::Format,
};

/// Prints results, one on each line.
pub(super) struct Output {
    /// The object, for reports.
    name: String,
    codec: Codec,
    format: Format,
    out: BufWriter<Stdout>,
    /// The code of a command that ends now. It is `Busy` until there is a result.
    code: ExitCode,
}

impl Output {
    pub(super) fn new(name: &str, codec: Codec, format: Format) -> Self {
        Self { name: name.to_owned(), codec, format, out: BufWriter::new(io::stdout()), code: ExitCode::Busy }
    }

    /// The command has done something that has no result to print.
    pub(super) fn done(&mut self) {
        if self.code == ExitCode::Busy {
            self.code = ExitCode::Done;
        }
    }

    /// As [`Self::done`], if there was something to do.
    pub(super) fn done_if(&mut self, was_done: bool) {
        if was_done {
            self.done();
        }
    }

    /// Whether the codec could read all results.
    pub(super) fn has_read_all(&self) -> bool {
        self.code != ExitCode::Denied
    }

    /// Something is missing among the results.
    pub(super) fn missing(&mut self) {
        if self.code == ExitCode::Done {
            self.code = ExitCode::Busy;
        }
    }

    /// Prints the only result of a command, if there is one. A file or a pipe gets it as it is.
    pub(super) fn only(&mut self, value: Option<Vec<u8>>) -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        match self.codec.read(&value) {
            Ok(shown) if !self.format.json && !io::stdout().is_terminal() => {
                self.done();
                writeln!(self.out, "{}", shown.text)
            }
            shown => self.print("", None, ("value", shown)),
        }
    }

    /// Prints one of several elements.
    pub(super) fn element(&mut self, element: &[u8]) -> io::Result<()> {
        let shown = self.codec.read(element);
        self.print("", None, ("value", shown))
    }

    /// Prints one of several keys.
    pub(super) fn key(&mut self, key: &[u8]) -> io::Result<()> {
        let shown = self.codec.keys().read(key);
        self.print("", None, ("key", shown))
    }

    /// Prints an entry of a map.
    pub(super) fn entry(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match self.codec.keys().read(key) {
            Ok(key) => {
                let shown = self.codec.read(value);
                self.print(&format!("the value of the key {}: ", key.text), Some(("key", key)), ("value", shown))
            }
            Err(error) => self.print("a key: ", None, ("key", Err(error))),
        }
    }

    /// Prints a text. `name`: its name in JSON.
    pub(super) fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.print("", None, (name, Ok(Shown { text: text.to_owned(), json: text.into(), java_type: None })))
    }

    /// Prints an element after its label, such as its id. `name`: the name of the label in JSON.
    pub(super) fn labelled(&mut self, (name, label): (&str, &str), element: &[u8]) -> io::Result<()> {
        let shown = self.codec.read(element);
        let before = Shown { text: label.to_owned(), json: label.into(), java_type: None };
        self.print(&format!("{label}: "), Some((name, before)), ("value", shown))
    }

    /// Prints a group of a journal.
    pub(super) fn group(&mut self, name: &str, ready: u64, taken: u64) -> io::Result<()> {
        self.done();
        match self.format.json {
            true => writeln!(self.out, "{}", serde_json::json!({ "group": name, "ready": ready, "taken": taken })),
            false => writeln!(self.out, "{}\t{ready}\t{taken}", escaped(name)),
        }
    }

    /// Prints a member with its score.
    pub(super) fn scored(&mut self, member: &[u8], score: f64) -> io::Result<()> {
        let shown = self.codec.read(member);
        let json = serde_json::Number::from_f64(score).map_or_else(|| score.to_string().into(), Value::Number);
        let score = Shown { text: score.to_string(), json, java_type: None };
        self.print("a member: ", Some(("score", score)), ("value", shown))
    }

    /// Prints a number. `name`: its name in JSON.
    pub(super) fn number<N: ToString + Into<Value>>(&mut self, name: &str, number: N) -> io::Result<()> {
        let text = number.to_string();
        self.print("", None, (name, Ok(Shown { text, json: number.into(), java_type: None })))
    }

    /// Prints a line: what precedes a result, and the result, or the reason why the codec cannot read it. `place`: where it
    /// is, for the report.
    fn print(
        &mut self,
        place: &str,
        before: Option<(&str, Shown)>,
        (name, result): (&str, Result<Shown, String>),
    ) -> io::Result<()> {
        if let Err(error) = &result {
            self.out.flush()?;
            report(&format!("{:?}: {place}{error}", self.name));
            self.code = ExitCode::Denied;
        }
        self.done();
        if !self.format.json {
            let Ok(result) = result else { return Ok(()) };
            if let Some((_, before)) = before {
                write!(self.out, "{}\t", escaped(&before.text))?;
            }
            return writeln!(self.out, "{}", escaped(&result.text));
        }
        let mut object = Map::new();
        let mut add = |name: &str, Shown { json, java_type, .. }: Shown| {
            object.insert(name.to_owned(), json);
            if let Some(java_type) = java_type {
                let type_of = if name == "key" { "key_type" } else { "type" };
                object.insert(type_of.to_owned(), java_type.into());
            }
        };
        if let Some((name, before)) = before {
            add(name, before);
        }
        match result {
            Ok(result) => add(name, result),
            Err(error) => _ = object.insert("error".to_owned(), error.into()),
        }
        writeln!(self.out, "{}", Value::Object(object))
    }

    /// Prints what is not printed yet.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The exit code of the results.
    pub(super) fn end(mut self) -> io::Result<ExitCode> {
        self.flush()?;
        Ok(self.code)
    }
}
