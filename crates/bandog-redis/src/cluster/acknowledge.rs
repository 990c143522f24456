//! Acknowledgements of replicas on a cluster, for `replicas=K`. After a grant or a renewal, the holds are renewed once more
//! on a connection of their own to the node that has their slot, and then WAIT waits until the replicas of this node have
//! acknowledged these renewals.
//!
//! If a renewal succeeds, the node has the hold, also after a failover. A replica applies the writes in the order of its
//! master. So a replica that has acknowledged the renewal has the hold, too.
//!
//! While a slot moves, the node that gets it has some of the locks already. They are renewed there, with ASKING, and its
//! replicas acknowledge them.
//!
//! All calls that wait for the same node when a round begins share the round: their renewals, and one WAIT.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Claim, Error, ErrorKind, Result, rounded};
use futures_util::future::join_all;
use redis::{Pipeline, ServerError, Value};
use tokio::time::timeout_at;

use super::{
    Cluster,
    map::{Endpoint, Node, address},
    redirection::Redirection,
};
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
    endpoint: Arc<Endpoint>,
    tasks: RoundTasks<NodeRounds>,
}

/// The connection of a task, on which it makes the rounds of a node.
struct NodeRounds {
    options: RedisOptions,
    endpoint: Arc<Endpoint>,
    link: Link,
}

/// The holds that a node and its replicas must have.
struct Holds {
    claims: Vec<Claim>,
    /// Whether the slots of the holds are being moved to the node.
    moves: bool,
}

/// The answer for one hold.
enum Acknowledged {
    Yes,
    /// The slot is being moved, and the node at this address has the lock already.
    At(Endpoint),
}

/// The holds of one call that are asked for at one node, by their positions in the call.
type Parts = BTreeMap<usize, (Arc<Node>, Vec<usize>)>;

/// The address of the node decides where in `parts` this position is.
fn add(parts: &mut Parts, node: Arc<Node>, position: usize) {
    parts.entry(Arc::as_ptr(&node).addr()).or_insert_with(|| (node, Vec::new())).1.push(position);
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
        let mut parts = Parts::new();
        for (position, claim) in claims.iter().enumerate() {
            if let Some(node) = self.0.owner_of(claim.key.as_str()) {
                add(&mut parts, node, position);
            }
        }
        let no_node = || Err(Error::unavailable("no node of the cluster has the slot now").ambiguous());
        let mut results: Vec<Result<()>> = claims.iter().map(|_| no_node()).collect();
        for moves in [false, true] {
            let mut moving = Parts::new();
            for (position, answer) in ask_nodes(claims, parts, moves, deadline).await {
                results[position] = match answer {
                    Ok(Acknowledged::Yes) => Ok(()),
                    Ok(Acknowledged::At(endpoint)) => {
                        add(&mut moving, self.0.node_at(&endpoint), position);
                        Err(Error::unavailable("the slot is moving between nodes of the cluster").ambiguous())
                    }
                    Err(error) => Err(error.ambiguous()),
                };
            }
            parts = moving;
        }
        if results.iter().any(Result::is_err) {
            // The slot may have moved, or the node may be down.
            self.0.refresh_soon();
        }
        results
    }
}

/// Asks for acknowledgements at all these nodes at the same time. Returns the answers with the positions of the holds.
async fn ask_nodes(
    claims: &[Claim],
    parts: Parts,
    moves: bool,
    deadline: Instant,
) -> impl Iterator<Item = (usize, Result<Acknowledged>)> {
    let asked = parts.into_values().map(async |(node, positions)| {
        let of_node = positions.iter().map(|position| claims[*position].clone()).collect();
        let result = node.acknowledgements.ask(Holds { claims: of_node, moves }, deadline).await;
        let each = result.unwrap_or_else(|error| positions.iter().map(|_| Err(error.clone())).collect());
        positions.into_iter().zip(each)
    });
    join_all(asked).await.into_iter().flatten()
}

impl Acknowledgements {
    /// `options` are those of the connections to the node. This does no I/O.
    pub(super) fn new(options: RedisOptions, endpoint: Endpoint) -> Self {
        Self { options, endpoint: endpoint.into(), tasks: RoundTasks::default() }
    }

    /// Renews these holds at the node, and waits for its replicas. Returns one result for each claim.
    async fn ask(&self, holds: Holds, deadline: Instant) -> Result<Vec<Result<Acknowledged>>> {
        let connect = || {
            let (options, endpoint) = (self.options.clone(), self.endpoint.clone());
            NodeRounds { link: Link::without_scripts(options.clone()), options, endpoint }
        };
        let acknowledged = self.tasks.ask(holds, connect);
        let late = |_| {
            let (required, node) = (self.options.replicas, address(&self.endpoint));
            let message = format!("it is unknown whether {required} replicas of {node} have the lock");
            Error::new(ErrorKind::NotReplicated, message)
        };
        timeout_at(deadline.into(), acknowledged).await.map_err(late)?
    }
}

