//! What the command says on standard error: its own messages and the library's warnings, in one style.

mod events;
mod queue;

use std::{
    cmp::Reverse,
    env,
    ffi::OsString,
    io::{IsTerminal, Write, stderr},
    sync::LazyLock,
};

use rustix::termios::tcgetwinsize;

use self::queue::Note;

pub(crate) use self::{events::listen, queue::flush};

/// Prints a message of one or more lines; standard output is for what was asked for.
pub(crate) fn say(message: &str) {
    queue::flush();
    let lines: Vec<_> = message.split('\n').map(told).collect();
    print(&format!("bandog: {}\n", lines.join("\n")));
}

/// Prints a message without waiting for a terminal that stands still.
pub(crate) fn post(message: &str) {
    queue::post(Note::Message(told(message)));
}

/// A standard error that is closed can be told nothing, and the work goes on all the same.
fn print(text: &str) {
    let mut out = stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A message that stands in the terminal's last line while it is true; dropping it clears the line.
#[derive(Debug)]
pub(crate) struct Line(());

impl Line {
    /// None where a line cannot be redrawn.
    pub(crate) fn on_terminal() -> Option<Self> {
        let is_simple = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        (stderr().is_terminal() && !is_simple).then_some(Self(()))
    }

    /// Shows this message instead of the one before, as much of it as there is room for.
    pub(crate) fn draw(&self, message: &str) {
        let text = fitting(&format!("bandog: {}", told(message)), columns().saturating_sub(1));
        queue::post(Note::Line(Some(text)));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        queue::post(Note::Line(None));
        queue::flush();
    }
}

/// The terminal's width, or the usual one if it does not tell.
fn columns() -> usize {
    let told = tcgetwinsize(stderr()).map_or(0, |size| size.ws_col);
    if told == 0 { 80 } else { told.into() }
}

/// The beginning of the text that is no wider than this; what is not ASCII may take two columns.
fn fitting(text: &str, columns: usize) -> String {
    let mut left = columns;
    let fits = |c: &char| {
        let width = if c.is_ascii() { 1 } else { 2 };
        let fits = left >= width;
        left = left.saturating_sub(width);
        fits
    };
    text.chars().take_while(fits).collect()
}

/// A text as a terminal may see it: others may have put characters there that steer it or turn its direction.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(written).collect()
}

/// As [`shown`], with the ends of lines as they are.
pub(crate) fn shown_lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c.to_string() } else { written(c) }).collect()
}

/// A character as it is, or how Rust writes it in a text.
fn written(c: char) -> String {
    if is_plain(c) { c.to_string() } else { c.escape_debug().to_string() }
}

/// Whether a character steers nothing and stands in a place of its own.
pub(crate) fn is_plain(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1
}

/// A message as standard error may have it.
fn told(message: &str) -> String {
    static SECRETS: LazyLock<Vec<Secret>> = LazyLock::new(|| secrets(env::args_os()));
    shown(&without(message, &SECRETS))
}

/// What a word of the command line may not be repeated as, and what stands for it.
type Secret = (String, String);

/// Whoever repeats a word may repeat a URL that stands in the wrong place, as it is or in quotes.
fn secrets(words: impl Iterator<Item = OsString>) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for word in words {
        let word = word.to_string_lossy();
        let values = word.match_indices('=').map(|(at, _)| &word[at + 1..]);
        for url in values.chain([&*word]).filter(|word| may_be_a_url(word)) {
            let shown = bandog::redact(url);
            secrets.push((quoted(url), quoted(&shown)));
            secrets.push((url.to_owned(), shown));
        }
    }
    secrets.retain(|(url, shown)| url != shown);
    secrets.sort_by_key(|(url, _)| Reverse(url.len())); // One may be a part of another.
    secrets
}

fn without(message: &str, secrets: &[Secret]) -> String {
    secrets.iter().fold(message.to_owned(), |message, (url, shown)| message.replace(url, shown))
}

/// As a debug print has it, but for the marks.
fn quoted(text: &str) -> String {
    let quoted = format!("{text:?}");
    quoted[1..quoted.len() - 1].to_owned()
}

/// Names may have an `@` too, so a scheme decides, as far as it was written.
fn may_be_a_url(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["redis:", "rediss:", "redis+unix:", "valkey:", "valkeys:", "valkey+unix:"]
        .iter()
        .any(|scheme| word.contains(scheme))
        || (word.contains("://") && word.contains('@'))
}

#[cfg(test)]
mod tests;
