//! A queue of messages, and the thread that prints the messages. A stopped terminal or a full pipe blocks this thread
//! only. The signal handling is not blocked. The client's engine, which renews locks and also logs warnings, is not
//! blocked either.

use std::{
    sync::{
        OnceLock,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use super::out::print;

/// Maximum number of queued items. Further items are dropped.
const CAPACITY: usize = 256;
/// Timeout of [`flush`].
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// The queue of this process. It is not set before [`start`].
static QUEUE: OnceLock<SyncSender<Item>> = OnceLock::new();

/// An item of the queue.
pub(super) enum Item {
    /// A message.
    Message(String),
    /// The new content of the terminal's last line. None clears the line.
    StatusLine(Option<String>),
    /// A request of [`flush`]. The thread answers the request when all earlier items are printed.
    Flush(SyncSender<()>),
}

/// Starts the thread. Items that are posted before the start are dropped.
pub(crate) fn start() {
    let (outbox, inbox) = sync_channel(CAPACITY);
    if thread::Builder::new().name("console".into()).spawn(|| print_all(inbox)).is_ok() {
        // If the queue was set already, it is kept, and the new thread ends.
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

/// Moves the cursor to the first column, and clears the line.
const CLEAR: &str = "\r\x1b[K";

/// Prints all items of the queue. The status line, if there is one, is printed again after each message.
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
