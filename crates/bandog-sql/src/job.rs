//! Requests for a lane, and their answers.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use bandog_core::{Answer, Claim, Error, Renewal, Result, Step, Swap, Swaps};
use tokio::sync::oneshot;

use crate::{context::Context, dial::is_full, fault::Fault, session::Link};

/// A request that waits for its lane.
pub(crate) struct Job {
    /// The time at which the request ends, a little before its caller stops waiting. A request that has not begun by then
    /// is not executed.
    pub(crate) deadline: Instant,
    pub(crate) work: Work,
}

/// The work of a lane.
pub(crate) enum Work {
    /// Steps. Several calls are executed together.
    Apply(Vec<Step>, oneshot::Sender<Vec<Result<Answer>>>),
    /// Renewals. Several calls are executed together.
    Renew(Vec<Claim>, oneshot::Sender<Vec<Result<Renewal>>>),
    /// Swaps of records. Several calls are executed together.
    Swap(Vec<Swap>, oneshot::Sender<Result<Swaps>>),
    /// Any other request.
    Other(Box<dyn Request>),
}

impl Work {
    /// Answers a request that is not executed.
    pub(crate) fn refuse(self, error: Error) {
        // If the receiver is dropped, no caller waits for the answers.
        match self {
            Self::Apply(steps, reply) => drop(reply.send(vec![Err(error); steps.len()])),
            Self::Renew(claims, reply) => drop(reply.send(vec![Err(error); claims.len()])),
            Self::Swap(_, reply) => drop(reply.send(Err(error))),
            Self::Other(request) => request.finish(Some(error)),
        }
    }
}

/// The answer to a request.
pub(crate) trait Reply {
    /// Whether the server had no free connection for the request. Then nothing of it was applied.
    fn is_refused(&self) -> bool;
}

impl<T> Reply for Result<T> {
    fn is_refused(&self) -> bool {
        self.as_ref().is_err_and(is_full)
    }
}

impl<T> Reply for Vec<Result<T>> {
    fn is_refused(&self) -> bool {
        !self.is_empty() && self.iter().all(Reply::is_refused)
    }
}

/// A request that is executed alone.
#[async_trait]
pub(crate) trait Request: Send {
    /// Executes the request and keeps its answer. It is called again after a fault that is transient.
    async fn run(&mut self, link: &Link, context: &Context) -> Result<(), Fault>;

    /// Sends the answer, or this error, to the caller.
    fn finish(self: Box<Self>, failed: Option<Error>);
}

/// The work of [`Request::run`], for one kind of request.
#[async_trait]
pub(crate) trait Query: Send + Sync + 'static {
    /// The answer.
    type Output: Send + 'static;

    /// Executes the query.
    async fn run(&self, link: &Link, context: &Context) -> Result<Self::Output, Fault>;
}

/// A query, and the channel for its answer.
pub(crate) struct Pending<Q: Query> {
    pub(crate) query: Arc<Q>,
    pub(crate) answer: Option<Q::Output>,
    pub(crate) reply: oneshot::Sender<Result<Q::Output>>,
}

#[async_trait]
impl<Q: Query> Request for Pending<Q> {
    async fn run(&mut self, link: &Link, context: &Context) -> Result<(), Fault> {
        self.answer = Some(self.query.run(link, context).await?);
        Ok(())
    }

    fn finish(self: Box<Self>, failed: Option<Error>) {
        let answer = match (failed, self.answer) {
            (None, Some(answer)) => Ok(answer),
            (Some(error), _) => Err(error),
            (None, None) => Err(Error::unavailable("the request was not executed")),
        };
        // If the receiver is dropped, no caller waits for the answer.
        let _ = self.reply.send(answer);
    }
}
