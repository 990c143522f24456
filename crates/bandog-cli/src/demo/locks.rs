//! Where the demo's lock lives, and who holds it.

use std::{path::Path, time::Duration};

use bandog::{Client, ConnectOptions, Error, Fence, Mutex};

use super::{fault::Fault, shop::Shop};

/// How the name of the demo's directory begins.
pub(super) const PLACE: &str = "bandog-demo-";

/// The lock under which overdue orders are swept.
const NAME: &str = "bandog-demo:overdue-orders";

/// Short, so that a replica which somebody kills for fun does not hold the others up for long.
const WATCHDOG: Duration = Duration::from_secs(3);

/// The demo's own look at the lock; it never locks.
pub(super) struct Locks {
    pub(super) url: String,
    private: bool,
    client: Client,
}

/// The replica that holds the lock, and the fence of its grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) replica: u16,
    pub(super) fence: Fence,
}

impl Locks {
    pub(super) async fn open(url: Option<String>, place: &Path) -> Result<Self, Fault> {
        let private = url.is_none();
        let url = url.unwrap_or_else(|| format!("sqlite:{}", place.join("locks.db").display()));
        let client = connect(&url).await?;
        Ok(Self { url, private, client })
    }

    /// The store in words.
    pub(super) fn store(&self) -> &str {
        if self.private { "a SQLite file" } else { self.client.store() }
    }

    /// Who holds the lock now. What cannot be seen is not shown.
    pub(super) async fn holder(&self, shop: &Shop) -> Result<Option<Holder>, Fault> {
        let Ok(row) = self.client.show(NAME).await else { return Ok(None) };
        let (Some(owner), Some(fence)) = (row.owner, row.fence) else { return Ok(None) };
        // An owner is its client's name and a number.
        let client = owner.split(':').next().unwrap_or_default();
        Ok(shop.replica_named(client)?.map(|replica| Holder { replica, fence }))
    }

    /// Whether the store does not answer now.
    pub(super) async fn are_away(&self) -> bool {
        self.client.show(NAME).await.is_err()
    }

    pub(super) async fn close(self) {
        // Nothing is held here, so nothing can be owed.
        let _ = self.client.close().await;
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

/// A client as each replica has one.
pub(super) async fn connect(url: &str) -> Result<Client, Fault> {
    options(url)?.connect().await.map_err(|error| fault(error, url))
}

/// The lock of all replicas.
pub(super) fn mutex(client: &Client) -> Mutex {
    client.mutex(NAME)
}

fn options(url: &str) -> Result<ConnectOptions, Fault> {
    let options = ConnectOptions::parse(url).map_err(|error| fault(error, url))?;
    Ok(if url.contains("watchdog=") { options } else { options.watchdog(WATCHDOG) })
}

fn fault(error: Error, url: &str) -> Fault {
    Fault::Lock(error, bandog::redact(url))
}
