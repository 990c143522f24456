//! Asks the nodes which node has which slot.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Error, ErrorKind, Result};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{Pipeline, Value};
use tokio::time::sleep;

use super::{map::Topology, shared::SharedCluster};
use crate::{
    dialler::Dialler,
    link::Link,
    options::Host,
    refusal,
    reply::{list, text},
};

/// Maximum time for the answer of the known nodes. If none of them answers, the nodes in the URL are asked.
const MAX_TIME: Duration = Duration::from_secs(1);

/// Time between the requests to two nodes.
const STAGGER: Duration = Duration::from_millis(50);

impl SharedCluster {
    /// Asks the known nodes, and if none of them answers, the nodes in the URL. The first answer counts; but the answer
    /// of a node that does not see the whole cluster counts only if there is no other answer. An answer that is older than
    /// the present map does not count: a master that was stopped, and continues, may not know yet that a replica has taken
    /// over.
    ///
    /// # Errors
    /// The error of one of the nodes, if no node answers.
    pub(super) async fn fetch_topology(self: &Arc<Self>) -> Result<Topology> {
        let least_epoch = self.map().recent_epoch();
        let limit = Instant::now() + self.options.timeout.min(MAX_TIME);
        let known = self.map().nodes().into_iter().enumerate().map(|(number, node)| {
            let asked = async move {
                stagger(number, limit).await;
                ask(&node.server.link, &node.host, limit).await
            };
            asked.boxed()
        });
        if let Ok(topology) = first(known.collect(), least_epoch).await {
            return Ok(topology);
        }
        let limit = Instant::now() + self.options.timeout;
        let named = self.options.nodes.iter().enumerate().map(|(number, host)| {
            let options = self.options.of_node(host, false);
            let asked = async move {
                stagger(number, limit).await;
                ask(&Link::without_scripts(Dialler::new(options)), host, limit).await
            };
            asked.boxed()
        });
        first(named.collect(), least_epoch).await
    }
}

/// Waits before the node with this number is asked. So if the nodes before it answer soon, it is not asked at all. Each
/// node has at least half of the time until `limit` for its answer.
pub(super) async fn stagger(number: usize, limit: Instant) {
    if number > 0 {
        let delay = STAGGER * u32::try_from(number).unwrap_or(u32::MAX).min(1000);
        sleep(delay.min(limit.saturating_duration_since(Instant::now()) / 2)).await;
    }
}

/// The first good answer, or another answer, or one of the errors. An error that a repetition does not change counts more
/// than others. An answer whose epoch is less than `least_epoch` is an error.
async fn first(
    mut asked: FuturesUnordered<BoxFuture<'_, Result<Topology>>>,
    least_epoch: Option<u64>,
) -> Result<Topology> {
    let mut best: Result<Topology> = Err(Error::unavailable("no node of the cluster is known"));
    while let Some(answer) = asked.next().await {
        let answer = answer.and_then(|topology| {
            let is_old = topology.epoch.is_some_and(|epoch| Some(epoch) < least_epoch);
            if is_old { Err(Error::unavailable("a node of the cluster has an old map of slots")) } else { Ok(topology) }
        });
        match (answer, &best) {
            (Ok(topology), _) if topology.is_ok => return Ok(topology),
            (Ok(topology), Ok(known)) if topology.epoch < known.epoch => {}
            (Ok(topology), _) => best = Ok(topology),
            (Err(_), Ok(_)) => {}
            (Err(error), Err(known)) if known.is_retryable() => best = Err(error),
            (Err(_), Err(_)) => {}
        }
    }
    best
}

/// Asks one node.
async fn ask(link: &Link, host: &Host, deadline: Instant) -> Result<Topology> {
    let mut pipe = Pipeline::with_capacity(3);
    pipe.cmd("CLUSTER").arg("SLOTS");
    pipe.cmd("CLUSTER").arg("INFO");
    pipe.cmd("PUBSUB").arg("SHARDNUMSUB").arg("bandog");
    let replies = link.call_scripts(deadline, |_| pipe.clone()).await?;
    read(&replies, host)
}

