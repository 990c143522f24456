//! All laws, with mutexes that are rows of ShedLock's table.

use std::time::Duration;

use async_trait::async_trait;
use bandog_conformance::{Can, World};
use bandog_sql::Sql;

use super::{Laws, OnSql, at, expect_no_grant_without_answers};

/// The table of ShedLock in a database.
pub(crate) trait ShedLock: Laws {
    /// The name of the world.
    const NAME: &'static str;
    /// Creates the table, with names as long as bandog's.
    const TABLE: &'static str;
    /// The present time, as that of the table.
    const NOW: &'static str;
}

pub(crate) struct OnShedLock<D: ShedLock>(OnSql<D>);

#[async_trait]
impl<D: ShedLock> World for OnShedLock<D> {
    const NAME: &'static str = <D as ShedLock>::NAME;
    type Backend = Sql;

    async fn start() -> Self {
        let world = Self(<OnSql<D> as World>::start().await);
        world.0.sql(D::TABLE);
        world
    }

    fn backend(&self) -> Sql {
        self.0.with("?layout=shedlock")
    }

    /// A claim has more round trips than in the other layout, and the first one of a client reads the table, too.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn left(&self) -> Vec<String> {
        let now = <D as ShedLock>::NOW;
        let left = self.0.sql(&format!("select name from shedlock where lock_until > {now}"));
        left.lines().map(String::from).collect()
    }

    async fn forget(&self, key: &str) -> Can {
        let now = <D as ShedLock>::NOW;
        self.0.sql(&format!("update shedlock set lock_until = {now} where name = '{key}'"));
        Ok(())
    }

    async fn plant(&self) -> Can<Vec<String>> {
        let now = <D as ShedLock>::NOW;
        let until = format!("{now} + {}", D::HOUR);
        let rows = format!("('here', {until}, {now}, 'vm'), ('there', {until}, {now}, '')");
        self.0.sql(&format!("insert into shedlock values {rows}"));
        Ok(vec!["here".into(), "there".into()])
    }

    async fn raw(&self, key: &str) -> Can<String> {
        Ok(self.0.sql(&format!("select * from shedlock where name = '{key}'")))
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        self.0.plant_records().await
    }

    async fn restart(&self) -> Can {
        self.0.restart().await
    }

    async fn restart_empty(&self) -> Can {
        self.0.empty(D::TABLE);
        Ok(())
    }

    async fn cut(&self) -> Can {
        self.0.cut().await
    }

    async fn lose_answers(&self, on: bool) -> Can {
        expect_no_grant_without_answers()?;
        self.0.lose_answers(on).await
    }

    async fn stand_still(&self, on: bool) -> Can {
        self.0.stand_still(on).await
    }

    async fn connections(&self) -> Can<usize> {
        self.0.connections().await
    }

    async fn jump(&self) -> Can {
        self.0.jump().await
    }

    fn address(&self) -> Can<String> {
        Ok(format!("{}?layout=shedlock", self.0.address()?))
    }

    fn backend_at(address: &str) -> Can<Sql> {
        Ok(at(address))
    }

    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        let fence_of = "(select fence from bandog_fence f where f.name = s.name)";
        let row = format!("from shedlock s where s.name = '{key}'");
        assert_eq!(self.0.sql(&format!("select locked_by, {fence_of} {row}")), format!("{owner}|{fence}"));
        // The server may cut the last digits of a time, so a client writes up to a millisecond more.
        self.0.expect_left(<D as ShedLock>::NOW, "lock_until", &row, ttl + Duration::from_millis(1));
        Ok(())
    }
}
