//! All laws, with mutexes that also need a lock of the database.

use std::{marker::PhantomData, time::Duration};

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World};
use bandog_sql::Sql;

use super::{Laws, OnSql, at};

/// The options of the URL for each mode.
pub(crate) const ROWLOCK: &str = "mode=rowlock&table=tb_lock&column=lockname&connections=300";
pub(crate) const ADVISORY: &str = "mode=advisory&connections=300";

/// The reason why laws about broken connections do not apply.
const WITH_THE_CONNECTION: Unkept =
    Unkept::Cannot("a hold ends with its connection: the database frees the lock, and the guard is lost");

/// A lock of a database.
pub(crate) trait Mode: Send + Sync + 'static {
    const NAME: &'static str;
    /// The options of the URL.
    const QUERY: &'static str;
    type Database: Laws;

    /// A database with what the mode needs. Each hold is a connection, so its server allows many.
    fn start() -> OnSql<Self::Database>;
}

pub(crate) struct OnHeld<M: Mode>(OnSql<M::Database>, PhantomData<M>);

#[async_trait]
impl<M: Mode> World for OnHeld<M> {
    const NAME: &'static str = M::NAME;
    type Backend = Sql;

    async fn start() -> Self {
        Self(M::start(), PhantomData)
    }

    fn backend(&self) -> Sql {
        self.0.with(&format!("?{}", M::QUERY))
    }

    /// A claim belongs to a connection of its backend, so another backend cannot repeat it.
    fn peer(&self, ours: &Sql) -> Sql {
        ours.clone()
    }

    /// A claim has several round trips, and opens a connection.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn many(&self) -> usize {
        50
    }

    async fn left(&self) -> Vec<String> {
        self.0.left().await
    }

    fn offers(&self) -> Can {
        Err(Unkept::Cannot("a claim that finds the lock of the database taken leaves no note in the lease"))
    }

    async fn forget(&self, _: &str) -> Can {
        Err(Unkept::Cannot("the lock of the database belongs to the connection of the holder"))
    }

    async fn plant(&self) -> Can<Vec<String>> {
        self.0.plant().await
    }

    async fn raw(&self, key: &str) -> Can<String> {
        self.0.raw(key).await
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        self.0.plant_records().await
    }

    async fn restart(&self) -> Can {
        Err(WITH_THE_CONNECTION)
    }

    async fn restart_empty(&self) -> Can {
        Err(WITH_THE_CONNECTION)
    }

    async fn cut(&self) -> Can {
        Err(WITH_THE_CONNECTION)
    }

    async fn lose_answers(&self, _: bool) -> Can {
        Err(Unkept::Cannot("a claim has several round trips, so the server grants nothing while its answers are lost"))
    }

    async fn stand_still(&self, on: bool) -> Can {
        self.0.stand_still(on).await
    }

    async fn connections(&self) -> Can<usize> {
        Err(Unkept::Cannot("each hold is a connection"))
    }

    async fn jump(&self) -> Can {
        self.0.jump().await
    }

    fn address(&self) -> Can<String> {
        Ok(format!("{}?{}", self.0.address()?, M::QUERY))
    }

    fn backend_at(address: &str) -> Can<Sql> {
        Ok(at(address))
    }

    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        self.0.layout(key, owner, fence, ttl).await
    }
}
