//! Opens a connection and logs in.

use std::{collections::HashMap, io, net::SocketAddr, time::Duration};

use bandog_core::{Error, ErrorKind, Result};
use bandog_net::{Credentials, addresses, first_of};
use mysql_async::{ClientIdentity, Conn, DriverError, IoError, OptsBuilder, SslOpts, prelude::Queryable};
use tokio::{task::spawn_blocking, time::timeout};

use super::connection;
use crate::{
    client::Connection,
    dial::{ended_early, no_free_connection, no_login},
    options::{Address, SqlOptions, TLS_NAMES, Tls, TlsFiles},
    rights,
};

/// Maximum duration of a connection attempt, even if the timeout of a request is longer.
const MAX_DIAL_TIME: Duration = Duration::from_secs(5);
/// Idle time of a connection before its first TCP keepalive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);

/// Maximum number of bytes of a packet of an answer: that of the protocol's setting. What this client sends is checked against
/// the setting of the server.
const MAX_ANSWER: usize = 1 << 30;

/// Connects and logs in.
///
/// # Errors
/// - `Unavailable`: the server does not answer in time, or has no free connection.
/// - `Denied`: the server refuses the user, the password, the database or the certificate, or the client refuses the
///   server's certificate.
/// - `Unsupported`: the server has no TLS, or wants a login that this client does not know.
/// - `Misused`: the certificate files or the file with the password cannot be used.
pub(crate) async fn dial(options: &SqlOptions) -> Result<Connection> {
    // It is shorter than the timeout of a request. So a request that waits for this attempt fails with the cause.
    let limit = (options.timeout * 9 / 10).min(MAX_DIAL_TIME) / options.attempts;
    match timeout(limit, connect(options, limit)).await {
        Ok(connected) => {
            let (conn, max_packet) = connected?;
            Ok(connection::start(conn, options.timeout, max_packet))
        }
        Err(_) => Err(no_login(options, limit)),
    }
}

/// A connection, and the server's `max_allowed_packet`.
async fn connect(options: &SqlOptions, limit: Duration) -> Result<(Conn, usize)> {
    let credentials = options.login.credentials(limit).await?;
    let connected = match connect_with(options, opts(options, &credentials, true).await?).await {
        Err(mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer)) if options.prefers_tls() => {
            connect_with(options, opts(options, &credentials, false).await?).await
        }
        connected => connected,
    };
    let with_limit = async |mut conn: Conn| {
        let max_packet: Option<usize> = conn.query_first("select @@max_allowed_packet").await?;
        Ok((conn, max_packet.unwrap_or(usize::MAX)))
    };
    match connected {
        Ok(conn) => with_limit(conn).await,
        Err(error) => Err(error),
    }
    .map_err(|error| refused(options, &credentials.user.unwrap_or_default(), error))
}

/// Connects with these options, to the first address of the host that answers.
async fn connect_with(options: &SqlOptions, login: OptsBuilder) -> mysql_async::Result<Conn> {
    let Address::Tcp { host, port, .. } = &options.address else { return Conn::new(login).await };
    let addresses = addresses(host, *port).await?;
    if addresses.len() == 1 {
        return Conn::new(login).await;
    }
    let attempt = async |address: SocketAddr| match Conn::new(login.clone().resolved_ips(Some([address.ip()]))).await {
        Err(error @ mysql_async::Error::Io(IoError::Io(_))) => Err(error),
        // The server has answered.
        ended => Ok(ended),
    };
    let mut failed = match first_of(addresses, attempt).await {
        Ok(ended) => return ended,
        Err(failed) => failed,
    };
    Err(failed.pop().map_or_else(|| io::Error::from(io::ErrorKind::NotFound).into(), |(_, error)| error))
}

