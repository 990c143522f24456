//! Jobs, runs, queues and locks from a store.

use std::time::Duration;

use bandog_core::{
    ClientId, Error, ErrorKind, Member, Pattern,
    queues::{Phase, QueueStatus},
    structures::{CacheReport, Cursor},
};
use bandog_schedule::{Fire, JobRow, Jobs, RunRow};
use bandog_sync::Client;
use bandog_work::{ClientWork, WorkQueue};
use futures_util::{StreamExt, TryStreamExt};
use hyper::StatusCode;
use serde_json::{json as value, value::RawValue};

use crate::{
    LockJson,
    source::{Act, Answer, ElementsPage, ObjectsPage, Source, Target, Trouble, json},
};

/// A store, queried through a client.
#[derive(Debug, Clone)]
pub(crate) struct OverStore {
    client: Client,
    jobs: Jobs,
    store: String,
}

impl OverStore {
    pub(crate) fn new(client: &Client) -> Self {
        let Member { host, .. } = Member::here(ClientId::random());
        let store = client.store().to_owned();
        Self { client: client.clone(), jobs: Jobs::over(client).by(format!("page@{host}")), store }
    }

    fn work_queue(&self, name: &str) -> Result<WorkQueue<()>, Trouble> {
        self.client.work_queue(name).map_err(|error| Trouble::of(&error))
    }

    async fn act_on_queue(&self, name: &str, act: Act) -> Answer {
        let (queue, failed) = (self.work_queue(name)?, |error| Trouble::of(&error));
        json(&match act {
            Act::Pause { .. } => {
                queue.pause().await.map_err(failed)?;
                value!({ "paused": true })
            }
            Act::Resume => {
                let was = queue.status().await.map_err(failed)?.settings.is_paused;
                queue.resume().await.map_err(failed)?;
                value!({ "resumed": was })
            }
            Act::Retry { ids } if ids.is_empty() => value!({ "retried": queue.retry_all().await.map_err(failed)? }),
            Act::Retry { ids } => value!({ "retried": queue.retry(&ids).await.map_err(failed)? }),
            Act::Remove { ids } => value!({ "removed": queue.remove(&ids).await.map_err(failed)? }),
            Act::Run | Act::Cancel { .. } | Act::Backfill { .. } | Act::Forget | Act::Release => {
                return Err(Trouble::nothing_here());
            }
        })
    }

    /// The same store under another name.
    pub(crate) fn named(self, store: String) -> Self {
        Self { store, ..self }
    }
}

impl Source for OverStore {
    fn store(&self) -> &str {
        &self.store
    }

    async fn jobs(&self) -> Result<Vec<JobRow>, Trouble> {
        self.jobs.list(&Pattern::all()).await.map_err(|error| Trouble::of(&error))
    }

    async fn history(&self, name: &str) -> Result<Vec<RunRow>, Trouble> {
        self.jobs.history(name).await.map_err(of_job)
    }

    async fn fires(&self, within: Duration, most: usize) -> Result<Vec<Fire>, Trouble> {
        self.jobs.next_within(&Pattern::all(), within, most).await.map_err(|error| Trouble::of(&error))
    }

    async fn locks(&self) -> Result<Vec<Box<RawValue>>, Trouble> {
        let locks = self.client.list(Pattern::all()).await.map_err(|error| Trouble::of(&error))?;
        let latches = self.client.list_latches(Pattern::all()).await.map_err(|error| Trouble::of(&error))?;
        LockJson::all(&locks, &latches, &self.store).iter().map(json).collect()
    }

    fn has_objects(&self) -> bool {
        self.client.structures().is_some()
    }

    async fn objects(&self, pattern: &Pattern, from: &Cursor, about: usize) -> Result<ObjectsPage, Trouble> {
        let page = self.client.objects(pattern, from, about).await.map_err(|error| Trouble::of(&error))?;
        page.ok_or_else(Trouble::nothing_here)
    }

