//! Acknowledgements of replicas on a cluster, for `replicas=K`. After a grant or a renewal, the holds are renewed once more
//! on a connection of their own to the node that has their slot, and then WAIT waits until the replicas of this node have
//! acknowledged these renewals.
//!
//! If a renewal succeeds, the node has the hold, also after a failover. A replica applies the writes in the order of its
//! master. So a replica that has acknowledged the renewal has the hold, too.
//!
//! All calls that wait for the same node when a round begins share the round: their renewals, and one WAIT.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Claim, Error, ErrorKind, Result};
use futures_util::future::join_all;
use redis::{ServerError, Value};
use tokio::time::timeout_at;

use super::{Cluster, map::Node};
use crate::{
    answers,
    link::Link,
    options::RedisOptions,
    refusal,
    replicas::{Request, RoundTasks, Rounds, wait_limit},
    script::{self, Group, ScriptForm},
};

/// Maximum number of renewals that one call of a script sends.
const MAX_PER_CALL: usize = 512;

/// The acknowledgements of the replicas of one node. Their connections are opened when they are first needed.
#[derive(Debug)]
pub(super) struct Acknowledgements {
    options: RedisOptions,
    /// The host and the port of the node.
    address: Arc<str>,
    tasks: RoundTasks<NodeRounds>,
}

/// The connection of a task, on which it makes the rounds of a node.
struct NodeRounds {
    options: RedisOptions,
    address: Arc<str>,
    link: Link,
}

impl Cluster {
    /// Waits until enough replicas have acknowledged the holds of these claims. Returns one result for each claim.
    ///
    /// # Errors
    /// All errors are ambiguous, because the holds have been written.
    /// - `NotReplicated`: too few replicas have acknowledged the holds in time.
    /// - `Denied`: the user has no right for WAIT.
    /// - `Unavailable`: the node does not answer, or no longer has the hold or its slot.
    pub(crate) async fn acknowledge(&self, claims: &[Claim], deadline: Instant) -> Vec<Result<()>> {
        let mut parts = BTreeMap::<_, (Arc<Node>, Vec<usize>)>::new();
        for (position, claim) in claims.iter().enumerate() {
            if let Some(node) = self.0.owner_of(claim.key.as_str()) {
                parts.entry(Arc::as_ptr(&node).addr()).or_insert_with(|| (node, Vec::new())).1.push(position);
            }
        }
        let asked = parts.into_values().map(async |(node, positions)| {
            let of_node = positions.iter().map(|position| claims[*position].clone()).collect();
            let result = node.acknowledgements.ask(of_node, deadline).await;
            (positions, result)
        });
        let no_node = || Err(Error::unavailable("no node of the cluster has the slot now").ambiguous());
        let mut results: Vec<Result<()>> = claims.iter().map(|_| no_node()).collect();
        for (positions, result) in join_all(asked).await {
            let is_refused = |result: &Result<Vec<Result<()>>>| match result {
                Ok(each) => each.iter().any(Result::is_err),
                Err(_) => true,
            };
            if is_refused(&result) {
                // The slot may have moved, or the node may be down.
                self.0.refresh_soon();
            }
            let each = result.unwrap_or_else(|error| positions.iter().map(|_| Err(error.clone())).collect());
            for (position, result) in positions.into_iter().zip(each) {
                results[position] = result.map_err(Error::ambiguous);
            }
        }
        results
    }
}

impl Acknowledgements {
    /// `options` are those of the connections to the node. This does no I/O.
    pub(super) fn new(options: RedisOptions, address: &str) -> Self {
        Self { options, address: address.into(), tasks: RoundTasks::default() }
    }

    /// Renews these holds at the node, and waits for its replicas. Returns one result for each claim.
    async fn ask(&self, claims: Vec<Claim>, deadline: Instant) -> Result<Vec<Result<()>>> {
        let connect = || {
            let (options, address) = (self.options.clone(), self.address.clone());
            NodeRounds { link: Link::without_scripts(options.clone()), options, address }
        };
        let acknowledged = self.tasks.ask(claims, connect);
        let late = |_| {
            let (required, node) = (self.options.replicas, &self.address);
            let message = format!("it is unknown whether {required} replicas of {node} have the lock");
            Error::new(ErrorKind::NotReplicated, message)
        };
        timeout_at(deadline.into(), acknowledged).await.map_err(late)?
    }
}

impl Rounds for NodeRounds {
    type Subject = Vec<Claim>;
    type Answer = Vec<Result<()>>;

