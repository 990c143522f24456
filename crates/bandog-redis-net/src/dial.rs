//! Opens a connection to a server: connects the socket, sets its options, does the TLS handshake if the URL requires TLS, and logs
//! in to Redis.

mod login;
mod peer;
mod probe;
mod stream;

use std::{
    future::pending,
    io,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bandog_core::{Error, ErrorKind, Result, rounded};
use bandog_net::Credentials;
use futures_util::{
    FutureExt,
    future::{BoxFuture, join},
};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError, Value, aio::AsyncPushSender,
    aio::MultiplexedConnection, io::tcp::socket2,
};
use tokio::{net::TcpStream, time::timeout};

pub(crate) use self::probe::TlsProbeBudget;
pub(crate) use self::stream::Reset;
use self::{
    peer::Peer,
    stream::{Socket, Stream},
};
use crate::options::{Address, Options, TLS_NAMES};

/// Maximum duration of a connection attempt, even if the timeout of a request is longer.
const MAX_DIAL_TIME: Duration = Duration::from_secs(5);
/// If a TLS handshake takes longer than this, the client doubts that the server speaks TLS, and probes whether Redis
/// listens there without TLS.
const TLS_SILENCE_TIMEOUT: Duration = Duration::from_millis(500);
/// Idle time of a connection before its first TCP keepalive probe. The probes detect that the peer has vanished.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
/// Interval between TCP keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// The name of each connection, for operators.
const CLIENT_NAME: &str = "bandog";

/// An open connection and the future that drives it.
pub(crate) struct Connection {
    /// Sends commands on the connection.
    pub(crate) mux: MultiplexedConnection,
    /// The future that reads and writes the socket. It ends when the connection ends. Dropping it closes the
    /// connection.
    pub(crate) driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// If this switch is set, closing the connection sends a TCP reset.
    pub(crate) tcp_reset: Reset,
    /// Ends when the sentinels name another master. Then the client must leave this connection, even if the server still
    /// answers. Without sentinels, it never ends.
    pub(crate) moved: BoxFuture<'static, ()>,
}

/// Maximum duration of a connection attempt with these options. It is shorter than the timeout of a request. So if the
/// attempt fails, a request that waits for it fails with the cause, and not with its own timeout.
pub(crate) fn dial_limit(options: &Options) -> Duration {
    (options.timeout * 9 / 10).min(MAX_DIAL_TIME)
}

/// Connects and logs in. `pushes` gets the server's push messages.
///
/// The URL might be wrong about TLS: for example, it says `redis://`, and the server requires TLS. If the URL seems to
/// be wrong, a probe on another connection checks whether the server speaks TLS. `probes` limits the number of these
/// probes.
///
/// # Errors
/// - `Unavailable`: the server does not answer in time.
/// - `Denied`: the server refuses the user, the password, the database or the certificate, or the client refuses the
///   server's certificate.
/// - `Unsupported`: the peer is not Redis, or it does not use TLS as the URL says.
/// - `Misused`: the certificate files or the file with the password cannot be used.
pub(crate) async fn dial_server(
    options: &Options,
    pushes: Option<Arc<dyn AsyncPushSender>>,
    probes: &mut TlsProbeBudget,
) -> Result<Connection> {
    let limit = dial_limit(options);
    let peer = Peer::default();
    match timeout(limit, connect(options, pushes, &peer, probes, limit)).await {
        Ok(dialled) => dialled,
        Err(_) => Err(peer.not_redis(options).unwrap_or_else(|| {
            Error::unavailable(format!(
                "no connection to {} within {}{}{}",
                options.store(),
                rounded(limit),
                peer.hint(options),
                options.address_hint()
            ))
        })),
    }
}

/// Converts the error of a failed connection attempt. This function is called only if the client was connected to the
/// server before. Then the cause of the error might be temporary: for example, the certificate files are being
/// replaced, or another program listens at the address of the server for a short time. So `Misused` and `Unsupported`
/// become `Unavailable`, and waiters continue to wait.
pub(crate) fn make_retryable(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Misused | ErrorKind::Unsupported => {
            Error::unavailable("the server was reachable before, and now it is not").caused_by(error)
        }
        _ => error,
    }
}