/// The options for the client library. `prefers_tls`: with `sslmode=prefer`, the connection has TLS.
async fn opts(options: &SqlOptions, credentials: &Credentials, prefers_tls: bool) -> Result<OptsBuilder> {
    let login = OptsBuilder::default()
        .user(credentials.user.as_ref())
        .pass(credentials.password.as_ref())
        .db_name(Some(&options.database))
        .connect_attributes(HashMap::from([("program_name".to_owned(), options.application.clone())]))
        // Otherwise the library would move a connection of this machine to the server's socket.
        .prefer_socket(false)
        // Otherwise the library would end the connection when a row is larger than the server's limit of today.
        .max_allowed_packet(Some(MAX_ANSWER))
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE_IDLE));
    let opts = match &options.address {
        Address::Tcp { host, port, tls } => {
            let tls = match tls {
                Tls::Checked(files) => Some(ssl_opts(files.clone()).await?),
                Tls::Preferred if prefers_tls => {
                    bandog_net::tls::choose_provider();
                    Some(SslOpts::default().with_danger_accept_invalid_certs(true))
                }
                Tls::Preferred | Tls::Off => None,
            };
            login.ip_or_hostname(host).tcp_port(*port).ssl_opts(tls)
        }
        Address::Unix { path } => login.socket(Some(path.display().to_string())),
    };
    Ok(opts)
}

/// The files for TLS. They are read here first, because the errors of the library do not name them.
async fn ssl_opts(files: TlsFiles) -> Result<SslOpts> {
    bandog_net::tls::choose_provider();
    let read = spawn_blocking(move || {
        bandog_net::tls::config(&files, &TLS_NAMES)?;
        let roots = match files.ca {
            Some(path) => vec![path.into()],
            None => {
                bandog_net::tls::certificates_of_the_system().into_iter().map(|root| root.to_vec().into()).collect()
            }
        };
        let identity = files.identity.map(|(cert, key)| ClientIdentity::new(cert.into(), key.into()));
        let opts = SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots);
        Ok(opts.with_client_identity(identity))
    });
    read.await.map_err(|error| Error::unavailable("the Tokio runtime is shutting down").caused_by(error))?
}

/// The error of a failed login. No message contains the password.
fn refused(options: &SqlOptions, user: &str, error: mysql_async::Error) -> Error {
    let (store, blamed) = (options.store(), options.login.blamed());
    let unsupported = |message: String| Error::new(ErrorKind::Unsupported, format!("{store}: {message}"));
    match error {
        mysql_async::Error::Server(refusal) => {
            let said = &refusal.message;
            let denied = |hint: &str| Error::new(ErrorKind::Denied, format!("{store}: {said}{hint}"));
            match refusal.code {
                1045 | 1698 if matches!(options.address, Address::Tcp { tls: Tls::Off, .. }) => denied(&format!(
                    "; check {blamed}, and if the server requires TLS, add \
                     sslmode=verify-full"
                ))
                .about_login(),
                1045 | 1698 => denied(&format!("; check {blamed}")).about_login(),
                1049 => denied("; create the database and grant rights on it, or name another one in the URL"),
                1044 => denied(&format!(
                    "; create the database if it does not exist, and {}; or name another one in the URL",
                    rights::on_database(options)
                )),
                1130 | 1227 | 1251 | 1820 | 1862 | 3118 | 3159 | 4151 => denied(""),
                1040 | 1203 | 1226 => no_free_connection(options, said),
                _ => Error::unavailable(format!("{store}: {said}")),
            }
        }
        mysql_async::Error::Io(IoError::Tls(cause)) => {
            Error::new(ErrorKind::Denied, format!("{store}: the TLS handshake failed")).caused_by(cause)
        }
        mysql_async::Error::Io(IoError::Io(error)) => match bandog_net::tls::cause(&error) {
            Some(cause) => bandog_net::tls::refused(&store, &TLS_NAMES, cause),
            None => Error::unavailable(format!("cannot reach {store}")).caused_by(error),
        },
        mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            unsupported("the server has no TLS; enable it there, or write sslmode=disable".into())
        }
        // MySQL does not reveal which users exist: it asks for one of its kinds of login, which can be this one.
        mysql_async::Error::Driver(DriverError::UnknownAuthPlugin { name }) if name == "sha256_password" => {
            let says = "does not exist, or has the login sha256_password, which this client does not have";
            Error::new(
                ErrorKind::Denied,
                format!("{store}: the user {user:?} {says}; check the user in the URL, or use caching_sha2_password"),
            )
        }
        mysql_async::Error::Driver(
            cause @ (DriverError::UnknownAuthPlugin { .. }
            | DriverError::MysqlOldPasswordDisabled
            | DriverError::CleartextPluginDisabled),
        ) => unsupported(format!(
            "the server wants a login of the user {user:?} that this client does not have: {cause}"
        )),
        mysql_async::Error::Driver(_) | mysql_async::Error::Other(_) | mysql_async::Error::Url(_) => {
            ended_early(options)
        }
    }
}
