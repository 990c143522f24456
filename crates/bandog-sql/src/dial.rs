//! Opens a connection: connects the socket, sets its options, does the TLS handshake if the URL requires TLS, and logs in.

mod backend_key;

use std::{io, pin::Pin, time::Duration};

use bandog_core::{Error, ErrorKind, Result, rounded};
use bandog_net::{Reset, ServerStream, Socket, configure, tls};
use futures_util::{Stream, stream::poll_fn};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, config::SslMode, error::SqlState};

pub(crate) use self::backend_key::BackendPid;
use self::backend_key::LoginReader;
use crate::options::{Address, SqlOptions, TLS_NAMES, Tls};

/// The words about a server that has no connection for this user.
const NO_FREE: &str = "there is no free connection";
/// Maximum duration of a connection attempt, even if the timeout of a request is longer.
const MAX_DIAL_TIME: Duration = Duration::from_secs(5);
/// The request for TLS, which is sent before any other message: its length, and a fixed number.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// An open connection to PostgreSQL.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) messages: Messages,
    /// If this switch is set, closing the connection sends a TCP reset.
    pub(crate) reset: Reset,
    /// The number of the server's process, as the other end of the connection reports it.
    pub(crate) pid: BackendPid,
}

/// The messages of the server. This stream reads and writes the socket, so it must be polled while a query runs. It ends
/// with the connection. Dropping it closes the connection.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Send>>;

/// Connects and logs in.
///
/// # Errors
/// - `Unavailable`: the server does not answer in time, or has no free connection.
/// - `Denied`: the server refuses the user, the password, the database or the certificate, or the client refuses the
///   server's certificate.
/// - `Unsupported`: the server has no TLS.
/// - `Misused`: the certificate files or the file with the password cannot be used.
pub(crate) async fn dial(options: &SqlOptions) -> Result<Connection> {
    // It is shorter than the timeout of a request. So a request that waits for this attempt fails with the cause.
    let limit = (options.timeout * 9 / 10).min(MAX_DIAL_TIME) / options.attempts;
    match timeout(limit, connect(options, limit)).await {
        Ok(connection) => connection,
        Err(_) => Err(no_login(options, limit)),
    }
}

/// The error of a connection that was not made in time.
pub(crate) fn no_login(options: &SqlOptions, limit: Duration) -> Error {
    let (store, limit, server) = (options.store(), rounded(limit), options.dialect.server());
    Error::unavailable(format!("no login at {store} within {limit}; check that {server} listens there"))
}

/// The error of a server that has no connection for this user.
pub(crate) fn no_free_connection(options: &SqlOptions, said: &str) -> Error {
    let (store, needed) = (options.store(), options.needed_connections());
    Error::unavailable(format!(
        "{store}: {said}: {NO_FREE}; a client needs at least one and uses up to {needed}: end other sessions, or raise the limit"
    ))
}

/// Whether the server had no connection for this user.
pub(crate) fn is_full(error: &Error) -> bool {
    error.to_string().contains(NO_FREE)
}

/// The error of a connection that ended during the login.
pub(crate) fn ended_early(options: &SqlOptions) -> Error {
    let (store, server) = (options.store(), options.dialect.server());
    Error::unavailable(format!("{store} closed the connection during the login; check that {server} listens there"))
}

async fn connect(options: &SqlOptions, limit: Duration) -> Result<Connection> {
    let credentials = options.login.credentials(limit).await?;
    let user = credentials.user.unwrap_or_default();
    let reset = Reset::default();
    let pid = BackendPid::default();
    let stream = ServerStream::new(reach(options).await?, reset.clone(), LoginReader::new(pid.clone()));
    let mut config = Config::new();
    config.user(&user).dbname(&options.database).application_name(&options.application);
    config.ssl_mode(SslMode::Disable);
    if let Some(settings) = &options.startup {
        config.options(settings);
    }
    if let Some(password) = credentials.password {
        config.password(password);
    }
    let (client, mut connection) =
        config.connect_raw(stream, NoTls).await.map_err(|error| refused(options, &user, error))?;
    let messages = Box::pin(poll_fn(move |context| connection.poll_message(context)));
    Ok(Connection { client, messages, reset, pid })
}

