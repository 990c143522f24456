//! Queries for operators, and `check`.

use async_trait::async_trait;
use bandog_core::{Error, Finding, Inspect, Key, Member, Pattern, Result, Row};

use crate::{
    Sqlite, check,
    work::{Evict, List, Members, Show},
};

#[async_trait]
impl Inspect for Sqlite {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.request(List(pattern.clone())).await.map_err(|error| error.during("list"))
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.request(Show(key.clone())).await.map_err(|error| error.during("show").at(key))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.request(Members).await.map_err(|error| error.during("members"))
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.request(Evict(key.clone())).await.flatten().map_err(|error| error.during("evict").at(key))
    }

    /// The check has its own thread and its own connection, so that the writer thread can renew leases during the
    /// check.
    ///
    /// If the future is dropped, the thread still finishes the check.
    async fn check(&self) -> Result<Vec<Finding>> {
        let (context, timeout) = (self.clone_context(), self.context().options.timeout);
        let checking = tokio::task::spawn_blocking(move || check::all(&context));
        match tokio::time::timeout(timeout, checking).await {
            Ok(Ok(findings)) => Ok(findings),
            Ok(Err(cause)) => Err(Error::unavailable("the check of the database was cancelled").caused_by(cause)),
            Err(_) => Err(Error::unavailable(format!("the disk did not answer within {timeout:?}"))),
        }
        .map_err(|error| error.during("check"))
    }
}
