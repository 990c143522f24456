//! The view of operators: the locks that a majority of the nodes holds, and the checks of all nodes.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    ClientId, Error, ErrorKind, Finding, Holder, IfUnused, Inspect, Key, Level, Member, NamesPage, Pattern, QuorumNode,
    Result, Row, Usage, rounded,
};
use futures_util::future::join_all;

use crate::{
    leases::Quorum,
    node::{Node, whole_seconds},
    reuse::original,
    rules::{Vote, failure, majority},
};

/// The subject of a node's finding about the data that it keeps over a restart.
const PERSISTENCE: &str = "persistence";

#[async_trait]
impl<B: QuorumNode> Inspect for Quorum<B> {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        let rows = self.ask_rows(|node| node.backend.list(pattern), |rows| rows.iter().collect()).await?;
        let mut names = BTreeMap::<String, Vec<Row>>::new();
        for row in rows.into_iter().flatten() {
            names.entry(row.name.clone()).or_default().push(row);
        }
        let rows = names.into_values().map(|rows| merged(rows, self.needed()));
        Ok(rows.filter(Row::is_held).collect())
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        let rows = self.ask_rows(|node| node.backend.show(key), |row| vec![row]).await?;
        Ok(merged(rows, self.needed()))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        let members = Self::majority_of(self.ask_all(|node| node.backend.members()).await)?;
        Ok(distinct(members))
    }

    async fn members_of(&self, clients: &[ClientId]) -> Result<Vec<Member>> {
        let members = Self::majority_of(self.ask_all(|node| node.backend.members_of(clients)).await)?;
        Ok(distinct(members))
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        let rows = self.ask_rows(|node| node.backend.evict(key), |row| row.iter().collect()).await?;
        let rows: Vec<_> = rows.into_iter().flatten().collect();
        Ok(Some(rows).filter(|rows| !rows.is_empty()).map(|rows| merged(rows, self.needed())).filter(Row::is_held))
    }

    /// All nodes must answer, because each of them keeps data. If some do not, or if some have the lock, the others have
    /// removed the name already.
    async fn forget(&self, key: &Key) -> Result<bool> {
        let votes = self.ask_each(|node| node.backend.forget(key)).await;
        if let Some(Vote::Refused(error)) = votes.iter().find(|vote| matches!(vote, Vote::Refused(_))) {
            return Err(error.clone());
        }
        let given = votes.iter().filter(|vote| matches!(vote, Vote::Given(_))).count();
        if given < self.needed() {
            return Err(failure(&votes));
        }
        if votes.iter().any(|vote| matches!(vote, Vote::Given(false))) {
            return Ok(false);
        }
        let missing = votes.iter().zip(&self.nodes).filter(|(vote, _)| !matches!(vote, Vote::Given(_)));
        let missing: Vec<_> = missing.map(|(_, node)| node.store.as_str()).collect();
        if missing.is_empty() {
            return Ok(true);
        }
        Err(Error::unavailable(format!(
            "{given} of the {} nodes of the quorum have removed the name; it may stay at these, which have not answered: {}",
            votes.len(),
            missing.join(", ")
        )))
    }

    /// The parts of one node follow those of the node before. `after`: the position of the node, and its part.
    async fn names_page(&self, pattern: &Pattern, unused_for: Duration, after: Option<&str>) -> Result<NamesPage> {
        let (position, after) = after.and_then(|after| after.split_once('\n')).unwrap_or(("0", ""));
        let position = position.parse::<usize>().unwrap_or_default();
        let Some(node) = self.nodes.get(position) else { return Ok(NamesPage::default()) };
        let after = Some(after).filter(|after| !after.is_empty());
        let mut page = node.backend.names_page(pattern, unused_for, after).await?;
        for before in &self.nodes[..position] {
            // The parts of that node had these names already.
            let usages = before.backend.usage(&page.keys, unused_for, IfUnused::Keep).await?;
            let mut usages = usages.into_iter();
            page.keys.retain(|_| usages.next() != Some(Usage::Unused));
        }
        page.next = match page.next {
            Some(next) => Some(format!("{position}\n{next}")),
            None => Some(position + 1).filter(|next| *next < self.nodes.len()).map(|next| format!("{next}\n")),
        };
        Ok(page)
    }

    /// All nodes must answer. A name that is used at one of them stays at all of them.
    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        let mut usages = vec![Usage::Absent; keys.len()];
        for at_node in self.usages(keys, unused_for, IfUnused::Keep).await? {
            for (usage, at_node) in usages.iter_mut().zip(at_node) {
                *usage = match (*usage, at_node) {
                    (Usage::Used, _) | (_, Usage::Used) => Usage::Used,
                    (Usage::Unused, _) | (_, Usage::Unused) => Usage::Unused,
                    (Usage::Absent, Usage::Absent) => Usage::Absent,
                };
            }
        }
        if then == IfUnused::Keep {
            return Ok(usages);
        }
        let unused = keys.iter().zip(&usages).filter(|(_, usage)| **usage == Usage::Unused);
        let unused: Vec<_> = unused.map(|(key, _)| key.clone()).collect();
        if unused.is_empty() {
            return Ok(usages);
        }
        let mut forgotten = HashMap::new();
        for at_node in self.usages(&unused, unused_for, IfUnused::Forget).await? {
            for (key, usage) in unused.iter().zip(at_node) {
                *forgotten.entry(key).or_insert(true) &= usage != Usage::Used;
            }
        }
        for (key, usage) in keys.iter().zip(&mut usages) {
            if forgotten.get(key) == Some(&false) {
                *usage = Usage::Used; // A claim was granted meanwhile.
            }
        }
        Ok(usages)
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.check_for("").await
    }

    async fn check_for(&self, prefix: &str) -> Result<Vec<Finding>> {
        let votes = self.ask_each(async |node| {
            let findings = node.backend.check_for(prefix).await?;
            // If this fails, the vote is unknown, and the finding says so.
            let _ = node.ping().await;
            Ok(findings)
        });
        let votes = votes.await;
        let mut findings = vec![self.number_of_nodes()];
        let is_persistence = |finding: &Finding| finding.subject == PERSISTENCE;
        if votes.iter().any(|vote| matches!(vote, Vote::Given(found) if found.iter().any(is_persistence))) {
            let says = "the nodes need none: a node that restarts without its data has no vote for max_ttl, and gets the \
                        holds of the majority back";
            findings.push(Finding::fine(PERSISTENCE, says));
        }
        for (vote, node) in votes.into_iter().zip(&self.nodes) {
            let store = &node.store;
            match vote {
                Vote::Given(found) => {
                    let of_node = |finding: Finding| Finding { says: format!("{store}: {}", finding.says), ..finding };
                    // A restart loses no lock of the quorum.
                    let concerns_quorum = |finding: &Finding| finding.subject != PERSISTENCE;
                    findings.extend(found.into_iter().filter(concerns_quorum).map(of_node));
                    findings.push(match node.time_until_vote() {
                        Ok(wait) if wait.is_zero() => Finding::fine("vote", format!("{store}: the node has a vote")),
                        Ok(wait) => Finding::advice(
                            "vote",
                            format!(
                                "{store}: the node has started a short time ago, and has a vote in {}",
                                rounded(whole_seconds(wait))
                            ),
                            "wait; a node that restarts has no vote for max_ttl",
                        ),
                        Err(error) => Finding::danger(
                            "vote",
                            format!("{store}: the node has no vote: {}", error.without_kind()),
                            match error.kind() {
                                ErrorKind::Misused => "give all clients the same max_ttl and the same list of servers",
                                _ => "allow this user to run INFO, and GET and SET on bandog:setting:quorum:max_ttl",
                            },
                        ),
                    });
                }
                Vote::Awaited | Vote::Refused(_) | Vote::Missing(_) => findings.push(Finding::danger(
                    "node",
                    format!("{store}: the node does not answer"),
                    "start this node: as long as it is down, fewer other nodes may fail",
                )),
            }
        }
        findings.extend(self.missing_votes());
        findings.sort_by_key(|finding| finding.level != Level::Danger);
        Ok(findings)
    }
}

