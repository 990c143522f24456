//! The byte stream of a connection over TCP, TLS or a Unix socket.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use super::backend_key::{BackendPid, LoginReader};

/// The transport of a connection.
pub(super) enum Socket {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

/// A switch of one connection. If the switch is set, closing the connection sends a TCP reset. The reset discards the
/// requests that have not reached the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reset(Arc<AtomicBool>);

impl Reset {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A socket that can be closed with a TCP reset.
pub(super) struct ServerStream {
    socket: Socket,
    reset: Reset,
    login: LoginReader,
}

impl ServerStream {
    pub(super) fn new(socket: Socket, reset: Reset, pid: BackendPid) -> Self {
        Self { socket, reset, login: LoginReader::new(pid) }
    }
}

impl Drop for ServerStream {
    fn drop(&mut self) {
        // Data that were written to a Unix socket have reached the server already, so a reset could discard nothing.
        let tcp = match &self.socket {
            Socket::Tcp(stream) => stream,
            Socket::Tls(stream) => stream.get_ref().0,
            #[cfg(unix)]
            Socket::Unix(_) => return,
        };
        if self.reset.is_set() {
            // With this setting, closing the socket sends a TCP reset. An error means that the connection has ended.
            let _ = SockRef::from(tcp).set_linger(Some(Duration::ZERO));
        }
    }
}

/// Evaluates `$call`, in which `$stream` is the transport of the socket.
macro_rules! delegate {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Tls($stream) => $call,
            #[cfg(unix)]
            Socket::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for ServerStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = delegate!(&mut self.socket, stream => Pin::new(stream).poll_read(cx, buf));
        self.login.read(&buf.filled()[before..]);
        read
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(&mut self.socket, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(&mut self.socket, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(&mut self.socket, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
