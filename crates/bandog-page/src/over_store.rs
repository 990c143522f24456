//! Jobs, runs and locks from a store.

use std::time::Duration;

use bandog_core::{ClientId, Error, ErrorKind, Member, Pattern};
use bandog_schedule::{Fire, JobRow, Jobs, RunRow};
use bandog_sync::Client;
use hyper::StatusCode;
use serde_json::{json as value, value::RawValue};

use crate::{
    LockJson,
    source::{Act, Answer, Source, Trouble, json},
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

    async fn nodes(&self) -> Answer {
        let failed = |error| Trouble::of(&error);
        let nodes = self.jobs.nodes().await.map_err(failed)?;
        json(&value!({ "running": nodes, "pauses": self.jobs.pauses().await.map_err(failed)? }))
    }

    async fn act(&self, name: &str, act: Act) -> Answer {
        json(&match act {
            Act::Run => value!({ "id": self.jobs.run(name).await.map_err(of_job)? }),
            Act::Pause { reason } => {
                self.jobs.pause(name, &reason).await.map_err(of_job)?;
                value!({ "paused": true })
            }
            Act::Resume => value!({ "resumed": self.jobs.resume(name).await.map_err(of_job)? }),
            Act::Cancel { id } => value!({ "ids": self.jobs.cancel(name, id).await.map_err(of_job)? }),
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
