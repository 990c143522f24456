//! What may wait before it is printed, and is printed by a thread of its own: a terminal that was stopped, or a pipe
//! that nobody reads, must hold up neither the watchdog, which warns from its engine, nor a signal.

use std::{
    sync::{
        OnceLock,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use super::print;

/// So many notes wait; what comes when nobody has read so many is dropped.
const WAITING: usize = 256;
/// How long others wait for what stands before them.
const PATIENCE: Duration = Duration::from_millis(100);

static QUEUE: OnceLock<SyncSender<Note>> = OnceLock::new();

/// What may wait.
pub(super) enum Note {
    /// A message.
    Message(String),
    /// What stands in the terminal's last line from now on.
    Line(Option<String>),
    /// Everything before it was printed.
    Flush(SyncSender<()>),
}

/// Starts the thread. Without it nothing is printed that may wait.
pub(super) fn start() {
    let (outbox, inbox) = sync_channel(WAITING);
    if thread::Builder::new().name("voice".into()).spawn(|| print_all(inbox)).is_ok() {
        // Who has started before goes on.
        let _ = QUEUE.set(outbox);
    }
}

pub(super) fn post(note: Note) {
    if let Some(queue) = QUEUE.get() {
        let _ = queue.try_send(note);
    }
}

/// Waits until everything posted before is printed, unless nobody reads it.
pub(crate) fn flush() {
    let (done, printed) = sync_channel(1);
    post(Note::Flush(done));
    let _ = printed.recv_timeout(PATIENCE);
}

/// To the first column, and nothing to the right of it.
const CLEAR: &str = "\r\x1b[K";

fn print_all(inbox: Receiver<Note>) {
    let mut line: Option<String> = None;
    for note in inbox {
        let clear = if line.is_some() { CLEAR } else { "" };
        match note {
            Note::Message(message) => print(&format!("{clear}bandog: {message}\n{}", line.as_deref().unwrap_or(""))),
            Note::Line(next) => {
                print(&format!("{clear}{}", next.as_deref().unwrap_or("")));
                line = next;
            }
            Note::Flush(done) => {
                // Whoever asked may have gone on.
                let _ = done.try_send(());
            }
        }
    }
}