    async fn cache_reports(&self) -> Result<Vec<CacheReport>, Trouble> {
        let reports = self.client.cache_reports().await.map_err(|error| Trouble::of(&error))?;
        reports.ok_or_else(Trouble::nothing_here)
    }

    fn has_queues(&self) -> bool {
        self.client.queues().is_some()
    }

    async fn queue_names(&self, most: usize) -> Result<Vec<String>, Trouble> {
        let failed = |error| Trouble::of(&error);
        let names = self.client.work_queues(&Pattern::all()).map_err(failed)?;
        names.take(most).try_collect().await.map_err(failed)
    }

    async fn queue(&self, name: &str) -> Result<QueueStatus, Trouble> {
        self.work_queue(name)?.status().await.map_err(|error| Trouble::of(&error))
    }

    async fn elements(&self, name: &str, phase: Phase, from: &Cursor, about: usize) -> Result<ElementsPage, Trouble> {
        let queues = self.client.queues().ok_or_else(Trouble::nothing_here)?;
        let key = self.client.key(name).map_err(|error| Trouble::of(&error))?;
        queues.elements(&key, phase, from, about).await.map_err(|error| Trouble::of(&error))
    }

    async fn nodes(&self) -> Answer {
        let failed = |error| Trouble::of(&error);
        let nodes = self.jobs.nodes().await.map_err(failed)?;
        json(&value!({ "running": nodes, "pauses": self.jobs.pauses().await.map_err(failed)? }))
    }

    async fn act(&self, target: &Target, act: Act) -> Answer {
        let (jobs, failed) = (&self.jobs, |error| Trouble::of(&error));
        json(&match (target, act) {
            (Target::Job(name), Act::Run) => value!({ "id": jobs.run(name).await.map_err(of_job)? }),
            (Target::Job(name), Act::Pause { reason }) => {
                jobs.pause(name, &reason).await.map_err(of_job)?;
                value!({ "paused": true })
            }
            (Target::Job(name), Act::Resume) => value!({ "resumed": jobs.resume(name).await.map_err(of_job)? }),
            (Target::Job(name), Act::Cancel { id }) => {
                value!({ "ids": jobs.cancel(name, id).await.map_err(of_job)? })
            }
            // Here `Misused` is also the kind of the error about a range without ticks.
            (Target::Job(name), Act::Backfill { from, to }) => {
                value!({ "ticks": jobs.backfill(name, from, to).await.map_err(failed)? })
            }
            (Target::Job(name), Act::Forget) => {
                let forgotten = jobs.forget(name).await;
                // `Misused` is also the kind of the error about a job that runs.
                let is_known = forgotten.is_err() && jobs.show(name).await.is_ok();
                forgotten.map_err(|error| if is_known { failed(error) } else { of_job(error) })?;
                value!({ "forgotten": true })
            }
            (Target::All, Act::Pause { reason }) => {
                jobs.pause_all(&reason).await.map_err(failed)?;
                value!({ "paused": true })
            }
            (Target::All, Act::Resume) => value!({ "resumed": jobs.resume_all().await.map_err(failed)? }),
            (Target::Node(node), Act::Pause { reason }) => {
                jobs.pause_node(node, &reason).await.map_err(failed)?;
                value!({ "paused": true })
            }
            (Target::Node(node), Act::Resume) => {
                value!({ "resumed": jobs.resume_node(node).await.map_err(failed)? })
            }
            (Target::Lock(name), Act::Release) => {
                value!({ "released": self.client.evict(name).await.map_err(failed)?.is_some() })
            }
            (Target::Queue(name), act) => return self.act_on_queue(name, act).await,
            // The paths of the page have no other combination.
            (Target::All | Target::Node(_) | Target::Lock(_) | Target::Job(_), _) => {
                return Err(Trouble::nothing_here());
            }
        })
    }
}

/// The error of a call about one job. `ErrorKind::Misused` means that there is no such job.
fn of_job(error: Error) -> Trouble {
    match error.kind() {
        ErrorKind::Misused => Trouble::new(StatusCode::NOT_FOUND, "job", error.to_string()),
        _ => Trouble::of(&error),
    }
}