    async fn answer(&mut self, requests: Vec<Request<Self>>) -> bool {
        let (mut claims, mut groups, mut callers) = (Vec::new(), Vec::new(), Vec::new());
        for Request { subject, answer } in requests {
            // Each caller has groups of its own. So if the node refuses a group, the other callers are not affected.
            let own = script::renewal_groups(&subject, MAX_PER_CALL, self.options.format);
            groups.extend(own.into_iter().map(|group| group.iter().map(|at| claims.len() + at).collect::<Group>()));
            callers.push((answer, subject.len()));
            claims.extend(subject);
        }
        let result = self.round(&claims, &groups).await;
        let is_ok = result.is_ok();
        let mut results = result.map(Vec::into_iter);
        for (answer, number) in callers {
            let own = match &mut results {
                Ok(results) => Ok(results.by_ref().take(number).collect()),
                Err(error) => Err(error.clone()),
            };
            // The caller may have dropped its future.
            let _ = answer.send(own);
        }
        is_ok
    }
}

impl NodeRounds {
    /// Renews these holds in these groups, and waits until enough replicas have acknowledged the renewals. Returns one
    /// result for each claim.
    async fn round(&self, claims: &[Claim], groups: &[Group]) -> Result<Vec<Result<()>>> {
        let (format, limit) = (self.options.format, wait_limit(&self.options));
        // The connection for commands has loaded the scripts, unless the user has no right to load them.
        for sends_text in [false, true] {
            let form = ScriptForm::new(sends_text, format.sharded);
            let mut pipe = script::renewals(claims, groups, format, form);
            pipe.cmd("WAIT").arg(self.options.replicas).arg(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
            let mut replies = self.link.call(pipe).await?;
            let is_refused =
                |reply: &Value| refusal::is_no_script(reply) || refusal::is_command_refused(reply, form.verb());
            if !sends_text && replies.iter().any(is_refused) {
                continue;
            }
            self.acknowledged(replies.pop(), limit)?;
            let mut results: Vec<Result<()>> = claims.iter().map(|_| Ok(())).collect();
            for (group, reply) in groups.iter().zip(replies) {
                let replies = match reply {
                    Value::Array(replies) if replies.len() == group.len() => replies,
                    reply => vec![reply; group.len()],
                };
                for (position, reply) in group.iter().zip(replies) {
                    results[*position] = renewed(&claims[*position], reply);
                }
            }
            return Ok(results);
        }
        Err(Error::new(ErrorKind::Denied, "this user may not run scripts"))
    }

    /// Reads the reply to WAIT.
    fn acknowledged(&self, reply: Option<Value>, limit: Duration) -> Result<()> {
        let (required, node) = (self.options.replicas, &self.address);
        match reply {
            Some(Value::Int(number)) if number >= required.into() => Ok(()),
            Some(Value::Int(number)) => {
                let message =
                    format!("{number} of {required} replicas of {node} have acknowledged the lock within {limit:?}");
                Err(Error::new(ErrorKind::NotReplicated, message))
            }
            Some(Value::ServerError(error)) if refusal::is_lasting(&error) => {
                let message = "on a Redis Cluster, replicas= needs the command WAIT";
                Err(Error::new(ErrorKind::Denied, message).caused_by(error))
            }
            Some(Value::ServerError(error)) => Err(refusal::refused(&error)),
            reply => Err(refusal::unexpected_reply(&reply.unwrap_or(Value::Nil))),
        }
    }
}

/// Reads the reply to the renewal of one hold.
fn renewed(claim: &Claim, reply: Value) -> Result<()> {
    let is_moving = |error: &ServerError| refusal::is_redirection(error) || refusal::is_passing(error);
    if refusal::server_error(&reply).is_some_and(is_moving) {
        return Err(refusal::not_served(&reply));
    }
    // The place of a waiting claim is no hold.
    if answers::renewal(claim, reply)?.is_hold {
        return Ok(());
    }
    Err(Error::unavailable("the node of the slot does not have the lock: a replica has taken over"))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use bandog_core::{ClaimId, ClientId, Key, Kind};

    use super::*;

    /// A replica that takes over may have the place of a claim, and not its grant.
    #[test]
    fn a_place_in_the_queue_is_no_hold() {
        let claim = Claim {
            key: Key::new("orders").unwrap(),
            id: ClaimId { client: ClientId::random(), number: 1 },
            kind: Kind::Fair,
            ttl: Duration::from_secs(5),
            fences: NonZeroU32::MIN,
            above: None,
            joins: true,
            offers: false,
        };
        assert!(renewed(&claim, Value::Int(1)).is_ok());
        for reply in [0, 2, 3] {
            assert_eq!(renewed(&claim, Value::Int(reply)).unwrap_err().kind(), ErrorKind::Unavailable, "{reply}");
        }
    }
}