impl<B: QuorumNode> Quorum<B> {
    /// The answers of a majority. `rows`: the locks in one answer. It waits for another node as long as the answer of this
    /// node could show that a majority has a hold.
    async fn ask_rows<'a, A: Clone + Send + Sync + 'a, F: Future<Output = Result<A>> + Send + 'a>(
        &'a self,
        ask: impl Fn(&'a Node<B>) -> F,
        rows: impl Fn(&A) -> Vec<&Row> + Send + Sync,
    ) -> Result<Vec<A>> {
        let needed = self.needed();
        let suffices = |votes: &[Vote<A>]| {
            let awaited = votes.iter().filter(|vote| matches!(vote, Vote::Awaited)).count();
            let given =
                votes.iter().filter_map(|vote| if let Vote::Given(answer) = vote { Some(answer) } else { None });
            is_decided(given.flat_map(&rows), awaited, needed)
        };
        Self::majority_of(self.ask_until(self.deadline(), ask, suffices).await)
    }

    /// The answers of all nodes about these names.
    async fn usages(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Vec<Usage>>> {
        let nodes = self.nodes.iter().map(|node| node.backend.usage(keys, unused_for, then));
        join_all(nodes).await.into_iter().collect()
    }

    /// The number of nodes that must hold a lock.
    fn needed(&self) -> usize {
        majority(self.nodes.len())
    }

    /// The finding about too few votes. None if a majority has votes.
    fn missing_votes(&self) -> Option<Finding> {
        let voting = self.nodes.iter().filter(|node| node.time_until_vote().is_ok_and(|wait| wait.is_zero())).count();
        (voting < self.needed()).then(|| {
            Finding::danger(
                "votes",
                format!(
                    "{voting} of the {} nodes have a vote, and {} are needed: no lock can be taken now",
                    self.nodes.len(),
                    self.needed()
                ),
                "a node has a vote when it answers and has run for longer than max_ttl: wait until then, and start the nodes that are \
                 down",
            )
        })
    }

    fn number_of_nodes(&self) -> Finding {
        let (nodes, needed) = (self.nodes.len(), self.needed());
        let says = format!("the quorum has {nodes} nodes, of which {} may be down", nodes - needed);
        if nodes % 2 == 1 {
            return Finding::fine("nodes", says);
        }
        Finding::advice("nodes", says, format!("use {} nodes: as many may be down", nodes - 1))
    }
}

/// Whether `awaited` more answers cannot change which holds a majority has, or their fences. `rows`: the locks at the nodes
/// that have answered.
fn is_decided<'r>(rows: impl Iterator<Item = &'r Row>, awaited: usize, needed: usize) -> bool {
    let mut found = HashMap::<_, Vec<&Holder>>::new();
    for (row, holder) in rows.flat_map(|row| row.holders.iter().map(move |holder| (row, holder))) {
        found.entry((&row.name, holder.owner.as_deref().map(original), holder.kind)).or_default().push(holder);
    }
    found.into_values().all(|same| {
        let number = same.len();
        let is_known = awaited == 0 || agreed(&same, needed).is_some();
        number + awaited < needed || number >= needed && is_known
    })
}

