//! Output on standard error, in one style: the messages of the command, the log of the library, and the status line of
//! a terminal.

mod events;
mod out;
mod queue;

use std::{
    cmp::Reverse,
    env,
    ffi::OsString,
    io::{IsTerminal, stderr},
    sync::LazyLock,
};

use rustix::termios::tcgetwinsize;

use self::{out::print, queue::Item};

pub(crate) use self::{
    events::install_subscriber,
    queue::{flush, start},
};

/// Prints a message of one or more lines on standard error.
pub(crate) fn report(message: &str) {
    queue::flush();
    print(&format!("bandog: {}\n", sanitized_lines(message)));
}

/// Queues a message, so that the caller does not wait if the terminal is blocked.
pub(crate) fn report_queued(message: &str) {
    queue::post(Item::Message(sanitized(message)));
}

/// As [`report_queued`], for a message of several lines.
pub(crate) fn report_lines_queued(message: &str) {
    queue::post(Item::Message(sanitized_lines(message)));
}

/// A message in the last line of the terminal. Dropping this value clears the line.
#[derive(Debug)]
pub(crate) struct StatusLine(());

impl StatusLine {
    /// None if standard error is not a terminal that can redraw a line.
    pub(crate) fn on_terminal() -> Option<Self> {
        let is_simple = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        (stderr().is_terminal() && !is_simple).then_some(Self(()))
    }

    /// Replaces the message. The new message is cut to the width of the terminal.
    pub(crate) fn draw(&self, message: &str) {
        let text = fitting(&format!("bandog: {}", sanitized(message)), columns().saturating_sub(1));
        queue::post(Item::StatusLine(Some(text)));
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        queue::post(Item::StatusLine(None));
        queue::flush();
    }
}

/// The width of the terminal, or 80 if it is unknown.
fn columns() -> usize {
    let width = tcgetwinsize(stderr()).map_or(0, |size| size.ws_col);
    if width == 0 { 80 } else { width.into() }
}

/// The longest beginning of the text that fits into the columns. A character that is not ASCII counts as two columns.
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

/// A text that is safe for a terminal: control characters and characters that change the text direction are escaped.
pub(crate) fn escaped(text: &str) -> String {
    text.chars().map(written).collect()
}

/// As [`escaped`], but line ends are kept.
pub(crate) fn escaped_lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c.to_string() } else { written(c) }).collect()
}

/// The character itself if it is safe for a terminal. Otherwise, the escape sequence of the character in Rust.
fn written(c: char) -> String {
    if is_plain(c) { c.to_string() } else { c.escape_debug().to_string() }
}

/// Whether a character is printable and does not change the text direction.
pub(crate) fn is_plain(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1
}

/// The message without the passwords of the command line, escaped for a terminal.
fn sanitized(message: &str) -> String {
    static SECRETS: LazyLock<Vec<Secret>> = LazyLock::new(|| secrets(env::args_os()));
    escaped(&redacted(message, &SECRETS))
}

/// As [`sanitized`], but line ends are kept.
fn sanitized_lines(message: &str) -> String {
    message.split('\n').map(sanitized).collect::<Vec<_>>().join("\n")
}

/// Two texts. The first is a URL of the command line that contains a password. The second replaces the URL in messages.
type Secret = (String, String);

/// The URLs that contain passwords, from all arguments. Each URL is in the result twice: as it is written, and in its
/// debug format. All arguments are searched, because an error message can repeat a URL that was given in the wrong
/// place.
fn secrets(words: impl Iterator<Item = OsString>) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for word in words {
        let word = word.to_string_lossy();
        let values = word.match_indices('=').map(|(at, _)| &word[at + 1..]);
        for url in values.chain([&*word]).filter(|word| may_be_a_url(word)) {
            let shown = bandog::admin::redact(url);
            secrets.push((quoted(url), quoted(&shown)));
            secrets.push((url.to_owned(), shown));
        }
    }
    secrets.retain(|(url, shown)| url != shown);
    secrets.sort_by_key(|(url, _)| Reverse(url.len())); // The longest first, because a URL can contain a shorter one.
    secrets
}

/// Replaces each secret in the message.
fn redacted(message: &str, secrets: &[Secret]) -> String {
    secrets.iter().fold(message.to_owned(), |message, (url, shown)| message.replace(url, shown))
}

/// The debug format of a text, without its quotation marks.
fn quoted(text: &str) -> String {
    let quoted = format!("{text:?}");
    quoted[1..quoted.len() - 1].to_owned()
}

/// Whether a word might contain a URL with a password. This is true in two cases: the word contains a known scheme,
/// such as `redis:`, or it contains both `://` and `@`. An `@` alone is not sufficient, because names of locks and jobs
/// can contain an `@` too.
fn may_be_a_url(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let schemes = ["redis:", "rediss:", "redis+unix:", "valkey:", "valkeys:", "valkey+unix:", "+sentinel:"];
    schemes.iter().any(|scheme| word.contains(scheme)) || (word.contains("://") && word.contains('@'))
}

#[cfg(test)]
mod tests;
