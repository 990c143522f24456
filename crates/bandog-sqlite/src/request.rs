//! A request in the writer's queue: the work, its deadline, and the channel for its answer.

use bandog_core::{Moment, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    fault::Fault,
    open::Purpose,
    table::Table,
    work::{AccessMode, Work},
};

/// One request.
pub(crate) struct Request {
    /// After this moment no caller waits for the answer, so the request is not executed.
    pub(crate) deadline: Moment,
    work: Box<dyn AnyWork>,
    /// The permit of a durable write. The permits limit the number of durable writes in the queue. Other requests have
    /// no permit.
    permit: Option<OwnedSemaphorePermit>,
}

impl Request {
    /// A request, and the channel that receives its answer.
    pub(crate) fn new<W: Work>(work: W, deadline: Moment) -> (Self, oneshot::Receiver<Result<W::Answer>>) {
        let (reply, answer) = oneshot::channel();
        (Self { deadline, work: Box::new(PendingWork { work, answer: None, reply }), permit: None }, answer)
    }

    /// Keeps this permit until the request is answered.
    pub(crate) fn with_permit(self, permit: OwnedSemaphorePermit) -> Self {
        Self { permit: Some(permit), ..self }
    }

    pub(crate) fn access_mode(&self) -> AccessMode {
        self.work.access_mode()
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.work.purpose()
    }

    pub(crate) fn steps(&self) -> usize {
        self.work.steps()
    }

    pub(crate) fn needs_watch(&self) -> bool {
        self.work.needs_watch()
    }

    /// Executes the work. The answer is kept until the transaction has ended.
    pub(crate) fn run(&mut self, table: &mut Table<'_>) -> Result<(), Fault> {
        self.work.run(table)
    }

    /// Sends the answer to the caller. This is the answer of the last run, or the error if `outcome` is an error.
    pub(crate) fn answer(self, outcome: Result<()>) {
        self.work.answer(outcome);
        drop(self.permit);
    }
}

/// [`Work`] without the type of its answer, so that requests with different answers share one queue.
trait AnyWork: Send {
    fn access_mode(&self) -> AccessMode;
    fn purpose(&self) -> Purpose;
    fn steps(&self) -> usize;
    fn needs_watch(&self) -> bool;
    fn run(&mut self, table: &mut Table<'_>) -> Result<(), Fault>;
    fn answer(self: Box<Self>, outcome: Result<()>);
}

/// The work, its answer after a run, and the channel to which the answer is sent.
struct PendingWork<W: Work> {
    work: W,
    answer: Option<W::Answer>,
    reply: oneshot::Sender<Result<W::Answer>>,
}

impl<W: Work> AnyWork for PendingWork<W> {
    fn access_mode(&self) -> AccessMode {
        self.work.access_mode()
    }

    fn purpose(&self) -> Purpose {
        self.work.purpose()
    }

    fn steps(&self) -> usize {
        self.work.steps()
    }

    fn needs_watch(&self) -> bool {
        self.work.needs_watch()
    }

    fn run(&mut self, table: &mut Table<'_>) -> Result<(), Fault> {
        self.answer = Some(self.work.run(table)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let answer = match (outcome, self.answer) {
            (Ok(()), Some(answer)) => Ok(answer),
            (Err(error), _) => Err(error),
            (Ok(()), None) => return, // The work never ran. The caller sees that the channel is closed.
        };
        let _ = self.reply.send(answer); // The caller may have dropped its future.
    }
}
