//! The addresses of the servers of a URL.

use std::{io, time::Duration};

use futures_util::future::join_all;
use tokio::{net::TcpStream, time::timeout};

/// Time in which one of several addresses of a server must answer.
const ANSWER: Duration = Duration::from_millis(500);
/// Number of times that such an address is in the list, where the name is once.
const OFTEN: usize = 5;

/// Connects to a server of the URL, which is written `host:port`.
pub(crate) async fn dial(server: &str) -> io::Result<TcpStream> {
    let Some((host, port)) = host_and_port(server) else { return TcpStream::connect(server).await };
    bandog_net::tcp(host, port).await
}

/// The same servers for the client library. It tries the addresses of a name one after another, and an address that drops
/// all packets takes 4 s of a session of 10 s. So a name with several addresses is replaced by those that answer. The name
/// stays in the list, but rarely: its addresses can change during a session.
pub(crate) async fn with_addresses(servers: &str) -> String {
    let each = servers.split(',').map(async |server| {
        let Some((host, port)) = host_and_port(server) else { return server.to_owned() };
        let addresses = bandog_net::addresses(host, port).await.unwrap_or_default();
        if addresses.len() < 2 {
            return server.to_owned();
        }
        let answers = join_all(addresses.iter().map(|address| timeout(ANSWER, TcpStream::connect(address)))).await;
        let answering = addresses.iter().zip(answers).filter(|(_, answer)| matches!(answer, Ok(Ok(_))));
        let answering: Vec<_> = answering.map(|(address, _)| address.to_string()).collect();
        let all = (0..OFTEN).flat_map(|_| &answering).map(String::as_str).chain([server]);
        all.collect::<Vec<_>>().join(",")
    });
    join_all(each).await.join(",")
}

/// The host without the brackets of an IPv6 address.
fn host_and_port(server: &str) -> Option<(&str, u16)> {
    let (host, port) = server.rsplit_once(':')?;
    Some((host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_with_one_address_stays_as_it_is() {
        for servers in ["127.0.0.1:2181", "127.0.0.1:2181,[::1]:2182", "no.such.name.invalid:2181"] {
            assert_eq!(with_addresses(servers).await, servers);
        }
        assert_eq!(host_and_port("[::1]:2181"), Some(("::1", 2181)));
    }
}