/// Opens the socket, and does the TLS handshake if the URL requires TLS.
async fn reach(options: &SqlOptions) -> Result<Socket> {
    let store = options.store();
    let unreachable = |error: io::Error| Error::unavailable(format!("cannot reach {store}")).caused_by(error);
    match &options.address {
        Address::Tcp { host, port, tls } => {
            let mut stream = bandog_net::tcp(host, *port).await.map_err(unreachable)?;
            configure(&stream, options.timeout).map_err(unreachable)?;
            if *tls == Tls::Off {
                return Ok(Socket::Tcp(stream));
            }
            stream.write_all(&TLS_REQUEST).await.map_err(unreachable)?;
            let has_tls = stream.read_u8().await.map_err(unreachable)? == b'S';
            let stream = match tls {
                Tls::Checked(files) if has_tls => tls::shake_hands(&store, host, files, &TLS_NAMES, stream).await?,
                Tls::Checked(_) => {
                    let message = format!("{store}: the server has no TLS; enable it there, or write sslmode=disable");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
                Tls::Preferred if has_tls => tls::shake_hands_unchecked(&store, host, &TLS_NAMES, stream).await?,
                Tls::Preferred | Tls::Off => return Ok(Socket::Tcp(stream)),
            };
            Ok(Socket::Tls(Box::new(stream)))
        }
        #[cfg(unix)]
        Address::Unix { path } => tokio::net::UnixStream::connect(path).await.map(Socket::Unix).map_err(unreachable),
        #[cfg(not(unix))]
        Address::Unix { .. } => Err(Error::new(ErrorKind::Unsupported, "this system has no Unix sockets")),
    }
}

/// The error of a failed login. No message contains the password.
fn refused(options: &SqlOptions, user: &str, error: tokio_postgres::Error) -> Error {
    let (store, blamed) = (options.store(), options.login.blamed());
    let Some(refusal) = error.as_db_error() else {
        // The client itself finds that the URL has no password, or that the server does not know the password.
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        if [error.to_string(), cause].iter().any(|text| text.contains("password") || text.contains("authentication")) {
            let message = if options.login.has_password() {
                format!("{store}: the login of the user {user:?} failed; check {blamed}")
            } else {
                format!("{store} requires a password of the user {user:?}; write it into the URL")
            };
            return Error::new(ErrorKind::Denied, message).about_login().caused_by(error);
        }
        return ended_early(options).caused_by(error);
    };
    let said = refusal.message();
    let denied = |hint: &str| Error::new(ErrorKind::Denied, format!("{store}: {said}{hint}"));
    match *refusal.code() {
        SqlState::INVALID_PASSWORD => denied(&format!("; check {blamed}")).about_login(),
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            denied("; if the server requires TLS, add sslmode=verify-full to the URL, and else check its pg_hba.conf")
        }
        SqlState::INVALID_CATALOG_NAME => denied("; create the database, or name another one in the URL"),
        SqlState::INSUFFICIENT_PRIVILEGE if options.startup.is_some() => {
            denied("; the user may not set this: correct options= in the URL, or grant the right")
        }
        SqlState::INSUFFICIENT_PRIVILEGE => denied("; grant the user the right to connect to the database"),
        SqlState::TOO_MANY_CONNECTIONS => no_free_connection(options, said),
        // The server refuses a setting of the URL. A pooler refuses the option itself, as a violation of the protocol.
        SqlState::SYNTAX_ERROR
        | SqlState::UNDEFINED_OBJECT
        | SqlState::INVALID_PARAMETER_VALUE
        | SqlState::CANT_CHANGE_RUNTIME_PARAM
        | SqlState::PROTOCOL_VIOLATION
            if options.startup.is_some() =>
        {
            Error::misused(format!(
                "{store}: {said}; correct options= in the URL, which has settings for the start of each session: \
                 options=-c%20NAME%3DVALUE"
            ))
        }
        _ => Error::unavailable(format!("{store}: {said}")),
    }
}
