//! One request to each node, whose answers are collected.

use bandog_core::{Error, QuorumNode, Result, rounded};
use futures_util::future::FutureExt;
use tokio::time::Instant;

use crate::{
    gather::{GRACE, Progress, Requests, gather},
    leases::Quorum,
    node::Node,
    rules::{Vote, failure, majority},
};

impl<B: QuorumNode> Quorum<B> {
    /// The error of a node that has not answered in time.
    pub(crate) fn timeout(&self) -> Error {
        Error::unavailable(format!("a node did not answer within {}", rounded(self.options.node_timeout()))).ambiguous()
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.options.node_timeout()
    }

    /// Whether requests are not sent to this node: it does not answer, and the nodes that answer are a majority.
    pub(crate) fn leaves_out(&self, node: &Node<B>) -> bool {
        let answering = self.nodes.iter().filter(|node| !node.is_silent()).count();
        node.is_silent() && answering >= majority(self.nodes.len())
    }

    /// Calls each node, and returns the votes. After the answers of a majority, it hardly waits for the others.
    pub(crate) async fn ask_all<'a, A: Clone + Send + 'a, F: Future<Output = Result<A>> + Send + 'a>(
        &'a self,
        ask: impl Fn(&'a Node<B>) -> F,
    ) -> Vec<Vote<A>> {
        self.ask_all_by(self.deadline(), ask).await
    }

    /// As [`Quorum::ask_all`], with this deadline.
    pub(crate) async fn ask_all_by<'a, A: Clone + Send + 'a, F: Future<Output = Result<A>> + Send + 'a>(
        &'a self,
        deadline: Instant,
        ask: impl Fn(&'a Node<B>) -> F,
    ) -> Vec<Vote<A>> {
        self.ask_until(deadline, ask, |_| true).await
    }

    /// Calls each node, and returns the votes. It waits until all nodes have answered, or their time is over.
    pub(crate) async fn ask_each<'a, A: Clone + Send + 'a, F: Future<Output = Result<A>> + Send + 'a>(
        &'a self,
        ask: impl Fn(&'a Node<B>) -> F,
    ) -> Vec<Vote<A>> {
        self.ask_until(self.deadline(), ask, |_| false).await
    }

    /// Calls each node, and returns the votes. `suffices`: whether the votes of a majority suffice. Otherwise it waits for
    /// the next answer.
    pub(crate) async fn ask_until<'a, A: Clone + Send + 'a, F: Future<Output = Result<A>> + Send + 'a>(
        &'a self,
        deadline: Instant,
        ask: impl Fn(&'a Node<B>) -> F,
        suffices: impl Fn(&[Vote<A>]) -> bool + Send + Sync,
    ) -> Vec<Vote<A>> {
        self.tasks.start();
        let (requests, mut votes) = (Requests::new(), vec![Vote::Awaited; self.nodes.len()]);
        for (at, node) in self.nodes.iter().enumerate() {
            if self.leaves_out(node) {
                votes[at] = Vote::Missing(node.silence());
            } else {
                requests.push(ask(node).map(move |answer| (at, answer)).boxed());
            }
        }
        let needed = majority(self.nodes.len());
        gather(requests, deadline, GRACE, |at, answer| {
            votes[at] = match answer {
                Ok(answer) => Vote::Given(answer),
                Err(error) if error.is_retryable() => Vote::Missing(error),
                Err(error) => Vote::Refused(error),
            };
            let given = votes.iter().filter(|vote| matches!(vote, Vote::Given(_))).count();
            if given >= needed && suffices(&votes) { Progress::Enough } else { Progress::Wait }
        })
        .await;
        for (vote, node) in votes.iter_mut().zip(&self.nodes) {
            if matches!(vote, Vote::Awaited) {
                node.doubt();
                *vote = Vote::Missing(self.timeout());
            }
        }
        votes
    }

    /// The answers of a majority.
    pub(crate) fn majority_of<A>(votes: Vec<Vote<A>>) -> Result<Vec<A>> {
        let given = votes.iter().filter(|vote| matches!(vote, Vote::Given(_))).count();
        if given < majority(votes.len()) {
            return Err(failure(&votes));
        }
        let answers = votes.into_iter().filter_map(|vote| match vote {
            Vote::Given(answer) => Some(answer),
            Vote::Awaited | Vote::Refused(_) | Vote::Missing(_) => None,
        });
        Ok(answers.collect())
    }

    /// The answers of a majority, if no node has refused the request.
    pub(crate) fn unanimous<A>(votes: Vec<Vote<A>>) -> Result<Vec<A>> {
        let refused = votes.iter().find_map(|vote| match vote {
            Vote::Refused(error) => Some(error.clone()),
            Vote::Awaited | Vote::Given(_) | Vote::Missing(_) => None,
        });
        refused.map_or_else(|| Self::majority_of(votes), Err)
    }
}
