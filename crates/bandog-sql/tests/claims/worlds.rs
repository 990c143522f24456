//! The parts that the laws on both databases share. Their second half are all laws with mutexes that also need a lock
//! of the database.

use std::{marker::PhantomData, time::Duration};

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World};
use bandog_sql::Sql;

/// Maximum duration of a request. The server does more for a request than a store in memory, and other tests run beside it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

/// The law of this test. A test runs on a thread with its name.
pub(crate) fn law() -> String {
    let thread = std::thread::current();
    thread.name().and_then(|name| name.rsplit("::").next()).unwrap_or_default().to_owned()
}

/// The reason why laws about broken connections do not apply.
const WITH_THE_CONNECTION: Unkept =
    Unkept::Cannot("a hold ends with its connection: the database frees the lock, and the guard is lost");

/// A lock of a database.
#[async_trait]
pub(crate) trait Mode: Send + Sync + 'static {
    const NAME: &'static str;
    /// The options of the URL.
    const QUERY: &'static str;
    /// The laws of the usual layout on this database.
    type Usual: World<Backend = Sql>;

    /// A database with what the mode needs. Each hold is a connection, so its server allows many.
    async fn start() -> Self::Usual;

    /// A backend whose URL ends with this query.
    fn backend(world: &Self::Usual, query: &str) -> Sql;
}

pub(crate) struct OnHeld<M: Mode>(M::Usual, PhantomData<M>);

#[async_trait]
impl<M: Mode> World for OnHeld<M> {
    const NAME: &'static str = M::NAME;
    type Backend = Sql;

    async fn start() -> Self {
        Self(M::start().await, PhantomData)
    }

    fn backend(&self) -> Sql {
        M::backend(&self.0, M::QUERY)
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
        M::Usual::backend_at(address)
    }

    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        self.0.layout(key, owner, fence, ttl).await
    }
}
