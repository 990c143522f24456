//! Probes of TLS. The URL of a server may be wrong about TLS. If the URL seems to be wrong, a probe opens another
//! connection and checks whether the server speaks TLS. A probe sends nothing secret.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of probes in all attempts to open one connection. A second probe is allowed, because the answer to
/// the first probe might come too late.
const MAX_PROBES: u32 = 2;

/// The number of probes that are still allowed. All attempts to open the same connection share one budget.
#[derive(Debug)]
pub(crate) struct TlsProbeBudget(u32);

impl TlsProbeBudget {
    /// The budget of the connection for commands. Users read the errors of this connection, so the client makes probes
    /// to explain these errors.
    pub(crate) fn for_commands() -> Self {
        Self(MAX_PROBES)
    }

    /// The budget of any other connection, which makes no probe.
    pub(crate) fn none() -> Self {
        Self(0)
    }

    /// Takes one probe from the budget. Returns false if no probe is left.
    fn take(&mut self) -> bool {
        let is_left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        is_left
    }

    /// Whether a Redis server without TLS listens at this address. False if the budget is used up.
    pub(super) async fn finds_plain_redis(&mut self, host: &str, port: u16) -> bool {
        self.take() && is_plain_redis(host, port).await
    }

    /// Whether the server at this address speaks TLS. False if the budget is used up.
    pub(super) async fn finds_tls(&mut self, host: &str, port: u16) -> bool {
        let ask = async {
            match bandog_net::tcp(host, port).await {
                Ok(stream) => bandog_net::tls::speaks_tls(host, stream).await,
                Err(_) => false,
            }
        };
        self.take() && timeout(PROBE_TIMEOUT, ask).await == Ok(true)
    }
}

/// Sends PING without TLS, and checks whether the answer is an answer of Redis.
async fn is_plain_redis(host: &str, port: u16) -> bool {
    let ask = async {
        let mut stream = bandog_net::tcp(host, port).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut first = [0];
        stream.read_exact(&mut first).await?;
        io::Result::Ok(first)
    };
    matches!(timeout(PROBE_TIMEOUT, ask).await, Ok(Ok([b'+' | b'-'])))
}
