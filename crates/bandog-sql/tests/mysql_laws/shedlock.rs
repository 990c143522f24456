//! All laws, with mutexes that are rows of ShedLock's table.

use std::time::Duration;

use async_trait::async_trait;
use bandog_conformance::{Can, World, conformance};
use bandog_sql::Sql;

use crate::{OnMariaDb, at, url};

conformance!(OnShedLock);

/// The table, with names as long as bandog's.
const TABLE: &str = "create table shedlock (name varbinary(1024) primary key, lock_until datetime(3) not null, \
    locked_at datetime(3) not null default current_timestamp(3), locked_by varchar(255) not null)";

struct OnShedLock(OnMariaDb);

impl OnShedLock {
    fn sql(&self, statements: &str) -> String {
        self.0.server.sql(&self.0.database, statements)
    }
}

#[async_trait]
impl World for OnShedLock {
    const NAME: &'static str = "mysql with layout=shedlock";
    type Backend = Sql;

    async fn start() -> Self {
        let world = Self(OnMariaDb::start().await);
        world.sql(TABLE);
        world
    }

    fn backend(&self) -> Sql {
        at(&format!("{}?layout=shedlock", url(self.0.wire.port(), &self.0.database)))
    }

    /// A claim has more round trips than in the other layout, and the first one of a client reads the table, too.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn left(&self) -> Vec<String> {
        let left = self.sql("select name from shedlock where lock_until > utc_timestamp(3)");
        left.lines().map(String::from).collect()
    }

    async fn forget(&self, key: &str) -> Can {
        self.sql(&format!("update shedlock set lock_until = utc_timestamp(3) where name = '{key}'"));
        Ok(())
    }

    async fn plant(&self) -> Can<Vec<String>> {
        let (now, until) = ("utc_timestamp(3)", "utc_timestamp(3) + interval 1 hour");
        self.sql(&format!("insert into shedlock values ('here', {until}, {now}, 'vm'), ('there', {until}, {now}, '')"));
        Ok(vec!["here".into(), "there".into()])
    }

    async fn raw(&self, key: &str) -> Can<String> {
        Ok(self.sql(&format!("select * from shedlock where name = '{key}'")))
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        self.0.plant_records().await
    }

    async fn restart(&self) -> Can {
        self.0.restart().await
    }

    async fn restart_empty(&self) -> Can {
        self.0.wire.refuse(true);
        self.0.wire.cut();
        self.0.server.create_database(&self.0.database);
        self.sql(TABLE);
        self.0.wire.refuse(false);
        Ok(())
    }

    async fn cut(&self) -> Can {
        self.0.cut().await
    }

    async fn lose_answers(&self, on: bool) -> Can {
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
        assert_eq!(self.sql(&format!("select locked_by, {fence_of} {row}")), format!("{owner}|{fence}"));
        let left: f64 = self
            .sql(&format!("select timestampdiff(microsecond, utc_timestamp(3), lock_until) / 1000000 {row}"))
            .parse()
            .unwrap();
        // The server may cut the last digits of a time, so a client writes up to a millisecond more.
        assert!(left > 0.0 && left <= ttl.as_secs_f64() + 0.001, "{left} s");
        Ok(())
    }
}
