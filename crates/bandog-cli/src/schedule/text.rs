//! The text of a file, with an index of its lines.

/// A text with fast access to lines.
#[derive(Debug)]
pub(super) struct Text<'a> {
    text: &'a str,
    /// The positions of the line ends, in bytes.
    newlines: Vec<usize>,
}

/// A line, split at a position in it, without its line end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SplitLine<'a> {
    pub(super) before: &'a str,
    pub(super) after: &'a str,
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, newlines: text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect() }
    }

    pub(super) fn as_str(&self) -> &'a str {
        self.text
    }

    /// The number of the line that contains this byte. The first line is 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.newlines.partition_point(|newline| *newline < at) + 1
    }

    /// The line that contains this byte, split before the byte. If the byte is in the middle of a character, the line
    /// is split before this character.
    pub(super) fn split_line(&self, at: usize) -> SplitLine<'a> {
        let at = (0..=at.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let line = self.line(at) - 1;
        let start = line.checked_sub(1).map_or(0, |newline| self.newlines[newline] + 1);
        let end = self.newlines.get(line).copied().unwrap_or(self.text.len());
        SplitLine { before: &self.text[start..at], after: self.text[at..end].trim_end_matches('\r') }
    }
}

#[cfg(test)]
mod tests;
