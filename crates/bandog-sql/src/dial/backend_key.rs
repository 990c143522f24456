//! The number of the server's process, as the server reports it during the login.
//!
//! A pooler such as PgBouncer reports a number of its own, because the client does not have one process of the server. So
//! the number shows whether a pooler is between the client and the server.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use bandog_net::Tap;

/// The message with the number.
const BACKEND_KEY: u8 = b'K';
/// The message that ends the login.
const READY: u8 = b'Z';
/// Length of the beginning of a message: its kind and its length. Four more bytes are read: in a [`BACKEND_KEY`], the number.
const HEAD: usize = 5;

/// The number that the server has reported. None before the login has ended, and if there was none.
#[derive(Debug, Clone, Default)]
pub(crate) struct BackendPid(Arc<OnceLock<i32>>);

impl BackendPid {
    pub(crate) fn get(&self) -> Option<i32> {
        self.0.get().copied()
    }
}

/// Reads the messages of the login.
#[derive(Debug)]
pub(super) struct LoginReader {
    pid: BackendPid,
    /// The first bytes of the present message.
    head: Vec<u8>,
    /// Number of bytes of the present message that are not read yet and do not matter.
    rest: usize,
    has_ended: bool,
}

impl Tap for LoginReader {
    fn read(&mut self, _: &io::Result<()>, mut bytes: &[u8]) {
        while !self.has_ended && !bytes.is_empty() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                (self.rest, bytes) = (self.rest - skipped, &bytes[skipped..]);
                continue;
            }
            self.head.push(bytes[0]);
            bytes = &bytes[1..];
            self.read_head();
        }
    }
}

impl LoginReader {
    pub(super) fn new(pid: BackendPid) -> Self {
        Self { pid, head: Vec::new(), rest: 0, has_ended: false }
    }

    fn read_head(&mut self) {
        let [kind, a, b, c, d, number @ ..] = &self.head[..] else { return };
        if *kind == READY {
            self.has_ended = true;
            return;
        }
        if *kind == BACKEND_KEY {
            let Ok(number) = number.try_into() else { return };
            // A second message of this kind does not occur. The first one would count.
            let _ = self.pid.0.set(i32::from_be_bytes(number));
            self.has_ended = true;
            return;
        }
        // The length counts itself.
        let length = u32::from_be_bytes([*a, *b, *c, *d]);
        self.rest = usize::try_from(length).unwrap_or(usize::MAX).saturating_sub(HEAD - 1);
        self.head.clear();
    }
}

#[cfg(test)]
mod tests;
