//! Collects the answers of the nodes.

use std::time::Duration;

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, Stream, StreamExt},
};
use tokio::time::{Instant, timeout_at};

/// Minimum time for which the other nodes are awaited after a majority has answered.
pub(crate) const GRACE: Duration = Duration::from_millis(1);

/// The requests to the nodes. Each request returns the position of its node and the answer.
pub(crate) type Requests<'a, A> = FuturesUnordered<BoxFuture<'a, (usize, A)>>;

/// The result of the answers so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// More answers are needed.
    Wait,
    /// The answers suffice, but more answers would be better.
    Enough,
    /// No more answers are needed.
    Done,
}

/// Passes each answer to `record`, until it returns [`Progress::Done`] or the deadline has passed. `requests`: see
/// [`Requests`].
///
/// After [`Progress::Enough`], the other nodes have as much time again as the answers have taken, and at least `grace`. So
/// the nodes usually agree, and a slow node does not delay the call much.
pub(crate) async fn gather<A>(
    mut requests: impl Stream<Item = (usize, A)> + Unpin,
    deadline: Instant,
    grace: Duration,
    mut record: impl FnMut(usize, A) -> Progress + Send,
) {
    let started = Instant::now();
    let mut until = deadline;
    while let Ok(Some((node, answer))) = timeout_at(until, requests.next()).await {
        match record(node, answer) {
            Progress::Wait => {}
            Progress::Enough => until = until.min(Instant::now() + started.elapsed().max(grace)),
            Progress::Done => break,
        }
    }
}
