//! A queue of messages and the thread that prints them. The queue exists because a stopped terminal or a full pipe must
//! block neither the signal handling nor the client's engine, which renews locks and also logs warnings.

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
const CAPACITY: usize = 256;
/// Timeout of [`flush`].
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

static QUEUE: OnceLock<SyncSender<Item>> = OnceLock::new();

/// An item of the queue.
pub(super) enum Item {
    /// A message.
    Message(String),
    /// The new content of the terminal's last line.
    StatusLine(Option<String>),
    /// A request of [`flush`]. The thread answers it after it has printed all earlier items.
    Flush(SyncSender<()>),
}

/// Starts the thread. Items that are posted before the start are dropped.
pub(super) fn start() {
    let (outbox, inbox) = sync_channel(CAPACITY);
    if thread::Builder::new().name("console".into()).spawn(|| print_all(inbox)).is_ok() {
        // An earlier queue is kept.
        let _ = QUEUE.set(outbox);
    }
}

/// Queues an item. If the queue is full, or was not started, the item is dropped.
pub(super) fn post(item: Item) {
    if let Some(queue) = QUEUE.get() {
        let _ = queue.try_send(item);
    }
}

/// Waits until all queued items are printed, or until the timeout.
pub(crate) fn flush() {
    let (done, printed) = sync_channel(1);
    post(Item::Flush(done));
    let _ = printed.recv_timeout(FLUSH_TIMEOUT);
}

/// Moves to the first column and clears the line.
const CLEAR: &str = "\r\x1b[K";

fn print_all(inbox: Receiver<Item>) {
    let mut line: Option<String> = None;
    for item in inbox {
        let clear = if line.is_some() { CLEAR } else { "" };
        match item {
            Item::Message(message) => print(&format!("{clear}bandog: {message}\n{}", line.as_deref().unwrap_or(""))),
            Item::StatusLine(next) => {
                print(&format!("{clear}{}", next.as_deref().unwrap_or("")));
                line = next;
            }
            Item::Flush(done) => {
                // An error is ignored, because the caller might have timed out.
                let _ = done.try_send(());
            }
        }
    }
}
