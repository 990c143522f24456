//! The worlds of the conformance suite on a database. The trait [`Laws`] has the differences between databases.
//!
//! The laws of a database share one server. Each law has a database and a proxy of its own; the laws that restart the
//! server have a server of their own.

pub(crate) mod held;
mod shedlock;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, queues::QueueWorld};
use bandog_core::{Backend, queues::Queues};
use bandog_sql::{Sql, SqlOptions};
use bandog_testkit::{SqlEngine, SqlServer, Wire};

pub(crate) use shedlock::{OnShedLock, ShedLock};

/// Maximum duration of a request. The server does more for a request than a store in memory, and other tests run beside it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

/// The laws that restart the server.
const RESTARTING: [&str; 1] = ["record_restart"];

/// The law that waits for a grant while all answers of the server are lost.
const GRANTS_WITHOUT_ANSWERS: &str = "ambiguous_acquire_on_the_wire";

/// Declares the laws on a database, with each layout and mode.
macro_rules! laws {
    ($database:ty, rowlock: $rowlock:ty, advisory: $advisory:ty) => {
        bandog_conformance::conformance!($crate::suite::OnSql<$database>);

        mod shedlock {
            bandog_conformance::conformance!($crate::suite::OnShedLock<$database>);
        }

        mod held {
            mod rowlock {
                bandog_conformance::conformance!($crate::suite::held::OnHeld<$rowlock>);
            }

            mod advisory {
                bandog_conformance::conformance!($crate::suite::held::OnHeld<$advisory>);
            }
        }

        mod queues {
            bandog_conformance::queue_conformance!($crate::suite::OnSql<$database>);
        }
    };
}
pub(crate) use laws;

/// A database of the laws: the differences between databases.
pub(crate) trait Laws: SqlEngine {
    /// The name of the world.
    const NAME: &'static str;
    /// A statement with which a session finds the tables of bandog without their schema.
    const USE_TABLES: &'static str;
    /// The present time, as that of a lease.
    const NOW: &'static str;
    /// An interval of an hour.
    const HOUR: &'static str;
    /// A value of a record that is no text.
    const GARBLED: &'static str;
    /// How the server prints `false` and `true`.
    const FALSE_AND_TRUE: [&'static str; 2];
    /// Whether the first claim of a name has one round trip.
    const CLAIMS_AT_ONCE: bool;

    /// The server of most laws. At the end of the process, its janitor stops it.
    fn shared() -> Arc<SqlServer<Self>>;

    /// The seconds from one time to another.
    fn seconds(from: &str, to: &str) -> String;
}

/// A database, and the way to it.
pub(crate) struct OnSql<D: Laws> {
    wire: Wire,
    server: Arc<SqlServer<D>>,
    database: String,
    is_own: bool,
}

impl<D: Laws> OnSql<D> {
    /// A new database of this server.
    pub(crate) fn on(server: Arc<SqlServer<D>>) -> Self {
        Self { wire: server.wire(), database: server.new_database(), server, is_own: false }
    }

    /// Executes statements, which find the tables of bandog without their schema.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.server.sql(&self.database, &format!("{}; {statements}", D::USE_TABLES))
    }

    /// A backend whose URL ends with these options.
    fn with(&self, options: &str) -> Sql {
        at(&format!("{}{options}", SqlServer::<D>::url_at(self.wire.port(), &self.database)))
    }

    /// The seconds that are left of an hour or less, by this column.
    fn expect_left(&self, now: &str, column: &str, row: &str, most: Duration) {
        let left = self.sql(&format!("select {} {row}", D::seconds(now, column)));
        let left: f64 = left.parse().unwrap();
        assert!(left > 0.0 && left <= most.as_secs_f64(), "{left} s");
    }

    /// Replaces the database by an empty one, in which these statements are executed, while no client can reach it.
    fn empty(&self, statements: &str) {
        self.wire.refuse(true);
        self.wire.cut();
        self.server.create_database(&self.database);
        self.sql(statements);
        self.wire.refuse(false);
    }
}

#[async_trait]
impl<D: Laws> World for OnSql<D> {
    const NAME: &'static str = D::NAME;
    type Backend = Sql;