/// A holder with the fence that at least `needed` nodes have. The nodes that were not part of the grant can have other
/// fences, smaller or greater ones.
fn agreed<'h>(same: &[&'h Holder], needed: usize) -> Option<&'h Holder> {
    let has_majority =
        |holder: &Holder| same.iter().filter(|other| other.last_fence == holder.last_fence).count() >= needed;
    same.iter().find(|holder| has_majority(holder)).copied()
}

/// The row of a lock with the holders that at least `needed` nodes have. The rows are of the same lock.
fn merged(mut rows: Vec<Row>, needed: usize) -> Row {
    for owner in rows.iter_mut().flat_map(|row| &mut row.holders).filter_map(|holder| holder.owner.as_mut()) {
        *owner = original(owner);
    }
    let mut found: Vec<Vec<&Holder>> = Vec::new();
    for holder in rows.iter().flat_map(|row| &row.holders) {
        let is_same = |others: &&mut Vec<&Holder>| others[0].owner == holder.owner && others[0].kind == holder.kind;
        match found.iter_mut().find(is_same) {
            Some(others) => others.push(holder),
            None => found.push(vec![holder]),
        }
    }
    found.retain(|same| same.len() >= needed);
    let of_majority = |mut same: Vec<&Holder>| {
        // If too few nodes have answered, it is not known which of their fences is that of the grant.
        let holder = agreed(&same, needed).cloned();
        let holder = holder.unwrap_or_else(|| Holder { fence: None, last_fence: None, ..same[0].clone() });
        // The lock is free when fewer nodes than a majority have the hold. A hold without a ttl never expires.
        same.sort_by_key(|holder| Reverse(holder.ttl.unwrap_or(Duration::MAX)));
        Holder { ttl: same[needed - 1].ttl, ..holder }
    };
    let holders: Vec<_> = found.into_iter().map(of_majority).collect();
    let queue = rows.iter().map(|row| &row.queue).max_by_key(|queue| queue.len()).cloned().unwrap_or_default();
    let kind = holders.first().and_then(|holder| holder.kind.or(rows.iter().find_map(|row| row.kind)));
    let name = rows.into_iter().next().map(|row| row.name).unwrap_or_default();
    Row { name, kind, holders, queue, waiters: Vec::new() }
}

