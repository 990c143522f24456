//! The dispatcher: one tokio task per scheduler. It keeps the agenda (when each job is planned next), claims the ticks
//! of the jobs, and starts and cancels runs.
//!
//! In each round, the dispatcher handles the messages that have arrived (ends of runs, answers of the store, calls of
//! [`crate::Running`]). It plans each job that is due. At the end of the round, it sends the swaps of all these jobs
//! together. The rules are in [`crate::plan`]. A swap replaces a job's record in the store if the record still has the
//! known version. A job has at most one swap in flight. Events that arrive while a swap is in flight are planned after
//! the answer to the swap.
//!
//! The job's record decides which runs exist. After each answer of the store, the dispatcher compares the claims of
//! this node in the record with its local runs: it starts a run for each claim without a run, and drops each run whose
//! claim is gone. So a lost answer of the store does no harm.
//!
//! [`Dispatcher`] is the loop. It coordinates four parts: the [`planner`] plans the jobs and applies the plans to the
//! local runs, the [`follower`] keeps the node's copies of the records equal to the store, the [`mailbox`] keeps the
//! messages, and the [`shutdown`] keeps the state of a stop. The planner and the follower consist of smaller parts. No
//! part imports the part that contains it.

mod agenda;
mod answers;
mod backlog;
mod dispatcher;
mod entry;
mod executor;
mod fail_open;
mod follower;
mod job_table;
mod known_board;
mod local_jobs;
mod mailbox;
mod missed;
mod news_outbox;
mod outage;
mod pauses;
mod planner;
mod planning;
mod polls;
mod pool;
mod prepare;
mod reading;
mod reconcile;
mod rests;
mod sessions;
mod shutdown;
mod store;
mod store_event;
mod time;

#[cfg(test)]
pub(crate) use self::entry::PendingSwap;
pub(crate) use self::{
    dispatcher::Dispatcher, entry::JobEntry, mailbox::Message, missed::MissedTicks, planner::OnFailure,
    polls::POLL_INTERVAL, time::Timekeeper,
};
