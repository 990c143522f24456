//! Acknowledgements of replicas on a cluster, for `replicas=K`. The writes of a call are repeated on a connection of
//! their own to the node that has the slot of their key, and then WAIT waits until the replicas of this node have
//! acknowledged them.
//!
//! If a repetition finds the data of the write, the node has them, also after a failover. A replica applies the writes in
//! the order of its master. So a replica that has acknowledged the repetition has the data, too.
//!
//! While a slot moves, the node that gets it has some of the keys already. Their writes are repeated there, with ASKING,
//! and its replicas acknowledge them.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use bandog_core::{Error, Result};
use futures_util::future::join_all;
use redis::{ServerError, Value};

use super::{Cluster, acknowledgements::Writes, map::Node, redirection::Redirection};
use crate::{refusal, replicas::Repeat};

/// The writes of one call that are asked for at one node, by their positions in the call.
type Parts = BTreeMap<usize, (Arc<Node>, Vec<usize>)>;

/// The address of the node decides where in `parts` this position is.
fn add(parts: &mut Parts, node: Arc<Node>, position: usize) {
    parts.entry(Arc::as_ptr(&node).addr()).or_insert_with(|| (node, Vec::new())).1.push(position);
}

impl Cluster {
    /// Waits until enough replicas have acknowledged the writes to these keys. `repeat` makes the script that repeats the
    /// write at a position. Returns the reply to each repetition.
    ///
    /// # Errors
    /// All errors are ambiguous, because the writes were applied.
    /// - `NotReplicated`: too few replicas have acknowledged the writes in time.
    /// - `Denied`: the user has no right for WAIT.
    /// - `Unavailable`: the node does not answer, or no longer has the slot.
    pub(crate) async fn acknowledge(&self, keys: &[&str], repeat: &Repeat, deadline: Instant) -> Vec<Result<Value>> {
        let mut parts = Parts::new();
        for (position, key) in keys.iter().enumerate() {
            if let Some(node) = self.0.owner_of(key) {
                add(&mut parts, node, position);
            }
        }
        let no_node = || Err(Error::unavailable("no node of the cluster has the slot now").ambiguous());
        let mut results: Vec<Result<Value>> = keys.iter().map(|_| no_node()).collect();
        for moves in [false, true] {
            let mut moving = Parts::new();
            for (position, node, reply) in ask_nodes(repeat, parts, moves, deadline).await {
                results[position] = match reply.map(|reply| (Redirection::read(&reply, &node.host), reply)) {
                    Ok((Some(Redirection::Ask(host)), _)) => {
                        add(&mut moving, self.0.node_at(&host), position);
                        Err(Error::unavailable("the slot is moving between nodes of the cluster").ambiguous())
                    }
                    Ok((_, reply)) => repeated(reply),
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

/// Asks for acknowledgements at all these nodes at the same time. Returns the replies with the positions of the writes.
async fn ask_nodes(
    repeat: &Repeat,
    parts: Parts,
    moves: bool,
    deadline: Instant,
) -> impl Iterator<Item = (usize, Arc<Node>, Result<Value>)> {
    let asked = parts.into_values().map(async |(node, positions)| {
        let writes = Writes { repeat: repeat.clone(), positions: positions.clone(), moves };
        let replies = node.acknowledgements.ask(writes, deadline).await;
        let each: Vec<_> = match replies {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(error) => positions.iter().map(|_| Err(error.clone())).collect(),
        };
        positions.into_iter().zip(each).map(move |(position, reply)| (position, node.clone(), reply))
    });
    join_all(asked).await.into_iter().flatten()
}

/// The reply to a repetition, unless the node does not serve the slot.
fn repeated(reply: Value) -> Result<Value> {
    let is_moving = |error: &ServerError| refusal::is_redirection(error) || refusal::is_passing(error);
    if refusal::server_error(&reply).is_some_and(is_moving) {
        return Err(refusal::not_served(&reply).ambiguous());
    }
    Ok(reply)
}
