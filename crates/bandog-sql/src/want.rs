//! The mark of a lock for which a subscriber waits.

use async_trait::async_trait;
use bandog_core::Key;

use crate::{context::Context, fault::Fault, job::Query, session::Link};

/// Marks a lock as one for which a subscriber waits. A lock without rows gets rows.
///
/// It never waits for a row that another transaction has locked, because it shares its lane with records and the registry.
/// Then the mark is missing. This does no harm: the claims of the subscriber set it, too, and while the row stays locked, they
/// are sent again every 50 ms.
pub(crate) struct Want(pub(crate) Key);

#[async_trait]
impl Query for Want {
    type Output = ();

    async fn run(&self, link: &Link, _: &Context) -> Result<(), Fault> {
        if link.table.as_ref().is_some_and(|table| table.refuse(&self.0).is_some()) {
            return Ok(()); // No claim can hold it.
        }
        let names = [self.0.as_str()];
        link.query(&link.statements.insert, &[&&names[..]]).await?;
        let rows = link.begin(&link.statements.lock_leases, &[&&names[..]]).await?;
        let is_wanted: Option<bool> = rows.first().map(|row| row.try_get(4)).transpose()?;
        match is_wanted {
            Some(false) => link.end(&[(&link.statements.want, &[&&names[..]])]).await.map(drop),
            Some(true) | None => link.roll_back().await,
        }
    }
}
