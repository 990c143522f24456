//! Opens a connection to a server: connects the socket, sets its options, does the TLS handshake if the URL requires TLS, and logs
//! in to Redis.

mod login;
mod peer;
mod probe;

use std::{
    future::pending,
    io,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bandog_core::{Error, ErrorKind, Result, rounded};
use bandog_net::{Credentials, Reset, ServerStream, Socket, configure, tls};
use futures_util::{
    FutureExt,
    future::{BoxFuture, join},
};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError, Value, aio::AsyncPushSender,
    aio::MultiplexedConnection,
};
use tokio::time::timeout;

use self::peer::Peer;
pub(crate) use self::probe::TlsProbeBudget;
use crate::options::{Address, Options, TLS_NAMES};

/// Maximum duration of a connection attempt, even if the timeout of a request is longer.
const MAX_DIAL_TIME: Duration = Duration::from_secs(5);
/// If a TLS handshake takes longer than this, the client doubts that the server speaks TLS, and probes whether Redis
/// listens there without TLS.
const TLS_SILENCE_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for which the answers on a connection are read after a write has failed. The last one may be the reason why the server has
/// closed the connection.
const READ_ON: Duration = Duration::from_millis(100);
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
    let stream = ServerStream::new(socket, reset.clone(), peer.clone()).reading_on(READ_ON);
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
            let mut handshake = pin!(tls::shake_hands(&store, host, files, &TLS_NAMES, stream));
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
