//! One connection: the socket, its settings, and the handshake.

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

use bandog_core::{Error, ErrorKind, Result};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError, ServerError, aio::AsyncPushSender,
    aio::MultiplexedConnection, io::tcp::socket2,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};

use crate::{options::RedisOptions, refusal};

/// However patient a request is, a dial that takes longer has failed.
const LONGEST_DIAL: Duration = Duration::from_secs(5);
/// A connection on which nothing is heard for this long is probed, so that a peer that vanished is noticed.
const PROBE_AFTER: Duration = Duration::from_secs(5);
const PROBE_EVERY: Duration = Duration::from_secs(2);

/// A connection and what drives it.
pub(crate) struct Dialled {
    pub(crate) mux: MultiplexedConnection,
    /// Moves the bytes; ends with the connection, and ends the connection when it is dropped.
    pub(crate) driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    pub(crate) reset: Reset,
}

/// Makes the connection end with a reset, which drops what has not reached the server yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reset(Arc<AtomicBool>);

impl Reset {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Connects and logs in; `pushes` gets what the server sends unasked.
///
/// # Errors
/// `Unavailable` when nothing answers in time, `Denied` for a refused user, password or database.
pub(crate) async fn dial(options: &RedisOptions, pushes: Option<Arc<dyn AsyncPushSender>>) -> Result<Dialled> {
    let limit = options.timeout.min(LONGEST_DIAL);
    match timeout(limit, connect(options, pushes)).await {
        Ok(dialled) => dialled,
        Err(_) => Err(Error::unavailable(format!("no connection to {} within {limit:?}", options.store()))),
    }
}

async fn connect(options: &RedisOptions, pushes: Option<Arc<dyn AsyncPushSender>>) -> Result<Dialled> {
    let unreachable = |error| Error::unavailable(format!("cannot reach {}", options.store())).caused_by(error);
    let stream = TcpStream::connect((options.host.as_str(), options.port)).await.map_err(unreachable)?;
    settle(&stream, options.timeout).map_err(unreachable)?;
    let reset = Reset::default();
    let stream = Stream { stream, reset: reset.clone() };
    let mut config = AsyncConnectionConfig::new().set_response_timeout(Some(options.timeout));
    if let Some(pushes) = pushes {
        config = config.set_push_sender(pushes);
    }
    let connected = MultiplexedConnection::new_with_config(&login(options), stream, config).await;
    let (mux, driver) = connected.map_err(|error| turned_away(options, error))?;
    Ok(Dialled { mux, driver: Box::pin(driver), reset })
}

/// Without no-delay each request over a real network would wait for the answer to the one before it.
fn settle(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let probes = socket2::TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
    socket.set_tcp_keepalive(&probes)?;
    // What the peer's machine has not acknowledged within two timeouts will not be answered in time either.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(2 * timeout))?;
    Ok(())
}

fn login(options: &RedisOptions) -> RedisConnectionInfo {
    // A library name would only cost users with few rights a refusal at each dial.
    let mut info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_db(options.db.into())
        .set_skip_set_lib_name();
    if let Some(user) = &options.user {
        info = info.set_username(user);
    }
    if let Some(password) = &options.password {
        info = info.set_password(password);
    }
    info
}

/// Why the handshake failed.
fn turned_away(options: &RedisOptions, error: RedisError) -> Error {
    let store = options.store();
    match error.kind() {
        redis::ErrorKind::RESP3NotSupported => {
            Error::new(ErrorKind::Unsupported, format!("{store} is older than Redis 6")).caused_by(error)
        }
        redis::ErrorKind::AuthenticationFailed => {
            Error::new(ErrorKind::Denied, format!("{store} refuses this user or password")).caused_by(error)
        }
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => refused_login(&store, error),
        _ => Error::unavailable(format!("{store} closed the connection at once")).caused_by(error),
    }
}

fn refused_login(store: &str, error: RedisError) -> Error {
    // The crate tells a refused SELECT in its own words and drops the server's code.
    if error.to_string().contains("refused to switch database") {
        return Error::new(ErrorKind::Denied, format!("{store} refuses this database")).caused_by(error);
    }
    match ServerError::try_from(error) {
        Ok(error) => refusal::turned_away(store, &error),
        Err(error) => Error::unavailable(format!("{store} turns us away")).caused_by(error),
    }
}

/// A TCP stream that can be made to end with a reset.
struct Stream {
    stream: TcpStream,
    reset: Reset,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.reset.0.load(Ordering::Relaxed) {
            // A failure means that the connection is gone already.
            let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