impl Rounds for NodeRounds {
    type Subject = Holds;
    type Answer = Vec<Result<Acknowledged>>;

    async fn answer(&mut self, requests: Vec<Request<Self>>) -> bool {
        let (mut claims, mut groups, mut moves, mut callers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Request { subject, answer } in requests {
            // Each caller has groups of its own. So if the node refuses a group, the other callers are not affected.
            let own = script::renewal_groups(&subject.claims, MAX_PER_CALL, self.options.format);
            moves.extend(own.iter().map(|_| subject.moves));
            groups.extend(own.into_iter().map(|group| group.iter().map(|at| claims.len() + at).collect::<Group>()));
            callers.push((answer, subject.claims.len()));
            claims.extend(subject.claims);
        }
        let result = self.round(&claims, &groups, &moves).await;
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
    /// Renews these holds in these groups, and waits until enough replicas have acknowledged the renewals. `moves`: for
    /// each group, whether its slots are being moved to the node. Returns one result for each claim.
    async fn round(&self, claims: &[Claim], groups: &[Group], moves: &[bool]) -> Result<Vec<Result<Acknowledged>>> {
        let (format, limit) = (self.options.format, wait_limit(&self.options));
        // The connection for commands has loaded the scripts, unless the user has no right to load them.
        for sends_text in [false, true] {
            let form = ScriptForm::new(sends_text, format.sharded);
            let mut pipe = Pipeline::with_capacity(2 * groups.len() + 1);
            for (command, moves) in script::renewals(claims, groups, format, form).cmd_iter().zip(moves) {
                if *moves {
                    pipe.cmd("ASKING");
                }
                pipe.add_command(command.clone());
            }
            pipe.cmd("WAIT").arg(self.options.replicas).arg(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
            let mut replies = self.link.call(pipe).await?;
            let is_refused =
                |reply: &Value| refusal::is_no_script(reply) || refusal::is_command_refused(reply, form.verb());
            if !sends_text && replies.iter().any(is_refused) {
                continue;
            }
            self.acknowledged(replies.pop(), limit)?;
            let mut results: Vec<_> = claims.iter().map(|_| Ok(Acknowledged::Yes)).collect();
            let mut replies = replies.into_iter();
            for (group, moves) in groups.iter().zip(moves) {
                let reply = replies.nth(usize::from(*moves)).unwrap_or(Value::Nil);
                let replies = match reply {
                    Value::Array(replies) if replies.len() == group.len() => replies,
                    reply => vec![reply; group.len()],
                };
                for (position, reply) in group.iter().zip(replies) {
                    results[*position] = renewed(&claims[*position], reply, &self.endpoint);
                }
            }
            return Ok(results);
        }
        Err(Error::new(ErrorKind::Denied, "this user may not run scripts"))
    }

    /// Reads the reply to WAIT.
    fn acknowledged(&self, reply: Option<Value>, limit: Duration) -> Result<()> {
        let (required, node) = (self.options.replicas, address(&self.endpoint));
        match reply {
            Some(Value::Int(number)) if number >= required.into() => Ok(()),
            Some(Value::Int(number)) => {
                let message = format!(
                    "{number} of {required} replicas of {node} have acknowledged the lock within {}",
                    rounded(limit)
                );
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

/// Reads the reply of the node `from` to the renewal of one hold.
fn renewed(claim: &Claim, reply: Value, from: &Endpoint) -> Result<Acknowledged> {
    if let Some(Redirection::Ask(endpoint)) = Redirection::read(&reply, from) {
        return Ok(Acknowledged::At(endpoint));
    }
    let is_moving = |error: &ServerError| refusal::is_redirection(error) || refusal::is_passing(error);
    if refusal::server_error(&reply).is_some_and(is_moving) {
        return Err(refusal::not_served(&reply));
    }
    // The place of a waiting claim is no hold.
    if answers::renewal(claim, reply)?.is_hold {
        return Ok(Acknowledged::Yes);
    }
    Err(Error::unavailable(
        "the node of the slot does not have the lock any more: it was released, or a replica has taken over",
    ))
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
        let reply = |reply| renewed(&claim, Value::Int(reply), &("node".into(), 1));
        assert!(matches!(reply(1), Ok(Acknowledged::Yes)));
        for other in [0, 2, 3] {
            assert_eq!(reply(other).err().map(|error| error.kind()), Some(ErrorKind::Unavailable), "{other}");
        }
    }
}
