//! A queue of messages and the thread that prints them. A stopped terminal or a full pipe must not block the watchdog,
//! which warns from its engine, nor the signal handling.

use std::{
    sync::{
        OnceLock,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use super::print;

/// Maximum number of queued items. Further items are dropped.
const WAITING: usize = 256;
/// Timeout of [`flush`].
const PATIENCE: Duration = Duration::from_millis(100);

static QUEUE: OnceLock<SyncSender<Item>> = OnceLock::new();

/// An item of the queue.
pub(super) enum Item {
    /// A message.
    Message(String),
    /// The new content of the terminal's last line.
    StatusLine(Option<String>),
    /// Answered when all items before it are printed.
    Flush(SyncSender<()>),
}

/// Starts the thread. Without it queued items are dropped.
pub(super) fn start() {
    let (outbox, inbox) = sync_channel(WAITING);
    if thread::Builder::new().name("console".into()).spawn(|| print_all(inbox)).is_ok() {
        // An earlier queue is kept.
        let _ = QUEUE.set(outbox);
    }
}

pub(super) fn post(note: Item) {
    if let Some(queue) = QUEUE.get() {
        let _ = queue.try_send(note);
    }
}

/// Waits until all queued items are printed, or until the timeout.
pub(crate) fn flush() {
    let (done, printed) = sync_channel(1);
    post(Item::Flush(done));
    let _ = printed.recv_timeout(PATIENCE);
}

/// Moves to the first column and clears the line.
const CLEAR: &str = "\r\x1b[K";

fn print_all(inbox: Receiver<Item>) {
    let mut line: Option<String> = None;
    for note in inbox {
        let clear = if line.is_some() { CLEAR } else { "" };
        match note {
            Item::Message(message) => print(&format!("{clear}bandog: {message}\n{}", line.as_deref().unwrap_or(""))),
            Item::StatusLine(next) => {
                print(&format!("{clear}{}", next.as_deref().unwrap_or("")));
                line = next;
            }
            Item::Flush(done) => {
                // The caller may have timed out.
                let _ = done.try_send(());
            }
        }
    }
}