/// Reads the replies to `CLUSTER SLOTS`, `CLUSTER INFO` and `PUBSUB SHARDNUMSUB` of the node at this address.
fn read(replies: &[Value], from: &Host) -> Result<Topology> {
    let [slots, info, sharded] = replies else {
        return Err(refusal::unexpected_reply(&Value::Array(replies.to_vec())));
    };
    if let Value::ServerError(error) = slots {
        return Err(match refusal::refused(error) {
            error if error.kind() == ErrorKind::Denied => error,
            error => Error::new(
                ErrorKind::Unsupported,
                "this server is not a node of a Redis Cluster; for a single server, write redis://HOST:PORT",
            )
            .caused_by(error),
        });
    }
    let ranges: Option<Vec<_>> = list(slots).iter().map(|range| read_range(list(range), from)).collect();
    let ranges = ranges.ok_or_else(|| refusal::unexpected_reply(slots))?;
    if ranges.is_empty() {
        return Err(Error::unavailable("the nodes of the cluster have no slots"));
    }
    let info = text(info);
    let epoch =
        info.as_ref().and_then(|info| info.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:")));
    Ok(Topology {
        ranges,
        sharded: knows_sharded_channels(sharded, list(slots)),
        // A user without the right for CLUSTER INFO trusts each node.
        is_ok: info.as_ref().is_none_or(|info| info.contains("cluster_state:ok")),
        epoch: epoch.and_then(|epoch| epoch.trim_end().parse().ok()),
    })
}

/// Whether the node knows sharded channels, as Redis does since version 7. `reply` is the reply to `PUBSUB SHARDNUMSUB`. If
/// the node refuses this command, which can be a missing right, then the reply to `CLUSTER SLOTS` shows the
/// version: since version 7, it has a fourth field for each node.
fn knows_sharded_channels(reply: &Value, ranges: &[Value]) -> bool {
    let Value::ServerError(error) = reply else { return true };
    if error.details().unwrap_or_default().to_ascii_lowercase().starts_with("unknown subcommand") {
        return false;
    }
    ranges.iter().any(|range| list(range).get(2).is_some_and(|master| list(master).len() > 3))
}

/// Reads a range of slots: the first slot, the last slot, the master, and its replicas. A master without a host has the
/// host of the node that has answered.
fn read_range(range: &[Value], from: &Host) -> Option<(u16, u16, Host)> {
    let [Value::Int(first), Value::Int(last), master, ..] = range else { return None };
    let [host, Value::Int(port), ..] = list(master) else { return None };
    let host = text(host).filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| from.name.clone());
    let slot = |number: &i64| u16::try_from(*number).ok().filter(|slot| *slot < crate::slots::SLOTS);
    Some((slot(first)?, slot(last)?, Host { name: host, port: u16::try_from(*port).ok()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, port: u16) -> Host {
        Host { name: name.into(), port }
    }

    fn value(text: &str) -> Value {
        redis::parse_redis_value(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_answer_of_a_node_is_read() {
        let slots = value(
            "*2\r\n*3\r\n:0\r\n:99\r\n*2\r\n$4\r\nhost\r\n:7000\r\n*3\r\n:100\r\n:16383\r\n*3\r\n$-1\r\n:7001\r\n$2\r\nid\r\n",
        );
        let read = |info: &str, sharded: &str| {
            let info = value(&format!("${}\r\n{info}\r\n", info.len()));
            read(&[slots.clone(), info, value(sharded)], &at("10.0.0.1", 7001)).unwrap()
        };
        let ranges = vec![(0, 99, at("host", 7000)), (100, 16383, at("10.0.0.1", 7001))];
        let expected = Topology { ranges, sharded: true, is_ok: true, epoch: None };
        assert_eq!(read("cluster_state:ok", "*0\r\n"), expected);
        assert_eq!(read("cluster_state:fail", "*0\r\n"), Topology { is_ok: false, ..expected });
        let info = "cluster_state:ok\r\ncluster_current_epoch:12\r\ncluster_my_epoch:3";
        assert_eq!(read(info, "*0\r\n").epoch, Some(12));
        assert!(!read("cluster_state:ok", "-ERR unknown subcommand\r\n").sharded);
    }

    #[test]
    fn a_node_without_pubsub_shows_its_version_in_its_slots() {
        let node_of_7 = "*4\r\n$1\r\nh\r\n:1\r\n$2\r\nid\r\n*0\r\n";
        let node_of_6 = "*3\r\n$1\r\nh\r\n:1\r\n$2\r\nid\r\n";
        for (reply, expected) in [
            ("-NOPERM this user has no permissions to run the 'pubsub|shardnumsub' command", [true, false]),
            ("-NOPERM this user has no permissions to run the 'pubsub' command or its subcommand", [true, false]),
            ("-ERR unknown command 'PUBSUB', with args beginning with: 'SHARDNUMSUB' 'bandog' ", [true, false]),
            ("-ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP.", [false; 2]),
            ("-ERR unknown subcommand 'SHARDNUMSUB'. Try PUBSUB HELP.", [false; 2]),
            ("*0", [true; 2]),
        ] {
            let known = [node_of_7, node_of_6].map(|node| {
                let slots = value(&format!("*1\r\n*3\r\n:0\r\n:16383\r\n{node}"));
                knows_sharded_channels(&value(&format!("{reply}\r\n")), list(&slots))
            });
            assert_eq!(known, expected, "{reply}");
        }
    }

    // Promise: RC7
    #[tokio::test]
    async fn an_answer_that_is_older_than_the_map_does_not_count() {
        let answer =
            |port, is_ok, epoch| Ok(Topology { ranges: vec![(0, 16383, at("h", port))], sharded: true, is_ok, epoch });
        let silent = || Err(Error::unavailable("no answer"));
        let chosen = async |answers: Vec<Result<Topology>>, least_epoch| {
            let asked = FuturesUnordered::new();
            // Each answer comes before the next one.
            for (at, answer) in answers.into_iter().enumerate() {
                let answered = async move {
                    for _ in 0..at {
                        tokio::task::yield_now().await;
                    }
                    answer
                };
                asked.push(answered.boxed());
            }
            first(asked, least_epoch).await.ok().map(|topology| topology.ranges[0].2.port)
        };
        // The first node has continued after a pause, and does not know the epoch 7 yet.
        let stale = || vec![answer(1, true, Some(6)), answer(2, true, Some(7)), answer(3, true, Some(8))];
        assert_eq!(chosen(stale(), Some(7)).await, Some(2));
        assert_eq!(chosen(stale(), None).await, Some(1), "without a map, the first answer counts");
        assert_eq!(chosen(vec![answer(1, true, Some(6)), silent()], Some(7)).await, None);
        assert_eq!(chosen(vec![answer(1, true, None)], Some(7)).await, Some(1), "a user without the right");
        // Of the nodes that do not see the whole cluster, the one with the latest epoch counts.
        let parts = vec![answer(1, false, Some(8)), answer(2, false, Some(7)), silent()];
        assert_eq!(chosen(parts, Some(7)).await, Some(1));
    }

    #[test]
    fn a_single_server_is_no_cluster() {
        let refused = value("-ERR This instance has cluster support disabled\r\n");
        let error = read(&[refused, Value::Nil, Value::Nil], &at("h", 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let empty = read(&[Value::Array(Vec::new()), Value::Nil, Value::Nil], &at("h", 1)).unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::Unavailable);
    }
}
