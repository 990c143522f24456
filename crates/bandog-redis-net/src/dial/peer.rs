//! Records the first bytes that the peer sends on a new connection. The peer is the program at the other end. If the
//! peer is not Redis, these bytes show what it probably is, and the error message says so.
//!
//! The recording ends with the Redis handshake, in which the client logs in and selects the database. A TLS handshake
//! is finished before the recording begins, so the recorded bytes are not encrypted.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bandog_core::{Error, ErrorKind};
use bandog_net::{Tap, tls};

use crate::options::{Address, Options, TLS_NAMES};

/// Maximum number of recorded bytes. They are enough to recognize the peer's protocol.
const MAX_HEAD_LEN: usize = 16;

/// The facts about the peer of one connection: the first bytes that the peer has sent, and the TLS error of the
/// connection. Clones share these facts.
#[derive(Debug, Clone, Default)]
pub(super) struct Peer(Arc<PeerShared>);

#[derive(Debug, Default)]
struct PeerShared {
    /// Whether recording has stopped.
    stopped: AtomicBool,
    state: Mutex<PeerState>,
}

#[derive(Debug, Default)]
struct PeerState {
    /// Whether the TCP connection was established.
    connected: bool,
    /// The first bytes that the peer has sent.
    head: Vec<u8>,
    /// The TLS error of the last failed read.
    tls_error: Option<rustls::Error>,
}

impl Tap for Peer {
    fn read(&mut self, read: &io::Result<()>, bytes: &[u8]) {
        self.record(read, bytes);
    }
}

impl Peer {
    /// Records that the connection is established.
    pub(super) fn connected(&self) {
        self.state().connected = true;
    }

    /// Stops recording.
    pub(super) fn stop_recording(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Records the result of a read from the connection: the received bytes, or the TLS error.
    fn record(&self, read: &io::Result<()>, bytes: &[u8]) {
        if self.0.stopped.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        match read {
            Ok(()) => {
                let room = MAX_HEAD_LEN - state.head.len();
                state.head.extend(bytes.iter().take(room));
            }
            Err(error) => state.tls_error = tls::cause(error).cloned(),
        }
    }

    /// The TLS error of the connection, if there is one. `store` is the server's address, for the error message.
    ///
    /// This error can occur after the client has finished the TLS handshake: some servers check the client's
    /// certificate only then.
    pub(super) fn tls_error(&self, store: &str) -> Option<Error> {
        self.state().tls_error.as_ref().map(|fault| tls::refused(store, &TLS_NAMES, fault))
    }

    /// The error that says what the peer is. None if the peer seems to be Redis, or has sent nothing.
    pub(super) fn not_redis(&self, options: &Options) -> Option<Error> {
        let peer = identify(&self.state().head, options.scheme(true))?;
        let message = format!("the peer at {} is not Redis but {peer}", options.store());
        Some(Error::new(ErrorKind::Unsupported, message))
    }

    /// Whether the connection was established and the peer sent nothing.
    pub(super) fn is_silent(&self) -> bool {
        let state = self.state();
        state.connected && state.head.is_empty()
    }

    /// The end of an error message: the likely reason why the peer sent nothing. The text is empty if the peer sent
    /// something, or if the reason has nothing to do with TLS.
    pub(super) fn hint(&self, options: &Options) -> String {
        let (way, has_tls) = match &options.address {
            Address::Tcp { .. } => ("with", true),
            Address::Tls { .. } => ("without", false),
            Address::Unix { .. } | Address::Sentinels(_) => return String::new(),
        };
        if !self.is_silent() {
            return String::new();
        }
        format!("; if it listens {way} TLS, write {}://", options.scheme(has_tls))
    }

    fn state(&self) -> MutexGuard<'_, PeerState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind of peer that sends these first bytes. None if there are no bytes, or if they may come from Redis. Redis
/// begins each answer with a sign for the type of the answer, for example `%` in the answer to HELLO, and `-` in a
/// refusal. `with_tls` is the scheme of a URL with TLS.
fn identify(head: &[u8], with_tls: &str) -> Option<String> {
    match head {
        [] | [b'%' | b'-' | b'*' | b'+' | b'$' | b'>' | b'|', ..] => None,
        // A TLS record begins with its type (here an alert or a handshake) and its version.
        [0x15 | 0x16, 0x03, ..] => Some(format!("a server that requires TLS: write {with_tls}://")),
        [b'H', b'T', b'T', b'P', ..] => Some("a web server".into()),
        [b'S', b'S', b'H', b'-', ..] => Some("an SSH server".into()),
        [_, _, 0, 0, 0x0a | 0xff, ..] => Some("a MySQL server".into()),
        head => Some(format!("something that begins with {:?}", String::from_utf8_lossy(head))),
    }
}

#[cfg(test)]
mod tests;
