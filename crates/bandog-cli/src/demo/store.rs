//! The store of the demo's scheduler.

use std::{path::Path, time::Duration};

use bandog::{
    Client, ConnectOptions, Error, Key,
    backend::{Records, Swap},
    schedule::Jobs,
};

use super::fault::DemoFault;
use crate::{
    fault::Fault,
    http::{Listening, Serving},
    store::normalized,
};

/// Prefix of the name of the demo's directory.
pub(super) const DIRECTORY_PREFIX: &str = "bandog-demo-";

/// Prefix of the job's name. The rest of the name is unique, so that two demos can share a store.
const JOB: &str = "overdue-orders-";

/// Prefix of all names that the demo uses in the store, unless the URL sets a prefix.
const PREFIX: &str = "bandog-demo:";

/// Ttl of the watchdog, unless the URL sets another ttl. The ttl is also the lease of the job, and this time is the lease of
/// the queue. It is short. So another replica soon takes over the work of a killed replica.
pub(super) const WATCHDOG: Duration = Duration::from_secs(3);

/// The store of the scheduler, and a client for the demo itself. This client runs no job.
pub(super) struct DemoStore {
    pub(super) url: String,
    /// The name of the job that sweeps.
    pub(super) job: String,
    /// Whether the store is a file in the demo's directory. If not, the user has given the URL of a store.
    is_private: bool,
    client: Client,
}

impl DemoStore {
    pub(super) async fn open(url: Option<String>, place: &Path) -> Result<Self, DemoFault> {
        let is_private = url.is_none();
        let url = url.unwrap_or_else(|| format!("sqlite:{}", place.join("schedule.db").display()));
        let client = options(&url)?.connect().await.map_err(|error| fault(error, &url))?;
        let place = place.file_name().unwrap_or_default().to_string_lossy();
        let job = format!("{JOB}{}", place.strip_prefix(DIRECTORY_PREFIX).unwrap_or(&place));
        Ok(Self { url, job, is_private, client })
    }

    /// The store as text for the display.
    pub(super) fn description(&self) -> &str {
        if self.is_private { "a SQLite file" } else { self.client.store() }
    }

    /// Serves the page of this store.
    pub(super) fn serve(&self, page: Listening) -> Result<Serving, Fault> {
        page.serve(&self.client, bandog::admin::redact(&self.url))
    }

    /// Whether the store does not answer now.
    pub(super) async fn is_away(&self) -> bool {
        Jobs::over(&self.client).show(&self.job).await.is_err()
    }

    /// Removes the job from a shared store, and closes the client. Call this after all replicas have ended.
    ///
    /// `Jobs::forget` is not used here: if a replica was just killed, `Jobs::forget` would wait until the lease of this
    /// replica expires.
    pub(super) async fn close(self) {
        if !self.is_private {
            // If the store does not answer, the job's record stays in the store.
            let _ = self.remove().await;
        }
        // An error is ignored, because this client holds no lock.
        let _ = self.client.close().await;
    }

    /// Removes the record of the job.
    async fn remove(&self) -> Result<(), Error> {
        let job = Key::new(format!("job/{}", self.job))?;
        let reading = self.client.records().read(std::slice::from_ref(&job), &[]).await?;
        if let Some(Ok(Some(record))) = reading.records.into_iter().next() {
            self.client.records().swap(&[Swap { to: None, ..Swap::new(job, Some(record.version), "") }]).await?;
        }
        Ok(())
    }
}

/// Checks the URL before anything is started. The URL must name a store that several processes can share.
pub(super) fn checked(url: &str) -> Result<String, DemoFault> {
    let url = normalized(url);
    options(&url)?;
    if url.starts_with("memory:") {
        return Err(DemoFault::Usage(format!("{url} exists in one process only, and the demo has several")));
    }
    Ok(url)
}

/// A client for a replica. The client does not create the store: the demo has created it already. If the demo has ended
/// and deleted the store, the store must not be created again.
pub(super) async fn connect(url: &str) -> Result<Client, DemoFault> {
    options(url)?.must_exist().connect().await.map_err(|error| fault(error, url))
}

/// The options of the URL. If the URL sets no watchdog, the demo's watchdog is used. If the URL sets no prefix, the
/// demo's prefix is used.
fn options(url: &str) -> Result<ConnectOptions, DemoFault> {
    let options = ConnectOptions::parse(url).map_err(|error| fault(error, url))?;
    let options = if url.contains("watchdog=") { options } else { options.watchdog(WATCHDOG) };
    Ok(if url.contains("prefix=") { options } else { options.prefix(PREFIX) })
}

fn fault(error: Error, url: &str) -> DemoFault {
    DemoFault::Store(error, bandog::admin::redact(url))
}
