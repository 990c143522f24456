//! The watch of the notification file on systems without inotify. It never starts, and waiters poll.

use std::{io, sync::Arc};

use crate::{
    notification_file::NotificationFile,
    subscribers::{Subscribers, Topic},
};

/// A function that sets the waiters' marks of the given topics again.
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
