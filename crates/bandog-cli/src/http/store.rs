//! Jobs, runs and locks as the store knows them.

use bandog::{Client, ClientId, Error, ErrorKind, Member, Pattern, schedule::Jobs};
use hyper::StatusCode;
use serde_json::json as value;

use super::source::{Act, Answer, Source, Trouble, json};
use crate::row;

/// A store, seen through the client of the scheduler.
#[derive(Debug)]
pub(crate) struct OverStore {
    client: Client,
    jobs: Jobs,
    store: String,
}

impl OverStore {
    /// `store` is the URL as everybody may see it.
    pub(crate) fn new(client: &Client, store: String) -> Self {
        let Member { host, .. } = Member::here(ClientId::random());
        Self { client: client.clone(), jobs: Jobs::over(client).by(format!("page@{host}")), store }
    }
}

impl Source for OverStore {
    fn store(&self) -> &str {
        &self.store
    }

    async fn jobs(&self) -> Answer {
        json(&self.jobs.list(&Pattern::all()).await.map_err(|error| Trouble::of(&error))?)
    }

    async fn job(&self, name: &str) -> Answer {
        json(&self.jobs.show(name).await.map_err(of_job)?)
    }

    async fn history(&self, name: &str) -> Answer {
        json(&self.jobs.history(name).await.map_err(of_job)?)
    }

    async fn locks(&self) -> Answer {
        let rows = self.client.list(Pattern::all()).await.map_err(|error| Trouble::of(&error))?;
        json(&row::objects(&rows, &self.store))
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

/// What is asked of one job is wrong when there is no such job.
fn of_job(error: Error) -> Trouble {
    match error.kind() {
        ErrorKind::Misused => Trouble::new(StatusCode::NOT_FOUND, "job", error.to_string()),
        _ => Trouble::of(&error),
    }
}
