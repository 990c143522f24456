//! One connection: the socket, its settings, and the handshake.

mod login;
mod probe;
mod seen;
mod stream;
mod tls;

use std::{
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bandog_core::{Error, ErrorKind, Result};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError, aio::AsyncPushSender,
    aio::MultiplexedConnection, io::tcp::socket2,
};
use tokio::{net::TcpStream, time::timeout};

pub(crate) use self::probe::Probes;
use self::{
    seen::Seen,
    stream::{Socket, Stream},
};
use crate::options::{Place, RedisOptions};

/// However patient a request is, a dial that takes longer has failed.
const LONGEST_DIAL: Duration = Duration::from_secs(5);
/// Maximum time for a TLS handshake before the server is asked whether it speaks TLS at all.
const SILENCE: Duration = Duration::from_millis(500);
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

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Connects and logs in; `pushes` gets what the server sends unasked. `probes` are spent on a server that seems to have
/// another idea of TLS than the URL.
///
/// # Errors
/// `Unavailable` when nothing answers in time, `Denied` for a refused user, password, database or certificate,
/// `Unsupported` for what is no Redis or speaks TLS otherwise than we were told, `Misused` for files that cannot be
/// used.
pub(crate) async fn dial(
    options: &RedisOptions,
    pushes: Option<Arc<dyn AsyncPushSender>>,
    probes: &mut Probes,
) -> Result<Dialled> {
    // Shorter than a request, so that the one that waits for it is told why it failed.
    let limit = (options.timeout * 9 / 10).min(LONGEST_DIAL);
    let seen = Seen::default();
    match timeout(limit, connect(options, pushes, &seen, probes)).await {
        Ok(dialled) => dialled,
        Err(_) => Err(seen.stranger(options).unwrap_or_else(|| {
            Error::unavailable(format!("no connection to {} within {limit:?}{}", options.store(), seen.hint(options)))
        })),
    }
}

/// What a failed dial means where one has succeeded before. Files that are being replaced and a stranger in the place
/// of the server may be gone with the next dial, and nobody's wait shall end for them.
pub(crate) fn once_met(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Misused | ErrorKind::Unsupported => {
            Error::unavailable("the server could be reached before, and now cannot").caused_by(error)
        }
        _ => error,
    }
}

async fn connect(
    options: &RedisOptions,
    pushes: Option<Arc<dyn AsyncPushSender>>,
    seen: &Seen,
    probes: &mut Probes,
) -> Result<Dialled> {
    let socket = reach(options, seen, probes).await?;
    let reset = Reset::default();
    let stream = Stream::new(socket, reset.clone(), seen.clone());
    let mut config = AsyncConnectionConfig::new().set_response_timeout(Some(options.timeout));
    if let Some(pushes) = pushes {
        config = config.set_push_sender(pushes);
    }
    let connected = MultiplexedConnection::new_with_config(&login(options), stream, config).await;
    seen.enough();
    match connected {
        Ok((mux, driver)) => Ok(Dialled { mux, driver: Box::pin(driver), reset }),
        Err(error) => Err(match &options.place {
            // A server with TLS may close the connection without a word.
            Place::Tcp { host, port } if seen.is_silent() && probes.finds_tls(host, *port).await => {
                let message = format!("{}: the server there wants TLS; write rediss://", options.store());
                Error::new(ErrorKind::Unsupported, message).caused_by(error)
            }
            Place::Tcp { .. } | Place::Tls { .. } | Place::Unix { .. } => turned_away(options, seen, error),
        }),
    }
}

async fn reach(options: &RedisOptions, seen: &Seen, probes: &mut Probes) -> Result<Socket> {
    let unreachable =
        |error: io::Error| Error::unavailable(format!("cannot reach {}", options.store())).caused_by(error);
    let tcp = async |host: &str, port: u16| {
        let stream = TcpStream::connect((host, port)).await?;
        settle(&stream, options.timeout)?;
        seen.open();
        Ok(stream)
    };
    match &options.place {
        Place::Tcp { host, port } => tcp(host, *port).await.map(Socket::Tcp).map_err(unreachable),
        Place::Tls { host, port, files } => {
            let stream = tcp(host, *port).await.map_err(unreachable)?;
            let store = options.store();
            let mut handshake = pin!(tls::shake_hands(&store, host, files, stream));
            // A Redis without TLS may wait for ever for the end of what it takes for a command.
            let stream = match timeout(SILENCE.min(options.timeout / 3), &mut handshake).await {
                Ok(shaken) => shaken?,
                Err(_) if probes.finds_plain_redis(host, *port).await => {
                    let message = format!("{store}: Redis listens there without TLS; write redis://");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
                Err(_) => handshake.await?,
            };
            Ok(Socket::Tls(Box::new(stream)))
        }
        #[cfg(unix)]
        Place::Unix { path } => tokio::net::UnixStream::connect(path).await.map(Socket::Unix).map_err(unreachable),
        #[cfg(not(unix))]
        Place::Unix { .. } => Err(Error::new(ErrorKind::Unsupported, "this system has no Unix sockets")),
    }
}

/// Without no-delay each request over a real network would wait for the answer to the one before it.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux gives up after a time"))]
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
fn turned_away(options: &RedisOptions, seen: &Seen, error: RedisError) -> Error {
    let store = options.store();
    if let Some(error) = seen.fault(&store).or_else(|| seen.stranger(options)) {
        return error;
    }
    match error.kind() {
        redis::ErrorKind::RESP3NotSupported => {
            Error::new(ErrorKind::Unsupported, format!("{store} is older than Redis 6")).caused_by(error)
        }
        redis::ErrorKind::AuthenticationFailed => login::wrong(options).caused_by(error),
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => login::refused(options, error),
        _ => {
            let hint = seen.hint(options);
            Error::unavailable(format!("{store} closed the connection at once{hint}")).caused_by(error)
        }
    }
}

#[cfg(test)]
mod tests;
