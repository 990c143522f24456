//! The watch of the notification file on systems without inotify. On these systems the watch cannot start, so waiters
//! poll.

use std::{io, sync::Arc};

use crate::{
    notification_file::NotificationFile,
    subscribers::{Subscribers, Topic},
};

/// A function that sets the waiters' mark of each of these topics again. The mark says that processes wait for the
/// topic. The process that frees the lock notifies the waiters and removes the mark.
pub(crate) type RestoreMarks = Box<dyn Fn(Vec<Topic>) + Send>;

/// A watch thread, which cannot exist here.
#[derive(Debug)]
pub(crate) enum Watch {}

impl Watch {
    /// Always fails.
    pub(crate) fn start(
        _: Arc<NotificationFile>,
        _: Arc<Subscribers>,
        _: Arc<Subscribers>,
        _: RestoreMarks,
    ) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cannot be called.
    pub(crate) fn has_failed(&self) -> bool {
        match *self {}
    }
}
