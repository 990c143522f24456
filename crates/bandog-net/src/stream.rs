//! The byte stream of a connection over TCP, TLS or a Unix socket.

use std::{
    io::{self, IoSlice},
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
    time::{Sleep, sleep},
};
use tokio_rustls::client::TlsStream;

/// A switch of one connection. If the switch is set, closing the connection sends a TCP reset. The reset discards the
/// data that has not reached the server.
#[derive(Debug, Clone, Default)]
pub struct Reset(Arc<AtomicBool>);

impl Reset {
    /// Sets the switch.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The transport of a connection.
#[derive(Debug)]
pub enum Socket {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A TCP connection with TLS.
    Tls(Box<TlsStream<TcpStream>>),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

/// A copy of what is read from a connection.
pub trait Tap: Unpin {
    /// Called after each read, with its result and the bytes that it has returned.
    fn read(&mut self, read: &io::Result<()>, bytes: &[u8]);
}

/// A socket that can be closed with a TCP reset. A [`Tap`] sees what is read from it.
#[derive(Debug)]
pub struct ServerStream<T> {
    socket: Socket,
    reset: Reset,
    tap: T,
    /// The time until the error of a write is reported. None: at once.
    read_on: Option<Duration>,
    /// The end of that time, after a write has failed.
    reading_on: Option<Pin<Box<Sleep>>>,
}

impl<T: Tap> ServerStream<T> {
    /// Wraps a socket.
    pub fn new(socket: Socket, reset: Reset, tap: T) -> Self {
        Self { socket, reset, tap, read_on: None, reading_on: None }
    }

    /// Reports the error of a write only after this time. A server that closes a connection may have sent its reason before, and
    /// a write may fail before the reason is read. The caller must read at the same time: the end of what is read ends the
    /// connection earlier.
    #[must_use]
    pub fn reading_on(mut self, read_on: Duration) -> Self {
        self.read_on = Some(read_on);
        self
    }

    /// The result of a write, which is delayed if it is an error.
    fn written<R>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        match (result, self.read_on) {
            (Poll::Ready(Err(error)), Some(read_on)) => {
                let end = self.reading_on.get_or_insert_with(|| Box::pin(sleep(read_on)));
                end.as_mut().poll(cx).map(|()| Err(error))
            }
            (result, _) => result,
        }
    }
}

impl Socket {
    /// The underlying TCP connection. None for a Unix socket, which needs no reset: all data that were written to it
    /// have reached the server already, so a reset could discard nothing.
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(stream) => Some(stream.get_ref().0),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }
}

impl<T> Drop for ServerStream<T> {
    fn drop(&mut self) {
        if let (true, Some(stream)) = (self.reset.is_set(), self.socket.tcp()) {
            // With this setting, closing the socket sends a TCP reset. An error means that the connection has ended
            // already.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
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

impl<T: Tap> AsyncRead for ServerStream<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = delegate!(&mut self.socket, stream => Pin::new(stream).poll_read(cx, buf));
        if let Poll::Ready(read) = &read {
            self.tap.read(read, &buf.filled()[before..]);
        }
        read
    }
}

impl<T: Tap> AsyncWrite for ServerStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = delegate!(&mut self.socket, stream => Pin::new(stream).poll_write(cx, buf));
        self.written(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = delegate!(&mut self.socket, stream => Pin::new(stream).poll_flush(cx));
        self.written(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(&mut self.socket, stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = delegate!(&mut self.socket, stream => Pin::new(stream).poll_write_vectored(cx, bufs));
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        delegate!(&self.socket, stream => stream.is_write_vectored())
    }
}

#[cfg(test)]
mod tests;
