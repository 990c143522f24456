//! A look at who holds what.

use async_trait::async_trait;
use bandog_core::{Inspect, Key, Member, Pattern, Released, Result, Row};

use crate::{
    Sqlite,
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

    async fn evict(&self, key: &Key) -> Result<Released> {
        self.ask(Evict(key.clone())).await.flatten().map_err(|error| error.during("evict").at(key))
    }
}
