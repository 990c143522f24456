//! The conformance suite with MariaDB. All laws share one server. Each law has a database and a proxy of its own; the
//! laws that restart the server have a server of their own.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod held;
mod queues;
mod shedlock;
#[path = "../claims/worlds.rs"]
mod worlds;

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance};
use bandog_sql::{Sql, SqlOptions};
use bandog_testkit::{MariaDbServer, Wire};

use crate::worlds::law;

conformance!(OnMariaDb);

/// The laws that restart the server.
const RESTARTING: [&str; 1] = ["record_restart"];

/// The law that waits for a grant while all answers of the server are lost.
const GRANTS_WITHOUT_ANSWERS: &str = "ambiguous_acquire_on_the_wire";

pub(crate) struct OnMariaDb {
    wire: Wire,
    server: Arc<MariaDbServer>,
    database: String,
    is_own: bool,
}

/// The server of most laws. At the end of the process, its janitor stops it.
static SHARED: LazyLock<Arc<MariaDbServer>> = LazyLock::new(|| Arc::new(MariaDbServer::start()));

impl OnMariaDb {
    fn sql(&self, statements: &str) -> String {
        self.server.sql(&self.database, statements)
    }
}

#[async_trait]
impl World for OnMariaDb {
    const NAME: &'static str = "mysql";
    type Backend = Sql;

    async fn start() -> Self {
        let is_own = RESTARTING.contains(&law().as_str());
        let server = if is_own { Arc::new(MariaDbServer::start()) } else { SHARED.clone() };
        Self { wire: server.wire(), database: server.new_database(), server, is_own }
    }

    fn backend(&self) -> Sql {
        at(&url(self.wire.port(), &self.database))
    }

    fn slack(&self) -> Duration {
        2 * worlds::TIMEOUT
    }

    async fn left(&self) -> Vec<String> {
        // The state of a semaphore contains its limit, which stays.
        let busy = "expires > utc_timestamp(6) or state like '% place %'";
        let Ok(left) = self.server.try_sql(&self.database, &format!("select name from bandog_lease where {busy}"))
        else {
            return Vec::new(); // A database without tables has no holds.
        };
        left.lines().map(String::from).collect()
    }

    async fn forget(&self, key: &str) -> Can {
        self.sql(&format!("update bandog_lease set owner = null, expires = null, state = null where name = '{key}'"));
        Ok(())
    }

    async fn plant(&self) -> Can<Vec<String>> {
        // A first lock creates the tables.
        self.client().mutex("first").lock().await?.release().await?;
        self.sql(
            "insert into bandog_fence (name, fence) values ('here', 7), ('there', 8);
             insert into bandog_lease (name, owner, expires) values ('here', 'somebody', utc_timestamp(6) + interval 1 hour);
             insert into bandog_lease (name, owner, expires, state) values ('there', '*', utc_timestamp(6) + interval 1 hour, 'odd')",
        );
        Ok(vec!["here".into(), "there".into()])
    }

    async fn raw(&self, key: &str) -> Can<String> {
        // All columns but the mark of the waiters.
        let columns = "l.name, owner, expires, starving, state, fence";
        let from = format!("from bandog_lease l join bandog_fence f on f.name = l.name where l.name = '{key}'");
        Ok(self.sql(&format!("select {columns} {from}")))
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        self.sql(
            "insert into bandog_record (name, version, value) values
             ('none', 0, ''), ('less', -1, ''), ('garbled', 1, x'ff')",
        );
        Ok(["none", "less", "garbled"].map(String::from).to_vec())
    }

    async fn restart(&self) -> Can {
        assert!(self.is_own, "a law that restarts the server is missing in RESTARTING");
        self.server.restart();
        Ok(())
    }

    async fn restart_empty(&self) -> Can {
        self.wire.refuse(true);
        self.wire.cut();
        self.server.create_database(&self.database);
        self.wire.refuse(false);
        Ok(())
    }

    async fn cut(&self) -> Can {
        self.wire.cut();
        Ok(())
    }

    async fn lose_answers(&self, on: bool) -> Can {
        if law() == GRANTS_WITHOUT_ANSWERS {
            return Err(Unkept::Cannot(
                "the first claim of a name has several round trips, so the server grants nothing while its answers are lost",
            ));
        }
        self.wire.drop_replies(on);
        Ok(())
    }

    async fn stand_still(&self, on: bool) -> Can {
        self.wire.stall(on);
        Ok(())
    }

    /// A backend opens each of its connections when it is first needed, so the number rises until two clients have theirs.
    async fn connections(&self) -> Can<usize> {
        const OF_TWO_CLIENTS: usize = 8;
        Ok(self.wire.open().max(OF_TWO_CLIENTS))
    }

    async fn jump(&self) -> Can {
        Err(Unkept::Cannot(
            "a test cannot move the machine's clock; a test of bandog-sync checks that no client reads it",
        ))
    }

    fn address(&self) -> Can<String> {
        Ok(url(self.server.port(), &self.database))
    }

    fn backend_at(address: &str) -> Can<Sql> {
        Ok(at(address))
    }

    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        let columns = "owner, starving, state is null, fence";
        let row = format!("from bandog_lease l join bandog_fence f on f.name = l.name where l.name = '{key}'");
        assert_eq!(self.sql(&format!("select {columns} {row}")), format!("{owner}|0|1|{fence}"));
        let left = self.sql(&format!("select timestampdiff(microsecond, utc_timestamp(6), expires) / 1000000 {row}"));
        let left: f64 = left.parse().unwrap();
        assert!(left > 0.0 && left <= ttl.as_secs_f64(), "{left} s");
        Ok(())
    }
}

/// The URL for a user that has only the rights on this database.
fn url(port: u16, database: &str) -> String {
    format!("mysql://{}@127.0.0.1:{port}/{database}", MariaDbServer::LOCKS)
}

fn at(url: &str) -> Sql {
    Sql::new(SqlOptions::from_url(url).unwrap().timeout(worlds::TIMEOUT)).unwrap()
}