/// The members without repetitions.
fn distinct(members: Vec<Vec<Member>>) -> Vec<Member> {
    let mut known = BTreeMap::new();
    for member in members.into_iter().flatten() {
        known.entry(member.id).or_insert(member);
    }
    known.into_values().collect()
}

#[cfg(test)]
mod tests {
    use bandog_core::{Fence, Kind};

    use super::*;

    /// The rows of nodes that have these last fences for one hold.
    fn rows(fences: &[u64]) -> Vec<Row> {
        let holder = || Holder { kind: Some(Kind::Mutex), ..Holder::new("a:1") };
        let key = Key::new("a").expect("a key");
        fences.iter().map(|fence| Row::held(&key, Some(Kind::Mutex), holder().fenced(Fence::new(*fence)))).collect()
    }

    #[test]
    fn the_fence_is_that_of_a_majority() {
        // The fences at the nodes that have answered, the number of nodes that have not, and the fence that is shown.
        let unknown = None;
        for (fences, awaited, shown) in [
            (&[5, 5][..], 1, Some(5)),
            (&[5, 7], 0, unknown),
            (&[7, 5, 5], 0, Some(5)),
            (&[3, 5, 5], 0, Some(5)),
            (&[3, 5, 7], 0, unknown),
        ] {
            let rows = rows(fences);
            assert!(is_decided(rows.iter(), awaited, 2), "{fences:?}");
            let row = merged(rows, 2);
            assert_eq!(row.holders.len(), 1, "{fences:?}");
            assert_eq!(row.holders[0].last_fence, shown.map(Fence::new), "{fences:?}");
            assert_eq!(row.holders[0].fence.is_some(), shown.is_some(), "{fences:?}");
        }
        for (fences, awaited) in [(&[5][..], 2), (&[5, 7], 1)] {
            assert!(!is_decided(rows(fences).iter(), awaited, 2), "{fences:?}");
        }
    }
}
