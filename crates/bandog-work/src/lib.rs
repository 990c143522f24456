//! Work queues of [bandog](https://docs.rs/bandog): a program pushes elements, and the workers of all programs share them.
//!
//! ```
//! use bandog::work::{ClientWork, Delivery, WorkQueue};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
//! let client = bandog::connect("memory:").await?;
//! let mails: WorkQueue<String> = client.work_queue("mails")?;
//! mails.push("to ann").await?;
//!
//! let (sent, mut outbox) = tokio::sync::mpsc::channel(1);
//! let workers = mails.workers(4).run(move |mail: Delivery<String>| {
//!     let sent = sent.clone();
//!     async move { sent.send(mail.to_string()).await } // An error repeats it after a time.
//! });
//! assert_eq!(outbox.recv().await.as_deref(), Some("to ann"));
//! workers.stop().await?;
//! # Ok(()) }
//! ```
//!
//! An element is delivered at least once, and to one worker at a time: its [`Delivery`] is
//! [lost](Delivery::lost) before another worker can get it. If the handler fails, the element comes again after a time; after
//! five deliveries it is dead, and stays for an operator ([`WorkQueue::retry`]). In a queue of PostgreSQL, MySQL or MariaDB,
//! elements are pushed and settled in the transactions of a program, with `bandog-sqlx`.

mod backoff;
mod batch;
mod delivery;
mod executor;
mod ids;
mod keeper;
mod meters;
mod new;
mod options;
mod queue;
mod remote;
mod results;
mod sender;
mod shared;
mod tasks;
mod waiting;
mod workers;

#[doc(inline)]
pub use bandog_core::queues::{
    Element, ElementId, ElementRow, Headers, LAYOUT, MAX_COUNT, MAX_HEADERS, MAX_PRIORITY, Outcome, Phase, Pushed,
    QueueSettings, QueueStatus, Rate, WorkerRow,
};

#[doc(hidden)]
pub use self::new::{IntoPush, has_last};
pub use self::{
    backoff::Backoff,
    batch::{Batch, SubmitAll, SubmitBatch},
    delivery::Delivery,
    executor::{Executor, Submit, Submitted, TaskCall, TaskError},
    new::{Push, PushAll, PushBatch},
    queue::{ClientWork, WorkQueue},
    remote::{CallError, RemoteCalls, Service},
    tasks::{RunningTasks, TaskHandler, TaskRun, TaskWorkers},
    workers::{Running, Workers},
};

/// For the code that the attribute `remote` generates.
#[doc(hidden)]
pub mod __remote {
    pub use crate::remote::{Dispatch, answer};
}
