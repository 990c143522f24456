//! The records of a client. The client adds its prefix to the names of the records, and the engine polls the futures of
//! the requests.

use async_trait::async_trait;
use bandog_core::{
    Error, ErrorKind, Holding, Key, Line, Mark, Notifier, Pattern, Reading, Record, Records, Result, SqlStatement,
    Subscription, Swap, Swapped, Swaps,
};

use crate::{Client, Notifications};

/// The records of a client's store. Created by [`Client::records`]. The methods are those of the trait [`Records`].
///
/// A [`Key`] is a name here, without the client's prefix: the calls add the prefix, and [`Records::names`] removes it. A
/// [`Holding`] is passed as [`crate::Guard::holding`] returns it.
///
/// ```
/// use bandog::{Key, backend::{Records, Swap}};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let records = bandog::connect("memory:").await?.records();
/// let news = Key::new("news")?;
/// let mut notifications = records.subscribe(&news)?;
/// notifications.next().await?; // The client has subscribed.
/// records.swap(&[Swap { notifies: true, ..Swap::new(news, None, "first") }]).await?;
/// notifications.next().await
/// # }
/// ```
///
/// # Cancel safety
/// If the future of a swap is dropped, the store might apply the swap nevertheless.
#[derive(Debug, Clone)]
pub struct ClientRecords(Client);

impl ClientRecords {
    /// Subscribes to a record. A swap of the record causes a notification if [`Swap::notifies`] is true, no matter which
    /// client makes the swap.
    ///
    /// This call does no I/O. The client subscribes at the store in the background, and retries until the subscription
    /// succeeds. The first notification arrives when the client has subscribed, because the record may have changed
    /// before that moment. There is also a notification after each reconnection to the store.
    ///
    /// Notifications can be lost. A caller that must not miss a change must also poll the record.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name is too long with the prefix.
    /// - `ErrorKind::Closed`: the client was closed.
    pub fn subscribe(&self, record: &Key) -> Result<Notifications> {
        self.0.subscribe(record)
    }
}

#[async_trait]
impl Records for ClientRecords {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        swaps.iter().try_for_each(Swap::check)?;
        let with_prefix = |swap: &Swap| Ok(Swap { key: self.0.handle().key(swap.key.as_str())?, ..swap.clone() });
        let swaps: Vec<Swap> = swaps.iter().map(with_prefix).collect::<Result<_>>()?;
        self.0.query(|backend| Box::pin(async move { backend.swap(&swaps).await })).await
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let keys: Vec<Key> = keys.iter().map(|key| self.0.handle().key(key.as_str())).collect::<Result<_>>()?;
        let holdings = holdings.to_vec();
        self.0.query(|backend| Box::pin(async move { backend.read(&keys, &holdings).await })).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let pattern = pattern.after(self.0.handle().prefix());
        let names = self.0.query(|backend| Box::pin(async move { backend.names(&pattern).await })).await?;
        names.into_iter().map(|name| Key::new(self.0.handle().without_prefix(name.to_string()))).collect()
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        let key = self.0.handle().key(key.as_str())?;
        self.0.query(|backend| Box::pin(async move { backend.history(&key).await })).await
    }

    /// Returns immediately. The notifier is called when the client has subscribed, and then for each change.
    /// [`ClientRecords::subscribe`] is easier to use.
    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.0.subscribe_record(key, notifier)
    }

    async fn mark_sql(&self, mark: &Mark) -> Result<SqlStatement> {
        let key = |key: &Key| self.0.handle().key(key.as_str());
        let Mark { key: name, within: (record, text), obsolete: (from, until) } = mark;
        let within = (key(record)?, text.clone());
        let mark = Mark { key: key(name)?, within, obsolete: (key(from)?, key(until)?) };
        self.0.query(|backend| Box::pin(async move { backend.mark_sql(&mark).await })).await
    }
}

impl Client {
    /// The records of this client's store, for programs that build on them as the scheduler does.
    pub fn records(&self) -> ClientRecords {
        ClientRecords(self.clone())
    }

    /// Makes one swap.
    pub(crate) async fn swap_record(&self, swap: Swap) -> Result<Swapped> {
        self.records().swap(&[swap]).await?.each.pop().unwrap_or_else(|| Err(too_few()))
    }

    /// Reads one record, and checks holdings. Returns for each holding whether its claim holds its lock.
    pub(crate) async fn read_record(&self, key: &Key, holdings: &[Holding]) -> Result<(Option<Record>, Vec<bool>)> {
        let mut reading = self.records().read(std::slice::from_ref(key), holdings).await?;
        let record = reading.records.pop().unwrap_or_else(|| Err(too_few()))?;
        let held = reading.held.into_iter().collect::<Result<Vec<_>>>()?;
        if held.len() < holdings.len() {
            return Err(too_few());
        }
        Ok((record, held))
    }
}

fn too_few() -> Error {
    Error::new(ErrorKind::Corrupt, "the backend returned fewer answers than requests").ambiguous()
}
