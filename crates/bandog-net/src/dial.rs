//! Connections to a host that has several addresses.
//!
//! A name often has an address of each family, or several servers behind it, and one of the addresses can drop all
//! packets. So the addresses are tried one after another with a short head start, until one of them answers, as RFC 8305
//! ("Happy Eyeballs") describes it.

use std::{fmt::Display, future::pending, io, net::SocketAddr, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpStream, lookup_host},
    select,
    time::sleep,
};

/// Time for which an attempt is alone, before the next address is tried. The value is that of RFC 8305.
const HEAD_START: Duration = Duration::from_millis(250);
/// Idle time of a connection before its first TCP keepalive probe. The probes detect that the peer has vanished.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
/// Interval between TCP keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// Connects to the first address of this host that answers.
///
/// # Errors
/// Those of the resolver, and those of the attempts: if there are several addresses, the message has the error of each.
///
/// # Cancel safety
/// If the future is dropped, all attempts are given up.
pub async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    first_of(addresses(host, port).await?, TcpStream::connect).await.map_err(joined)
}

/// Sets the options of a socket. One of them is TCP_NODELAY. Without this option, each request to another machine would
/// wait for the answer to the previous request.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux has TCP_USER_TIMEOUT"))]
pub fn configure(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&probes)?;
    // If data is not acknowledged for two timeouts, the requests in this data have failed already. So the kernel is
    // allowed to close the connection then.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(2 * timeout))?;
    Ok(())
}

/// The addresses of this host, in the order of the resolver, but with the two families in turn.
///
/// # Errors
/// Those of the resolver. The kind is `NotFound` if the name has no address.
///
/// # Cancel safety
/// Dropping the future changes nothing.
pub async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = lookup_host((host, port)).await?.collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(in_turn(found))
}

/// The same addresses with the families in turn. The family of the first address comes first.
fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().copied() else { return addresses };
    let count = addresses.len();
    let (same, others): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == first.is_ipv4());
    let (mut same, mut others) = (same.into_iter(), others.into_iter());
    (0..count).flat_map(|_| [same.next(), others.next()]).flatten().collect()
}

/// The first attempt that succeeds. The next address is tried when an attempt has failed, or when the last attempt has had
/// its head start. The other attempts are dropped.
///
/// # Errors
/// Each address with the error of its attempt, if all attempts have failed.
///
/// # Cancel safety
/// If the future is dropped, all attempts are dropped.
pub async fn first_of<T, E, F: Future<Output = Result<T, E>>>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, Vec<(SocketAddr, E)>> {
    let (mut left, mut attempts, mut failed) = (addresses.into_iter(), FuturesUnordered::new(), Vec::new());
    loop {
        if let Some(address) = left.next() {
            let attempt = connect(address);
            attempts.push(async move { (address, attempt.await) });
        }
        let is_last = left.len() == 0;
        let head_start = async {
            if is_last {
                pending().await
            } else {
                sleep(HEAD_START).await;
            }
        };
        select! {
            biased;
            ended = attempts.next() => match ended {
                Some((_, Ok(connected))) => return Ok(connected),
                Some((address, Err(error))) => failed.push((address, error)),
                None => return Err(failed),
            },
            () = head_start => {}
        }
    }
}

/// One error for the errors of all addresses.
fn joined(mut failed: Vec<(SocketAddr, io::Error)>) -> io::Error {
    if let [_] = failed[..]
        && let Some((_, error)) = failed.pop()
    {
        return error;
    }
    let kind = failed.last().map_or(io::ErrorKind::NotFound, |(_, error)| error.kind());
    let text = |(address, error): &(SocketAddr, io::Error)| -> String { line(address, error) };
    io::Error::new(kind, failed.iter().map(text).collect::<Vec<_>>().join("; "))
}

fn line(address: &SocketAddr, error: &impl Display) -> String {
    format!("{address}: {error}")
}

#[cfg(test)]
mod tests;
