//! Renewals of holds and places.

use std::collections::HashMap;

use bandog_core::{Claim, Family, Key, Kind, PLACE, Renewal, Result};
use futures_util::future::join_all;
use tokio::time::Instant;
use zookeeper_client::Error as ZkError;

use crate::{
    host::Shared,
    queue::{Listing, Position},
    session::Session,
    table::Node,
};

/// The folders of the places that are renewed.
type Listings = HashMap<(Key, Family), Result<Listing, ZkError>>;

impl Shared {
    /// Renews holds and places. One write proves that the session is alive, and with it all nodes that are watched. Each
    /// folder with places is listed once.
    pub(crate) async fn renew(&self, session: &Session, claims: &[Claim]) -> Result<Vec<Result<Renewal>>> {
        let nodes: Vec<_> = claims.iter().map(|claim| self.table.claim_of(claim.id, session.number)).collect();
        let places = nodes.iter().flatten().filter(|node| node.waits);
        let mut folders: Vec<_> = places.map(|node| (node.line.key.clone(), node.line.word.family())).collect();
        folders.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        folders.dedup();
        let listings = join_all(folders.into_iter().map(async |(key, family)| {
            let listing = self.list(session, &key, family).await;
            ((key, family), listing)
        }));
        let holds = join_all(claims.iter().zip(&nodes).map(async |(claim, node)| match node {
            Some(node) if !node.waits => self.still_held(session, claim, node).await,
            Some(_) | None => Ok(false),
        }));
        // The proof is sent first, so a server has applied it when it answers the other requests.
        let (proof, held, listings) = futures_util::join!(session.recent_proof(), holds, listings);
        let valid_for = proof.map_err(|error| self.fault(error))?;
        let listings: Listings = listings.into_iter().collect();
        let answers = claims.iter().zip(nodes).zip(held).map(|((claim, node), held)| {
            let renewal = match node.filter(|node| node.waits) {
                Some(node) => self.place(claim, &node, &listings)?,
                None if held? => Renewal::Extended { valid_for: claim.ttl.min(valid_for) },
                None => Renewal::Gone,
            };
            let until = match renewal {
                Renewal::Extended { .. } => session.end_of(claim.ttl),
                Renewal::Waiting { .. } => Instant::now() + PLACE,
                Renewal::Gone => return Ok(renewal),
            };
            self.table.update(claim.id, |node| node.until = until);
            Ok(renewal)
        });
        Ok(answers.collect())
    }

    /// Whether a place exists.
    fn place(&self, claim: &Claim, node: &Node, listings: &Listings) -> Result<Renewal> {
        let Some(path) = &node.path else { return Ok(Renewal::Gone) };
        let position = match listings.get(&(node.line.key.clone(), node.line.word.family())) {
            Some(Ok(listing)) => listing.position(path, node.line.word),
            Some(Err(error)) => return Err(self.fault(error.clone())),
            None => Position::Missing,
        };
        if position == Position::Missing {
            self.table.remove_claim(claim.id);
            return Ok(Renewal::Gone);
        }
        let is_next = matches!(claim.kind, Kind::Fair) && position == Position::First;
        Ok(Renewal::Waiting { is_next })
    }

    /// Whether the node of a hold exists. If the node is not watched yet, or was not seen since the last reconnection, this
    /// function asks the server.
    async fn still_held(&self, session: &Session, claim: &Claim, node: &Node) -> Result<bool> {
        let Some(path) = &node.path else { return Ok(false) };
        if node.is_watched && node.is_seen {
            return Ok(true);
        }
        let there = if node.is_watched {
            session.client.check_stat(path).await.map(|stat| (stat, None))
        } else {
            session.client.check_and_watch_stat(path).await.map(|(stat, watcher)| (stat, Some(watcher)))
        };
        let (stat, watcher) = there.map_err(|error| self.fault(error))?;
        if stat.is_none() {
            self.table.remove_claim(claim.id);
            return Ok(false);
        }
        let is_new = watcher.is_some();
        self.table.update(claim.id, |node| (node.is_seen, node.is_watched) = (true, node.is_watched || is_new));
        if let Some(watcher) = watcher {
            self.report_change(claim.id, watcher);
        }
        Ok(true)
    }
}