    async fn start() -> Self {
        let is_own = RESTARTING.contains(&law().as_str());
        let server = if is_own { Arc::new(SqlServer::start()) } else { D::shared() };
        Self { is_own, ..Self::on(server) }
    }

    fn backend(&self) -> Sql {
        self.with("")
    }

    fn slack(&self) -> Duration {
        2 * TIMEOUT
    }

    async fn left(&self) -> Vec<String> {
        // The state of a semaphore contains its limit, which stays.
        let busy = format!("expires > {} or state like '% place %'", D::NOW);
        let select = format!("{}; select name from bandog_lease where {busy}", D::USE_TABLES);
        // A database without tables has no holds.
        self.server.try_sql(&self.database, &select).unwrap_or_default().lines().map(String::from).collect()
    }

    async fn forget(&self, key: &str) -> Can {
        self.sql(&format!("update bandog_lease set owner = null, expires = null, state = null where name = '{key}'"));
        Ok(())
    }

    async fn plant(&self) -> Can<Vec<String>> {
        // A first lock creates the tables.
        self.client().mutex("first").lock().await?.release().await?;
        let until = format!("{} + {}", D::NOW, D::HOUR);
        self.sql(&format!(
            "insert into bandog_fence (name, fence) values ('here', 7), ('there', 8);
             insert into bandog_lease (name, owner, expires) values ('here', 'somebody', {until});
             insert into bandog_lease (name, owner, expires, state) values ('there', '*', {until}, 'odd')"
        ));
        Ok(vec!["here".into(), "there".into()])
    }

    async fn raw(&self, key: &str) -> Can<String> {
        // All columns but the mark of the waiters.
        let columns = "l.name, owner, expires, starving, state, fence";
        let from = format!("from bandog_lease l join bandog_fence f on f.name = l.name where l.name = '{key}'");
        Ok(self.sql(&format!("select {columns} {from}")))
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        let garbled = D::GARBLED;
        self.sql(&format!(
            "insert into bandog_record (name, version, value) values
             ('none', 0, ''), ('less', -1, ''), ('garbled', 1, {garbled})"
        ));
        Ok(["none", "less", "garbled"].map(String::from).to_vec())
    }

    async fn restart(&self) -> Can {
        assert!(self.is_own, "a law that restarts the server is missing in RESTARTING");
        self.server.restart();
        Ok(())
    }

    async fn restart_empty(&self) -> Can {
        self.empty("select 1");
        Ok(())
    }

    async fn cut(&self) -> Can {
        self.wire.cut();
        Ok(())
    }

    async fn lose_answers(&self, on: bool) -> Can {
        if !D::CLAIMS_AT_ONCE {
            expect_no_grant_without_answers()?;
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
        Ok(self.server.url(&self.database))
    }

    fn backend_at(address: &str) -> Can<Sql> {
        Ok(at(address))
    }

    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        let columns = "owner, starving, state is null, fence";
        let row = format!("from bandog_lease l join bandog_fence f on f.name = l.name where l.name = '{key}'");
        let [no, yes] = D::FALSE_AND_TRUE;
        assert_eq!(self.sql(&format!("select {columns} {row}")), format!("{owner}|{no}|{yes}|{fence}"));
        self.expect_left(D::NOW, "expires", &row, ttl);
        Ok(())
    }
}

#[async_trait]
impl<D: Laws> QueueWorld for OnSql<D> {
    async fn start() -> Self {
        <Self as World>::start().await
    }

    fn queues(&self) -> Arc<dyn Queues> {
        Backend::queues(&self.backend()).unwrap()
    }
}

/// The law of this test. A test runs on a thread with its name.
fn law() -> String {
    let thread = std::thread::current();
    thread.name().and_then(|name| name.rsplit("::").next()).unwrap_or_default().to_owned()
}

/// The law [`GRANTS_WITHOUT_ANSWERS`] does not apply.
fn expect_no_grant_without_answers() -> Can {
    if law() != GRANTS_WITHOUT_ANSWERS {
        return Ok(());
    }
    Err(Unkept::Cannot(
        "the first claim of a name has several round trips, so the server grants nothing while its answers are lost",
    ))
}

fn at(url: &str) -> Sql {
    Sql::new(SqlOptions::from_url(url).unwrap().timeout(TIMEOUT)).unwrap()
}