/// Does the work of [`dial_server`], which ends it after this limit of time.
async fn connect(
    options: &Options,
    pushes: Option<Arc<dyn AsyncPushSender>>,
    peer: &Peer,
    probes: &mut TlsProbeBudget,
    limit: Duration,
) -> Result<Connection> {
    let credentials = options.login.credentials(limit).await?;
    let socket = reach(options, peer, probes).await?;
    let reset = Reset::default();
    let stream = Stream::new(socket, reset.clone(), peer.clone());
    let mut config = AsyncConnectionConfig::new().set_response_timeout(Some(options.timeout));
    if let Some(pushes) = pushes {
        config = config.set_push_sender(pushes);
    }
    let connected = MultiplexedConnection::new_with_config(&login(options, credentials), stream, config).await;
    peer.stop_recording();
    match connected {
        Ok((mux, driver)) => {
            let naming = name(mux.clone());
            let driver = Box::pin(async move {
                join(driver, naming).await;
            });
            Ok(Connection { mux, driver, tcp_reset: reset, moved: pending().boxed() })
        }
        Err(error) => Err(match &options.address {
            // A server with TLS might close an unencrypted connection without sending anything.
            Address::Tcp { host, port } if peer.is_silent() && probes.finds_tls(host, *port).await => {
                let (store, scheme) = (options.store(), options.scheme(true));
                let message = format!("{store}: the server there requires TLS; write {scheme}://");
                Error::new(ErrorKind::Unsupported, message).caused_by(error)
            }
            Address::Tcp { .. } | Address::Tls { .. } | Address::Unix { .. } | Address::Sentinels(_) => {
                handshake_error(options, peer, error)
            }
        }),
    }
}

/// Gives the connection a name, which `CLIENT LIST` shows. Nothing waits for the answer. Every user may run `HELLO`, and
/// not every user may run `CLIENT SETNAME`.
async fn name(mut mux: MultiplexedConnection) {
    let _: Result<Value, RedisError> =
        redis::cmd("HELLO").arg(3).arg("SETNAME").arg(CLIENT_NAME).query_async(&mut mux).await;
}

/// Opens the socket, and does the TLS handshake if the URL requires TLS.
async fn reach(options: &Options, peer: &Peer, probes: &mut TlsProbeBudget) -> Result<Socket> {
    let unreachable = |error: io::Error| {
        let message = format!("cannot reach {}{}", options.store(), options.address_hint());
        Error::unavailable(message).caused_by(error)
    };
    let tcp = async |host: &str, port: u16| {
        let stream = bandog_net::tcp(host, port).await?;
        configure(&stream, options.timeout)?;
        peer.connected();
        Ok(stream)
    };
    match &options.address {
        Address::Tcp { host, port } => tcp(host, *port).await.map(Socket::Tcp).map_err(unreachable),
        Address::Tls { host, port, files } => {
            let stream = tcp(host, *port).await.map_err(unreachable)?;
            let store = options.store();
            let mut handshake = pin!(bandog_tls::shake_hands(&store, host, files, &TLS_NAMES, stream));
            // A Redis server without TLS takes the bytes of the TLS handshake for the beginning of a command, and might
            // wait forever for the rest of this command.
            let stream = match timeout(TLS_SILENCE_TIMEOUT.min(options.timeout / 3), &mut handshake).await {
                Ok(shaken) => shaken?,
                Err(_) if probes.finds_plain_redis(host, *port).await => {
                    let scheme = options.scheme(false);
                    let message = format!("{store}: Redis listens there without TLS; write {scheme}://");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
                Err(_) => handshake.await?,
            };
            Ok(Socket::Tls(Box::new(stream)))
        }
        // Only a `Dialler` has such an address.
        Address::Sentinels(_) => Err(Error::misused("sentinels are no server")),
        #[cfg(unix)]
        Address::Unix { path } => tokio::net::UnixStream::connect(path).await.map(Socket::Unix).map_err(unreachable),
        #[cfg(not(unix))]
        Address::Unix { .. } => Err(Error::new(ErrorKind::Unsupported, "this system has no Unix sockets")),
    }
}

/// Sets the options of a socket. One of them is TCP_NODELAY. Without this option, each request to another machine would
/// wait for the answer to the previous request.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux has TCP_USER_TIMEOUT"))]
fn configure(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let probes = socket2::TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&probes)?;
    // If data is not acknowledged for two timeouts, the requests in this data have failed already. So the kernel is
    // allowed to close the connection then.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(2 * timeout))?;
    Ok(())
}

/// The login, in the form that the redis crate needs.
fn login(options: &Options, credentials: Credentials) -> RedisConnectionInfo {
    // The name of the client library is not sent, because many users have no right to run the command that sends it.
    let mut info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_db(options.db.into())
        .set_skip_set_lib_name();
    if let Some(user) = credentials.user {
        info = info.set_username(user);
    }
    if let Some(password) = credentials.password {
        info = info.set_password(password);
    }
    info
}

/// The error of a failed Redis handshake. In this handshake, the client logs in and selects the database.
fn handshake_error(options: &Options, peer: &Peer, error: RedisError) -> Error {
    let store = options.store();
    if let Some(error) = peer.tls_error(&store).or_else(|| peer.not_redis(options)) {
        return error;
    }
    match error.kind() {
        redis::ErrorKind::RESP3NotSupported => login::no_resp3(&store).caused_by(error),
        redis::ErrorKind::AuthenticationFailed => login::wrong(options).caused_by(error),
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => login::refused(options, error),
        _ => {
            let hint = peer.hint(options);
            Error::unavailable(format!("{store} closed the connection immediately{hint}")).caused_by(error)
        }
    }
}

#[cfg(test)]
mod tests;
