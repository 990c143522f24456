//! Pushes each line of standard input.

use std::{pin::pin, time::Duration};

use tokio::{
    io::{BufReader, stdin},
    time::{Instant, sleep_until},
};

use super::{
    Pusher,
    input::{Lines, NoLine},
};
use crate::{console::StatusLine, exit_code::ExitCode, fault::Fault};

/// Maximum number of elements of a batch.
const MOST_LINES: usize = 1000;
/// The number of bytes after which a batch is pushed.
const BYTES: usize = 1 << 20;
/// Maximum time for which a line waits for others.
const WAIT: Duration = Duration::from_millis(100);
/// Interval between two progress lines.
const PROGRESS: Duration = Duration::from_millis(250);

/// Lines that are pushed together.
struct Batch {
    lines: Vec<Vec<u8>>,
    /// Why there is no further line.
    end: Option<NoLine>,
}

impl Pusher<'_> {
    /// Pushes each line of standard input.
    pub(super) async fn push_lines(&self, name: &str) -> Result<ExitCode, Fault> {
        let mut input = Lines::of(BufReader::with_capacity(64 * 1024, stdin()));
        let (line, mut shown) = (StatusLine::on_terminal(), Instant::now());
        let (mut pushed, mut is_read): (u64, bool) = (0, true);
        loop {
            let batch = Batch::read(&mut input).await;
            let results = self.push_all(&batch.lines).await;
            let results = results.map_err(|fault| fault.with_line(&format!("{pushed} lines before were pushed")))?;
            pushed += results.len() as u64;
            // If the reader of the ids has closed the pipe, the other lines are pushed nevertheless.
            is_read = is_read && results.into_iter().try_for_each(|element| self.print(element)).is_ok();
            if let Some(line) = &line
                && shown.elapsed() >= PROGRESS
            {
                shown = Instant::now();
                line.draw(&format!("{pushed} elements pushed to {name:?}"));
            }
            let with_count = |text: &str| format!("{text}; {pushed} lines before were pushed");
            match batch.end {
                None => {}
                Some(NoLine::End) => return Ok(ExitCode::Done),
                Some(NoLine::TooLong) => {
                    let text = format!("line {} has more than 1 MiB, the maximum of an element", pushed + 1);
                    return Err(Fault::usage(with_count(&text)));
                }
                Some(NoLine::Failed(error)) => {
                    return Err(Fault::system(&with_count("cannot read standard input"), error));
                }
            }
        }
    }
}

impl Batch {
    /// Reads lines until the batch is large enough, or no further line comes at once.
    async fn read<R: tokio::io::AsyncBufRead + Unpin>(input: &mut Lines<R>) -> Self {
        let (mut batch, mut bytes) = (Self { lines: Vec::new(), end: None }, 0);
        let mut late = pin!(sleep_until(Instant::now()));
        while batch.lines.len() < MOST_LINES && bytes < BYTES {
            let read = tokio::select! { biased;
                read = input.next() => read,
                () = &mut late, if !batch.lines.is_empty() => break,
            };
            match read {
                Ok(line) => {
                    if batch.lines.is_empty() {
                        late.as_mut().reset(Instant::now() + WAIT);
                    }
                    bytes += line.len();
                    batch.lines.push(line);
                }
                Err(end) => {
                    batch.end = Some(end);
                    break;
                }
            }
        }
        batch
    }
}
