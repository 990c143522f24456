//! Forwards the output of a command line by line, in the form that the user has chosen. Keeps the last bytes for the
//! history. If the reader of bandog's output is slow, the command waits.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use bandog_cron::Time;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::console::escaped;

/// The form of the lines that commands print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// The job's name in front of each line, as in `[report] done`
    #[default]
    Prefixed,
    /// The lines as the commands print them
    Plain,
    /// One JSON object for each line: time, job, tick, attempt, fence, stream (stdout or stderr) and line
    Json,
}

/// The form of the lines of one output of a command.
pub(crate) enum LineForm<'a> {
    /// This text is in front of each line.
    Prefixed(Vec<u8>),
    Json(LineJson<'a>),
}

/// A line of a command as JSON.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LineJson<'a> {
    /// When bandog has read the end of the line.
    time: String,
    pub(super) job: &'a str,
    pub(super) tick: String,
    pub(super) attempt: u32,
    pub(super) fence: u64,
    pub(super) stream: &'static str,
    line: String,
}

impl<'a> LineForm<'a> {
    pub(crate) fn prefixed(job: &str) -> Self {
        Self::Prefixed(format!("[{}] ", escaped(job)).into_bytes())
    }

    pub(crate) fn plain() -> Self {
        Self::Prefixed(Vec::new())
    }

    pub(crate) fn json(job: &'a str, tick: Time, attempt: u32, fence: u64, stream: &'static str) -> Self {
        let tick = tick.to_string();
        Self::Json(LineJson { time: String::new(), job, tick, attempt, fence, stream, line: String::new() })
    }

    /// Adds a line, which has no newline, to the output.
    fn add(&mut self, out: &mut Vec<u8>, line: &[u8]) {
        match self {
            Self::Prefixed(prefix) => {
                out.extend_from_slice(prefix);
                out.extend_from_slice(line);
            }
            Self::Json(json) => {
                json.time = Time::from(SystemTime::now()).to_string();
                json.line = String::from_utf8_lossy(line).into_owned();
                out.extend(serde_json::to_vec(json).unwrap_or_default());
            }
        }
        out.push(b'\n');
    }
}

/// Maximum length of a line. A longer line is forwarded in pieces.
const LONGEST: usize = 8 * 1024;
/// Maximum number of bytes at the end of the output that are kept.
const KEPT: usize = 4 * 1024;

/// The last lines of a command's output. The lines of standard output and of standard error are mixed, in the order in
/// which bandog has read their ends. No line is mixed with another one.
#[derive(Debug, Default)]
pub(crate) struct Tail(Mutex<VecDeque<u8>>);

impl Tail {
    /// Adds the parts of one line.
    fn add(&self, parts: &[&[u8]]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(parts.iter().copied().flatten());
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }

    /// The last bytes as text of at most `most` bytes. The text begins with a whole character. Invalid bytes become
    /// `\u{fffd}`.
    pub(crate) fn text(&self, most: usize) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        let start = (text.len().saturating_sub(most)..=text.len()).find(|at| text.is_char_boundary(*at));
        text[start.unwrap_or(text.len())..].trim_start_matches('\u{fffd}').to_owned()
    }
}

/// Forwards the output of the command from `from` to `to`, an output of bandog, in this form. If bandog's output is read
/// slowly, the command slows down. If bandog's output is closed, the command does not notice.
pub(crate) async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    form: LineForm<'_>,
    tail: &Tail,
) {
    let mut lines = Lines::of(form, tail);
    let mut chunk = [0; LONGEST];
    // A read error ends the output too.
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        print(&mut to, &lines.with(&chunk[..read])).await;
    }
    print(&mut to, &lines.rest()).await;
}

/// Writes a text. An error is ignored.
async fn print(to: &mut (impl AsyncWrite + Unpin), text: &[u8]) {
    if !text.is_empty() && to.write_all(text).await.is_ok() {
        let _ = to.flush().await;
    }
}

/// Splits output into lines, and keeps each one in the tail. The unfinished line is never longer than `LONGEST`.
struct Lines<'a> {
    form: LineForm<'a>,
    /// The unfinished line.
    begun: Vec<u8>,
    tail: &'a Tail,
}

impl<'a> Lines<'a> {
    fn of(form: LineForm<'a>, tail: &'a Tail) -> Self {
        Self { form, begun: Vec::new(), tail }
    }

    /// Adds bytes of the output. Returns the lines that are now complete, each in its form.
    fn with(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            if self.begun.len() == LONGEST && bytes[0] != b'\n' {
                self.end(&mut out, b"");
            }
            // The number of bytes that can still belong to the unfinished line. A whole line has at most `LONGEST`
            // bytes and a newline.
            let near = bytes.len().min(LONGEST + 1 - self.begun.len());
            let newline = bytes[..near].iter().position(|byte| *byte == b'\n');
            let piece = newline.unwrap_or(near.min(LONGEST - self.begun.len()));
            self.begun.extend_from_slice(&bytes[..piece]);
            bytes = &bytes[piece..];
            if newline.is_some() {
                self.end(&mut out, b"\n");
                bytes = &bytes[1..];
            }
        }
        out
    }

    /// The unfinished line at the end of the output, in its form. The result is empty if there is no
    /// such line.
    fn rest(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.begun.is_empty() {
            self.end(&mut out, b"\n");
        }
        out
    }

    /// Ends the unfinished line, and adds it to `out`, and to the tail with `ending`.
    fn end(&mut self, out: &mut Vec<u8>, ending: &[u8]) {
        self.tail.add(&[&self.begun, ending]);
        self.form.add(out, &self.begun);
        self.begun.clear();
    }
}

/// If the output is no longer read before its end, the tail gets the unfinished line.
impl Drop for Lines<'_> {
    fn drop(&mut self) {
        if !self.begun.is_empty() {
            self.tail.add(&[&self.begun, b"\n"]);
        }
    }
}

#[cfg(test)]
mod tests;
