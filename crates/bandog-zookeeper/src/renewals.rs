//! Renewals of holds and places.

use std::collections::HashMap;

use bandog_core::{Claim, Key, Kind, PLACE, Renewal, Result};
use futures_util::future::join_all;
use tokio::time::Instant;
use zookeeper_client::{Error as ZkError, OneshotWatcher};

use crate::{
    host::Shared,
    nodes::{NodeText, Queue},
    queue::{Listing, Places},
    session::Session,
    table::{Node, Permits},
};

/// Maximum number of nodes of a hold that are checked at the same time.
const NODES: usize = 64;

/// The folders of the places that are renewed.
type Folders = HashMap<(Key, Queue), Result<Places, ZkError>>;

impl Shared {
    /// Renews holds and places. One write proves that the session is alive, and with it all nodes that are watched. Each
    /// folder with places is listed once.
    pub(crate) async fn renew(&self, session: &Session, claims: &[Claim]) -> Result<Vec<Result<Renewal>>> {
        let nodes: Vec<_> = claims.iter().map(|claim| self.table.claim_of(claim.id, session.number)).collect();
        let places = nodes.iter().flatten().filter(|node| node.waits);
        let mut folders: Vec<_> = places.map(|node| (node.line.key.clone(), node.line.word.queue())).collect();
        folders.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        folders.dedup();
        let listings = join_all(folders.into_iter().map(async |(key, queue)| {
            let listing = self.list(session, &key, queue).await;
            ((key, queue), listing.map(Listing::into_places))
        }));
        let holds = join_all(claims.iter().zip(&nodes).map(async |(claim, node)| match node {
            Some(node) if !node.waits => self.still_held(session, claim, node).await,
            Some(_) | None => Ok(false),
        }));
        // The proof is sent first, so a server has applied it when it answers the other requests.
        let (proof, held, listings) = futures_util::join!(session.recent_proof(), holds, listings);
        let valid_for = proof.map_err(|error| self.fault(error))?;
        let folders: Folders = listings.into_iter().collect();
        let answers = claims.iter().zip(nodes).zip(held).map(|((claim, node), held)| {
            let is_held = held?;
            let Some(node) = node else { return Ok(Renewal::Gone) };
            let renewal = if node.waits {
                self.place(claim, &node, &folders)?
            } else if is_held {
                Renewal::Extended { valid_for: claim.ttl.min(valid_for) }
            } else {
                Renewal::Gone
            };
            let until = match renewal {
                Renewal::Extended { .. } => session.end_of(claim.ttl),
                Renewal::Waiting { .. } => Instant::now() + PLACE,
                Renewal::Gone => return Ok(renewal),
            };
            // Meanwhile the keeper may have begun to delete the node, because its time was over. Or the claim has got
            // the lock, and then the node lasts for longer than a place.
            let is_extended = self.table.update_node(claim.id, &node, |present| {
                if present.waits == node.waits {
                    // No renewal shortens a hold.
                    present.until = if present.waits { until } else { present.until.max(until) };
                }
            });
            Ok(if is_extended { renewal } else { Renewal::Gone })
        });
        Ok(answers.collect())
    }

    /// Whether a place exists.
    fn place(&self, claim: &Claim, node: &Node, folders: &Folders) -> Result<Renewal> {
        let Some(path) = &node.path else { return Ok(Renewal::Gone) };
        let places = match folders.get(&(node.line.key.clone(), node.line.word.queue())) {
            Some(Ok(places)) => Some(places).filter(|places| places.has(path)),
            Some(Err(error)) => return Err(self.fault(error.clone())),
            None => None,
        };
        let Some(places) = places else {
            self.table.remove_node(claim.id, node);
            return Ok(Renewal::Gone);
        };
        Ok(Renewal::Waiting { is_next: matches!(claim.kind, Kind::Fair) && places.is_first(path) })
    }

    /// Whether the node of a hold exists. If the node is not watched yet, or was not seen since the last reconnection, this
    /// function asks the server.
    async fn still_held(&self, session: &Session, claim: &Claim, node: &Node) -> Result<bool> {
        let Some(path) = &node.path else { return Ok(false) };
        if node.is_unmarked {
            if self.marked(session, node, &NodeText::of(claim)).await?.is_none() {
                return self.has_lost_a_node(session, claim, node).await;
            }
            self.table.update_node(claim.id, node, |node| node.is_unmarked = false);
        }
        if node.is_watched && node.is_seen {
            return Ok(true);
        }
        // A claim of permits has a node for each of them.
        let paths = match &node.permits {
            Permits::Taken(paths) => paths.as_slice(),
            Permits::None | Permits::Unsure => std::slice::from_ref(path),
        };
        let mut watchers = Vec::new();
        for some in paths.chunks(NODES) {
            for there in join_all(some.iter().map(async |path| check(session, path, !node.is_watched).await)).await {
                let (is_there, watcher) = there.map_err(|error| self.fault(error))?;
                if !is_there {
                    return self.has_lost_a_node(session, claim, node).await;
                }
                watchers.extend(watcher);
            }
        }
        let is_new = !watchers.is_empty();
        let note = |node: &mut Node| (node.is_seen, node.is_watched) = (true, node.is_watched || is_new);
        if self.table.update_node(claim.id, node, note) && is_new {
            self.report_change(claim.id, watchers);
        }
        Ok(true)
    }

    /// Ends a hold without its node, or without one of its permits. Its other permits are given back.
    async fn has_lost_a_node(&self, session: &Session, claim: &Claim, node: &Node) -> Result<bool> {
        if let Permits::Taken(paths) = &node.permits {
            self.delete_all(session, paths).await.map_err(|error| self.fault(error))?;
        }
        self.table.remove_node(claim.id, node);
        Ok(false)
    }
}

/// Whether a node exists, and a watch of it if it is asked for.
async fn check(session: &Session, path: &str, watches: bool) -> Result<(bool, Option<OneshotWatcher>), ZkError> {
    if watches {
        let (stat, watcher) = session.client.check_and_watch_stat(path).await?;
        return Ok((stat.is_some(), Some(watcher)));
    }
    Ok((session.client.check_stat(path).await?.is_some(), None))
}
