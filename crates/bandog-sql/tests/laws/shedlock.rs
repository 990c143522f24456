//! All laws, with mutexes that are rows of ShedLock's table.

use std::time::Duration;

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance};
use bandog_sql::Sql;

use crate::{OnPostgres, at, url, worlds::law};

conformance!(OnShedLock);

/// The table, with names as long as bandog's.
const TABLE: &str = "create table public.shedlock (name text primary key, lock_until timestamp not null, \
    locked_at timestamp not null, locked_by varchar(255) not null); \
    grant select, insert, update on public.shedlock to locks";

struct OnShedLock(OnPostgres);

impl OnShedLock {
    fn sql(&self, statements: &str) -> String {
        self.0.server.sql(&self.0.database, statements)
    }
}

#[async_trait]
impl World for OnShedLock {
    const NAME: &'static str = "postgres with layout=shedlock";
    type Backend = Sql;

    async fn start() -> Self {
        let world = Self(OnPostgres::start().await);
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
        let left = self.sql("select name from public.shedlock where lock_until > timezone('utc', clock_timestamp())");
        left.lines().map(String::from).collect()
    }

    async fn forget(&self, key: &str) -> Can {
        self.sql(&format!(
            "update public.shedlock set lock_until = timezone('utc', clock_timestamp()) where name = '{key}'"
        ));
        Ok(())
    }

    async fn plant(&self) -> Can<Vec<String>> {
        let (now, until) =
            ("timezone('utc', clock_timestamp())", "timezone('utc', clock_timestamp()) + interval '1 hour'");
        self.sql(&format!(
            "insert into public.shedlock values ('here', {until}, {now}, 'vm'), ('there', {until}, {now}, '')"
        ));
        Ok(vec!["here".into(), "there".into()])
    }

    async fn raw(&self, key: &str) -> Can<String> {
        Ok(self.sql(&format!("select * from public.shedlock where name = '{key}'")))
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
        if law() == "ambiguous_acquire_on_the_wire" {
            return Err(Unkept::Cannot(
                "the first claim of a name has several round trips, so the server grants nothing while its answers are lost",
            ));
        }
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
        let fence_of = "(select fence from bandog.bandog_fence f where f.name = s.name)";
        let row = format!("from public.shedlock s where s.name = '{key}'");
        assert_eq!(self.sql(&format!("select locked_by, {fence_of} {row}")), format!("{owner}|{fence}"));
        let left: f64 = self
            .sql(&format!("select extract(epoch from lock_until - timezone('utc', clock_timestamp())) {row}"))
            .parse()
            .unwrap();
        // The server may cut the last digits of a time, so a client writes up to a millisecond more.
        assert!(left > 0.0 && left <= ttl.as_secs_f64() + 0.001, "{left} s");
        Ok(())
    }
}
