//! Where the demo's scheduler keeps who runs what.

use std::{path::Path, time::Duration};

use bandog::{
    Client, ConnectOptions, Error, Key,
    backend::{Records, Swap},
    schedule::Jobs,
};

use super::fault::Fault;

/// How the name of the demo's directory begins.
pub(super) const PLACE: &str = "bandog-demo-";

/// What the job's name begins with. It ends in something of this demo's own, so that two demos may share a store.
const JOB: &str = "overdue-orders-";

/// What everything of the demo's begins with in a store that others use too.
const PREFIX: &str = "bandog-demo:";

/// Short, so that a replica which somebody kills for fun does not hold the others up for long. It is the job's lease.
const WATCHDOG: Duration = Duration::from_secs(3);

/// The demo's own look at the store; it runs no job.
pub(super) struct Store {
    pub(super) url: String,
    /// The name of the job that sweeps.
    pub(super) job: String,
    is_private: bool,
    client: Client,
}

impl Store {
    pub(super) async fn open(url: Option<String>, place: &Path) -> Result<Self, Fault> {
        let is_private = url.is_none();
        let url = url.unwrap_or_else(|| format!("sqlite:{}", place.join("schedule.db").display()));
        let client = options(&url)?.connect().await.map_err(|error| fault(error, &url))?;
        let place = place.file_name().unwrap_or_default().to_string_lossy();
        let job = format!("{JOB}{}", place.strip_prefix(PLACE).unwrap_or(&place));
        Ok(Self { url, job, is_private, client })
    }

    /// The store in words.
    pub(super) fn words(&self) -> &str {
        if self.is_private { "a SQLite file" } else { self.client.store() }
    }

    /// Whether the store does not answer now.
    pub(super) async fn is_away(&self) -> bool {
        Jobs::over(&self.client).show(&self.job).await.is_err()
    }

    /// Removes the job from a store that is not the demo's own, once all replicas have ended.
    ///
    /// A replica that was killed a moment ago counts as alive until its lease ends, and `Jobs::forget` would wait for it.
    pub(super) async fn close(self) {
        if !self.is_private {
            // A store that is away keeps it: one record.
            let _ = self.remove().await;
        }
        // Nothing is held here, so nothing can be owed.
        let _ = self.client.close().await;
    }

    async fn remove(&self) -> Result<(), Error> {
        let job = Key::new(format!("job/{}", self.job))?;
        let reading = self.client.read(std::slice::from_ref(&job), &[]).await?;
        if let Some(Ok(Some(record))) = reading.records.into_iter().next() {
            self.client.swap(&[Swap { to: None, ..Swap::new(job, Some(record.version), "") }]).await?;
        }
        Ok(())
    }
}

/// A URL that replicas can share, told before anything is started.
pub(super) fn checked(url: &str) -> Result<String, Fault> {
    options(url)?;
    if url.starts_with("memory:") {
        return Err(Fault::Usage(format!("{url} lives in one process, and the demo's replicas are several")));
    }
    Ok(url.to_owned())
}

/// A client as each replica has one: of a store that the demo has opened, and may have deleted.
pub(super) async fn connect(url: &str) -> Result<Client, Fault> {
    options(url)?.must_exist().connect().await.map_err(|error| fault(error, url))
}

fn options(url: &str) -> Result<ConnectOptions, Fault> {
    let options = ConnectOptions::parse(url).map_err(|error| fault(error, url))?;
    let options = if url.contains("watchdog=") { options } else { options.watchdog(WATCHDOG) };
    Ok(if url.contains("prefix=") { options } else { options.prefix(PREFIX) })
}

fn fault(error: Error, url: &str) -> Fault {
    Fault::Store(error, bandog::redact(url))
}
