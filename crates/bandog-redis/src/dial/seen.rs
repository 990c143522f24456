//! What was seen of the other side before the handshake was over: who answers, when it is no Redis?

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bandog_core::{Error, ErrorKind};

use super::tls;
use crate::options::{Place, RedisOptions};

/// So many bytes are enough to know a protocol by.
const ENOUGH: usize = 16;

/// The first bytes of a connection, and how it failed.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Nobody wants to know more.
    enough: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    head: Vec<u8>,
    fault: Option<rustls::Error>,
}

impl Seen {
    /// The connection stands.
    pub(super) fn open(&self) {
        self.state().open = true;
    }

    /// Nothing is noted from now on.
    pub(super) fn enough(&self) {
        self.0.enough.store(true, Ordering::Relaxed);
    }

    /// Notes what a read gave.
    pub(super) fn note(&self, read: &io::Result<()>, bytes: &[u8]) {
        if self.0.enough.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        match read {
            Ok(()) => {
                let room = ENOUGH - state.head.len();
                state.head.extend(bytes.iter().take(room));
            }
            Err(error) => state.fault = tls::cause(error).cloned(),
        }
    }

    /// What TLS has to say. A server may refuse our certificate only after its own part of the handshake.
    pub(super) fn fault(&self, store: &str) -> Option<Error> {
        self.state().fault.as_ref().map(|fault| tls::refused(store, fault))
    }

    /// Who answered, if it is not Redis.
    pub(super) fn stranger(&self, options: &RedisOptions) -> Option<Error> {
        let who = stranger(&self.state().head)?;
        let message = format!("what answers at {} is not Redis but {who}", options.store());
        Some(Error::new(ErrorKind::Unsupported, message))
    }

    /// Whether the connection stood and nothing was heard on it.
    pub(super) fn is_silent(&self) -> bool {
        let state = self.state();
        state.open && state.head.is_empty()
    }

    /// What may be the matter with a connection on which nothing was heard.
    pub(super) fn hint(&self, options: &RedisOptions) -> &'static str {
        let state = self.state();
        match &options.place {
            Place::Tcp { .. } if state.open && state.head.is_empty() => "; if it listens with TLS, write rediss://",
            Place::Tls { .. } if state.open && state.head.is_empty() => "; if it listens without TLS, write redis://",
            Place::Tcp { .. } | Place::Tls { .. } | Place::Unix { .. } => "",
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose first bytes these are. Redis begins with a type of its own: `%` for the answer to HELLO, `-` for a refusal.
fn stranger(head: &[u8]) -> Option<String> {
    match head {
        [] | [b'%' | b'-' | b'*' | b'+' | b'$' | b'>' | b'|', ..] => None,
        [0x15 | 0x16, 0x03, ..] => Some("a server that wants TLS: write rediss://".into()),
        [b'H', b'T', b'T', b'P', ..] => Some("a web server".into()),
        [b'S', b'S', b'H', b'-', ..] => Some("an SSH server".into()),
        [_, _, 0, 0, 0x0a | 0xff, ..] => Some("a MySQL server".into()),
        head => Some(format!("something that begins with {:?}", String::from_utf8_lossy(head))),
    }
}

#[cfg(test)]
mod tests;
