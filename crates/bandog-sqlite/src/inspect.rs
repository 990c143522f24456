//! A look at who holds what.

use async_trait::async_trait;
use bandog_core::{Error, Finding, Inspect, Key, Member, Pattern, Result, Row};

use crate::{
    Sqlite, check,
    work::{Evict, List, Members, Show},
};

#[async_trait]
impl Inspect for Sqlite {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.ask(List(pattern.clone())).await.map_err(|error| error.during("list"))
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.ask(Show(key.clone())).await.map_err(|error| error.during("show").at(key))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.ask(Members).await.map_err(|error| error.during("members"))
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.ask(Evict(key.clone())).await.flatten().map_err(|error| error.during("evict").at(key))
    }

    /// Beside the writer, which goes on renewing, with a connection of its own.
    async fn check(&self) -> Result<Vec<Finding>> {
        let (shared, timeout) = (self.share(), self.shared().options.timeout);
        let looking = tokio::task::spawn_blocking(move || check::all(&shared));
        match tokio::time::timeout(timeout, looking).await {
            Ok(Ok(findings)) => Ok(findings),
            Ok(Err(cause)) => Err(Error::unavailable("the look at the database was cut off").caused_by(cause)),
            Err(_) => Err(Error::unavailable(format!("the disk did not answer within {timeout:?}"))),
        }
        .map_err(|error| error.during("check"))
    }
}
