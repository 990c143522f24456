//! Access to records through a client. The client adds its prefix to the names of the records, and the engine polls the
//! futures of the requests.

use async_trait::async_trait;
use bandog_core::{
    Error, ErrorKind, Holding, Key, Line, Mark, Notifier, Pattern, Reading, Record, Records, Result, SqlStatement,
    Subscription, Swap, Swapped, Swaps,
};

use crate::Client;

/// The records in a client's store. All calls use the names of records without the client's prefix. But the name of a
/// lock in a [`Holding`] contains the prefix, as in the result of [`crate::Guard::holding`].
///
/// # Cancel safety
/// If the future of a swap is dropped, the store might apply the swap nevertheless.
#[async_trait]
impl Records for Client {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        swaps.iter().try_for_each(Swap::check)?;
        let with_prefix = |swap: &Swap| Ok(Swap { key: self.handle().key(swap.key.as_str())?, ..swap.clone() });
        let swaps: Vec<Swap> = swaps.iter().map(with_prefix).collect::<Result<_>>()?;
        self.query(|backend| Box::pin(async move { backend.swap(&swaps).await })).await
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let keys: Vec<Key> = keys.iter().map(|key| self.handle().key(key.as_str())).collect::<Result<_>>()?;
        let holdings = holdings.to_vec();
        self.query(|backend| Box::pin(async move { backend.read(&keys, &holdings).await })).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let pattern = pattern.after(self.handle().prefix());
        let names = self.query(|backend| Box::pin(async move { backend.names(&pattern).await })).await?;
        names.into_iter().map(|name| Key::new(self.handle().without_prefix(name.to_string()))).collect()
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        let key = self.handle().key(key.as_str())?;
        self.query(|backend| Box::pin(async move { backend.history(&key).await })).await
    }

    /// Returns immediately. The notifier is called when the client has subscribed, and then for each change.
    /// [`Client::subscribe`] is easier to use.
    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.subscribe_record(key, notifier)
    }

    async fn mark_sql(&self, mark: &Mark) -> Result<SqlStatement> {
        let key = |key: &Key| self.handle().key(key.as_str());
        let Mark { key: name, within: (record, text), obsolete: (from, until) } = mark;
        let within = (key(record)?, text.clone());
        let mark = Mark { key: key(name)?, within, obsolete: (key(from)?, key(until)?) };
        self.query(|backend| Box::pin(async move { backend.mark_sql(&mark).await })).await
    }
}

impl Client {
    /// Makes one swap.
    pub(crate) async fn swap_record(&self, swap: Swap) -> Result<Swapped> {
        self.swap(&[swap]).await?.each.pop().unwrap_or_else(|| Err(too_few()))
    }

    /// Reads one record, and checks holdings. Returns for each holding whether its claim holds its lock.
    pub(crate) async fn read_record(&self, key: &Key, holdings: &[Holding]) -> Result<(Option<Record>, Vec<bool>)> {
        let mut reading = self.read(std::slice::from_ref(key), holdings).await?;
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
