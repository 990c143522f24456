//! The thread that hears the bell file by inotify.

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

use bandog_core::{Clock, Key, Moment};
use inotify::{EventMask, Inotify, WatchMask};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    bell::{NotificationFile, Slots},
    ears::Ears,
};

/// How long after a ring the marks are looked after. Those who were rung claim at once, and a claim that is busy
/// leaves the mark anew; the look is for those who did not claim.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// Looks after the marks of keys that were rung.
pub(crate) type Remark = Box<dyn Fn(Vec<Key>) + Send>;

/// A thread that listens until this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    thread: JoinHandle<()>,
    /// The thread is about to end.
    failed: Arc<AtomicBool>,
    /// The thread ends when this end of the pipe is closed.
    _open: PipeWriter,
}

impl Watch {
    /// Starts to listen: what is rung from now on is heard.
    pub(crate) fn start(
        bell: Arc<NotificationFile>,
        ears: Arc<Ears>,
        record_subscribers: Arc<Ears>,
        remark: Remark,
    ) -> io::Result<Self> {
        let (ended, open) = pipe()?;
        let inotify = Inotify::init()?;
        drop(bell.open()?); // It may have to be made.
        inotify.watches().add(bell.path(), WatchMask::MODIFY | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF)?;
        let slots = bell.slots()?;
        let mut listener =
            Listener { inotify, ended, bell, ears, record_subscribers, remark, slots, rung: Vec::new(), due: None };
        let failed = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&failed);
        let thread = thread::Builder::new().name("bandog-bell".into()).spawn(move || {
            if let Err(error) = listener.run() {
                tracing::warn!(%error, "the bell file cannot be heard any more; the next request starts anew");
                fails.store(true, Release);
                (listener.remark)(Vec::new()); // Which is a request.
            }
        })?;
        Ok(Self { thread, failed, _open: open })
    }

    /// Whether it listens no more, because something failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Acquire) || self.thread.is_finished()
    }
}

struct Listener {
    inotify: Inotify,
    ended: PipeReader,
    bell: Arc<NotificationFile>,
    ears: Arc<Ears>,
    record_subscribers: Arc<Ears>,
    remark: Remark,
    slots: Slots,
    /// The keys that were rung since the last look after the marks.
    rung: Vec<Key>,
    due: Option<Moment>,
}

impl Listener {
    fn run(&mut self) -> io::Result<()> {
        while !self.wait()? {
            if self.take_events()? {
                self.ring()?;
            }
            self.look_after();
        }
        Ok(())
    }

    /// Waits for an event or for the look after the marks; tells whether it is time to end.
    fn wait(&self) -> io::Result<bool> {
        let left = self.due.map(|due| due.since(Clock::system().now()));
        let left = left.map(|left| Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) });
        let mut files = [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        match poll(&mut files, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!files[1].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what inotify has, and tells whether it had anything.
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
                return Err(io::Error::new(io::ErrorKind::NotFound, "it was deleted or moved away"));
            }
            any = true;
        }
    }

    fn ring(&mut self) -> io::Result<()> {
        let slots = self.bell.slots()?;
        // Records have no marks: whoever swaps one rings without asking whether anybody hears.
        self.record_subscribers.ring(|key| slots.differ_at(&self.slots, key));
        let rung = self.ears.ring(|key| slots.differ_at(&self.slots, key));
        self.slots = slots;
        if !rung.is_empty() {
            self.rung.extend(rung);
            self.due.get_or_insert_with(|| Clock::system().now() + LOOK_AFTER);
        }
        Ok(())
    }

    fn look_after(&mut self) {
        if self.due.is_some_and(|due| due <= Clock::system().now()) {
            self.due = None;
            (self.remark)(std::mem::take(&mut self.rung));
        }
    }
}
