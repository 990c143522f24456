//! Standard input as elements.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, stdin};

use crate::fault::Fault;

/// Maximum number of bytes of an element.
pub(super) const MOST: usize = 1 << 20;

/// Standard input to its end.
pub(super) async fn whole() -> Result<Vec<u8>, Fault> {
    let mut payload = Vec::new();
    let read = stdin().take(MOST as u64 + 1).read_to_end(&mut payload).await;
    read.map_err(|error| Fault::system("cannot read standard input", error))?;
    if payload.len() > MOST {
        let text = "standard input has more than 1 MiB, the maximum of an element: keep large data elsewhere, and push its name";
        return Err(Fault::usage(text));
    }
    Ok(payload)
}

/// The lines of an input.
pub(super) struct Lines<R> {
    input: R,
    /// The unfinished line.
    begun: Vec<u8>,
}

/// Why there is no line.
#[derive(Debug)]
pub(super) enum NoLine {
    End,
    /// The line has more than [`MOST`] bytes.
    TooLong,
    Failed(std::io::Error),
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn of(input: R) -> Self {
        Self { input, begun: Vec::new() }
    }

    /// The next line, without its line feed.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, NoLine> {
        loop {
            let read = self.input.fill_buf().await.map_err(NoLine::Failed)?;
            if read.is_empty() {
                let rest = std::mem::take(&mut self.begun);
                return if rest.is_empty() { Err(NoLine::End) } else { Ok(rest) };
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let part = end.unwrap_or(read.len());
            self.begun.extend_from_slice(&read[..part]);
            self.input.consume(part + usize::from(end.is_some()));
            if self.begun.len() > MOST {
                return Err(NoLine::TooLong);
            }
            if end.is_some() {
                return Ok(std::mem::take(&mut self.begun));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_split_at_line_feeds() {
        let mut lines = Lines::of(&b"a\n\nb\r\n\xff"[..]);
        for line in [&b"a"[..], b"", b"b\r", b"\xff"] {
            assert_eq!(lines.next().await.unwrap_or_default(), line);
        }
        assert!(matches!(lines.next().await, Err(NoLine::End)));
        let long = vec![b'x'; MOST + 1];
        assert!(matches!(Lines::of(&long[..]).next().await, Err(NoLine::TooLong)));
        assert_eq!(Lines::of(&long[1..]).next().await.map(|line| line.len()).ok(), Some(MOST));
    }
}
