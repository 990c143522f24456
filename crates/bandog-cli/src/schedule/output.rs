//! Forwards the output of a command line by line, with the job's name in front of each line. Keeps the last bytes for
//! the history.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::console::escaped;

/// Maximum length of a line. A longer line is forwarded in pieces.
const LONGEST: usize = 8 * 1024;
/// Maximum number of bytes at the end of the output that are kept.
const KEPT: usize = 4 * 1024;

/// The last lines of a command's output. The lines of standard output and of standard error are mixed, in the order in
/// which bandog has read their ends. No line is mixed with another one.
#[derive(Debug, Default)]
pub(super) struct Tail(Mutex<VecDeque<u8>>);

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
    pub(super) fn text(&self, most: usize) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        let start = (text.len().saturating_sub(most)..=text.len()).find(|at| text.is_char_boundary(*at));
        text[start.unwrap_or(text.len())..].trim_start_matches('\u{fffd}').to_owned()
    }
}

/// Forwards the output of the command from `from` to `to`, an output of bandog. `name` is the job's name. If bandog's
/// output is read slowly, the command slows down. If bandog's output is closed, the command does not notice.
pub(super) async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    name: &str,
    tail: &Tail,
) {
    let mut lines = Lines::of(name, tail);
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
    /// The job's name, in front of each line.
    name: Vec<u8>,
    /// The unfinished line.
    begun: Vec<u8>,
    tail: &'a Tail,
}

impl<'a> Lines<'a> {
    fn of(job: &str, tail: &'a Tail) -> Self {
        Self { name: format!("[{}] ", escaped(job)).into_bytes(), begun: Vec::new(), tail }
    }

    /// Adds bytes of the output. Returns the lines that are now complete, each with the job's name in front.
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

    /// The unfinished line at the end of the output, with the job's name in front. The result is empty if there is no
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
        out.extend_from_slice(&self.name);
        out.append(&mut self.begun);
        out.push(b'\n');
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
