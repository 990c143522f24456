//! Three independent servers, of which two must hold each lock.

use std::{fmt::Write as _, time::Duration};

use bandog_testkit::{RedisServer, Wire};

use super::text;

const SERVERS: usize = 3;
/// The maximum ttl of a lock. A server that has restarted has a vote when it has run for longer.
const MAX_TTL: Duration = Duration::from_secs(1);
/// A server reports its uptime in whole seconds of its own clock, and bandog subtracts one of them. So at this uptime in
/// seconds a server has a vote.
const VOTES_AT: u64 = MAX_TTL.as_secs() + 2;

/// The servers of the quorum.
#[derive(Debug)]
pub(crate) struct Quorum(Vec<RedisServer>);

impl Quorum {
    pub(crate) fn start() -> Self {
        Self((0..SERVERS).map(|_| RedisServer::start()).collect())
    }

    pub(crate) fn servers(&self) -> Vec<&RedisServer> {
        self.0.iter().collect()
    }

    pub(crate) fn url(&self) -> String {
        url(self.0.iter().map(|server| server.addr().to_string()))
    }

    /// The URL of a client, and a wire of its own to each server.
    pub(crate) fn connection(&self) -> (String, Vec<Wire>) {
        let wires: Vec<_> = self.0.iter().map(RedisServer::wire).collect();
        (url(wires.iter().map(|wire| wire.addr().to_string())), wires)
    }

    /// The reason why not all servers have a vote. `None` if a further fault may follow.
    pub(crate) fn problem(&self) -> Option<String> {
        let uptime = |server: &RedisServer| {
            let info = text(server, &["INFO", "server"])?;
            info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")?.trim().parse::<u64>().ok())
        };
        let without_vote = |server: &&RedisServer| uptime(server).is_none_or(|uptime| uptime < VOTES_AT);
        let server = self.0.iter().find(without_vote)?;
        Some(format!("the server {} has no vote: it has run for {:?} s", server.port(), uptime(server)))
    }
}

fn url(hosts: impl Iterator<Item = String>) -> String {
    let mut url = format!("redis+quorum://{}", hosts.collect::<Vec<_>>().join(","));
    // Writing to a string cannot fail.
    let _ = write!(url, "?max_ttl={}s", MAX_TTL.as_secs());
    url
}
