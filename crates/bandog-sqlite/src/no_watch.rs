//! Where there is no inotify: nobody hears the bell, and waiters poll.

use std::{io, sync::Arc};

use bandog_core::Key;

use crate::{bell::NotificationFile, ears::Ears};

/// Looks after the marks of keys that were rung.
pub(crate) type Remark = Box<dyn Fn(Vec<Key>) + Send>;

/// A listener that cannot be had.
#[derive(Debug)]
pub(crate) enum Watch {}

impl Watch {
    /// Cannot start.
    pub(crate) fn start(_: Arc<NotificationFile>, _: Arc<Ears>, _: Arc<Ears>, _: Remark) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never existed.
    pub(crate) fn has_failed(&self) -> bool {
        match *self {}
    }
}
