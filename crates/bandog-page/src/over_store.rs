//! Jobs, runs, queues and locks from a store.

use std::time::Duration;

use bandog_core::{
    ClientId, Error, ErrorKind, Key, Member, Pattern,
    queues::{Change, Phase, QueueStatus, Queues, envelope, rules::MAX_CHANGES},
    structures::{CacheReport, Cursor},
};
use bandog_schedule::{Fire, JobRow, Jobs, RunRow};
use bandog_sync::Client;
use hyper::StatusCode;
use serde_json::json as value;

use crate::{
    LockJson,
    queue_json::PAYLOAD_BYTES,
    source::{Act, Answer, ElementsPage, ListedLock, ObjectsPage, Source, Target, Trouble, json},
};

/// Number of names of queues in one answer of the store.
const QUEUE_NAMES: usize = 200;

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

    fn queues(&self) -> Result<&dyn Queues, Trouble> {
        self.client.queues().map(|queues| &**queues).ok_or_else(|| Trouble::none_in_store("work queues"))
    }

    /// The key of a name in the store.
    fn key(&self, name: &str) -> Result<Key, Trouble> {
        self.client.key(name).map_err(|error| Trouble::of(&error))
    }

    async fn act_on_queue(&self, name: &str, act: Act) -> Answer {
        let (queues, key) = (self.queues()?, self.key(name)?);
        let change = |change: Change| {
            let key = &key;
            async move { queues.change(key, &change).await.map_err(|error| Trouble::of(&error)) }
        };
        json(&match act {
            Act::Pause { .. } => {
                change(Change::Pause(true)).await?;
                value!({ "paused": true })
            }
            Act::Resume => {
                let was = self.queue(name).await?.settings.is_paused;
                change(Change::Pause(false)).await?;
                value!({ "resumed": was })
            }
            Act::Retry { ids } if ids.is_empty() => {
                let mut all = 0;
                loop {
                    let retried = change(Change::Retry(Vec::new())).await?;
                    all += retried;
                    if retried < MAX_CHANGES as u64 {
                        break;
                    }
                }
                value!({ "retried": all })
            }
            Act::Retry { ids } => value!({ "retried": change(Change::Retry(ids)).await? }),
            Act::Remove { ids } => value!({ "removed": change(Change::Remove(ids)).await? }),
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

    async fn locks(&self) -> Result<Vec<ListedLock>, Trouble> {
        let locks = self.client.list(Pattern::all()).await.map_err(|error| Trouble::of(&error))?;
        let latches = self.client.list_latches(Pattern::all()).await.map_err(|error| Trouble::of(&error))?;
        LockJson::all(&locks, &latches, &self.store).iter().map(LockJson::listed).collect()
    }

    fn has_objects(&self) -> bool {
        self.client.structures().is_some()
    }

    async fn objects(&self, pattern: &Pattern, from: &Cursor, about: usize) -> Result<ObjectsPage, Trouble> {
        let page = self.client.objects(pattern, from, about).await.map_err(|error| Trouble::of(&error))?;
        page.ok_or_else(|| Trouble::none_in_store("objects"))
    }

    async fn cache_reports(&self) -> Result<Vec<CacheReport>, Trouble> {
        let reports = self.client.cache_reports().await.map_err(|error| Trouble::of(&error))?;
        reports.ok_or_else(|| Trouble::none_in_store("caches"))
    }

    fn has_queues(&self) -> bool {
        self.client.queues().is_some()
    }

    async fn queue_names(&self, most: usize) -> Result<Vec<String>, Trouble> {
        const NAME: &str = "x";
        let (queues, key) = (self.queues()?, self.key(NAME)?);
        let prefix = key.as_str().strip_suffix(NAME).unwrap_or_default();
        let (pattern, mut names, mut from) = (Pattern::all().after(prefix), Vec::new(), Some(Cursor::default()));
        while let Some(cursor) = from.take().filter(|_| names.len() < most) {
            let page = queues.queues(&pattern, &cursor, QUEUE_NAMES).await.map_err(|error| Trouble::of(&error))?;
            names.extend(page.0.iter().filter_map(|key| key.as_str().strip_prefix(prefix)).map(str::to_owned));
            from = page.1;
        }
        names.truncate(most);
        Ok(names)
    }

    async fn queue(&self, name: &str) -> Result<QueueStatus, Trouble> {
        self.queues()?.status(&self.key(name)?).await.map_err(|error| Trouble::of(&error))
    }

    async fn elements(&self, name: &str, phase: Phase, from: &Cursor, about: usize) -> Result<ElementsPage, Trouble> {
        let page =
            self.queues()?.elements(&self.key(name)?, phase, from, about, PAYLOAD_BYTES + envelope::MAX_ENVELOPE).await;
        let (rows, next) = page.map_err(|error| Trouble::of(&error))?;
        Ok((rows.into_iter().map(|row| row.opened(PAYLOAD_BYTES)).collect(), next))
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
