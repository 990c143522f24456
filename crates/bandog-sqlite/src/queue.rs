//! What stands in the writer's queue: some work, until when it may be done, and who awaits the answer.

use bandog_core::{Moment, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    fault::Fault,
    open::Purpose,
    table::Table,
    work::{Way, Work},
};

/// One request.
pub(crate) struct Order {
    /// After this moment nobody awaits it any more, so it is not begun.
    pub(crate) deadline: Moment,
    job: Box<dyn Job>,
    /// Its place among those that wait for the disk.
    place: Option<OwnedSemaphorePermit>,
}

impl Order {
    /// A request, and where its answer will come.
    pub(crate) fn new<W: Work>(work: W, deadline: Moment) -> (Self, oneshot::Receiver<Result<W::Answer>>) {
        let (reply, answer) = oneshot::channel();
        (Self { deadline, job: Box::new(Asked { work, answer: None, reply }), place: None }, answer)
    }

    /// Keeps this place until it is answered.
    pub(crate) fn at(self, place: OwnedSemaphorePermit) -> Self {
        Self { place: Some(place), ..self }
    }

    pub(crate) fn way(&self) -> Way {
        self.job.way()
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.job.purpose()
    }

    pub(crate) fn steps(&self) -> usize {
        self.job.steps()
    }

    pub(crate) fn listens(&self) -> bool {
        self.job.listens()
    }

    /// Does the work and keeps its answer until the transaction has ended.
    pub(crate) fn run(&mut self, table: &mut Table<'_>) -> Result<(), Fault> {
        self.job.run(table)
    }

    /// Answers: what the last run said, or this error.
    pub(crate) fn answer(self, end: Result<()>) {
        self.job.answer(end);
        drop(self.place);
    }
}

trait Job: Send {
    fn way(&self) -> Way;
    fn purpose(&self) -> Purpose;
    fn steps(&self) -> usize;
    fn listens(&self) -> bool;
    fn run(&mut self, table: &mut Table<'_>) -> Result<(), Fault>;
    fn answer(self: Box<Self>, end: Result<()>);
}

struct Asked<W: Work> {
    work: W,
    answer: Option<W::Answer>,
    reply: oneshot::Sender<Result<W::Answer>>,
}

impl<W: Work> Job for Asked<W> {
    fn way(&self) -> Way {
        self.work.way()
    }

    fn purpose(&self) -> Purpose {
        self.work.purpose()
    }

    fn steps(&self) -> usize {
        self.work.steps()
    }

    fn listens(&self) -> bool {
        self.work.listens()
    }

    fn run(&mut self, table: &mut Table<'_>) -> Result<(), Fault> {
        self.answer = Some(self.work.run(table)?);
        Ok(())
    }

    fn answer(self: Box<Self>, end: Result<()>) {
        let answer = match (end, self.answer) {
            (Ok(()), Some(answer)) => Ok(answer),
            (Err(error), _) => Err(error),
            (Ok(()), None) => return, // It never ran; the asker learns that nobody will answer.
        };
        let _ = self.reply.send(answer); // Nobody may be waiting any more, which is their right.
    }
}
