//! The thread that watches the notification file with inotify.

use std::{
    io::{self, PipeReader, PipeWriter, pipe},
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bandog_core::{Clock, Moment};
use inotify::{EventMask, Inotify, WatchMask};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    notification_file::{NotificationFile, Slots},
    subscribers::{Subscribers, Topic},
};

/// Delay after a notification until the waiters' marks are set again. The process that frees a lock removes the mark.
/// Most waiters claim immediately after the notification, and a claim that is refused sets the mark again. This thread
/// sets the marks for the waiters that do not claim.
const RESTORE_DELAY: Duration = Duration::from_millis(50);

/// A function that sets the waiters' mark of each of these topics again. The mark says that processes wait for the
/// topic. The process that frees the lock notifies the waiters and removes the mark.
pub(crate) type RestoreMarks = Box<dyn Fn(Vec<Topic>) + Send>;

/// The watch thread. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    thread: JoinHandle<()>,
    /// Whether the thread had an error, and ends soon.
    failed: Arc<AtomicBool>,
    /// The thread ends when this end of the pipe is closed.
    _open: PipeWriter,
}

impl Watch {
    /// Starts the thread. Every notification that is written after this call reaches the subscribers.
    pub(crate) fn start(
        file: Arc<NotificationFile>,
        lock_subscribers: Arc<Subscribers>,
        record_subscribers: Arc<Subscribers>,
        restore_marks: RestoreMarks,
    ) -> io::Result<Self> {
        let (ended, open) = pipe()?;
        let inotify = Inotify::init()?;
        drop(file.open()?); // Creates the file if it does not exist.
        inotify.watches().add(file.path(), WatchMask::MODIFY | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF)?;
        let slots = file.slots()?;
        let mut watcher = FileWatcher {
            inotify,
            ended,
            file,
            lock_subscribers,
            record_subscribers,
            restore_marks,
            slots,
            notified: Vec::new(),
            restore_at: None,
        };
        let failed = Arc::new(AtomicBool::new(false));
        let failed_flag = Arc::clone(&failed);
        let thread = thread::Builder::new().name("bandog-notify".into()).spawn(move || {
            if let Err(error) = watcher.run() {
                tracing::warn!(%error, "the watch of the notification file failed; the next request restarts it");
                failed_flag.store(true, Release);
                // Each request to the writer restarts a failed watch, so a request without topics is sent.
                (watcher.restore_marks)(Vec::new());
            }
        })?;
        Ok(Self { thread, failed, _open: open })
    }

    /// Whether the thread has ended, or is about to end, after an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Acquire) || self.thread.is_finished()
    }
}

/// The state of the watch thread.
struct FileWatcher {
    inotify: Inotify,
    /// The other end of the pipe. It becomes readable when the thread must end.
    ended: PipeReader,
    file: Arc<NotificationFile>,
    lock_subscribers: Arc<Subscribers>,
    record_subscribers: Arc<Subscribers>,
    restore_marks: RestoreMarks,
    /// The slots as they were read last.
    slots: Slots,
    /// Topics that were notified, and whose waiters' marks were not set again yet.
    notified: Vec<Topic>,
    /// The time at which the marks of the topics in `notified` are set again. None if there are no such topics.
    restore_at: Option<Moment>,
}

impl FileWatcher {
    fn run(&mut self) -> io::Result<()> {
        while !self.wait()? {
            if self.take_events()? {
                self.notify()?;
            }
            self.restore_marks_if_due();
        }
        Ok(())
    }

    /// Waits for an event, or until the time to set marks again. Returns whether the thread must end.
    fn wait(&self) -> io::Result<bool> {
        let left = self.restore_at.map(|due| due.since(Clock::system().now()));
        let left = left.map(|left| Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) });
        let mut files = [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        match poll(&mut files, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!files[1].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// Consumes all pending events. Returns whether there were any.
    fn take_events(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let mut any = false;
        loop {
            let mut events = match self.inotify.read_events(&mut buffer) {
                Ok(events) => events,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(any),
                Err(error) => return Err(error),
            };
            if events.any(|event| event.mask.intersects(EventMask::IGNORED | EventMask::MOVE_SELF)) {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the notification file was deleted or moved"));
            }
            any = true;
        }
    }

    /// Notifies the subscribers of each topic whose slot has changed.
    fn notify(&mut self) -> io::Result<()> {
        let slots = self.file.slots()?;
        // Records have no waiters' marks, because a swap that notifies always writes to the notification file.
        self.record_subscribers.notify(|topic| slots.differ_at(&self.slots, topic));
        let notified = self.lock_subscribers.notify(|topic| slots.differ_at(&self.slots, topic));
        self.slots = slots;
        if !notified.is_empty() {
            self.notified.extend(notified);
            self.restore_at.get_or_insert_with(|| Clock::system().now() + RESTORE_DELAY);
        }
        Ok(())
    }

    fn restore_marks_if_due(&mut self) {
        if self.restore_at.is_some_and(|due| due <= Clock::system().now()) {
            self.restore_at = None;
            (self.restore_marks)(std::mem::take(&mut self.notified));
        }
    }
}
