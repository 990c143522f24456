//! An object: its content, its elements that are taken, and the time at which it expires.

use super::{
    content::{Content, Structure},
    journal::Journal,
    taken::Taken,
};
use crate::{Error, ErrorKind, Moment, Result, structures::Reply};

/// An object. One without content and without elements that are taken does not exist.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) content: Option<Content>,
    pub(super) taken: Taken,
    pub(super) expires: Option<Moment>,
}

impl Object {
    pub(super) fn exists(&self) -> bool {
        self.content.as_ref().is_some_and(Content::exists) || !self.taken.is_empty()
    }

    /// The number of elements that can be taken.
    pub(super) fn ready(&self) -> u64 {
        let elements = self.content.as_ref().map_or(0, Content::elements);
        elements as u64 + self.taken.again_len()
    }

    /// Reads a journal. One that does not exist is empty.
    pub(super) fn journal<T>(&self, read: impl FnOnce(&Journal) -> T) -> T {
        match &self.content {
            Some(Content::Journal(journal)) => read(journal),
            _ => read(&Journal::default()),
        }
    }

    /// Changes the content, which must be of this structure or absent. A content that is empty afterwards is removed, and
    /// with it the ttl, if no element is taken. After an error, nothing has changed.
    pub(super) fn change<C: Structure>(&mut self, change: impl FnOnce(&mut C) -> Result<Reply>) -> Result<Reply> {
        let mut content = C::of(self.content.take()).map_err(|other| {
            self.content = Some(other);
            Error::new(ErrorKind::Denied, "the name has data of another structure")
        })?;
        let reply = change(&mut content);
        self.content = content.into_content();
        if !self.exists() {
            self.expires = None;
        }
        reply
    }
}
